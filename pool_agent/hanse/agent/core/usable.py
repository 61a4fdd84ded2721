"""What the pods that come could use of hosts: the arithmetic below the fragmentation score (see `packing`).

Kinds of pods are columns, hosts are rows. A pod of one whole GPU is a share of 1000 thousandths, so what kinds up to
one device could use is a sum over devices, read from tables by what is left on each. Kinds of several devices look at
the number of wholly free ones. Every sum is of integers below 2**53, so floating point is exact in any order.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from hanse.agent.core.columns import Ints
from hanse.agent.core.demand import Typical
from hanse.model.resources import DEVICE_MILLI
from hanse.shape.lens import Refused, Table

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

REACH: Final = 3.0
HOLD: Final = 1.0
_UNBOUNDED: Final = 1e9  # pods, where a kind does not use a resource


class Usable:
    """Typical pods as arrays, over one class table.

    Args:
        devices: the most that a host has.

    Attributes:
        kinds: of pods, the columns.
        names: resources beside devices that some kind uses.
    """

    def __init__(self, typical: tuple[Typical, ...], table: Table, devices: int) -> None:
        ordered = [t for t in typical if t.gpus < 2] + [t for t in typical if t.gpus >= 2]
        small = sum(t.gpus < 2 for t in typical)
        self.kinds = len(ordered)
        self.names = sorted({name for t in ordered for name in t.rest})
        need = np.array([[t.rest[name] for t in ordered] for name in self.names], dtype=np.float64)
        need = need.reshape(len(self.names), len(ordered))
        self._need: Floats = np.maximum(need, 1.0)
        self._unbounded: Floats = np.where(need > 0, 0.0, _UNBOUNDED)
        self._small = small
        # One row more: that of hosts that take no pods, whose class is -1.
        self._weight: Floats = np.zeros((len(table.classes) + 1, len(ordered)))
        for column, t in enumerate(ordered):
            self._weight[:-1, column] = np.where(_accessible(t, table), t.weight, 0)
        milli = np.array([t.gpus * DEVICE_MILLI + t.milli for t in ordered], dtype=np.int64)
        self._hold: Floats = milli * np.float64(HOLD)
        left = np.arange(DEVICE_MILLI + 1)[:, None]
        self._device_reach: Floats = np.where(left >= milli[:small], REACH * left, 0.0)
        self._device_pods: Floats = np.floor(left / milli[:small])
        gpus = milli[small:] // DEVICE_MILLI
        whole = np.arange(devices + 1)[:, None]
        self._whole_reach: Floats = np.where(whole >= gpus, REACH * DEVICE_MILLI * whole, 0.0)
        self._whole_pods: Floats = (whole // gpus).astype(np.float64)

    def room(self, left: Floats) -> Floats:
        """By host and kind, pods that everything but the devices suffices for; `left` by host and resource."""
        pods = left[:, :, None] / self._need
        np.floor(pods, out=pods)
        pods += self._unbounded
        return np.asarray(pods.min(axis=1, initial=_UNBOUNDED))

    def reach(self, devices: Ints, whole: Ints) -> Floats:
        """By host and kind, thousandths times REACH on devices large enough for one pod.

        Args:
            devices: thousandths left, by host and device.
            whole: wholly free devices, by host.
        """
        return np.hstack((self._device_reach[devices].sum(axis=1), self._whole_reach[whole]))

    def pods(self, devices: Ints, whole: Ints) -> Floats:
        """By host and kind, pods that the devices suffice for."""
        return np.hstack((self._device_pods[devices].sum(axis=1), self._whole_pods[whole]))

    def changed(self, reach: Floats, pods: Floats, whole: Ints, left: Ints, after: Ints, times: int = 1) -> None:
        """Writes into `reach` and `pods` what they are once `times` devices have `after` left, and not `left`.

        Args:
            whole: wholly free devices afterwards.
        """
        small = self._small
        for out, by_device, by_whole in (
            (reach, self._device_reach, self._whole_reach),
            (pods, self._device_pods, self._whole_pods),
        ):
            out[:, :small] += times * (by_device[after] - by_device[left])
            out[:, small:] = by_whole[whole]

    def worth(self, reach: Floats, pods: Floats, room: Floats, number: Ints) -> Floats:
        """Usable thousandths, times WEIGHT and REACH + HOLD, of hosts of these classes."""
        worth = np.minimum(pods, room)
        worth *= self._hold
        worth += reach
        worth *= room >= 1
        worth *= self._weight[number]
        return np.asarray(worth.sum(axis=1))


def _accessible(t: Typical, table: Table) -> list[bool]:
    """By class, whether an empty host may hold such a pod."""
    if t.ask is None:
        return [cls.gpus >= t.gpus for cls in table.classes]
    rows = table.rows(t.ask)
    if isinstance(rows, Refused):
        return [False] * len(table.classes)
    return [any(row) for row in rows.rows]
