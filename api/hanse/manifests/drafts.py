"""A job while it is put together: what its kind says, what a pod group adds, who claims what, what follows.

Several places may name a queue, a priority class or a minimum: the object, its labels, its pod templates, a pod group
beside it. Claims of equal weight must agree, and if they do not, the submission is refused with both lines, because
whichever we chose, somebody would be surprised. A weaker claim gives way to a stronger one and is named as unmapped.

Minima (table 1.5 of the import rules): a gang has a minimum in all and may have one per pod set. The ones per set
count only while their sum is within the one in all; otherwise, and where a set has none, pods are counted from the
first set on, in the order in which the kind starts its pods (a master before its workers).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hanse.manifests.converted import ImportedJob, Origin, nearest_origin
from hanse.manifests.documents import Document
from hanse.manifests.fields import Field, Placed
from hanse.manifests.keys import (
    GROUP_NAMES,
    KAI_PRIORITY_LABEL,
    KAI_QUEUE_LABEL,
    KUEUE_DURATION_LABEL,
    KUEUE_PRIORITY_LABEL,
    QUEUE_LABEL,
    VOLCANO_QUEUE,
    Keys,
)
from hanse.manifests.notes import Notes, audit
from hanse.manifests.pods import Pod
from hanse.manifests.topology import Wishes, kai_wishes, kueue_wishes, whole_number
from hanse.model.errors import InvalidArgument
from hanse.model.ids import QueueName
from hanse.model.job import JobSpec, Manifest, PodSet, RestartPolicy
from hanse.model.names import quoted
from hanse.model.validate import validate_spec

METADATA_KEPT = frozenset(
    (
        "uid resourceVersion generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds finalizers "
        "ownerReferences managedFields selfLink clusterName generateName"
    ).split()
)
_PER_SET_WHY = "each pod set is held in such a domain by itself; that all of them share one is not promised"


@dataclass(frozen=True, slots=True)
class DraftSet:
    """One pod set: how many pods, which pods, where.

    Attributes:
        minimum: of this set, where the kind states one.
        origin: where it got its name.
    """

    name: str
    count: Placed[int]
    pod: Pod
    wishes: Wishes
    minimum: Placed[int] | None = None
    origin: Field | None = None


@dataclass(frozen=True, slots=True)
class Claims:
    """Who says what a value is: strong claims must agree, weak ones count in order, only without strong ones."""

    strong: tuple[Placed[str], ...] = ()
    weak: tuple[Placed[str], ...] = ()

    def with_strong(self, *claims: Field | None) -> "Claims":
        """These and more strong claims; fields that are not set or empty claim nothing."""
        return replace(self, strong=(*self.strong, *_said(claims)))

    def with_weak(self, *claims: Field | None) -> "Claims":
        """These and more weak claims."""
        return replace(self, weak=(*self.weak, *_said(claims)))


def _said(claims: Iterable[Field | None]) -> list[Placed[str]]:
    return [Placed(field.text(), field) for field in claims if field and field.text()]


@dataclass(frozen=True, slots=True)
class Draft:
    """A job as its kind describes it, before it is joined and checked.

    Attributes:
        minimum: pods without which the gang is useless, as stated; several must agree.
        default_queue: used when neither the manifest nor the caller names a queue.
        groups: names of pod groups that its pods claim to belong to.
        documents: all objects that make up the job, its own first.
    """

    document: Document
    name: str
    namespace: str
    sets: tuple[DraftSet, ...]
    origin: Field
    queue: Claims = Claims()
    priority: Claims = Claims()
    minimum: tuple[Placed[int], ...] = ()
    duration: Placed[int] | None = None
    retries: Placed[int] | None = None
    labels: Field | None = None
    user_labels: tuple[tuple[str, str], ...] = ()
    default_queue: str = ""
    groups: tuple[str, ...] = ()
    documents: tuple[Document, ...] = ()


def begin(
    document: Document,
    notes: Notes,
    sets: Sequence[DraftSet],
    keys: Keys,
    *,
    priority: Field | None = None,
    more: Sequence[Keys] = (),
) -> Draft:
    """The draft of an object, with what every kind has: its name, labels, and the scheduling keys on it.

    The keys of the object and of its templates are read here for the last time, and closed.

    Args:
        priority: the priority class that the object's own spec names, if the kind has such a field.
        more: keys of further pods of these sets, where each pod is an object of its own.
    """
    metadata = document.field.need("metadata", "no metadata; the object needs a name")
    audit(metadata, notes, mapped=("name", "namespace", "labels", "annotations"), kept=METADATA_KEPT)
    name = _name(metadata)
    namespace = metadata.get("namespace")
    duration = keys.label(KUEUE_DURATION_LABEL)
    templates = [*(pod_set.pod.keys for pod_set in sets), *more]
    draft = Draft(
        document=document,
        name=name.text(),
        namespace=namespace.text() if namespace else "",
        sets=tuple(sets),
        origin=name,
        queue=_queue(keys, templates),
        priority=_priority(keys, sets, priority),
        duration=Placed(whole_number(duration, "seconds"), duration) if duration else None,
        labels=keys.labels,
        user_labels=tuple(keys.user_labels().items()),
        groups=tuple(field.text() for k in (keys, *templates) if (field := k.either(*GROUP_NAMES))),
        documents=(document,),
    )
    draft = hold_together(draft, kai_wishes(keys), notes)
    for opened in (keys, *templates):
        opened.close()
    return draft


def _name(metadata: Field) -> Field:
    name = metadata.get("name")
    if name is not None and name.text():
        return name
    generated = metadata.get("generateName")
    if generated:
        generated.refuse("MISSING", "a job needs a name of its own; write metadata.name instead")
    return metadata.need("name", "no name; every job needs one")


def _queue(keys: Keys, templates: Sequence[Keys]) -> Claims:
    """Volcano's annotation only counts where no queue is named otherwise, as its controllers read it."""
    claims = Claims()
    for opened in (keys, *templates):
        claims = claims.with_strong(opened.label(QUEUE_LABEL), opened.label(KAI_QUEUE_LABEL))
        claims = claims.with_weak(opened.either(*VOLCANO_QUEUE))
    return claims


def _priority(keys: Keys, sets: Sequence[DraftSet], own: Field | None) -> Claims:
    """As Kueue orders them: its label, else the spec's own field, else the first template that names a class."""
    label = keys.label(KUEUE_PRIORITY_LABEL)
    claims = Claims().with_strong(label).with_weak(own) if label else Claims().with_strong(own)
    return claims.with_weak(keys.label(KAI_PRIORITY_LABEL), *(s.pod.priority_class for s in sets))


def draft_set(name: str, count: Placed[int], pod: Pod, origin: Field) -> DraftSet:
    """A pod set with the topology that its own template asks for."""
    wishes, kai = kueue_wishes(pod.keys), kai_wishes(pod.keys)
    wishes = wishes.also_required(kai.required) if kai.required else wishes
    wishes = wishes.also_preferred(kai.preferred) if kai.preferred else wishes
    return DraftSet(name, count, pod, wishes, origin=origin)


def pod_count(field: Field | None, owner: Field, what: str) -> Placed[int]:
    """A number of pods, 1 if it is not set; `what` is their plural name.

    Raises:
        InvalidArgument: reason COUNT_OUT_OF_RANGE.
    """
    if field is None:
        return Placed(1, owner)
    if field.integer() < 1:
        field.refuse("COUNT_OUT_OF_RANGE", f"{field.integer()} {what}; a gang needs at least 1")
    return Placed(field.at_least(1, what), field)


def hold_together(draft: Draft, wishes: Wishes, notes: Notes) -> Draft:
    """The draft with a topology that was asked for the whole gang, laid on each of its pod sets."""
    sets = draft.sets
    for level in (wishes.required, wishes.preferred):
        if level and len(sets) > 1:
            notes.unmapped(level.field, _PER_SET_WHY)
    if wishes.required:
        required = wishes.required
        sets = tuple(replace(s, wishes=s.wishes.also_required(required)) for s in sets)
    if wishes.preferred:
        preferred = wishes.preferred
        sets = tuple(replace(s, wishes=s.wishes.also_preferred(preferred)) for s in sets)
    return replace(draft, sets=sets)


def finish(draft: Draft, notes: Notes, *, default_queue: str) -> ImportedJob:
    """The job, checked by every rule of the model except that it has a queue.

    Raises:
        InvalidArgument: with the path and line of the document.
    """
    queue = _settle(draft.queue, "queue", notes)
    priority = _settle(draft.priority, "priority class", notes)
    total = _total(draft)
    minima = _minima(draft.sets, total)
    spec = JobSpec(
        name=draft.name,
        queue=QueueName(queue.value if queue else default_queue or draft.default_queue),
        pod_sets=tuple(_pod_set(s, least) for s, least in zip(draft.sets, minima, strict=True)),
        priority_class=priority.value if priority else "",
        labels=dict(draft.user_labels),
        duration_s=draft.duration.value if draft.duration else 0,
        restart=RestartPolicy(max_retries=draft.retries.value if draft.retries else 0),
        manifest=_manifest(draft),
    )
    origins = _origins(draft, queue, priority)
    check_spec(spec, origins)
    return ImportedJob(spec, draft.document.kind, draft.namespace, total, origins)


def _settle(claims: Claims, what: str, notes: Notes) -> Placed[str] | None:
    chosen = next(iter((*claims.strong, *claims.weak)), None)
    if chosen is None:
        return None
    for claim in claims.strong:
        if claim.value != chosen.value:
            claim.field.refuse(
                "CONTRADICTION",
                f"{what} {quoted(claim.value)} here, {quoted(chosen.value)} in line {chosen.field.line}; "
                "name the same one in both",
            )
    for claim in claims.weak:
        if claim.value != chosen.value:
            notes.unmapped(claim.field, f"{quoted(chosen.value)} in line {chosen.field.line} decides the {what}")
    return chosen


def _total(draft: Draft) -> int:
    pods = sum(pod_set.count.value for pod_set in draft.sets)
    if not draft.minimum:
        return sum((s.minimum or s.count).value for s in draft.sets)
    chosen = draft.minimum[0]
    for claim in draft.minimum:
        if claim.value > pods:
            claim.field.refuse("MIN_OVER_COUNT", f"a minimum of {claim.value} pods; the job has only {pods}")
        if claim.value != chosen.value:
            claim.field.refuse(
                "CONTRADICTION",
                f"a minimum of {claim.value} pods here, {chosen.value} in line {chosen.field.line}",
            )
    return chosen.value


def _minima(sets: Sequence[DraftSet], total: int) -> list[int]:
    stated = [s.minimum.value if s.minimum else None for s in sets]
    known = sum(least for least in stated if least is not None)
    if known > total:
        stated, known = [None] * len(sets), 0
    left = total - known
    minima: list[int] = []
    for pod_set, least in zip(sets, stated, strict=True):
        if least is None:
            least = min(pod_set.count.value, left)
            left -= least
        minima.append(least)
    return minima


def _pod_set(draft: DraftSet, min_count: int) -> PodSet:
    return PodSet(
        name=draft.name,
        count=draft.count.value,
        min_count=min_count,
        resources=draft.pod.resources,
        selector=draft.pod.selector,
        tolerations=draft.pod.tolerations,
        topology=draft.wishes.topology(),
        template=draft.pod.template,
    )


def _manifest(draft: Draft) -> Manifest:
    own = draft.document
    texts = [document.text.strip("\n") for document in draft.documents]
    return Manifest(own.kind, own.api_version, draft.namespace, "\n---\n".join(texts) + "\n")


def _origins(draft: Draft, queue: Placed[str] | None, priority: Placed[str] | None) -> dict[str, Origin]:
    named: dict[str, Field | None] = {
        "": draft.document.field.get("kind") or draft.document.field,
        "name": draft.origin,
        "queue": queue.field if queue else None,
        "priority_class": priority.field if priority else None,
        "labels": draft.labels,
        "duration_s": draft.duration.field if draft.duration else None,
        "restart.max_retries": draft.retries.field if draft.retries else None,
    }
    for index, pod_set in enumerate(draft.sets):
        minimum = pod_set.minimum or (draft.minimum[0] if draft.minimum else None)
        named |= _set_origins(f"pod_sets[{index}]", pod_set, minimum)
    return {path: Origin(field.path, field.line) for path, field in named.items() if field}


def _set_origins(at: str, draft: DraftSet, minimum: Placed[int] | None) -> dict[str, Field | None]:
    spec, wishes = draft.pod.spec, draft.wishes
    return {
        at: draft.pod.field,
        f"{at}.name": draft.origin,
        f"{at}.count": draft.count.field,
        f"{at}.min_count": minimum.field if minimum else None,
        f"{at}.resources": spec.get("containers"),
        f"{at}.selector": spec.get("affinity") or spec.get("nodeSelector"),
        f"{at}.tolerations": spec.get("tolerations"),
        f"{at}.required": wishes.required.field if wishes.required else None,
        f"{at}.preferred": wishes.preferred.field if wishes.preferred else None,
        **{f"{at}.slices[{index}]": layer.field for index, layer in enumerate(wishes.ordered_slices())},
    }


def check_spec(spec: JobSpec, origins: Mapping[str, Origin]) -> None:
    """Check a spec by the rules of the model; whether it has a queue is left to whoever submits it.

    Raises:
        InvalidArgument: with the path and line of the document instead of the model's.
    """
    try:
        validate_spec(spec, queue_required=False)
    except InvalidArgument as error:
        origin = nearest_origin(origins, error.path)
        raise InvalidArgument(error.message, reason=error.reason, path=origin.path, line=origin.line) from None
