"""A fleet file's text as plain values, and the line of each of them.

The values go to pydantic, which knows no lines; its refusals come back with a path, from which the line is found.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from hanse.manifests.reader import parse
from hanse.manifests.tree import Node, Row, Scalar, Table
from hanse.model.errors import InvalidArgument


def only_document(text: str | bytes) -> Node:
    """The one document of a text. Raises InvalidArgument."""
    trees = parse(text)
    if len(trees) != 1:
        raise InvalidArgument(f"{len(trees)} documents; a fleet file is one", reason="DOCUMENTS")
    return trees[0].root


def plain(node: Node) -> Any:
    """A node as numbers, texts, lists and dicts."""
    match node:
        case Scalar():
            return node.value
        case Row():
            return [plain(item) for item in node.items]
        case Table():
            return {key: plain(entry.node) for key, entry in node.entries.items()}


def field_lines(node: Node, path: str = "") -> Iterator[tuple[str, int]]:
    """Line of every field below, by path."""
    if isinstance(node, Row):
        for index, item in enumerate(node.items):
            yield f"{path}[{index}]", item.line
            yield from field_lines(item, f"{path}[{index}]")
    elif isinstance(node, Table):
        for key, entry in node.entries.items():
            below = f"{path}.{key}" if path else key
            yield below, entry.line
            yield from field_lines(entry.node, below)


def line_of(path: str, lines: Mapping[str, int]) -> int:
    """Line of a field, or of the nearest field around it; 0 if there is none."""
    while path:
        if path in lines:
            return lines[path]
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return 0
