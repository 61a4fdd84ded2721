"""The text of a manifest, YAML or JSON, to its documents, inside limits that hold for hostile text too.

Size is checked before anything is parsed, so a 100 MB file costs nothing; the rest is counted by `composer`. JSON is
read as the YAML that it nearly is. What is not YAML is refused in one line, with the line where it stops being so.
"""

import re
from typing import Final

from hanse.manifests.composer import compose
from hanse.manifests.tree import Tree, plain_node
from hanse.model.errors import InvalidArgument

MANIFEST_BYTES_MAX: Final = 1 << 20


def parse(text: str | bytes) -> tuple[Tree, ...]:
    """All documents that are not empty, in order.

    Raises:
        InvalidArgument: reason YAML (with the line), or TOO_LARGE, TOO_DEEP, TOO_MANY_NODES, YAML_BOMB.
    """
    source = _surrogates_joined(_decoded(text))
    return compose(source)


def _decoded(text: str | bytes) -> str:
    size = _utf8_bytes(text) if isinstance(text, str) else len(text)
    if size > MANIFEST_BYTES_MAX:
        raise InvalidArgument(
            f"{size:,} bytes; a manifest has at most {MANIFEST_BYTES_MAX:,} bytes; split it",
            reason="TOO_LARGE",
        )
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise InvalidArgument("not UTF-8 text", reason="YAML", line=line) from None
    return text.removeprefix("\ufeff")


def _utf8_bytes(text: str) -> int:
    if len(text) > MANIFEST_BYTES_MAX:  # every character takes at least one byte
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise InvalidArgument("not valid Unicode text", reason="YAML", line=line) from None


_JSON_ESCAPES: Final = re.compile(r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|[^\n])")


def _surrogates_joined(text: str) -> str:
    r"""JSON writes an emoji as a pair of \u escapes, which YAML lacks; as \U it is the same character."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    return _JSON_ESCAPES.sub(_joined, text)


def _joined(match: re.Match[str]) -> str:
    high, low = match.groups()
    if high is None:
        return match.group()
    return f"\\U{0x10000 + ((int(high, 16) - 0xD800) << 10) + (int(low, 16) - 0xDC00):08x}"


def plain(text: str | bytes) -> object:
    """The only document of a text as dicts, lists and scalars; for files of our own (settings, fleets).

    Raises:
        InvalidArgument: as `parse`; also TOO_MANY for several documents. An empty text is None.
    """
    trees = parse(text)
    if len(trees) > 1:
        raise InvalidArgument("several documents; one is wanted", reason="TOO_MANY", line=trees[1].line)
    return plain_node(trees[0].root) if trees else None


def plain_documents(text: str | bytes) -> tuple[object, ...]:
    """Every document of a text as dicts, lists and scalars; for whoever hands objects on as they were written.

    Raises:
        InvalidArgument: as `parse`.
    """
    return tuple(plain_node(tree.root) for tree in parse(text))
