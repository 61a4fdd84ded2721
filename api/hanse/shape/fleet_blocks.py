"""A node group's tree as a `Block` of columns; what lies under equal parents is taken from the block before."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from hanse.shape.domains import Branch, Leaf
from hanse.shape.fleet_classes import Ints
from hanse.shape.fleet_rows import NARROW_MAX, SLOTS, Block, Cells, Inner

Parents = list[tuple[Branch, int]]
Before = tuple[Block, Parents]
_COUNTED: Final = np.int32


class Frame(NamedTuple):
    """How hosts of one table are told apart for one flavor.

    Attributes:
        layer: by class of the table, its class layer; -1 for another flavor.
        gpus: by class of the table.
        layers, full: class layers, and the most GPUs of a host of the flavor.
    """

    layer: tuple[int, ...]
    gpus: tuple[int, ...]
    layers: int
    full: int


class _Outline(NamedTuple):
    """Inner domains by depth (copies, index of the first child), the parents of lowest domains, and their columns."""

    copies: list[list[int]]
    first: list[list[int]]
    parents: Parents
    columns: int


def block(root: Branch, depth: int, padded: int, frame: Frame, before: Before | None) -> tuple[Block, Parents]:
    """The group's tree with `depth` levels, and where each parent of lowest domains begins.

    Args:
        padded: levels of the block; those it has more are trivial ones on top.
        before: an earlier state of the group under the same frame.
    """
    lines = _outline(root, depth, padded - depth)
    hosts, copies, whole = _columns(lines, frame, before)
    inner = _inner(lines, np.where(copies > 0, whole, 1).min(axis=0))
    top = (hosts > 0).any(axis=(2, 3)).sum(axis=1) - 1
    return Block(hosts, copies, whole, _times(lines), inner, top), lines.parents


def is_narrow(made: Block, frame: Frame) -> bool:
    """Whether 16 bits count the pods of every column."""
    gpus = (made.hosts[:, 0].sum(axis=0, dtype=np.int64) + 1) * made.copies * max(1, frame.full)
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
    columns = [-(-len(node.kids) // SLOTS) for node in above]
    starts = _starts(columns)
    if depth > 1:
        first.append(starts)
    return _Outline(copies, first, list(zip(above, starts, strict=True)), sum(columns))


def _starts(counts: list[int]) -> list[int]:
    return list(accumulate(counts[:-1], initial=0))


def _columns(lines: _Outline, frame: Frame, before: Before | None) -> tuple[Cells, Cells, Cells]:
    """Hosts, copies and whole of every column: taken from before, or counted."""
    old = {parent.key: at for parent, at in before[1]} if before is not None else {}
    fresh = [parent for parent, _ in lines.parents if parent.key not in old]
    made = _counted(fresh, frame)
    if before is None or len(fresh) == len(lines.parents):
        return made
    room = before[0].copies.shape[-1]
    order: list[int] = []
    at = room
    for parent, _ in lines.parents:
        width = -(-len(parent.kids) // SLOTS)
        start = old.get(parent.key, -1)
        if start < 0:
            start, at = at, at + width
        order.extend(range(start, start + width))
    pairs = zip(before[0][:3], made, strict=True)
    hosts, copies, whole = [np.concatenate(pair, axis=-1, dtype=_COUNTED)[..., order] for pair in pairs]
    return hosts, copies, whole


def _counted(parents: Sequence[Branch], frame: Frame) -> tuple[Cells, Cells, Cells]:
    """Hosts, copies and whole of the columns of these parents, one after the other."""
    width = sum([-(-len(parent.kids) // SLOTS) for parent in parents])
    hosts = np.zeros((frame.layers, frame.full + 1, SLOTS, width), _COUNTED)
    copies, whole = np.zeros((SLOTS, width), _COUNTED), np.zeros((SLOTS, width), _COUNTED)
    cells, counts, places, times, wholes = _listed(parents, frame, width)
    hosts.reshape(-1)[cells] = counts
    copies.reshape(-1)[places], whole.reshape(-1)[places] = times, wholes
    return np.cumsum(hosts[:, ::-1], axis=1, dtype=_COUNTED)[:, ::-1], copies, whole


def _listed(parents: Sequence[Branch], frame: Frame, width: int) -> tuple[list[int], ...]:
    """Flat indices of cells with their hosts, and of slots with copies and whole."""
    layer, gpus, size = frame.layer, frame.gpus, SLOTS * width
    cells: list[int] = []
    counts: list[int] = []
    places: list[int] = []
    wholes: list[int] = []
    column = 0
    for parent in parents:
        for i, (kid, _) in enumerate(parent.kids):
            assert isinstance(kid, Leaf)
            place = i % SLOTS * width + column + i // SLOTS
            whole = 1
            for c, free, hosts in kid.bins:
                if free < gpus[c]:
                    whole = 0
                if layer[c] >= 0:
                    cells.append((layer[c] * (frame.full + 1) + free) * size + place)
                    counts.append(hosts)
            places.append(place)
            wholes.append(whole)
        column += -(-len(parent.kids) // SLOTS)
    return cells, counts, places, [n for parent in parents for _, n in parent.kids], wholes


def _times(lines: _Outline) -> Cells:
    times = np.ones(1, np.int32)
    counts = [*[len(copies) for copies in lines.copies[1:]], lines.columns]
    for copies, first, below in zip(lines.copies, lines.first, counts, strict=True):
        times = np.repeat(times * np.array(copies, np.int32), np.diff(first, append=below))
    return times


def _inner(lines: _Outline, whole: Cells) -> tuple[Inner, ...]:
    """The inner domains, whose GPUs are all free where those of every child are."""
    out: list[Inner] = []
    for copies, first in zip(reversed(lines.copies), reversed(lines.first), strict=True):
        starts: Ints = np.array(first, np.int64)
        whole = np.minimum.reduceat(whole, starts)
        out.append(Inner(np.array(copies, np.int64), whole.astype(np.int64), starts))
    return tuple(reversed(out))
