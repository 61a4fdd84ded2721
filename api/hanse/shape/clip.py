"""Making a shape fit into a summary, by showing less than there is.

Clipping only ever rounds capacity down, so a yes on a clipped shape stays a yes; a no is wrong by at most the hosts
that `clipped_hosts` counts. Steps, each only if the one before was not enough: rare host classes go; free GPUs are
rounded down to a quarter of a host, to a half, to all or nothing (domains become alike and fold); lowest domains
with the fewest free GPUs go. A pool of 5,000 hosts that differ in every way needs the first of them, if any.
"""

from collections.abc import Callable
from typing import Final

from hanse.shape.codec import table_bytes, written
from hanse.shape.domains import Branch, Leaf, Node, branch, leaf
from hanse.shape.lens import Table
from hanse.shape.limits import SUMMARY_BYTES_MAX
from hanse.shape.shape import Group, Shape

TABLE_BYTES_MAX: Final = SUMMARY_BYTES_MAX // 2
_PARTS: Final = (4, 2, 1)  # of a host that can be told apart, step by step


def encode(shape: Shape) -> bytes:
    """The bytes of a shape, at most SUMMARY_BYTES_MAX; clipped if need be, and then marked so."""
    data = written(shape)
    return data if len(data) <= SUMMARY_BYTES_MAX else written(clipped(shape))


def clipped(shape: Shape) -> Shape:
    """The most telling shape that fits into a summary."""
    shape = _without_rare_classes(shape)
    for parts in _PARTS:
        rounded = _each_leaf(shape, lambda low, parts=parts: _rounded(low, shape.table, parts))  # type: ignore[misc]
        if len(written(rounded)) <= SUMMARY_BYTES_MAX:
            return rounded
    ranked = sorted({_gpus(low) for low in _leaves(rounded)})  # by the coarsest rounding, which has failed too
    low, high = 0, len(ranked)
    while low < high:
        middle = (low + high) // 2
        if len(written(_richest(shape, ranked[middle]))) <= SUMMARY_BYTES_MAX:
            high = middle
        else:
            low = middle + 1
    return _richest(shape, ranked[low] if low < len(ranked) else ranked[-1] + 1)


def _each_leaf(shape: Shape, change: Callable[[Leaf], tuple[Leaf, int]]) -> Shape:
    """The shape with every lowest domain changed; `change` also says how many hosts show less than before."""
    lost = 0

    def follow(node: Node, copies: int) -> Node:
        nonlocal lost
        if isinstance(node, Leaf):
            after, hosts = change(node)
            lost += hosts * copies
            return after
        return branch([(follow(kid, copies * n), n) for kid, n in node.kids])

    groups: list[Group] = []
    for group in shape.groups:
        root = follow(group.root, 1)
        assert isinstance(root, Branch)
        groups.append(Group(group.levels, root))
    return Shape(tuple(groups), shape.table, shape.clipped_hosts + lost)


def _rounded(low: Leaf, table: Table, parts: int) -> tuple[Leaf, int]:
    counts: dict[tuple[int, int], int] = {}
    lost = 0
    for c, free, hosts in low.bins:
        full = table.classes[c].gpus
        shown = free if free == full or full < parts else free * parts // full * full // parts
        counts[c, shown] = counts.get((c, shown), 0) + hosts
        lost += hosts if shown < free else 0
    return leaf(counts), lost


def _gpus(low: Leaf) -> int:
    return sum([free * hosts for _, free, hosts in low.bins])


def _leaves(shape: Shape) -> list[Leaf]:
    def below(node: Node) -> list[Leaf]:
        return [node] if isinstance(node, Leaf) else [low for kid, _ in node.kids for low in below(kid)]

    return [low for group in shape.groups for low in below(group.root)]


def _richest(shape: Shape, least: int) -> Shape:
    """Only the lowest domains with at least so many GPUs on wholly free hosts."""

    def keep(low: Leaf) -> tuple[Leaf, int]:
        coarse, lost = _rounded(low, shape.table, _PARTS[-1])
        return (coarse, lost) if _gpus(coarse) >= least else (leaf({}), low.hosts)

    return _each_leaf(shape, keep)


def _without_rare_classes(shape: Shape) -> Shape:
    """The classes with the most hosts, as many as a table has room for."""
    if len(table_bytes(shape.table)) <= TABLE_BYTES_MAX:
        return shape
    hosts = [0] * len(shape.table.classes)

    def weigh(node: Node, copies: int) -> None:
        if isinstance(node, Leaf):
            for c, _, n in node.bins:
                hosts[c] += n * copies
        else:
            for kid, n in node.kids:
                weigh(kid, copies * n)

    for group in shape.groups:
        weigh(group.root, 1)
    common = sorted(range(len(hosts)), key=lambda c: (-hosts[c], c))
    kept = sorted(common[: _room(shape.table, common)])
    number = {c: i for i, c in enumerate(kept)}
    # Labels of the classes that go are left out, so a selector on them stays a "maybe".
    classes = tuple([shape.table.classes[c] for c in kept])
    table = Table(classes, frozenset(), True)

    def renumber(low: Leaf) -> tuple[Leaf, int]:
        counts = {(number[c], free): n for c, free, n in low.bins if c in number}
        return leaf(counts), sum([n for c, _, n in low.bins if c not in number])

    smaller = _each_leaf(shape, renumber)
    return Shape(smaller.groups, table, smaller.clipped_hosts)


def _room(table: Table, common: list[int]) -> int:
    """How many of the classes, the most common first, fit into TABLE_BYTES_MAX."""
    for many in range(len(common), 0, -1):
        classes = tuple([table.classes[c] for c in sorted(common[:many])])
        if len(table_bytes(Table(classes, frozenset(), True))) <= TABLE_BYTES_MAX:
            return many
    return 0
