"""The tree of a shape: immutable, canonical, shared.

A lowest domain (`Leaf`) is a histogram: how many hosts of which class have how many free GPUs. Every other domain
(`Branch`) is a list of different children with the number of equal copies of each. Children are kept in the order of
their keys, and a key is the content written down, so equal content is equal bytes and every shape has one form. A
change copies only the path from its leaf to the root; what did not change keeps what was computed about it, and so
does what comes back: lately made domains of equal content are one object.

A domain of lowest domains also has its bins as arrays (`Bins`), so that the capacity of thousands of hosts is a few
operations on arrays, whatever a request asks for.
"""

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, Union

import numpy as np
from numpy.typing import NDArray

from hanse.shape.limits import GPUS_PER_HOST_MAX
from hanse.shape.varint import ONE_BYTE_MAX, put

if TYPE_CHECKING:
    from hanse.shape.capacity import Cap
    from hanse.shape.lens import Lens

Bin = tuple[int, int, int]  # class, free GPUs, hosts
Ints = NDArray[np.int64]
CLASS_STRIDE: Final = GPUS_PER_HOST_MAX + 1
MEMO_LENSES_MAX: Final = 48
_LEAVES_KEPT_MAX: Final = 100_000
_BRANCHES_KEPT_MAX: Final = 4_096


class Leaf:
    """A lowest domain: its bins in the order of (class, free GPUs), no bin without hosts."""

    __slots__ = ("_packed", "bins", "hosts", "key", "memo")

    def __init__(self, bins: tuple[Bin, ...], key: bytes) -> None:
        self.bins = bins
        self.key = key
        self.hosts: int = sum([b[2] for b in bins])
        self.memo: dict[Lens, Cap] = {}
        self._packed: bytes | None = None

    @property
    def packed(self) -> bytes:
        """Pairs of 64 bits: the number of a bin (see `bin_number`), its hosts."""
        if self._packed is None:
            self._packed = array("q", [x for c, free, n in self.bins for x in (c * CLASS_STRIDE + free, n)]).tobytes()
        return self._packed


class Bins(NamedTuple):
    """The bins of all lowest domains below a domain, one after the other, as arrays.

    Attributes:
        numbers: of each bin, class and free GPUs in one (see `bin_number`).
        hosts: of each bin, in one copy of its lowest domain.
        sizes: bins of each lowest domain.
        copies: of each lowest domain, as its parent counts them.
        all_hosts: of each bin, in all copies of its lowest domain.
    """

    numbers: Ints
    hosts: Ints
    sizes: Ints
    copies: Ints
    all_hosts: Ints


class Branch:
    """A domain of domains: (child, copies) in the order of the children's keys."""

    __slots__ = ("_bins", "hosts", "key", "kids", "memo")

    def __init__(self, kids: "tuple[tuple[Node, int], ...]", key: bytes) -> None:
        self.kids = kids
        self.key = key
        self.hosts: int = sum([kid.hosts * copies for kid, copies in kids])
        self.memo: dict[Lens, Cap] = {}
        self._bins: Bins | None = None

    @property
    def bins(self) -> Bins:
        """Of a domain whose children are lowest domains: what they are made of."""
        if self._bins is None:
            raw = b"".join([kid.packed for kid, _ in self.kids])  # type: ignore[union-attr]
            pairs = np.ascontiguousarray(np.frombuffer(raw, dtype=np.int64).reshape(-1, 2).T)
            sizes = np.array([len(kid.bins) for kid, _ in self.kids], dtype=np.int64)
            copies = np.array([copies for _, copies in self.kids], dtype=np.int64)
            self._bins = Bins(pairs[0], pairs[1], sizes, copies, pairs[1] * np.repeat(copies, sizes))
        return self._bins


Node = Union[Leaf, Branch]  # noqa: UP007 - a name that can be used before both exist

_leaves: dict[bytes, Leaf] = {}  # equal leaves are one object, so that what was computed about one serves all
_branches: dict[bytes, Branch] = {}


def bin_number(c: int, free: int) -> int:
    """Class and free GPUs in one number."""
    return c * CLASS_STRIDE + free


def leaf(counts: dict[tuple[int, int], int]) -> Leaf:
    """The leaf with so many hosts for each (class, free GPUs)."""
    bins = tuple(sorted((c, free, hosts) for (c, free), hosts in counts.items() if hosts))
    key = _leaf_key(bins)
    found = _leaves.get(key)
    if found is None:
        if len(_leaves) >= _LEAVES_KEPT_MAX:
            _leaves.clear()
        found = _leaves[key] = Leaf(bins, key)
    return found


def _leaf_key(bins: tuple[Bin, ...]) -> bytes:
    flat = [len(bins), *[x for entry in bins for x in entry]]
    if max(flat) < ONE_BYTE_MAX:
        return b"L" + bytes(flat)
    return b"L" + b"".join([put(x) for x in flat])


def branch(kids: Iterable[tuple[Node, int]]) -> Branch:
    """The domain with these children; equal ones are folded, empty ones dropped."""
    folded: dict[bytes, tuple[Node, int]] = {}
    for kid, copies in kids:
        if copies and kid.hosts:
            had = folded.get(kid.key)
            folded[kid.key] = (kid, copies if had is None else had[1] + copies)
    return branch_of(folded)


def branch_of(kids: "dict[bytes, tuple[Node, int]]") -> Branch:
    """The domain with these children by their keys; none is empty."""
    return _branch([kids[key] for key in sorted(kids)])


def _branch(ordered: "list[tuple[Node, int]]") -> Branch:
    key = b"D" + put(len(ordered)) + b"".join([put(copies) + kid.key for kid, copies in ordered])
    found = _branches.get(key)
    if found is None:
        if len(_branches) >= _BRANCHES_KEPT_MAX:
            _branches.clear()
        found = _branches[key] = Branch(tuple(ordered), key)
    return found


def census(node: Node) -> dict[tuple[int, int], int]:
    """Hosts of the whole subtree by (class, free GPUs)."""
    if isinstance(node, Leaf):
        return {(c, free): hosts for c, free, hosts in node.bins}
    total: dict[tuple[int, int], int] = {}
    for kid, copies in node.kids:
        for at, hosts in census(kid).items():
            total[at] = total.get(at, 0) + hosts * copies
    return total
