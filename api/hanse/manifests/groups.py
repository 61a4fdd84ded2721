"""Pod groups: objects beside a job that say how its pods belong together. They join the job and vanish.

A group joins the job of its own name in the same submission, or the one whose pods name it. A group that no job
answers to is refused: it would have had an effect where it comes from, and here it would have none. Namespaces must
agree where both are written.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hanse.manifests.documents import Document
from hanse.manifests.drafts import METADATA_KEPT, Draft, DraftSet, hold_together
from hanse.manifests.fields import Field, Placed, suggestion
from hanse.manifests.keys import Keys
from hanse.manifests.notes import Notes, audit
from hanse.manifests.topology import Wishes
from hanse.model.names import quoted


@dataclass(frozen=True, slots=True)
class Group:
    """What a pod group says about the job that it joins.

    Attributes:
        origin: the name in the document.
        task_minima: least number of pods per task (pod set), by lower-case name.
        task_wishes: topology per task.
        default_queue: the queue that this kind means when it names none.
    """

    document: Document
    name: str
    namespace: str
    origin: Field
    minimum: Placed[int] | None = None
    task_minima: tuple[tuple[str, Placed[int]], ...] = ()
    task_wishes: tuple[tuple[str, Wishes], ...] = ()
    queue: Field | None = None
    priority: Field | None = None
    wishes: Wishes = Wishes()
    default_queue: str = ""


def begin_group(document: Document, notes: Notes, *, minimum: Placed[int] | None) -> Group:
    """The group of an object, with what every kind of pod group has."""
    audit(document.field, notes, mapped=("apiVersion", "kind", "metadata", "spec"), kept=("status",))
    metadata = document.field.need("metadata", "no metadata; a pod group needs a name")
    audit(metadata, notes, mapped=("name", "namespace", "labels", "annotations"), kept=METADATA_KEPT)
    Keys(metadata, notes, of_template=False).close()
    name = metadata.need("name", "no name; a pod group needs the name of its job")
    namespace = metadata.get("namespace")
    return Group(document, name.word(), namespace.text() if namespace else "", name, minimum)


def members(spec: Field | None) -> Placed[int] | None:
    """`minMember` of a pod group's spec.

    Raises:
        InvalidArgument: reason COUNT_OUT_OF_RANGE.
    """
    field = spec.get("minMember") if spec else None
    if field is None:
        return None
    if field.integer() < 1:
        field.refuse("COUNT_OUT_OF_RANGE", f"{field.integer()} members; a gang needs at least 1")
    return Placed(field.at_least(1, "members"), field)


def join(drafts: Sequence[Draft], groups: Sequence[Group], notes: Notes) -> list[Draft]:
    """Every draft with the group that belongs to it.

    Raises:
        InvalidArgument: NO_SUCH_JOB (a group without a job), DUPLICATE (two groups of one job), CONTRADICTION.
    """
    joined = list(drafts)
    named = _by_name(drafts)
    taken: dict[int, Group] = {}
    for group in groups:
        index = _partner(drafts, named.get(group.name, []), group)
        if index in taken:
            line = taken[index].origin.line
            group.origin.refuse("DUPLICATE", f"the pod group in line {line} already belongs to this job")
        taken[index] = group
        joined[index] = _joined(drafts[index], group, notes)
    return joined


def _by_name(drafts: Sequence[Draft]) -> dict[str, list[int]]:
    """The indices of the drafts that answer to each name."""
    named: dict[str, list[int]] = {}
    for index, draft in enumerate(drafts):
        for name in dict.fromkeys((draft.name, *draft.groups)):
            named.setdefault(name, []).append(index)
    return named


def _partner(drafts: Sequence[Draft], candidates: Sequence[int], group: Group) -> int:
    found = [index for index in candidates if _share_namespace(drafts[index], group)]
    if not found:
        near = suggestion(group.name, [draft.name for draft in drafts])
        group.origin.refuse("NO_SUCH_JOB", f"no job in this submission is named {quoted(group.name)}{near}")
    if len(found) > 1:
        lines = " and ".join(str(drafts[index].origin.line) for index in found[:2])
        group.origin.refuse("AMBIGUOUS", f"the jobs in lines {lines} both answer to this pod group")
    return found[0]


def _share_namespace(draft: Draft, group: Group) -> bool:
    return not draft.namespace or not group.namespace or draft.namespace == group.namespace


def _joined(draft: Draft, group: Group, notes: Notes) -> Draft:
    merged = replace(
        draft,
        sets=_with_wishes(_with_minima(draft, group), group),
        queue=draft.queue.with_strong(group.queue),
        priority=draft.priority.with_strong(group.priority),
        minimum=(*draft.minimum, *((group.minimum,) if group.minimum else ())),
        namespace=draft.namespace or group.namespace,
        default_queue=draft.default_queue or group.default_queue,
        documents=(*draft.documents, group.document),
    )
    return hold_together(merged, group.wishes, notes)


def _with_minima(draft: Draft, group: Group) -> tuple[DraftSet, ...]:
    minima = dict(group.task_minima)
    known = {pod_set.name for pod_set in draft.sets}
    for name, least in group.task_minima:
        if name not in known:
            least.field.refuse("UNKNOWN_TASK", f"the job has no task of this name{suggestion(name, known)}")
    return tuple(_with_minimum(pod_set, minima.get(pod_set.name)) for pod_set in draft.sets)


def _with_wishes(sets: tuple[DraftSet, ...], group: Group) -> tuple[DraftSet, ...]:
    wanted = dict(group.task_wishes)
    return tuple(
        replace(one, wishes=one.wishes.with_levels_of(wanted[one.name])) if one.name in wanted else one
        for one in sets
    )


def _with_minimum(pod_set: DraftSet, least: Placed[int] | None) -> DraftSet:
    if least is None:
        return pod_set
    if least.value > pod_set.count.value:
        least.field.refuse(
            "MIN_OVER_COUNT",
            f"a minimum of {least.value} pods; {quoted(pod_set.name)} has only {pod_set.count.value}",
        )
    return replace(pod_set, minimum=least)
