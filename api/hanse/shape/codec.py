"""Shapes as bytes: versioned, canonical, bounded.

    magic, version, clipped hosts
    texts       every name once, sorted
    classes     flavor, accelerator and count, other resources, taints
    labels      (hash of key, hash of value, which classes carry it); hashes of keys left out
    frames      kinds of lowest domains: hosts by class, whatever is free on them
    groups      levels
    trees       of all groups, bit by bit (`codec_bits`)

Version 1 has each tree behind its levels, in whole bytes (`codec_bytes`), and takes up to twice as much; it is read,
and no longer written.

Reading is strict: what would not be written in exactly these bytes is refused, so equal shapes are equal bytes, and a
hostile summary costs bounded work: its size is checked first, every node is spelled out, every number is limited.

A shape that is too large for a summary is clipped before it is written (`clip`).
"""

from collections.abc import Iterator
from typing import Final

from hanse.model.ids import FlavorName
from hanse.model.placement import Level
from hanse.model.resources import Resources
from hanse.model.selectors import Effect, Taint
from hanse.shape import codec_bits, codec_bytes
from hanse.shape.bits import BitReader, packed
from hanse.shape.classes import HostClass
from hanse.shape.codec_bits import Alphabet
from hanse.shape.codec_leaves import Frame, frame_of
from hanse.shape.domains import Branch, Leaf, Node
from hanse.shape.errors import ShapeError
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
VERSION: Final = 2
BYTES_VERSION: Final = 1
_HASH_BYTES: Final = 4
_ALL_CLASSES: Final = 0  # no label is carried by no class, so this mask is free to mean all


def written(shape: Shape, version: int = VERSION) -> bytes:
    """The bytes of a shape, however many, in a version that is known here."""
    full = tuple([cls.gpus for cls in shape.table.classes])
    frames = sorted({frame_of(low.bins) for group in shape.groups for low in _leaves(group.root)})
    number = {frame: i for i, frame in enumerate(frames)}
    out = [MAGIC, put(version), put(shape.clipped_hosts), table_bytes(shape.table), put(len(frames))]
    out.extend([put(len(frame)) + b"".join([put(c) + put(n) for c, n in frame]) for frame in frames])
    out.append(put(len(shape.groups)))
    for group in shape.groups:
        out.append(put(len(group.levels)))
        out.extend([put_text(level.key) + put_text(level.alias) for level in group.levels])
        if version == BYTES_VERSION:
            out.append(codec_bytes.put_tree(group.root, full, number))
    if version != BYTES_VERSION:
        told = Alphabet(frames, number, full)
        out.append(packed("".join([codec_bits.tree_bits(group.root, told) for group in shape.groups])))
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
    if version not in (BYTES_VERSION, VERSION):
        raise ShapeError(f"shape: version {version} is not known here; this is version {VERSION}")
    clipped = reader.number(HOSTS_MAX)
    table = _read_table(reader)
    frames = _read_frames(reader, table)
    shape = Shape(_read_groups(reader, table, frames, version), table, clipped)
    reader.finish()
    if written(shape, version) != data:
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


def _read_frames(reader: Reader, table: Table) -> list[Frame]:
    frames: list[Frame] = []
    for _ in range(reader.number(SUMMARY_BYTES_MAX)):
        parts = range(reader.number(len(table.classes)))
        frames.append(tuple([(reader.number(len(table.classes) - 1), reader.number(HOSTS_MAX)) for _ in parts]))
    return frames


def _read_groups(reader: Reader, table: Table, frames: list[Frame], version: int) -> tuple[Group, ...]:
    full = tuple([cls.gpus for cls in table.classes])
    levels: list[tuple[Level, ...]] = []
    roots: list[Branch] = []
    for _ in range(reader.number(GROUPS_MAX)):
        count = reader.number(LEVELS_MAX)
        levels.append(tuple([Level(reader.text(TEXT_BYTES_MAX), reader.text(TEXT_BYTES_MAX)) for _ in range(count)]))
        if version == BYTES_VERSION:
            roots.append(codec_bytes.read_tree(reader, full, frames, max(1, count)))
    if version != BYTES_VERSION:
        bits, told = BitReader(reader.rest()), Alphabet(frames, {}, full)
        roots = [codec_bits.read_tree(bits, told, max(1, len(each))) for each in levels]
    if sum(root.hosts for root in roots) > HOSTS_MAX:
        raise ShapeError(f"shape: more than {HOSTS_MAX} hosts")
    return tuple([Group(each, root) for each, root in zip(levels, roots, strict=True)])
