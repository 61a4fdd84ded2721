"""Device groups from ResourceSlices: what is read, and when it is believed."""

import json
from pathlib import Path
from typing import Any

import pytest

from hanse.agent.cluster.kubernetes.mirror import Mirror
from hanse.agent.cluster.kubernetes.objects import SLICE, SliceObject
from hanse.agent.cluster.kubernetes.slices import NUMA_NODE, PCIE_ROOT, SLICES_PATH, Slices
from hanse.agent.cluster.kubernetes.watching import is_served
from hanse.agent.cluster.port import ClusterUnavailable
from hanse.model.devices import DeviceGroup
from hanse.model.ids import NodeName
from tests.unit.agent_cluster.api_server import serving, whole
from tests.unit.agent_cluster.objects import FEDERATION, node

N0 = NodeName("n0")


def device(root: str, numa: int | None, **more: str) -> dict[str, Any]:
    attributes: dict[str, Any] = {name: {"string": text} for name, text in more.items()}
    attributes |= {PCIE_ROOT: {"string": root}} if root else {}
    attributes |= {NUMA_NODE: {"int": numa}} if numa is not None else {}
    return {"name": "d", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


def told(
    name: str,
    *devices: dict[str, Any],
    driver: str = "gpu.nvidia.com",
    on: str = "n0",
    generation: int = 1,
    slices: int = 1,
) -> SliceObject:
    pool = {"name": on, "generation": generation, "resourceSliceCount": slices}
    spec = {"driver": driver, "nodeName": on, "pool": pool, "devices": list(devices)}
    return SLICE.decode(json.dumps({"metadata": {"name": name}, "spec": spec}))


GPUS = [device("pci0000:00", 0, type="gpu"), device("pci0000:00", 0, type="gpu"), device("pci0000:80", 1, type="gpu")]
NIC = device("pci0000:00", 0)


def test_devices_count_with_those_of_the_same_root() -> None:
    slices = Slices()
    assert slices.set(told("a", *GPUS)) == {N0}
    assert slices.set(told("b", NIC, driver="dra.net")) == {N0}
    assert slices.groups(N0) == (DeviceGroup("0", "pci0000:00", 2, 1), DeviceGroup("1", "pci0000:80", 1))
    assert slices.drop("b") == {N0}
    assert [group.nics for group in slices.groups(N0)] == [0, 0]
    assert slices.drop("a") == {N0}
    assert slices.groups(N0) == ()


def test_what_is_no_whole_gpu_of_one_node_is_left_out() -> None:
    slices = Slices()
    assert slices.set(told("claims", device("", None), driver="compute-domain.nvidia.com")) == set()
    assert slices.set(told("all", *GPUS, on="")) == set()
    slices.set(told("a", GPUS[0], device("pci0000:00", 0, type="mig")))
    assert slices.groups(N0) == (DeviceGroup("0", "pci0000:00", 1),)


def test_a_pool_is_believed_once_all_of_its_newest_slices_are_there() -> None:
    slices = Slices()
    slices.set(told("a", GPUS[0]))
    slices.set(told("b", GPUS[1], generation=2, slices=2))
    assert slices.groups(N0) == ()
    slices.set(told("c", GPUS[2], generation=2, slices=2))
    assert [group.gpus for group in slices.groups(N0)] == [1, 1]


def test_a_node_is_told_anew_when_its_devices_are() -> None:
    mirror = Mirror(FEDERATION)
    mirror.set_slice(told("a", *GPUS))
    mirror.set_node(node(), 0.0)
    assert [group.gpus for group in mirror.nodes[N0].devices] == [2, 1]
    mirror.changed_nodes.clear()
    mirror.set_slice(told("a", *GPUS))
    mirror.set_slice(told("x", *GPUS, on="unknown"))
    assert not mirror.changed_nodes
    mirror.drop_slice("a")
    assert mirror.nodes[N0].devices == ()
    assert list(mirror.changed_nodes) == [N0]


@pytest.mark.parametrize(("status", "served"), [(200, True), (404, False), (403, False)])
async def test_a_server_without_slices_tells_of_no_groups(tmp_path: Path, status: int, served: bool) -> None:
    async with serving(tmp_path, whole({"code": status, "message": "no"}, status)) as (api, _):
        assert (await is_served(api, SLICES_PATH) == "") is served


async def test_a_server_that_fails_is_asked_again(tmp_path: Path) -> None:
    async with serving(tmp_path, whole({"code": 500, "message": "no"}, 500)) as (api, _):
        with pytest.raises(ClusterUnavailable):
            await is_served(api, SLICES_PATH)
