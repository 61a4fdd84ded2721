"""GPUs of one node that share something: a NUMA node, a PCIe root or switch, perhaps with a network interface.

A node may tell its groups (`NodeFacts.devices`). A pod that asks for devices of one group is charged to the group
that was chosen for it: which one is remembered like the device of a share (`OnDevice`), as a number of its kind. A
node that tells none cannot meet such a wish.

Which devices other pods have is not known, whether they are not ours or have no such wish, nor which devices broke.
They count against every group, so that a group has what it is said to have wherever they are. A pod in a NUMA node
counts in the same way against every PCIe root there. So what is left follows from the pods that are held alone.

A network interface is not used up: it is there or not. What counts interfaces is a resource, such as `rdma/hca`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hanse.agent.core.devices import UNKNOWN, OnDevice
from hanse.model.devices import DeviceGroup
from hanse.model.job import Devices
from hanse.model.reasons import Reason
from hanse.model.resources import Resources
from hanse.shape.refuse import NoFit

FIRST_NUMBER: Final = {"numa": 1_000, "pcie": 2_000}
"""Of the groups of each kind, in the order of their names; below are devices that carry shares."""

_NEAR: Final = 0.15  # of a refusal that free capacity does not change, as for resources that no host offers


@dataclass(frozen=True, slots=True)
class Room:
    """One group of a node: its number, the GPUs that are left in it for certain, and its network interfaces."""

    number: int
    gpus: int
    nics: int = 0


def charged(pods: Iterable[tuple[Resources, int]]) -> dict[int, int]:
    """GPUs by number of the group, of pods by what one of them uses."""
    out: dict[int, int] = {}
    for uses, count in pods:
        if isinstance(uses, OnDevice) and uses.device >= min(FIRST_NUMBER.values()):
            out[uses.device] = out.get(uses.device, 0) + uses.gpus * count
    return out


def rooms(devices: Sequence[DeviceGroup], wish: Devices, held: Mapping[int, int], others: int) -> list[Room]:
    """The groups that a wish may mean, by number.

    Args:
        held: see `charged`.
        others: GPUs that are used or broken, nobody knows in which group.
    """
    numbers = {kind: _numbers(devices, kind) for kind in FIRST_NUMBER}
    left: dict[int, int] = {}
    nics: dict[int, int] = {}
    for own in devices:
        number = numbers[wish.kind].get(own.named(wish.kind))
        if number is not None:
            left[number] = left.get(number, 0) + own.gpus
            nics[number] = nics.get(number, 0) + own.nics
    for number in left:
        around = _touching(devices, numbers, wish.kind, number)
        left[number] -= others + held.get(number, 0) + sum(held.get(other, 0) for other in around)
    return [Room(n, max(0, gpus), nics[n]) for n, gpus in sorted(left.items()) if nics[n] or not wish.nic]


def _numbers(devices: Sequence[DeviceGroup], kind: str) -> dict[str, int]:
    names = sorted({own.named(kind) for own in devices} - {""})
    return {name: FIRST_NUMBER[kind] + at for at, name in enumerate(names)}


def _touching(
    devices: Sequence[DeviceGroup], numbers: Mapping[str, Mapping[str, int]], kind: str, number: int
) -> set[int]:
    """Groups of the other kinds that may have devices of this one."""
    inside = [own for own in devices if numbers[kind].get(own.named(kind)) == number]
    others = [(other, own.named(other)) for own in inside for other in FIRST_NUMBER if other != kind]
    return {numbers[other][name] for other, name in others if name}


def pods_in(found: Sequence[Room], gpus: int) -> int:
    """Pods of so many GPUs that the groups hold."""
    return sum(room.gpus // gpus for room in found)


def shared_out(found: Sequence[Room], gpus: int, pods: int) -> list[int]:
    """The number of the group for each of the pods: the tightest that holds one, UNKNOWN where none does.

    Of equal ones, those with fewer network interfaces go first: others may ask for these.
    """
    left = {room.number: room.gpus for room in found}
    out: list[int] = []
    for _ in range(pods):
        holding = [(left[room.number], room.nics, room.number) for room in found if left[room.number] >= gpus]
        number = min(holding)[2] if holding else UNKNOWN
        out.append(number)
        if holding:
            left[number] -= gpus
    return out


def words(wish: Devices) -> str:
    """`pcie group with a nic`."""
    return f"{wish.kind} group{' with a nic' if wish.nic else ''}"


def refuse_groups(offered: Iterable[Sequence[DeviceGroup]], wish: Devices, gpus: int, flavor: str) -> NoFit | None:
    """Why no host could ever meet a wish, whatever is free on it; None if some host could.

    Args:
        offered: by host that may take such pods, its groups.
    """
    known = False
    for devices in offered:
        known = known or any(own.named(wish.kind) for own in devices)
        if pods_in(rooms(devices, wish, {}, 0), gpus):
            return None
    if not known:
        told = f"no host of flavor {flavor} says which of its GPUs share a {wish.kind} group"
        return NoFit(Reason.RESOURCES, f"hosts whose {wish.kind} groups are known", 1, 0, told, _NEAR)
    told = f"no host of flavor {flavor} has {gpus} GPUs in one {words(wish)}"
    return NoFit(Reason.RESOURCES, f"hosts with {gpus} GPUs in one {words(wish)}", 1, 0, told, _NEAR)
