"""JSON values as YAML that people like to read: block style, and a text in quotes only where it has to be.

Written by hand because one module of the project owns the YAML library, to read hostile text; to write, a page of
code is enough.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

ROW_COLUMNS_MAX: Final = 88
_PLAIN: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./+@%,=~ -]*(?::[A-Za-z0-9_./+@%,=~-]+)*")
_BREAKS: Final = frozenset({0x85, 0x2028, 0x2029, 0xFEFF})
_WORDS_WITH_A_MEANING: Final = frozenset("y n yes no on off true false null none".split())


def to_yaml(value: object, *, ascii_only: bool = False) -> str:
    """A document, without a marker before it."""
    return "".join(f"{line}\n" for line in _block(value, ascii_only))


def _block(value: object, ascii_only: bool) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _entry(f"{_scalar(str(key), ascii_only)}:", item, ascii_only)
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        for item in value:
            for index, line in enumerate(_block(item, ascii_only)):
                yield f"{'  ' if index else '- '}{line}"
    else:
        yield _scalar(value, ascii_only)


def _entry(head: str, item: object, ascii_only: bool) -> Iterator[str]:
    if _is_leaf(item):
        yield f"{head} {_scalar(item, ascii_only)}"
        return
    row = _row(item, ascii_only)
    if row and len(head) + len(row) < ROW_COLUMNS_MAX:
        yield f"{head} {row}"
        return
    yield head
    for line in _block(item, ascii_only):
        yield f"  {line}"


def _row(item: object, ascii_only: bool) -> str:
    """A list of leaves in one line, `[python, train.py]`; "" for anything else."""
    if not isinstance(item, Sequence) or not all(_is_leaf(leaf) for leaf in item):
        return ""
    return f"[{', '.join(_scalar(leaf, ascii_only, inside=True) for leaf in item)}]"


def _is_leaf(value: object) -> bool:
    return isinstance(value, str) or not isinstance(value, Mapping | Sequence) or not value


def _scalar(value: object, ascii_only: bool, *, inside: bool = False) -> str:
    """A leaf; `inside` a list in one line, where commas part."""
    if isinstance(value, str) and _needs_no_quotes(value) and not (inside and "," in value):
        return value
    if isinstance(value, str):
        return f'"{"".join(_escaped(char, ascii_only) for char in value)}"'
    return json.dumps(value)


def _escaped(char: str, ascii_only: bool) -> str:
    """A character inside double quotes; YAML's own escapes, since JSON's pairs of surrogates mean nothing to it."""
    code = ord(char)
    if char in '"\\':
        return f"\\{char}"
    if code in _BREAKS or not char.isprintable() or (ascii_only and code > 0x7E):
        return f"\\x{code:02x}" if code < 0x100 else f"\\U{code:08x}"
    return char


def _needs_no_quotes(text: str) -> bool:
    plain = _PLAIN.fullmatch(text) is not None and text == text.strip()
    return plain and text.lower() not in _WORDS_WITH_A_MEANING
