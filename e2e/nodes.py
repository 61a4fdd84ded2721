"""Nodes whose kubelets kwok plays, and what becomes of them."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from e2e.control_plane import PLAYED, ControlPlane
from hanse.agent.cluster.kubernetes.slices import NUMA_NODE, PCIE_ROOT, SLICES_PATH
from hanse.model.devices import DeviceGroup
from hanse.model.resources import CPU, Resources

PATIENCE_S: Final = 60.0
NODE_S: Final = 0.1
LOOK_S: Final = 0.002
"""For each node that is listed."""

LOOK_EVERY_S: Final = 0.05
NODES: Final = "/api/v1/nodes"


@dataclass(frozen=True)
class Host:
    """A node to be made; `devices` are told by ResourceSlices, as drivers would."""

    name: str
    labels: Mapping[str, str]
    offers: Resources
    devices: tuple[DeviceGroup, ...] = ()


def quantities(amounts: Resources) -> dict[str, str]:
    """Resources as an API object holds them."""
    return {name: f"{amount}m" if name == CPU else str(amount) for name, amount in amounts.items()}


def add_nodes(plane: ControlPlane, hosts: Iterable[Host]) -> None:
    """Make nodes, and wait until they are ready and take pods."""
    made = {found["metadata"]["name"] for found in plane.call("GET", SLICES_PATH)["items"]}
    for host in hosts:
        for told in _slices(host):
            if told["metadata"]["name"] not in made:
                plane.call("POST", SLICES_PATH, told)
        plane.call("POST", NODES, _node(plane, host))
    wait_usable(plane)


def wait_usable(plane: ControlPlane) -> None:
    """Until every node is ready and without taints; many take longer, and are looked at less often."""
    begin_s = time.monotonic()
    while not all(map(_usable, found := nodes(plane))):
        assert time.monotonic() < begin_s + PATIENCE_S + len(found) * NODE_S, "the nodes do not become ready"
        time.sleep(LOOK_EVERY_S + len(found) * LOOK_S)


def nodes(plane: ControlPlane) -> list[dict[str, Any]]:
    """As the API server has them."""
    found: list[dict[str, Any]] = plane.call("GET", NODES)["items"]
    return found


def silence(plane: ControlPlane, name: str) -> None:
    """Its kubelet says nothing more, and its pods do nothing more; the control plane finds out by itself."""
    plane.call("PATCH", f"{NODES}/{name}", {"metadata": {"labels": {PLAYED[0]: None}}})


def fail(plane: ControlPlane, name: str) -> None:
    """The same, and the control plane has found out."""
    silence(plane, name)
    _set_ready(plane, name, "Unknown", "NodeStatusUnknown")


def unready(plane: ControlPlane, name: str) -> None:
    """Its kubelet said that it is not ready, and says nothing more; after NODE_SILENT_S that is found out."""
    silence(plane, name)
    _set_ready(plane, name, "False", "KubeletNotReady")


def _set_ready(plane: ControlPlane, name: str, status: str, reason: str) -> None:
    ready = {"type": "Ready", "status": status, "reason": reason, "message": "for a test"}
    patch = {"status": {"conditions": [ready]}}
    plane.call("PATCH", f"{NODES}/{name}/status", patch, form="application/strategic-merge-patch+json")


def restore(plane: ControlPlane, name: str) -> None:
    """It comes back, empty, and takes work."""
    metadata = {"labels": {PLAYED[0]: PLAYED[1]}}
    plane.call("PATCH", f"{NODES}/{name}", {"metadata": metadata, "spec": {"unschedulable": None, "taints": None}})


def _node(plane: ControlPlane, host: Host) -> dict[str, Any]:
    offers = quantities(host.offers)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": host.name, "labels": {**host.labels, PLAYED[0]: PLAYED[1]}},
        "status": {
            "capacity": offers,
            "allocatable": offers,
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": plane.log_port}},
        },
    }


def _slices(host: Host) -> Iterator[dict[str, Any]]:
    """A slice of its GPUs and one of its network interfaces; none for a host that does not tell."""
    for driver, kind in (("gpu.nvidia.com", "gpu"), ("dra.net", "nic")):
        near = [own for own in host.devices for _ in range(own.gpus if kind == "gpu" else own.nics)]
        devices = [
            {
                "name": f"{kind}-{at}",
                "attributes": {PCIE_ROOT: {"string": own.pcie}, NUMA_NODE: {"int": int(own.numa)}},
            }
            for at, own in enumerate(near)
        ]
        if devices:
            pool = {"name": host.name, "generation": 1, "resourceSliceCount": 1}
            yield {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": f"{host.name}-{kind}"},
                "spec": {"driver": driver, "nodeName": host.name, "pool": pool, "devices": devices},
            }


def _usable(node: Mapping[str, Any]) -> bool:
    conditions = {one["type"]: one["status"] for one in node["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")
