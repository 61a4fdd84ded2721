"""Shapes as bytes: versioned, canonical, bounded.

    magic, version, clipped hosts
    texts       every name once, sorted
    classes     flavor, accelerator and count, other resources, taints
    labels      (hash of key, hash of value, which classes carry it); hashes of keys left out
    frames      kinds of lowest domains: hosts by class, whatever is free on them
    groups      levels, then the tree, children in key order: a lowest domain is its frame and the number of its
                histogram, any other is (copies, child) one after the other

Reading is strict: what would not be written in exactly these bytes is refused, so equal shapes are equal bytes, and a
hostile summary costs bounded work: its size is checked first, every node is spelled out, every number is limited.

A shape that is too large for a summary is clipped before it is written (`clip`).
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from hanse.model.ids import FlavorName
from hanse.model.placement import Level
from hanse.model.resources import Resources
from hanse.model.selectors import Effect, Taint
from hanse.shape.classes import HostClass
from hanse.shape.domains import Bin, Leaf, Node, branch, leaf
from hanse.shape.errors import ShapeError
from hanse.shape.histogram import rank, unrank, ways
from hanse.shape.lens import Table
from hanse.shape.limits import (
    AMOUNT_MAX,
    CLASSES_MAX,
    GPUS_PER_HOST_MAX,
    GROUPS_MAX,
    HOSTS_MAX,
    LEVELS_MAX,
    SUMMARY_BYTES_MAX,
    TEXT_BYTES_MAX,
)
from hanse.shape.shape import Group, Shape
from hanse.shape.varint import Reader, put, put_text

MAGIC: Final = b"HSHP"
VERSION: Final = 1
_HASH_BYTES: Final = 4
_RANK_BITS_MAX: Final = 256  # a frame with more histograms writes them as bins
_ALL_CLASSES: Final = 0  # no label is carried by no class, so this mask is free to mean all

Frame = tuple[tuple[int, int], ...]  # (class, hosts), in the order of classes


def written(shape: Shape) -> bytes:
    """The bytes of a shape, however many."""
    full = tuple([cls.gpus for cls in shape.table.classes])
    frames = sorted({_frame(low.bins) for group in shape.groups for low in _leaves(group.root)})
    number = {frame: i for i, frame in enumerate(frames)}
    out = [MAGIC, put(VERSION), put(shape.clipped_hosts), table_bytes(shape.table), put(len(frames))]
    out.extend([put(len(frame)) + b"".join([put(c) + put(n) for c, n in frame]) for frame in frames])
    out.append(put(len(shape.groups)))
    for group in shape.groups:
        out.append(put(len(group.levels)))
        out.extend([put_text(level.key) + put_text(level.alias) for level in group.levels])
        _put_kids(group.root, full, number, out)
    return b"".join(out)


def decode(data: bytes) -> Shape:
    """The shape in `data`.

    Raises:
        ShapeError: too long, of another version, or not what `encode` writes.
    """
    if len(data) > SUMMARY_BYTES_MAX:
        raise ShapeError(f"shape: {len(data)} bytes are over the limit of {SUMMARY_BYTES_MAX}")
    reader = Reader(data)
    if reader.raw(len(MAGIC)) != MAGIC:
        raise ShapeError("shape: these bytes are no shape")
    version = reader.number(AMOUNT_MAX)
    if version != VERSION:
        raise ShapeError(f"shape: version {version} is not known here; this is version {VERSION}")
    clipped = reader.number(HOSTS_MAX)
    table = _read_table(reader)
    frames = _read_frames(reader, table)
    shape = Shape(_read_groups(reader, table, frames), table, clipped)
    reader.finish()
    if written(shape) != data:
        raise ShapeError("shape: not in canonical form")
    return shape


def table_bytes(table: Table) -> bytes:
    """The bytes of a class table."""
    texts = sorted({text for cls in table.classes for text in _texts(cls)})
    at = {text: i for i, text in enumerate(texts)}
    out = [put(len(texts)), *[put_text(text) for text in texts], put(len(table.classes))]
    for cls in table.classes:
        out.extend([put(at[cls.flavor]), put(at[cls.gpu]), put(cls.gpus), put(len(cls.others))])
        out.extend([put(at[name]) + put(amount) for name, amount in cls.others.items()])
        out.append(put(len(cls.taints)))
        out.extend([put(at[t.key]) + put(at[t.value]) + put(int(t.effect)) for t in cls.taints])
    pairs = _label_masks(table)
    out.append(put(len(pairs)))
    out.extend([_hash_bytes(key) + _hash_bytes(value) + put(pairs[key, value]) for key, value in sorted(pairs)])
    out.extend([put(int(table.open_ended)), put(len(table.left_out))])
    out.extend([_hash_bytes(key) for key in sorted(table.left_out)])
    return b"".join(out)


def _hash_bytes(value: int) -> bytes:
    return value.to_bytes(_HASH_BYTES, "big")


def _texts(cls: HostClass) -> list[str]:
    return [cls.flavor, cls.gpu, *cls.others, *[text for t in cls.taints for text in (t.key, t.value)]]


def _label_masks(table: Table) -> dict[tuple[int, int], int]:
    """For every label, the classes that carry it, as bits."""
    masks: dict[tuple[int, int], int] = {}
    for i, cls in enumerate(table.classes):
        for pair in cls.labels:
            masks[pair] = masks.get(pair, 0) | 1 << i
    everyone = (1 << len(table.classes)) - 1
    return {pair: _ALL_CLASSES if mask == everyone else mask for pair, mask in masks.items()}


def _read_table(reader: Reader) -> Table:
    start = reader.at
    texts = [reader.text(TEXT_BYTES_MAX) for _ in range(reader.number(SUMMARY_BYTES_MAX))]
    classes = [_read_class(reader, texts) for _ in range(reader.number(CLASSES_MAX))]
    labels: list[list[tuple[int, int]]] = [[] for _ in classes]
    everyone = (1 << len(classes)) - 1
    for _ in range(reader.number(SUMMARY_BYTES_MAX)):
        pair = (_read_hash(reader), _read_hash(reader))
        mask = reader.number(everyone) or everyone
        for i, mine in enumerate(labels):
            if mask >> i & 1:
                mine.append(pair)
    open_ended = bool(reader.number(1))
    left_out = frozenset([_read_hash(reader) for _ in range(reader.number(SUMMARY_BYTES_MAX))])
    labelled = [
        HostClass(c.flavor, c.gpu, c.gpus, c.others, c.taints, tuple(mine))
        for c, mine in zip(classes, labels, strict=True)
    ]
    return _shared_table(reader.since(start), tuple(labelled), left_out, open_ended=open_ended)


_tables: dict[bytes, Table] = {}
_TABLES_KEPT_MAX: Final = 4_096


def _shared_table(
    data: bytes, classes: tuple[HostClass, ...], left_out: frozenset[int], *, open_ended: bool
) -> Table:
    """One object for equal tables, so that what it has learned about requests serves the next summary too."""
    found = _tables.get(data)
    if found is None:
        if len(_tables) >= _TABLES_KEPT_MAX:
            _tables.clear()
        found = _tables[data] = Table(classes, left_out, open_ended)
    return found


def _read_class(reader: Reader, texts: list[str]) -> HostClass:
    def text() -> str:
        return texts[reader.number(len(texts) - 1)]

    flavor, gpu, gpus = FlavorName(text()), text(), reader.number(GPUS_PER_HOST_MAX)
    others = Resources([(text(), reader.number(AMOUNT_MAX)) for _ in range(reader.number(len(texts)))])
    taints = tuple(
        [Taint(text(), text(), Effect(reader.number(max(Effect)))) for _ in range(reader.number(SUMMARY_BYTES_MAX))]
    )
    return HostClass(flavor, gpu, gpus, others, taints)


def _read_hash(reader: Reader) -> int:
    return int.from_bytes(reader.raw(_HASH_BYTES), "big")


def _leaves(node: Node) -> Iterator[Leaf]:
    if isinstance(node, Leaf):
        yield node
    else:
        for kid, _ in node.kids:
            yield from _leaves(kid)


@lru_cache(maxsize=65_536)
def _frame(bins: tuple[Bin, ...]) -> Frame:
    hosts: dict[int, int] = {}
    for c, _, n in bins:
        hosts[c] = hosts.get(c, 0) + n
    return tuple(hosts.items())


def _read_frames(reader: Reader, table: Table) -> list[Frame]:
    frames: list[Frame] = []
    for _ in range(reader.number(SUMMARY_BYTES_MAX)):
        parts = range(reader.number(len(table.classes)))
        frames.append(tuple([(reader.number(len(table.classes) - 1), reader.number(HOSTS_MAX)) for _ in parts]))
    return frames


@lru_cache(maxsize=65_536)
def _rank_bytes(frame: Frame, full: tuple[int, ...]) -> int:
    """Bytes of a histogram's number in this frame, -1 if it is written as bins."""
    total = 1
    for c, hosts in frame:
        if min(hosts, full[c]) * max(hosts, full[c]).bit_length() > 4 * _RANK_BITS_MAX:
            return -1  # far too many ways, and costly to count
        total *= ways(hosts, full[c])
    bits = (total - 1).bit_length()
    return -1 if bits > _RANK_BITS_MAX else (bits + 7) // 8


@lru_cache(maxsize=65_536)
def _leaf_bytes(bins: tuple[Bin, ...], full: tuple[int, ...]) -> bytes:
    """A lowest domain whose frame is known."""
    frame = _frame(bins)
    size = _rank_bytes(frame, full)
    if size < 0:
        return put(len(bins)) + b"".join([put(c) + put(free) + put(hosts) for c, free, hosts in bins])
    at = 0
    for c, hosts in reversed(frame):
        counts = [0] * (full[c] + 1)
        for other, free, n in bins:
            if other == c:
                counts[free] = n
        at = at * ways(hosts, full[c]) + rank(counts)
    return at.to_bytes(size, "big")


@lru_cache(maxsize=65_536)
def _leaf_of(frame: Frame, full: tuple[int, ...], data: bytes) -> Leaf:
    at = int.from_bytes(data, "big")
    bins: dict[tuple[int, int], int] = {}
    for c, hosts in frame:
        at, mine = divmod(at, ways(hosts, full[c]))
        for free, n in enumerate(unrank(mine, hosts, full[c])):
            bins[c, free] = n
    if at:
        raise ShapeError("shape: a histogram that does not exist")
    return leaf(bins)


def _put_kids(node: Node, full: tuple[int, ...], number: dict[Frame, int], out: list[bytes]) -> None:
    assert not isinstance(node, Leaf)
    out.append(put(len(node.kids)))
    for kid, copies in node.kids:
        if isinstance(kid, Leaf):
            several = copies > 1
            out.append(put(number[_frame(kid.bins)] << 1 | several))
            if several:
                out.append(put(copies))
            out.append(_leaf_bytes(kid.bins, full))
        else:
            out.append(put(copies))
            _put_kids(kid, full, number, out)


def _read_groups(reader: Reader, table: Table, frames: list[Frame]) -> tuple[Group, ...]:
    full = tuple([cls.gpus for cls in table.classes])
    groups: list[Group] = []
    for _ in range(reader.number(GROUPS_MAX)):
        count = reader.number(LEVELS_MAX)
        levels = tuple([Level(reader.text(TEXT_BYTES_MAX), reader.text(TEXT_BYTES_MAX)) for _ in range(count)])
        root = branch(_read_kids(reader, full, frames, max(1, count)))
        groups.append(Group(levels, root))
    if sum(group.root.hosts for group in groups) > HOSTS_MAX:
        raise ShapeError(f"shape: more than {HOSTS_MAX} hosts")
    return tuple(groups)


def _read_kids(reader: Reader, full: tuple[int, ...], frames: list[Frame], height: int) -> list[tuple[Node, int]]:
    kids: list[tuple[Node, int]] = []
    for _ in range(reader.number(SUMMARY_BYTES_MAX)):
        if height == 1:
            head = reader.number(2 * len(frames) - 1)
            copies = reader.number(HOSTS_MAX) if head & 1 else 1
            kids.append((_read_leaf(reader, full, frames[head >> 1]), copies))
        else:
            copies = reader.number(HOSTS_MAX)
            kids.append((branch(_read_kids(reader, full, frames, height - 1)), copies))
    return kids


def _read_leaf(reader: Reader, full: tuple[int, ...], frame: Frame) -> Leaf:
    size = _rank_bytes(frame, full)
    if size >= 0:
        return _leaf_of(frame, full, reader.raw(size))
    bins: dict[tuple[int, int], int] = {}
    for _ in range(reader.number(SUMMARY_BYTES_MAX)):
        c = reader.number(len(full) - 1)
        free = reader.number(full[c])
        bins[c, free] = reader.number(HOSTS_MAX)
    return leaf(bins)
