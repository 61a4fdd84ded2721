"""What is ours, and what it is called.

An object is ours if it carries the claiming federation's label *and* says its own name: a copy that somebody made of
it, labels and all, says another one and stays foreign. Whose a pod is, its makers tell (see `families`). Names of our
giving are made of the gang's key alone, so that a start which is repeated names the same objects.
"""

from typing import Final, NamedTuple

from hanse.agent.cluster.kubernetes.objects import Meta
from hanse.model.fence import Epoch, GangKey
from hanse.model.ids import Attempt, JobId, Part
from hanse.model.names import LABEL_CHARS_MAX

PREFIX: Final = "hanse.dev/"
FEDERATION: Final = PREFIX + "federation"
POOL: Final = PREFIX + "pool"
JOB: Final = PREFIX + "job"
JOB_NAME: Final = PREFIX + "job-name"
ATTEMPT: Final = PREFIX + "attempt"
PART: Final = PREFIX + "part"
POD_SET: Final = PREFIX + "pod-set"
RANK: Final = PREFIX + "rank"
RANKS_BEFORE: Final = PREFIX + "ranks-before"
"""Annotation of a native job's pods: how many pods of the whole job come before rank 0 of their set."""

GLOBAL_RANK: Final = PREFIX + "global-rank"
"""Label of a native job's pod: its rank in the whole job, from which it has its RANK."""

EPOCH: Final = PREFIX + "epoch"
OBJECT: Final = PREFIX + "object"
"""Annotation: namespace and name of the object that carries it, by which a copy of it is told from it."""

REMOVED: Final = PREFIX + "removed"
"""Annotation: what was taken off a user's object, because another scheduler would act on it."""

LEDGER: Final = PREFIX + "ledger"

GATE: Final = PREFIX + "start"
"""Keeps a pod from its node until it has a place."""

FINALIZER: Final = PREFIX + "kept-until-forgotten"
"""Keeps a finished pod visible (P12)."""

OWN_SCHEDULER: Final = "hanse"
"""Name of the scheduler that is to bind pods which the agent binds itself."""

CLAIM_NAME: Final = "hanse-claim"
_LEDGER_NAME: Final = "hanse-gangs-{:03d}"


class PodKey(NamedTuple):
    """One pod of one gang; the rank is -1 while it has no place."""

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


def job_name(key: GangKey, number: int, pod_set: str, pods: int) -> str:
    """Name of the Job that makes the pods of a native job's set; its pods' host names have an index behind it."""
    name = f"{key.job}-{key.attempt}-{key.part}-{pod_set}"
    fits = len(f"{name}-{pods - 1}") <= LABEL_CHARS_MAX
    return name if fits else f"{key.job}-{key.attempt}-{key.part}-set{number}"


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


def _gang_in(meta: Meta) -> GangKey | None:
    labels = meta.labels
    return gang_of(f"{labels.get(JOB, '')}.{labels.get(ATTEMPT, '')}.{labels.get(PART, '')}")
