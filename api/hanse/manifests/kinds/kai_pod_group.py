"""PodGroup (`scheduling.run.ai/v2alpha2`, KAI): minimum, queue, priority class and a topology of the whole gang.

Subgroups are pod sets by name, each with a minimum and a topology of its own; a subgroup of subgroups has no pods and
is not read.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hanse.manifests.documents import Document
from hanse.manifests.fields import Field, Placed
from hanse.manifests.groups import Group, begin_group, members
from hanse.manifests.kinds.kubeflow import TIMEOUT_WHY
from hanse.manifests.notes import Notes, audit
from hanse.manifests.registry import Kind, Submission
from hanse.manifests.topology import Wishes, level_of

_PREEMPTION_WHY: Final = "nothing is preempted yet"
_WHY: Final = {
    "preemptibility": _PREEMPTION_WHY,
    "preemptionDelay": _PREEMPTION_WHY,
    "markUnschedulable": TIMEOUT_WHY,
    "schedulingBackoff": TIMEOUT_WHY,
    "stalenessGracePeriod": "a gang that has lost a pod is taken back at once, and started again",
    "minSubGroup": "a gang needs the minimum of each of its pod sets",
}
_MAPPED: Final = ("minMember", "queue", "priorityClassName", "topologyConstraint", "subGroups")
_TREE_WHY: Final = "subgroups of subgroups are not read yet; name the pod sets themselves"


def _read(document: Document, submission: Submission) -> Sequence[Group]:
    notes = submission.notes
    spec = document.field.get("spec")
    group = begin_group(document, notes, minimum=members(spec))
    if spec is None:
        return [group]
    audit(spec, notes, mapped=_MAPPED, why=_WHY)
    listed = spec.get("subGroups")
    parts = [_subgroup(item, notes) for item in listed.items()] if listed else []
    return [
        replace(
            group,
            queue=spec.get("queue"),
            priority=spec.get("priorityClassName"),
            wishes=_topology(spec, notes),
            task_minima=tuple((name, least) for name, least, _ in parts if least),
            task_wishes=tuple((name, wishes) for name, _, wishes in parts),
        )
    ]


def _subgroup(item: Field, notes: Notes) -> tuple[str, Placed[int] | None, Wishes]:
    audit(item, notes, mapped=("name", "minMember", "topologyConstraint", "parent"), why=_WHY)
    parent = item.get("parent")
    if parent and parent.text():
        parent.refuse("NOT_SUPPORTED", _TREE_WHY)
    return item.need("name", "no name; it is the pod set's").word().lower(), members(item), _topology(item, notes)


def _topology(owner: Field, notes: Notes) -> Wishes:
    constraint = owner.get("topologyConstraint")
    if constraint is None:
        return Wishes()
    why = {"topology": "Hanse finds the level by its key in every pool"}
    audit(constraint, notes, mapped=("requiredTopologyLevel", "preferredTopologyLevel"), why=why)
    required, preferred = constraint.get("requiredTopologyLevel"), constraint.get("preferredTopologyLevel")
    return Wishes(
        required=level_of(required) if required and required.text() else None,
        preferred=level_of(preferred) if preferred and preferred.text() else None,
    )


KIND: Final = Kind("scheduling.run.ai", "PodGroup", ("v2alpha2",), _read)
