"""Shapes as bytes: versioned, canonical, bounded.

    magic "HSHP", version, clipped hosts
    texts          every name once: flavors, resources, level keys and aliases, taints
    classes        flavor, accelerator and count, other resources, taints, labels as pairs of hashes
    labels         hashes of the keys left out, and whether more were
    groups         levels, then the tree: a leaf is its bins, a branch its (copies, child) in key order

Reading is strict: what would not be written in exactly these bytes is refused, so equal shapes are equal bytes and a
hostile summary costs bounded work (its size is checked first, and every tree node is spelled out once).
"""

from typing import Final

from hanse.model.ids import FlavorName
from hanse.model.placement import Level
from hanse.model.resources import Resources
from hanse.model.selectors import Effect, Taint
from hanse.shape.classes import HostClass
from hanse.shape.domains import Branch, Leaf, Node, branch, leaf
from hanse.shape.errors import ShapeError
from hanse.shape.lens import Table
from hanse.shape.limits import (
    AMOUNT_MAX,
    CLASSES_MAX,
    DOMAINS_MAX,
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


def encode(shape: Shape) -> bytes:
    """The bytes of a shape."""
    return b"".join((MAGIC, put(VERSION), put(shape.clipped_hosts), _put_table(shape.table), _put_groups(shape)))


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
    shape = Shape(_read_groups(reader, table), table, clipped)
    reader.finish()
    if encode(shape) != data:
        raise ShapeError("shape: not in canonical form")
    return shape


def _put_table(table: Table) -> bytes:
    texts = sorted({text for cls in table.classes for text in _texts(cls)})
    at = {text: i for i, text in enumerate(texts)}
    out = [put(len(texts)), *[put_text(text) for text in texts], put(len(table.classes))]
    for cls in table.classes:
        out.extend([put(at[cls.flavor]), put(at[cls.gpu]), put(cls.gpus), put(len(cls.others))])
        out.extend([put(at[name]) + put(amount) for name, amount in cls.others.items()])
        out.append(put(len(cls.taints)))
        out.extend([put(at[t.key]) + put(at[t.value]) + put(int(t.effect)) for t in cls.taints])
        out.append(put(len(cls.labels)))
        out.extend([k.to_bytes(_HASH_BYTES, "big") + v.to_bytes(_HASH_BYTES, "big") for k, v in cls.labels])
    out.append(put(int(table.open_ended)))
    out.append(put(len(table.left_out)))
    out.extend([key.to_bytes(_HASH_BYTES, "big") for key in sorted(table.left_out)])
    return b"".join(out)


def _texts(cls: HostClass) -> list[str]:
    return [cls.flavor, cls.gpu, *cls.others, *[text for t in cls.taints for text in (t.key, t.value)]]


def _read_table(reader: Reader) -> Table:
    texts = [reader.text(TEXT_BYTES_MAX) for _ in range(reader.number(SUMMARY_BYTES_MAX))]
    classes = tuple([_read_class(reader, texts) for _ in range(reader.number(CLASSES_MAX))])
    open_ended = bool(reader.number(1))
    left_out = frozenset([_hash(reader) for _ in range(reader.number(SUMMARY_BYTES_MAX))])
    return Table(classes, left_out, open_ended)


def _read_class(reader: Reader, texts: list[str]) -> HostClass:
    def text() -> str:
        return texts[reader.number(len(texts) - 1)]

    flavor, gpu, gpus = FlavorName(text()), text(), reader.number(GPUS_PER_HOST_MAX)
    others = Resources([(text(), reader.number(AMOUNT_MAX)) for _ in range(reader.number(len(texts)))])
    taints = tuple(
        [Taint(text(), text(), Effect(reader.number(max(Effect)))) for _ in range(reader.number(SUMMARY_BYTES_MAX))]
    )
    labels = tuple([(_hash(reader), _hash(reader)) for _ in range(reader.number(SUMMARY_BYTES_MAX))])
    return HostClass(flavor, gpu, gpus, others, taints, labels)


def _hash(reader: Reader) -> int:
    return int.from_bytes(reader.raw(_HASH_BYTES), "big")


def _put_groups(shape: Shape) -> bytes:
    out = [put(len(shape.groups))]
    for group in shape.groups:
        out.append(put(len(group.levels)))
        out.extend([put_text(level.key) + put_text(level.alias) for level in group.levels])
        _put_node(group.root, out)
    return b"".join(out)


def _put_node(node: Node, out: list[bytes]) -> None:
    if isinstance(node, Leaf):
        out.append(put(len(node.bins)))
        out.extend([put(c) + put(free) + put(hosts) for c, free, hosts in node.bins])
        return
    out.append(put(len(node.kids)))
    for kid, copies in node.kids:
        out.append(put(copies))
        _put_node(kid, out)


def _read_groups(reader: Reader, table: Table) -> tuple[Group, ...]:
    groups: list[Group] = []
    for _ in range(reader.number(GROUPS_MAX)):
        count = reader.number(LEVELS_MAX)
        levels = tuple([Level(reader.text(TEXT_BYTES_MAX), reader.text(TEXT_BYTES_MAX)) for _ in range(count)])
        root = _read_branch(reader, table, max(1, count))
        groups.append(Group(levels, root))
    if sum(group.root.hosts for group in groups) > HOSTS_MAX:
        raise ShapeError(f"shape: more than {HOSTS_MAX} hosts")
    return tuple(groups)


def _read_branch(reader: Reader, table: Table, height: int) -> Branch:
    kids: list[tuple[Node, int]] = []
    for _ in range(reader.number(DOMAINS_MAX)):
        copies = reader.number(HOSTS_MAX)
        kids.append((_read_branch(reader, table, height - 1) if height > 1 else _read_leaf(reader, table), copies))
    return branch(kids)


def _read_leaf(reader: Reader, table: Table) -> Leaf:
    counts: dict[tuple[int, int], int] = {}
    for _ in range(reader.number(SUMMARY_BYTES_MAX)):
        c = reader.number(len(table.classes) - 1)
        free = reader.number(table.classes[c].gpus)
        counts[c, free] = reader.number(HOSTS_MAX)
    return leaf(counts)
