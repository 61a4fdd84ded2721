"""Shares of a GPU, device by device.

A host's devices that are shared are numbered from 0, the lowest number that is free for each that is opened; devices
that whole pods hold, and those nobody holds, have no number. So a share needs either an opened device with so much
left, or one that nobody holds, and the only thing that has to be remembered is the number of each pod's device.

What a pod uses then says which device it means (`OnDevice`), and holding, giving back and counting go the way of
every other resource. The number is kept in the gang's record. Where a record does not say it, the device is chosen
again by the rule for pods that no score has placed: the opened one with the least left that suffices, else a new one.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from hanse.model.resources import DEVICE_MILLI, GPU_MILLI, Resources

UNKNOWN: Final = -1


class OnDevice(Resources):
    """What a pod uses of its node, its share being of this device, or its GPUs in this group of devices (`groups`).
    Different for different devices."""

    __slots__ = ("device",)

    def __init__(self, uses: Resources, device: int) -> None:
        super().__init__(uses)
        self.device = device

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OnDevice) and other.device == self.device and dict.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:  # type: ignore[override]
        return hash((self.device, super().__hash__()))

    def __repr__(self) -> str:
        return f"OnDevice({dict(self)!r}, {self.device})"

    def __reduce__(self) -> tuple[type[Resources], tuple[object, ...]]:  # type: ignore[override]
        return OnDevice, (Resources(self), self.device)


def opened(pods: Mapping[Resources, int]) -> dict[int, int]:
    """Thousandths used by device, of pods by what one of them uses."""
    used: dict[int, int] = {}
    for uses, count in pods.items():
        if isinstance(uses, OnDevice) and GPU_MILLI in uses:
            used[uses.device] = used.get(uses.device, 0) + uses[GPU_MILLI] * count
    return used


def room(used: Mapping[int, int], untouched: int) -> list[int]:
    """Thousandths left on each device that has any, the opened ones first, least left first."""
    left = sorted([DEVICE_MILLI - u for u in used.values() if u < DEVICE_MILLI])
    return left + [DEVICE_MILLI] * untouched


def unopened(used: Mapping[int, int]) -> int:
    """The number of the next device to open."""
    return next(n for n in range(len(used) + 1) if n not in used)


def tightest(used: Mapping[int, int], milli: int) -> int:
    """The opened device with the least left that holds the share, the lowest of equal ones; else a new one."""
    fitting = [(DEVICE_MILLI - u, n) for n, u in used.items() if DEVICE_MILLI - u >= milli]
    return min(fitting)[1] if fitting else unopened(used)


def with_left(used: Mapping[int, int], left: int) -> int:
    """The lowest opened device that has exactly so much left; a new one for a whole device."""
    return min([n for n, u in used.items() if DEVICE_MILLI - u == left], default=unopened(used))


def chosen(used: Mapping[int, int], milli: int, said: Iterable[int]) -> list[int]:
    """The devices that a record tells of, those it does not know (`UNKNOWN`) chosen beside the others."""
    devices = list(said)
    after = dict(used)
    for device in devices:
        if device != UNKNOWN:
            after[device] = after.get(device, 0) + milli
    return [_opened_for(after, milli) if device == UNKNOWN else device for device in devices]


def _opened_for(used: dict[int, int], milli: int) -> int:
    """The next device by `tightest`, counted as used."""
    device = tightest(used, milli)
    used[device] = used.get(device, 0) + milli
    return device
