"""PodGroup (`scheduling.volcano.sh/v1beta1`): the gang's minimum, queue, priority and network topology."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hanse.manifests.documents import Document
from hanse.manifests.fields import Field, Placed
from hanse.manifests.groups import Group, begin_group, members
from hanse.manifests.kinds.kubeflow import SUMS_WHY
from hanse.manifests.notes import Notes, audit
from hanse.manifests.registry import Kind, Submission
from hanse.manifests.topology import Wishes, network_wishes

DEFAULT_QUEUE: Final = "default"
_SUBGROUPS_WHY: Final = "subgroups that are chosen by pod labels are not formed; use partitionPolicy or slices"


def _read(document: Document, submission: Submission) -> Sequence[Group]:
    notes = submission.notes
    spec = document.field.get("spec")
    group = replace(begin_group(document, notes, minimum=members(spec)), default_queue=DEFAULT_QUEUE)
    if spec is None:
        return [group]
    return [
        replace(
            group,
            task_minima=_task_minima(spec),
            queue=spec.get("queue"),
            priority=spec.get("priorityClassName"),
            wishes=_topology(spec, notes),
        )
    ]


def _task_minima(spec: Field) -> tuple[tuple[str, Placed[int]], ...]:
    listed = spec.get("minTaskMember")
    if listed is None:
        return ()
    return tuple((task.lower(), Placed(field.at_least(0, "pods"), field)) for task, field in listed.entries())


def _topology(spec: Field, notes: Notes) -> Wishes:
    audit(
        spec,
        notes,
        mapped=("minMember", "minTaskMember", "queue", "priorityClassName", "networkTopology"),
        why={"minResources": SUMS_WHY, "subGroupPolicy": _SUBGROUPS_WHY},
    )
    network = spec.get("networkTopology")
    return network_wishes(network, notes) if network else Wishes()


KIND: Final = Kind("scheduling.volcano.sh", "PodGroup", ("v1beta1",), _read)
