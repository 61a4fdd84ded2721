"""Which whole things a host would break: domains all of whose GPUs are free, level by level."""

import numpy as np

from hanse.agent.core.columns import Columns, Ints


class Wholes:
    """The domains of columns, by row and level. Levels at which all hosts are in one domain tell none apart."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        lows = np.repeat(np.arange(len(columns.starts) - 1), np.diff(columns.starts))
        self._low: Ints = lows.astype(np.int64)
        self._levels: list[Ints] = []
        depths = max([len(node.path) for node in columns.nodes], default=0)
        for depth in range(depths):
            numbers: dict[tuple[object, ...], int] = {}
            ids = [
                numbers.setdefault((node.tree, *node.path[: depth + 1]), len(numbers) + 1)
                if len(node.path) > depth
                else 0  # no domain of this level: nothing to break
                for node in columns.nodes
            ]
            if len(set(ids)) > 1:
                self._levels.append(np.array(ids, dtype=np.int64))

    @property
    def any(self) -> bool:
        """Whether some level tells hosts apart."""
        return bool(self._levels)

    def broken_by(self) -> Ints:
        """By row, how many whole domains a pod there would break."""
        columns = self._columns
        out: Ints = np.zeros(len(columns.nodes), dtype=np.int64)
        broken = (columns.number >= 0) & (columns.free < columns.full)
        for ids in self._levels:
            whole = np.bincount(ids, weights=broken) == 0
            whole[0] = False
            out += whole[ids]
        return out

    def whole_hosts_around(self) -> Ints:
        """By row, hosts of its lowest domain with GPUs, all of them free."""
        columns = self._columns
        whole = (columns.full > 0) & (columns.free == columns.full)
        return np.bincount(self._low, weights=whole).astype(np.int64)[self._low]
