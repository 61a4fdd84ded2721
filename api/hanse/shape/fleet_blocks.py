"""A node group's tree as a `Block` of columns; what lies under equal parents is taken from the block before."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from hanse.shape.domains import CLASS_STRIDE, Branch, Leaf
from hanse.shape.fleet_rows import EXTRA, NARROW_MAX, SLOTS, Block, Cells, Inner

Before = tuple[Block, Mapping[bytes, int]]
_COUNTED: Final = np.int32


class Frame(NamedTuple):
    """How hosts of one table are told apart for one flavor.

    Attributes:
        layer: by class of the table, its class layer; -1 for another flavor.
        gpus: by class of the table.
        layers, full: class layers, and the most GPUs of a host of the flavor.
    """

    layer: Cells
    gpus: Cells
    layers: int
    full: int


class _Outline(NamedTuple):
    """Inner domains by depth (copies, index of the first child), the parents of lowest domains, and their columns."""

    copies: list[list[int]]
    first: list[list[int]]
    parents: list[Branch]
    widths: list[int]
    starts: list[int]


def block(
    root: Branch, depth: int, padded: int, frame: Frame, before: Before | None
) -> tuple[Block, Mapping[bytes, int]]:
    """The group's tree with `depth` levels, and the first column of each parent of lowest domains, by its key.

    Args:
        padded: levels of the block; those it has more are trivial ones on top.
        before: an earlier state of the group under the same frame.
    """
    lines = _outline(root, depth, padded - depth)
    hosts, copies, whole = _columns(lines, frame, before)
    inner = _inner(lines, np.where(copies > 0, whole, 1).min(axis=0))
    top = (hosts[1:, : frame.full + 1] > 0).any(axis=(2, 3)).sum(axis=1) - 1
    parents = dict(zip([parent.key for parent in lines.parents], lines.starts, strict=True))
    blended = bool(((hosts[1:, 0] > 0).sum(axis=0) > 1).any())
    return Block(hosts, copies, whole, *_times(lines), inner, top, blended), parents


def is_narrow(made: Block, frame: Frame) -> bool:
    """Whether 16 bits count the pods of every column."""
    gpus = (made.hosts[0, 0].astype(np.int64) + 1) * made.copies * max(1, frame.full)
    return bool(gpus.sum(axis=0).max(initial=0) <= NARROW_MAX)


def _outline(root: Branch, depth: int, trivial: int) -> _Outline:
    copies = [[1]] * trivial
    first = [[0]] * trivial
    above = [root]
    for at in range(depth - 1):
        if at:
            first.append(_starts([len(node.kids) for node in above]))
        kids = [pair for node in above for pair in node.kids]
        copies.append([n for _, n in kids])
        above = [kid for kid, _ in kids if isinstance(kid, Branch)]
    widths = [-(-len(node.kids) // SLOTS) for node in above]
    starts = _starts(widths)
    if depth > 1:
        first.append(starts)
    return _Outline(copies, first, above, widths, starts)


def _starts(counts: list[int]) -> list[int]:
    return list(accumulate(counts[:-1], initial=0))


def _columns(lines: _Outline, frame: Frame, before: Before | None) -> tuple[Cells, Cells, Cells]:
    """Hosts, copies and whole of every column: taken from before, or counted."""
    old = before[1] if before is not None else {}
    fresh = [i for i, parent in enumerate(lines.parents) if parent.key not in old]
    made = _counted([lines.parents[i] for i in fresh], [lines.widths[i] for i in fresh], frame)
    if before is None or len(fresh) == len(lines.parents):
        return made
    widths = np.array(lines.widths, np.int64)
    starts = np.array([old.get(parent.key, 0) for parent in lines.parents], np.int64)
    starts[fresh] = before[0].copies.shape[-1] + np.cumsum(widths[fresh]) - widths[fresh]
    order = np.repeat(starts - np.array(lines.starts, np.int64), widths) + np.arange(sum(lines.widths))
    pairs = zip(before[0][:3], made, strict=True)
    hosts, copies, whole = [np.concatenate(pair, axis=-1, dtype=_COUNTED).take(order, axis=-1) for pair in pairs]
    return hosts, copies, whole


def _counted(parents: Sequence[Branch], widths: Sequence[int], frame: Frame) -> tuple[Cells, Cells, Cells]:
    """Hosts, copies and whole of the columns of these parents, one after the other."""
    full, width = frame.full, sum(widths)
    hosts = np.zeros((frame.layers + 1, full + 1 + EXTRA, SLOTS, width), _COUNTED)
    copies, whole = np.zeros((SLOTS, width), _COUNTED), np.zeros((SLOTS, width), _COUNTED)
    if not parents:
        return hosts, copies, whole
    lows = [kid for parent in parents for kid, _ in parent.kids if isinstance(kid, Leaf)]
    numbers, counts = np.frombuffer(b"".join([low.packed for low in lows]), np.int64).reshape(-1, 2).T
    sizes = np.array([len(low.bins) for low in lows])
    places = _places([len(parent.kids) for parent in parents], widths)
    copies.reshape(-1)[places] = [n for parent in parents for _, n in parent.kids]
    c, free = np.divmod(numbers, CLASS_STRIDE)
    whole.reshape(-1)[places] = np.logical_and.reduceat(free >= frame.gpus[c], np.cumsum(sizes) - sizes)
    layer = frame.layer[c]
    cells = (((layer + 1) * hosts.shape[1] + free) * SLOTS * width + np.repeat(places, sizes))[layer >= 0]
    hosts.reshape(-1)[cells] = counts[layer >= 0]
    by_free = hosts[1:, : full + 1]
    by_free[:] = np.cumsum(by_free[:, ::-1], axis=1)[:, ::-1]
    hosts[1:, full + 1] = by_free[:, 1:].sum(axis=1)
    hosts[1:, full + 2] = by_free[:, 2::2].sum(axis=1)
    hosts[0] = hosts[1:].sum(axis=0)
    return hosts, copies, whole


def _places(kids: Sequence[int], widths: Sequence[int]) -> Cells:
    """By lowest domain, the flat index of its slot."""
    counts, columns = np.array(kids, np.int64), np.array(widths, np.int64)
    within = np.arange(sum(kids)) - np.repeat(np.cumsum(counts) - counts, counts)
    first = np.repeat(np.cumsum(columns) - columns, counts)
    return within % SLOTS * sum(widths) + first + within // SLOTS


def _times(lines: _Outline) -> tuple[Cells, Cells]:
    """See `above` and `times` of Block."""
    above = times = np.ones(1, np.int32)
    counts = [*[len(copies) for copies in lines.copies[1:]], sum(lines.widths)]
    for copies, first, below in zip(lines.copies, lines.first, counts, strict=True):
        lengths, each = _lengths(first, below), np.array(copies, np.int32)
        above, times = np.repeat(each, lengths), np.repeat(times * each, lengths)
    return above, times


def _lengths(first: Sequence[int], below: int) -> Cells:
    """Children of each domain."""
    return np.subtract([*first[1:], below], first)


def _inner(lines: _Outline, whole: Cells) -> tuple[Inner, ...]:
    """The inner domains, whose GPUs are all free where those of every child are."""
    out: list[Inner] = []
    below = sum(lines.widths)
    for copies, first in zip(reversed(lines.copies), reversed(lines.first), strict=True):
        starts = np.array(first, np.int64)
        whole = np.minimum.reduceat(whole, starts)
        several = np.greater(_lengths(first, below), 1).astype(np.int8)
        out.append(Inner(np.array(copies, np.int32), whole, starts, several))
        below = len(first)
    return tuple(reversed(out))
