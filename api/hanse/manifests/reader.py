"""The text of a manifest, YAML or JSON, to its documents, inside limits that hold for hostile text too.

Size is checked before anything is parsed, so a 100 MB file costs nothing; the rest is counted by `composer`. JSON is
read as the YAML that it nearly is. What is not YAML is refused in one line, with the line where it stops being so.
"""

import re
from typing import Final

import yaml

from hanse.manifests.composer import Composer, Lines, too_deep
from hanse.manifests.tree import Tree
from hanse.model.errors import InvalidArgument

MANIFEST_BYTES_MAX: Final = 1 << 20


def parse(text: str | bytes) -> tuple[Tree, ...]:
    """All documents that are not empty, in order.

    Raises:
        InvalidArgument: reason YAML (with the line), or TOO_LARGE, TOO_DEEP, TOO_MANY_NODES, YAML_BOMB.
    """
    source = _surrogates_joined(_decoded(text))
    loader = yaml.CSafeLoader(source)
    lines = Lines(source)
    try:
        return tuple(Composer(loader, source, lines).documents())
    except yaml.YAMLError as error:
        raise _refusal(error, source, lines) from None
    finally:
        loader.dispose()


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


def _refusal(error: yaml.YAMLError, source: str, lines: Lines) -> InvalidArgument:
    if not isinstance(error, yaml.MarkedYAMLError):
        position = getattr(error, "position", 0)
        line = source.encode().count(b"\n", 0, position) + 1
        return InvalidArgument(f"not YAML: {getattr(error, 'reason', error)}", reason="YAML", line=line)
    mark, begun = error.problem_mark or error.context_mark, error.context_mark
    last = source.rstrip("\n").count("\n") + 1
    line = min(lines.of(mark), last) if mark else 0
    if "maximum nesting depth" in (error.problem or ""):
        too_deep(line)
    what = " ".join(part for part in (error.problem, error.context) if part)
    where = f" begun in line {lines.of(begun)}" if begun and lines.of(begun) < line else ""
    return InvalidArgument(f"not YAML: {what}{where}", reason="YAML", line=line)
