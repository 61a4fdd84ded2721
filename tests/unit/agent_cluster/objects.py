"""API objects for tests, as JSON would give them."""

import json
from collections.abc import Mapping
from typing import Any

from hanse.agent.cluster.kubernetes.names import FINALIZER, GATE, PodKey, claimed_gang, gang_labels
from hanse.agent.cluster.kubernetes.objects import NODE, POD, Meta, NodeObject, PodObject
from hanse.agent.cluster.kubernetes.verdicts import OwnPod, own_pod_of
from hanse.agent.cluster.port import Epoch, GangKey, GangRecord, SetPlace
from hanse.model.ids import Attempt, FlavorName, JobId, NodeName, Part
from hanse.model.resources import Resources

GANG = GangKey(JobId("aaaaaaaa-0000000000000001"), Attempt(1), Part(0))
EPOCH = Epoch(1, 10)
LATER = Epoch(1, 20)
FEDERATION = "fed"
SET = "worker"
POD_RESOURCES = Resources({"cpu": 1_000, "memory": 1 << 30, "nvidia.com/gpu": 1})


def node(
    name: str = "n0",
    *,
    ready: str = "True",
    spec: Mapping[str, Any] | None = None,
    conditions: Mapping[str, str] | None = None,
    deleted: bool = False,
) -> NodeObject:
    """A node of four GPUs."""
    told = {"Ready": ready, **(conditions or {})}
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return NODE.decode(
        json.dumps(
            {
                "metadata": {**meta, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {})},
                "spec": spec or {},
                "status": {
                    "allocatable": {"cpu": "7500m", "memory": "64Gi", "nvidia.com/gpu": "4", "pods": "110"},
                    "conditions": [{"type": type_, "status": status} for type_, status in told.items()],
                },
            }
        )
    )


def pod(
    meta: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> PodObject:
    """Any pod."""
    return POD.decode(json.dumps({"metadata": meta or {}, "spec": spec or {}, "status": status or {}}))


def own(
    rank: int = 0,
    *,
    uid: str = "",
    version: int = 1,
    node_name: str = "",
    phase: str = "Pending",
    gated: bool = False,
    deleted: bool = False,
    annotations: Mapping[str, str] | None = None,
    status: Mapping[str, Any] | None = None,
) -> PodObject:
    """A pod of GANG that was let go, as the API server has it."""
    labels = gang_labels(GANG, federation=FEDERATION, pool="pool")
    meta = {
        "name": f"{SET}-{rank}",
        "namespace": "jobs",
        "uid": uid or f"uid-{rank}",
        "resourceVersion": str(version),
        "labels": {**labels, "hanse.dev/rank": str(rank)},
        "annotations": annotations or {},
        "finalizers": [FINALIZER],
        **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}),
    }
    gates = {"schedulingGates": [{"name": "other"}, {"name": GATE}]} if gated else {}
    return pod(meta, {"nodeName": node_name, **gates}, {"phase": phase, **(status or {})})


def kin(meta: Meta) -> PodKey | None:
    """Whose pods `own` makes."""
    gang = claimed_gang(meta, FEDERATION)
    return None if gang is None else PodKey(gang, SET, int(meta.labels["hanse.dev/rank"]))


def seen(rank: int = 0, **facts: Any) -> OwnPod:
    """The same as the adapter sees it."""
    return own_pod_of(PodKey(GANG, SET, rank), own(rank, **facts))


def record(*nodes: str, started: bool = True) -> GangRecord:
    """Of GANG, one pod on each node."""
    places = tuple(NodeName(name) for name in nodes)
    return GangRecord(GANG, 7, (SetPlace(SET, 0, places, FlavorName("h100"), POD_RESOURCES),), started, b"payload")
