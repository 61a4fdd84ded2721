"""What a cluster says about one node: the only form in which node detail enters the agent."""

from collections.abc import Mapping
from dataclasses import dataclass

from hanse.model.devices import DeviceGroup
from hanse.model.ids import NodeName
from hanse.model.resources import Resources
from hanse.model.selectors import Taint


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node as the cluster reports it.

    Attributes:
        labels: all of them; flavors, levels and selectors are read from here.
        taints: also the ones that mirror a state (`node.kubernetes.io/not-ready`).
        allocatable: offered for scheduling, before any usage; includes the resource `pods`.
        ready: the kubelet reports so.
        cordoned: `spec.unschedulable`: takes no new work, keeps what runs.
        healthy: no health check objects; an unhealthy node takes no new work either.
        devices: its GPUs by what they share; () if the cluster does not tell.
    """

    name: NodeName
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Resources
    ready: bool = True
    cordoned: bool = False
    healthy: bool = True
    devices: tuple[DeviceGroup, ...] = ()
