"""The patch by which a gated pod gets its place: its node required, its rank told, its gate taken off. Pure.

One request does it all, and nothing of it is done to another pod of the same name, or to one that was let go
already. The node is added to every alternative that the pod's own affinity has, because a gated pod may only be
narrowed, and because the alternatives are alternatives. It is required by name, in `matchFields`, for which a
scheduler looks at one node instead of all.
"""

from typing import Any

from hanse.agent.cluster.kubernetes.chores import LetGo
from hanse.agent.cluster.kubernetes.names import FINALIZER, GATE, GLOBAL_RANK, OWN_SCHEDULER, POD_SET, RANK
from hanse.agent.cluster.kubernetes.objects import AffinityObject, Body
from hanse.model.ids import NodeName

_AFFINITY = "/spec/affinity"
_NODES = f"{_AFFINITY}/nodeAffinity"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def patch_of(chore: LetGo) -> list[Body]:
    """As a JSON patch."""
    pod, gate = chore.pod, f"/spec/schedulingGates/{chore.pod.gate}"
    return [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "test", "path": f"{gate}/name", "value": GATE},
        {"op": "add", "path": _label(POD_SET), "value": chore.pod_set},
        {"op": "add", "path": _label(RANK), "value": str(chore.rank)},
        *_ranked(pod.ranks_before, chore.rank),
        *_kept(pod.finalizers),
        *([] if pod.scheduler == OWN_SCHEDULER else _pinned(pod.affinity, chore.node)),
        {"op": "remove", "path": gate},
    ]


def _label(key: str) -> str:
    return "/metadata/labels/" + key.replace("~", "~0").replace("/", "~1")


def _ranked(before: int | None, rank: int) -> list[Body]:
    return [] if before is None else [{"op": "add", "path": _label(GLOBAL_RANK), "value": str(before + rank)}]


def _kept(finalizers: int) -> list[Body]:
    if finalizers:
        return [{"op": "add", "path": "/metadata/finalizers/-", "value": FINALIZER}]
    return [{"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]}]


def _pinned(affinity: AffinityObject | None, node: NodeName) -> list[Body]:
    by_name = {"key": "metadata.name", "operator": "In", "values": [node]}
    required: dict[str, Any] = {"nodeSelectorTerms": [{"matchFields": [by_name]}]}
    if affinity is None:
        return [{"op": "add", "path": _AFFINITY, "value": {"nodeAffinity": {_REQUIRED: required}}}]
    if affinity.node_affinity is None:
        return [{"op": "add", "path": _NODES, "value": {_REQUIRED: required}}]
    if affinity.node_affinity.required is None:
        return [{"op": "add", "path": f"{_NODES}/{_REQUIRED}", "value": required}]
    return [
        {"op": "add", "path": f"{_NODES}/{_REQUIRED}/nodeSelectorTerms/{at}/matchFields/-", "value": by_name}
        if term.match_fields
        else {"op": "add", "path": f"{_NODES}/{_REQUIRED}/nodeSelectorTerms/{at}/matchFields", "value": [by_name]}
        for at, term in enumerate(affinity.node_affinity.required.node_selector_terms)
    ]
