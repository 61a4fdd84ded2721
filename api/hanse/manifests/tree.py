"""One document of a manifest as a tree: every node knows its line, every mapping its place in the text."""

import math
from dataclasses import dataclass

from hanse.manifests.scalars import ScalarValue


@dataclass(frozen=True, slots=True)
class Scalar:
    """A leaf. `text` is what was written, without quotes; `value` what it means."""

    value: ScalarValue
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One value of a mapping, with the line of its key."""

    line: int
    node: "Node"


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping. Order is the document's."""

    entries: dict[str, Entry]
    line: int
    span: tuple[int, int, int]  # first character, one past the last, column of the first


@dataclass(frozen=True, slots=True)
class Row:
    """A sequence."""

    items: tuple["Node", ...]
    line: int


Node = Scalar | Table | Row


@dataclass(frozen=True, slots=True)
class Tree:
    """One document of a manifest.

    Attributes:
        text: the document as written.
        source: all of the manifest, which `Table.span` points into.
        aliased: whether the document uses aliases, so that a piece of it may not stand alone.
    """

    root: Node
    line: int
    text: str
    source: str
    aliased: bool


def plain_node(node: Node) -> object:
    """The values without their places; an infinity, which JSON lacks, becomes the text that was written."""
    match node:
        case Scalar():
            value = node.value
            return node.text if isinstance(value, float) and not math.isfinite(value) else value
        case Row():
            return [plain_node(item) for item in node.items]
        case Table():
            return {key: plain_node(entry.node) for key, entry in node.entries.items()}
