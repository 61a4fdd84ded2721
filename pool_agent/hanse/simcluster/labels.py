"""Node labels in layers, so that 12,000 nodes do not each own a dict of thirty entries."""

from collections.abc import Iterator, Mapping
from typing import Final

HOSTNAME: Final = "kubernetes.io/hostname"


class LayeredLabels(Mapping[str, str]):
    """Labels of one node: its domains and host name over what its group shares. Immutable.

    Attributes:
        shared: labels of all nodes of the group; an own label of the same key wins.
    """

    __slots__ = ("_keys", "_name", "_values", "shared")

    def __init__(self, shared: Mapping[str, str], keys: tuple[str, ...], values: tuple[str, ...], name: str) -> None:
        self.shared = shared
        self._keys = keys
        self._values = values
        self._name = name

    def __getitem__(self, key: str) -> str:
        if key in self._keys:
            return self._own(self._keys.index(key))
        if key == HOSTNAME:
            return self._name
        return self.shared[key]

    def _own(self, position: int) -> str:
        return self._name if self._keys[position] == HOSTNAME else self._values[position]

    def own(self) -> dict[str, str]:
        """The labels that are not shared."""
        pairs = {key: self._own(position) for position, key in enumerate(self._keys)}
        return {**pairs, HOSTNAME: self._name}

    def __iter__(self) -> Iterator[str]:
        own = self.own()
        yield from own
        yield from (key for key in self.shared if key not in own)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self) == dict(other)

    def __hash__(self) -> int:
        return hash((self._name, self._values))
