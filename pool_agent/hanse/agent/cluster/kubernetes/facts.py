"""Nodes and the usage of pods, read from API objects. Pure.

A pod uses what Kubernetes counts: the sum of its containers and restartable init containers, or what one init
container needs beside the restartable ones before it, whichever is more; amounts of the pod as a whole replace that
for the resources that they name; overhead comes on top; and one of the node's `pods`. It uses that from when it has a
node until it has ended or is gone, however long it takes to terminate.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from hanse.agent.cluster.kubernetes.objects import Container, NodeObject, PodObject, Requirements
from hanse.agent.core.facts import NodeFacts
from hanse.model.ids import NodeName
from hanse.model.resources import PODS, Resources, parse_amount
from hanse.model.selectors import Effect, Taint

AMOUNTS_REMEMBERED: Final = 16_384
ENDED: Final = frozenset({"Succeeded", "Failed"})

_PRESSURES: Final = frozenset({"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})
_EFFECTS: Final = {
    "NoSchedule": Effect.NO_SCHEDULE,
    "PreferNoSchedule": Effect.PREFER_NO_SCHEDULE,
    "NoExecute": Effect.NO_EXECUTE,
}

_seen: dict[tuple[tuple[str, str], ...], Resources] = {}


@lru_cache(maxsize=AMOUNTS_REMEMBERED)
def _amount(name: str, text: str) -> int:
    return max(0, parse_amount(name, text))


def resources_of(amounts: Mapping[str, str]) -> Resources:
    """Quantities as Resources; equal ones are one object, since thousands of nodes and pods ask for the same.

    Raises:
        ValueError: something is no quantity.
    """
    key = tuple(amounts.items())
    found = _seen.get(key)
    if found is None:
        if len(_seen) >= AMOUNTS_REMEMBERED:
            _seen.clear()
        found = _seen[key] = Resources({name: _amount(name, text) for name, text in key})
    return found


def node_facts(node: NodeObject) -> NodeFacts:
    """What the cluster reports about a node; one that is being removed is not ready any more."""
    conditions = {condition.type: condition.status for condition in node.status.conditions}
    return NodeFacts(
        NodeName(node.metadata.name),
        node.metadata.labels,
        tuple(Taint(t.key, t.value, _EFFECTS.get(t.effect, Effect.UNSPECIFIED)) for t in node.spec.taints),
        resources_of(node.status.allocatable),
        ready=conditions.get("Ready") == "True" and not node.metadata.deletion_timestamp,
        cordoned=node.spec.unschedulable,
        healthy=not any(conditions.get(name) == "True" for name in _PRESSURES),
    )


def is_silent(node: NodeObject) -> bool:
    """Whether the control plane has not heard of its kubelet for a while. One that says it is not ready still speaks,
    and ends its pods itself when it is told to."""
    return any(condition.type == "Ready" and condition.status == "Unknown" for condition in node.status.conditions)


def usage_of(pod: PodObject) -> Resources:
    """What a pod uses of its node, whether or not it has one yet."""
    spec = pod.spec
    if len(spec.containers) == 1 and not (spec.init_containers or spec.overhead or spec.resources.requests):
        return _with_pod(_requests(spec.containers[0].resources))
    whole = {**_containers(spec.containers, spec.init_containers), **_requests(spec.resources)}
    return _with_pod(_sum(whole, resources_of(spec.overhead)))


def uses_node(pod: PodObject) -> bool:
    """Whether it takes room on a node now."""
    return bool(pod.spec.node_name) and pod.status.phase not in ENDED


@lru_cache(maxsize=AMOUNTS_REMEMBERED)
def _with_pod(amounts: Resources) -> Resources:
    return Resources({**amounts, PODS: 1})


def _requests(asked: Requirements) -> Resources:
    return resources_of({**asked.limits, **asked.requests}) if asked.limits else resources_of(asked.requests)


def _containers(main: Iterable[Container], init: Iterable[Container]) -> dict[str, int]:
    beside: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in init:
        need = _sum(beside, _requests(container.resources))
        if container.restart_policy == "Always":
            beside = need
        peak = _larger(peak, need)
    total: dict[str, int] = dict(beside)
    for container in main:
        total = _sum(total, _requests(container.resources))
    return _larger(peak, total)


def _sum(left: Mapping[str, int], right: Mapping[str, int]) -> Resources:
    return Resources({name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}})


def _larger(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}
