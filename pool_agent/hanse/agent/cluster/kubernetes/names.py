"""What is ours, and what it is called.

A pod is ours if it carries the claiming federation's label *and* the very name that we give to the pod which its
labels describe: a copy that somebody made of a pod of ours, labels and all, has another name and stays foreign.
Names are made of the gang's key alone, so that a start which is repeated names the same objects.
"""

from typing import Final, NamedTuple

from hanse.agent.cluster.kubernetes.objects import Meta
from hanse.model.fence import Epoch, GangKey
from hanse.model.ids import Attempt, JobId, Part

PREFIX: Final = "hanse.dev/"
FEDERATION: Final = PREFIX + "federation"
POOL: Final = PREFIX + "pool"
JOB: Final = PREFIX + "job"
JOB_NAME: Final = PREFIX + "job-name"
ATTEMPT: Final = PREFIX + "attempt"
PART: Final = PREFIX + "part"
POD_SET: Final = PREFIX + "pod-set"
RANK: Final = PREFIX + "rank"
EPOCH: Final = PREFIX + "epoch"
OBJECT: Final = PREFIX + "object"
"""Annotation: namespace and name of the object that carries it, by which a copy of it is told from it."""

REMOVED: Final = PREFIX + "removed"
"""Annotation: what was taken off a user's object, because another scheduler would act on it."""

REFUSED: Final = PREFIX + "refused"
LEDGER: Final = PREFIX + "ledger"

GATE: Final = PREFIX + "start"
"""Keeps a pod from its node until its gang is complete."""

FINALIZER: Final = PREFIX + "kept-until-forgotten"
"""Keeps a finished pod visible (P12)."""

OWN_SCHEDULER: Final = "hanse"
"""Name of the scheduler that is to bind pods which the agent binds itself."""

CLAIM_NAME: Final = "hanse-claim"
_LEDGER_NAME: Final = "hanse-gangs-{:03d}"


class PodKey(NamedTuple):
    """One pod of one gang."""

    gang: GangKey
    pod_set: str
    rank: int


def ledger_name(number: int) -> str:
    """Name of the object that holds the records of one ledger."""
    return _LEDGER_NAME.format(number)


def epoch_text(epoch: Epoch) -> str:
    """An epoch as a label's value."""
    return f"{epoch.incarnation}.{epoch.revision}"


def epoch_of(text: str) -> Epoch:
    """The inverse; what is none is older than any."""
    incarnation, _, revision = text.partition(".")
    if not (incarnation.isdecimal() and revision.isdecimal()):
        return Epoch()
    return Epoch(int(incarnation), int(revision))


def gang_text(key: GangKey) -> str:
    """A gang's key as an entry's name in a ledger."""
    return f"{key.job}.{key.attempt}.{key.part}"


def gang_of(text: str) -> GangKey | None:
    """The inverse; None if it is none."""
    job, _, rest = text.partition(".")
    attempt, _, part = rest.partition(".")
    if not (job and attempt.isdecimal() and part.isdecimal()):
        return None
    return GangKey(JobId(job), Attempt(int(attempt)), Part(int(part)))


def service_name(key: GangKey) -> str:
    """Name of the headless Service by which the pods of a gang find each other."""
    return f"hanse-{key.job}-{key.attempt}-{key.part}"


def pod_name(pod: PodKey) -> str:
    """Name of a pod."""
    key = pod.gang
    return f"{key.job}-{key.attempt}-{key.part}-{pod.pod_set}-{pod.rank}"


def pod_labels(pod: PodKey, *, federation: str, pool: str, epoch: Epoch) -> dict[str, str]:
    """Labels by which a pod is found again, by us and by people."""
    return {
        FEDERATION: federation,
        POOL: pool,
        JOB: pod.gang.job,
        ATTEMPT: str(pod.gang.attempt),
        PART: str(pod.gang.part),
        POD_SET: pod.pod_set,
        RANK: str(pod.rank),
        EPOCH: epoch_text(epoch),
    }


def gang_labels(key: GangKey, *, federation: str, pool: str) -> dict[str, str]:
    """Labels of everything that belongs to a gang."""
    return {FEDERATION: federation, POOL: pool, JOB: key.job, ATTEMPT: str(key.attempt), PART: str(key.part)}


def object_text(namespace: str, name: str) -> str:
    """What the annotation OBJECT of an object says."""
    return f"{namespace}/{name}"


def own_root(meta: Meta, federation: str) -> GangKey | None:
    """Whose object of ours that is; None if it is foreign, also if it is a copy."""
    if not federation or meta.labels.get(FEDERATION) != federation:
        return None
    if meta.annotations.get(OBJECT) != object_text(meta.namespace, meta.name):
        return None
    return _gang_in(meta)


def claimed_gang(meta: Meta, federation: str) -> GangKey | None:
    """The gang that a pod's labels name. A template hands them on, and so does a copy: they prove nothing alone."""
    if not federation or meta.labels.get(FEDERATION) != federation:
        return None
    return _gang_in(meta)


def own_service(meta: Meta, federation: str) -> GangKey | None:
    """Whose Service of ours that is; None if it is foreign."""
    if not federation or meta.labels.get(FEDERATION) != federation:
        return None
    gang = _gang_in(meta)
    return gang if gang is not None and service_name(gang) == meta.name else None


def own_pod(meta: Meta, federation: str) -> PodKey | None:
    """Which pod of ours that is; None if it is foreign."""
    labels = meta.labels
    if not federation or labels.get(FEDERATION) != federation:
        return None
    gang = _gang_in(meta)
    rank = labels.get(RANK, "")
    if gang is None or not rank.isdecimal():
        return None
    pod = PodKey(gang, labels.get(POD_SET, ""), int(rank))
    return pod if pod_name(pod) == meta.name else None


def _gang_in(meta: Meta) -> GangKey | None:
    labels = meta.labels
    return gang_of(f"{labels.get(JOB, '')}.{labels.get(ATTEMPT, '')}.{labels.get(PART, '')}")
