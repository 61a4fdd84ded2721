"""PodGroup (`scheduling.volcano.sh/v1beta1`): the gang's minimum, queue, priority and network topology."""

from collections.abc import Sequence
from typing import Final

from hanse.manifests.documents import Document
from hanse.manifests.fields import Field, Placed
from hanse.manifests.groups import Group
from hanse.manifests.keys import Keys
from hanse.manifests.kinds.kubeflow import SUMS_WHY
from hanse.manifests.notes import Notes, audit
from hanse.manifests.registry import Kind, Submission
from hanse.manifests.topology import Wishes, network_wishes

DEFAULT_QUEUE: Final = "default"
_SUBGROUPS_WHY: Final = "subgroups that are chosen by pod labels are not formed; use partitionPolicy or slices"


def _read(document: Document, submission: Submission) -> Sequence[Group]:
    notes = submission.notes
    audit(document.field, notes, mapped=("apiVersion", "kind", "metadata", "spec"), kept=("status",))
    metadata = document.field.need("metadata", "no metadata; a pod group needs a name")
    keys = Keys(metadata, notes, of_template=False)
    keys.close()
    name, namespace = (
        metadata.need("name", "no name; a pod group needs the name of its job"),
        metadata.get("namespace"),
    )
    spec = document.field.get("spec")
    return [
        Group(
            document=document,
            name=name.word(),
            namespace=namespace.text() if namespace else "",
            origin=name,
            minimum=_minimum(spec),
            task_minima=_task_minima(spec),
            queue=spec.get("queue") if spec else None,
            priority=spec.get("priorityClassName") if spec else None,
            wishes=_topology(spec, notes) if spec else Wishes(),
            default_queue=DEFAULT_QUEUE,
        )
    ]


def _minimum(spec: Field | None) -> Placed[int] | None:
    field = spec.get("minMember") if spec else None
    if field is None:
        return None
    if field.integer() < 1:
        field.refuse("COUNT_OUT_OF_RANGE", f"{field.integer()} members; a gang needs at least 1")
    return Placed(field.at_least(1, "members"), field)


def _task_minima(spec: Field | None) -> tuple[tuple[str, Placed[int]], ...]:
    listed = spec.get("minTaskMember") if spec else None
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
