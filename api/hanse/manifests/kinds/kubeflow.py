"""What the jobs of the Kubeflow training operator have in common: replica types and a run policy.

Each replica type becomes a pod set of its lower-case name, in the order in which the operator ranks them (a master
before its workers), whatever the order in the document. The minimum is `schedulingPolicy.minAvailable`, else all
replicas, as the operator counts it; KAI counts `elasticPolicy.minReplicas` where the former is not given.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from hanse.manifests.documents import Document
from hanse.manifests.drafts import Draft, DraftSet, begin, draft_set, pod_count
from hanse.manifests.fields import Field, Placed, suggestion
from hanse.manifests.keys import KAI_QUEUE_LABEL, Keys
from hanse.manifests.notes import Notes, audit
from hanse.manifests.pods import read_pod
from hanse.manifests.registry import Kind, Submission
from hanse.model.names import quoted

KAI_SCHEDULER: Final = "kai-scheduler"
FINISHED_WHY: Final = "all pods of a job that has ended are removed, and its record is kept by Hanse's own policy"
SUSPEND_WHY: Final = "Hanse decides when a job starts"
MANAGED_WHY: Final = "Hanse manages the job"
RESIZE_WHY: Final = "a running job is not resized yet"
SUMS_WHY: Final = "a gang is placed by what each of its pods asks for, not by sums"
TIMEOUT_WHY: Final = "a job waits until it is placed or cancelled"


_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Replicas:
    """How a kind writes its replicas.

    Attributes:
        key: name of the mapping in `spec`.
        types: replica types in rank order.
        single: types of which there is exactly one replica.
        container: name of the container that does the work.
    """

    key: str
    types: tuple[str, ...]
    container: str
    single: frozenset[str] = frozenset()


def training_kind(
    name: str,
    replicas: Replicas,
    *,
    kept: Sequence[str] = (),
    why: Mapping[str, str] = _NOTHING,
    elastic: bool = False,
    shape: Callable[[DraftSet], DraftSet] = lambda pod_set: pod_set,
) -> Kind:
    """The entry of a kind that has nothing but replicas, a run policy and, if `elastic`, an elastic policy.

    Args:
        kept, why: further fields of its spec, as `notes.audit` takes them.
        shape: what the kind adds to each pod set.
    """
    mapped = (replicas.key, "runPolicy", *(("elasticPolicy",) if elastic else ()))

    def read(document: Document, submission: Submission) -> Sequence[Draft]:
        notes = submission.notes
        audit(document.field, notes, mapped=("apiVersion", "kind", "metadata", "spec"), kept=("status",))
        spec = document.field.need("spec", "no spec; say what the job is")
        audit(spec, notes, mapped=mapped, kept=kept, why=why)
        sets = [shape(pod_set) for pod_set in read_replicas(spec, replicas, notes)]
        policy = spec.get("elasticPolicy") if elastic else None
        return [kubeflow_draft(document, notes, sets, spec.get("runPolicy"), policy)]

    return Kind("kubeflow.org", name, ("v1",), read)


def read_replicas(spec: Field, replicas: Replicas, notes: Notes) -> list[DraftSet]:
    """The pod sets of a job, in rank order.

    Raises:
        InvalidArgument: an unknown or repeated type, no replicas, a count that makes no sense.
    """
    listed = spec.need(replicas.key, "no replicas; say what the job's pods are")
    by_type: dict[str, Field] = {}
    names = {name.lower(): name for name in replicas.types}
    for written, field in listed.entries():
        name = names.get(written.lower())
        if name is None:
            near = suggestion(written, replicas.types) or f"; use {' or '.join(replicas.types)}"
            field.refuse("UNKNOWN_FIELD", f"no replica type of this name{near}")
        if name in by_type:
            field.refuse("DUPLICATE", f"the replica type in line {by_type[name].line} is the same one")
        by_type[name] = field
    if not by_type:
        listed.refuse("MISSING", f"no replicas; add {' or '.join(replicas.types)}")
    return [_replica(name, by_type[name], replicas, notes) for name in replicas.types if name in by_type]


def _replica(name: str, field: Field, replicas: Replicas, notes: Notes) -> DraftSet:
    audit(field, notes, mapped=("replicas", "template"), kept=("restartPolicy",))
    count = pod_count(field.get("replicas"), field, f"{name.lower()}s")
    if name in replicas.single and count.value != 1:
        count.field.refuse("COUNT_OUT_OF_RANGE", f"{count.value} {name.lower()}s; there is exactly 1")
    pod = read_pod(field.need("template", "no pod template"), notes, main=replicas.container)
    return draft_set(name.lower(), count, pod, field)


def kubeflow_draft(
    document: Document, notes: Notes, sets: Sequence[DraftSet], policy: Field | None, elastic: Field | None
) -> Draft:
    """The draft of a training job from its parts.

    Args:
        policy: `runPolicy`; `elastic`: `elasticPolicy`, for the kinds that have one.
    """
    keys = Keys(document.field.get("metadata"), notes, of_template=False)
    kai = is_kai(keys, sets)
    scheduling = policy.get("schedulingPolicy") if policy else None
    if scheduling:
        audit(
            scheduling,
            notes,
            mapped=("minAvailable", "queue", "priorityClass"),
            why={"minResources": SUMS_WHY, "scheduleTimeoutSeconds": TIMEOUT_WHY},
        )
    priority = scheduling.get("priorityClass") if scheduling else None
    draft = begin(document, notes, sets, keys, priority=priority)
    draft = _with_scheduling(draft, scheduling)
    if policy:
        draft = _with_policy(draft, policy, notes)
    return _with_elastic(draft, elastic, notes, kai=kai) if elastic else draft


def is_kai(keys: Keys, sets: Sequence[DraftSet]) -> bool:
    """Whether the object was written for KAI: by its queue label or its pods' scheduler name."""
    opened = (keys, *(pod_set.pod.keys for pod_set in sets))
    names = [pod_set.pod.spec.get("schedulerName") for pod_set in sets]
    return any(k.label(KAI_QUEUE_LABEL) for k in opened) or any(
        name is not None and name.text() == KAI_SCHEDULER for name in names
    )


def _with_scheduling(draft: Draft, scheduling: Field | None) -> Draft:
    minimum = scheduling.get("minAvailable") if scheduling else None
    if scheduling is None:
        return draft
    return replace(
        draft,
        queue=draft.queue.with_strong(scheduling.get("queue")),
        minimum=(Placed(minimum.at_least(1, "pods at least"), minimum),) if minimum else (),
    )


def _with_policy(draft: Draft, policy: Field, notes: Notes) -> Draft:
    audit(
        policy,
        notes,
        mapped=("schedulingPolicy", "backoffLimit", "activeDeadlineSeconds", "suspend"),
        why={
            "cleanPodPolicy": FINISHED_WHY,
            "ttlSecondsAfterFinished": FINISHED_WHY,
            "managedBy": MANAGED_WHY,
        },
    )
    note_suspend(policy, notes)
    return with_limits(draft, policy, retries="backoffLimit")


def note_suspend(owner: Field, notes: Notes) -> None:
    """Name `suspend: true`; `false` asks for nothing."""
    suspend = owner.get("suspend")
    if suspend and suspend.boolean():
        notes.unmapped(suspend, SUSPEND_WHY)


def with_limits(draft: Draft, owner: Field, *, retries: str = "") -> Draft:
    """The draft with `activeDeadlineSeconds` and a number of retries; the shorter of two durations counts."""
    deadline, limit = owner.get("activeDeadlineSeconds"), owner.get(retries) if retries else None
    duration = Placed(deadline.at_least(1, "seconds"), deadline) if deadline else None
    if draft.duration and (duration is None or draft.duration.value <= duration.value):
        duration = draft.duration
    return replace(
        draft,
        duration=duration,
        retries=Placed(limit.at_least(0, "retries"), limit) if limit else draft.retries,
    )


def _with_elastic(draft: Draft, elastic: Field, notes: Notes, *, kai: bool) -> Draft:
    only_kai = "KAI's; the training operator waits for minAvailable, else for all replicas, and so does Hanse"
    audit(
        elastic,
        notes,
        mapped=("maxRestarts", "minReplicas"),
        kept=("rdzvBackend", "rdzvPort", "rdzvHost", "rdzvId", "rdzvConf", "standalone", "nProcPerNode"),
        why={"maxReplicas": RESIZE_WHY, "metrics": RESIZE_WHY},
    )
    least, most, restarts = elastic.get("minReplicas"), elastic.get("maxReplicas"), elastic.get("maxRestarts")
    minimum = Placed(least.at_least(1, "replicas"), least) if least else None
    if minimum and most and most.at_least(1, "replicas") < minimum.value:
        most.refuse("CONTRADICTION", f"{most.shown} is below minReplicas {quoted(minimum.field.shown)}")
    if minimum and not (kai and not draft.minimum):
        notes.unmapped(minimum.field, only_kai)
        minimum = None
    limit = Placed(restarts.at_least(0, "restarts"), restarts) if restarts else None
    if limit and draft.retries:
        notes.unmapped(limit.field, f"backoffLimit in line {draft.retries.field.line} says how often Hanse retries")
    return replace(
        draft,
        minimum=(minimum,) if minimum else draft.minimum,
        retries=draft.retries or limit,
    )
