"""The tree of a shape: immutable, canonical, shared.

A lowest domain (`Leaf`) is a histogram: how many hosts of which class have how many free GPUs. Every other domain
(`Branch`) is a list of different children with the number of equal copies of each. Children are kept in the order of
their keys, and a key is the content written down, so equal content is equal bytes and every shape has one form. A
change copies only the path from its leaf to the root; what did not change keeps what was computed about it, and so
does what comes back: lately made domains of equal content are one object.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Union

from hanse.shape.varint import put

if TYPE_CHECKING:
    from hanse.shape.capacity import Cap
    from hanse.shape.lens import Lens

Bin = tuple[int, int, int]  # class, free GPUs, hosts
MEMO_LENSES_MAX: Final = 48
_LEAVES_KEPT_MAX: Final = 100_000
_BRANCHES_KEPT_MAX: Final = 4_096


class Leaf:
    """A lowest domain: its bins in the order of (class, free GPUs), no bin without hosts."""

    __slots__ = ("bins", "hosts", "key", "memo")

    def __init__(self, bins: tuple[Bin, ...], key: bytes) -> None:
        self.bins = bins
        self.key = key
        self.hosts: int = sum([b[2] for b in bins])
        self.memo: dict[Lens, Cap] = {}


class Branch:
    """A domain of domains: (child, copies) in the order of the children's keys."""

    __slots__ = ("hosts", "key", "kids", "memo")

    def __init__(self, kids: "tuple[tuple[Node, int], ...]", key: bytes) -> None:
        self.kids = kids
        self.key = key
        self.hosts: int = sum([kid.hosts * copies for kid, copies in kids])
        self.memo: dict[Lens, Cap] = {}


Node = Union[Leaf, Branch]  # noqa: UP007 - a name that can be used before both exist

_leaves: dict[bytes, Leaf] = {}  # equal leaves are one object, so that what was computed about one serves all
_branches: dict[bytes, Branch] = {}


def leaf(counts: dict[tuple[int, int], int]) -> Leaf:
    """The leaf with so many hosts for each (class, free GPUs)."""
    bins = tuple(sorted((c, free, hosts) for (c, free), hosts in counts.items() if hosts))
    key = b"L" + put(len(bins)) + b"".join([put(c) + put(free) + put(hosts) for c, free, hosts in bins])
    found = _leaves.get(key)
    if found is None:
        if len(_leaves) >= _LEAVES_KEPT_MAX:
            _leaves.clear()
        found = _leaves[key] = Leaf(bins, key)
    return found


def branch(kids: Iterable[tuple[Node, int]]) -> Branch:
    """The domain with these children; equal ones are folded, empty ones dropped."""
    folded: dict[bytes, tuple[Node, int]] = {}
    for kid, copies in kids:
        if copies and kid.hosts:
            had = folded.get(kid.key)
            folded[kid.key] = (kid, copies if had is None else had[1] + copies)
    ordered = tuple([folded[key] for key in sorted(folded)])
    key = b"D" + put(len(ordered)) + b"".join([put(copies) + kid.key for kid, copies in ordered])
    found = _branches.get(key)
    if found is None:
        if len(_branches) >= _BRANCHES_KEPT_MAX:
            _branches.clear()
        found = _branches[key] = Branch(ordered, key)
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
