"""A job while it is put together: what its kind says, what a pod group adds, and where each part was written."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hanse.manifests.claims import Claims
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
from hanse.manifests.pods import Pod, scheduling_group
from hanse.manifests.topology import Wishes, kai_wishes, kueue_wishes, whole_number
from hanse.model.job import GANG

METADATA_KEPT = frozenset(
    (
        "uid resourceVersion generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds finalizers "
        "ownerReferences managedFields selfLink clusterName generateName"
    ).split()
)
_PER_SET_WHY = "a domain that holds all pod sets is sought first; beyond that each set prefers one for itself"


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
        groups=(
            *(field.text() for k in (keys, *templates) if (field := k.either(*GROUP_NAMES))),
            *(named for pod_set in sets if (named := scheduling_group(pod_set.pod.spec))),
        ),
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
    return DraftSet(name, count, pod, wishes.with_levels_of(kai), origin=origin)


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
    """The draft with a topology for the whole gang: one domain of the required level holds all of its sets.

    A set that requires another level for itself keeps it; what the gang prefers each set prefers.
    """
    if len(draft.sets) == 1:
        return replace(draft, sets=tuple(replace(s, wishes=s.wishes.with_levels_of(wishes)) for s in draft.sets))
    if wishes.preferred:
        notes.unmapped(wishes.preferred.field, _PER_SET_WHY)
    return replace(draft, sets=tuple(replace(s, wishes=_in_gang(s.wishes, wishes)) for s in draft.sets))


def _in_gang(own: Wishes, gang: Wishes) -> Wishes:
    wishes = own.also_preferred(gang.preferred) if gang.preferred else own
    if gang.required is None:
        return wishes
    wishes = wishes if wishes.required else wishes.also_required(gang.required)
    return wishes if wishes.group else wishes.in_group(GANG, gang.required)
