"""The shapes of all pools as one cycle changes them, each worked out when it is first asked for."""

from collections.abc import Iterable, Iterator, Mapping

from hanse.model.ids import PoolName
from hanse.scheduler.core.snapshot import PoolView
from hanse.shape import Shape


class Shapes(Mapping[PoolName, Shape]):
    """The planning shapes of those pools that have one."""

    def __init__(self, pools: Iterable[PoolView]) -> None:
        self._planned = {pool.name: pool.planned for pool in pools if pool.planned is not None}
        self._changed: dict[PoolName, Shape] = {}

    def __getitem__(self, pool: PoolName) -> Shape:
        changed = self._changed.get(pool)
        return self._planned[pool].shape() if changed is None else changed

    def __setitem__(self, pool: PoolName, shape: Shape) -> None:
        """The cycle has taken from the pool."""
        self._changed[pool] = shape

    def __iter__(self) -> Iterator[PoolName]:
        return iter(self._planned)

    def __len__(self) -> int:
        return len(self._planned)

    def __contains__(self, pool: object) -> bool:
        return pool in self._planned

    def bounds(self) -> Mapping[PoolName, Shape]:
        """Of every pool a shape that holds whatever its own one holds, and costs nothing.

        It depends on the snapshot and on what the cycle has taken, not on what has been asked for.
        """
        return {name: planned.bound for name, planned in self._planned.items()} | self._changed
