"""The tree of a shape: immutable, canonical, shared.

A lowest domain (`Leaf`) is a histogram: how many hosts of which class have how many free GPUs. Every other domain
(`Branch`) is a list of different children with the number of equal copies of each. Children are kept in the order of
their keys, and a key is the content written down, so equal content is equal bytes and every shape has one form. A
change copies only the path from its leaf to the root; what did not change keeps what was computed about it, and so
does what comes back: lately made domains of equal content are one object.

A domain also keeps what is below it in a form that is arrays at a stroke (`levels`), so that the capacity of
thousands of hosts is a few operations on arrays, whatever a request asks for.
"""

from array import array
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Final, Union

from hanse.shape.levels import Levels, Packed, around, counted, unpacked
from hanse.shape.varint import ONE_BYTE_MAX, put

if TYPE_CHECKING:
    from hanse.shape.capacity import Cap
    from hanse.shape.lens import Lens

Bin = tuple[int, int, int]  # class, free GPUs, hosts
_LEAVES_KEPT_MAX: Final = 100_000
_BRANCHES_KEPT_MAX: Final = 4_096


class Leaf:
    """A lowest domain: its bins in the order of (class, free GPUs), no bin without hosts."""

    __slots__ = ("bins", "hosts", "key", "narrow")

    def __init__(self, bins: tuple[Bin, ...], key: bytes) -> None:
        self.bins = bins
        self.key = key
        self.hosts: int = sum([b[2] for b in bins])
        self.narrow: bytes | None = key[2:] if len(key) == 2 + 3 * len(bins) else None  # see `Packed.bins`

    @property
    def wide(self) -> bytes:
        """See `Packed.bins`."""
        return array("q", [x for entry in self.bins for x in entry]).tobytes()


class Branch:
    """A domain of domains: (child, copies) in the order of the children's keys.

    Attributes:
        memo: what was seen of it as the root of a group, by lens.
    """

    __slots__ = ("_levels", "_packed", "hosts", "key", "kids", "memo")

    def __init__(self, kids: "tuple[tuple[Node, int], ...]", key: bytes) -> None:
        self.kids = kids
        self.key = key
        self.hosts: int = sum([kid.hosts * copies for kid, copies in kids])
        self.memo: dict[Lens, Cap] = {}
        self._packed: Packed | None = None
        self._levels: Levels | None = None

    @property
    def packed(self) -> Packed:
        """What is below it, in order, ready to be joined with what its neighbours hold."""
        if self._packed is None:
            self._packed = self._pack()
        return self._packed

    @property
    def levels(self) -> Levels:
        """What is below it, as arrays; it must have children."""
        if self._levels is None:
            self._levels = unpacked(self.packed)
        return self._levels

    def _pack(self) -> Packed:
        copies = [n for _, n in self.kids]
        lows = [kid for kid, _ in self.kids if isinstance(kid, Leaf)]
        if not lows:
            return around([kid.packed for kid, _ in self.kids if isinstance(kid, Branch)], copies)
        narrow = [low.narrow for low in lows if low.narrow is not None]
        every = len(narrow) == len(lows)
        bins = b"".join(narrow if every else [low.wide for low in lows])
        kids = (counted([len(lows)]), counted([len(low.bins) for low in lows]))
        return Packed(bins, every, kids, (counted(copies),) if max(copies) > 1 else ())


Node = Union[Leaf, Branch]  # noqa: UP007 - a name that can be used before both exist

_leaves: dict[bytes, Leaf] = {}  # equal leaves are one object, so that what was computed about one serves all
_branches: dict[bytes, Branch] = {}


def leaf(counts: dict[tuple[int, int], int]) -> Leaf:
    """The leaf with so many hosts for each (class, free GPUs)."""
    bins = sorted([(c, free, hosts) for (c, free), hosts in counts.items() if hosts])
    key = _leaf_key(bins)
    found = _leaves.get(key)
    if found is None:
        if len(_leaves) >= _LEAVES_KEPT_MAX:
            _leaves.clear()
        found = _leaves[key] = Leaf(tuple(bins), key)
    return found


def _leaf_key(bins: list[Bin]) -> bytes:
    flat = [len(bins), *chain.from_iterable(bins)]
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
    keys = sorted(kids)
    return branch_in_order([kids[key] for key in keys], [piece(key, kids[key][1]) for key in keys])


def piece(key: bytes, copies: int) -> bytes:
    """What a child adds to the key of its parent."""
    return put(copies) + key


def branch_in_order(ordered: "list[tuple[Node, int]]", pieces: list[bytes]) -> Branch:
    """The domain with these children in the order of their keys, none empty, and the piece of each."""
    key = b"D" + put(len(ordered)) + b"".join(pieces)
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
