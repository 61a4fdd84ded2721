"""From libyaml's events to a tree, counting as it goes: what is too much is refused before it is built.

Nothing is constructed from tags, so no document can ask for an object. What the limits bound is work, not only size:
an alias costs as many nodes as it stands for, so a YAML bomb is refused while it is still small, and depth counts
through aliases.

A mapping keeps one value per key: a repeated key is refused, because the two readers that a manifest meets (ours and
a cluster's) must not pick different ones. Keys are texts; a number is taken as its digits, as kubectl does, and a
word that reads as a boolean is refused. `<<` merges as in YAML 1.1.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NoReturn

from hanse.manifests.scalars import ScalarValue, describe, resolve
from hanse.manifests.tree import Entry, Node, Row, Scalar, Table, Tree
from hanse.manifests.yaml_text import (
    AliasEvent,
    Event,
    Events,
    MappingEndEvent,
    MappingStartEvent,
    MarkedYAMLError,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
    YAMLError,
)
from hanse.model.errors import InvalidArgument
from hanse.model.names import quoted

MANIFEST_DEPTH_LEVELS_MAX: Final = 64
MANIFEST_NODES_MAX: Final = 250_000  # counted with every alias written out
MANIFEST_ALIAS_NODES_MAX: Final = 20_000  # of those, added by aliases
MANIFEST_DOCUMENTS_MAX: Final = 10_000

_TAG: Final = "tag:yaml.org,2002:"
_SCALAR_TAGS: Final = frozenset(("str", "int", "float", "bool", "null"))
_MERGE: Final = "<<"


class _Lines:
    """The line of a mark as an editor counts it; YAML breaks lines at three more characters, which nobody sees."""

    _UNSEEN_BREAKS: Final = ("\x85", "\u2028", "\u2029")

    def __init__(self, source: str) -> None:
        unseen = any(char in source for char in self._UNSEEN_BREAKS)
        self._ends = [m.start() for m in re.finditer("\n", source)] if unseen else None

    def of(self, mark: Event) -> int:
        return mark.line + 1 if self._ends is None else bisect_left(self._ends, mark.index) + 1


def compose(source: str) -> tuple[Tree, ...]:
    """All documents that are not empty, in order.

    Raises:
        InvalidArgument: reason YAML (with the line), or TOO_DEEP, TOO_MANY, TOO_MANY_NODES, YAML_BOMB.
    """
    events, lines = Events(source), _Lines(source)
    try:
        return tuple(_Composer(events, source, lines).documents())
    except YAMLError as error:
        raise _refusal(error, source, lines) from None
    finally:
        events.close()


def _refusal(error: YAMLError, source: str, lines: _Lines) -> InvalidArgument:
    if not isinstance(error, MarkedYAMLError):
        position = getattr(error, "position", 0)
        line = source.encode().count(b"\n", 0, position) + 1
        return InvalidArgument(f"not YAML: {getattr(error, 'reason', error)}", reason="YAML", line=line)
    mark, begun = error.problem_mark or error.context_mark, error.context_mark
    last = source.rstrip("\n").count("\n") + 1
    line = min(lines.of(mark), last) if mark else 0
    if "maximum nesting depth" in (error.problem or ""):
        _too_deep(line)
    what = " ".join(part for part in (error.problem, error.context) if part)
    where = f" begun in line {lines.of(begun)}" if begun and lines.of(begun) < line else ""
    return InvalidArgument(f"not YAML: {what}{where}", reason="YAML", line=line)


@dataclass(slots=True)
class _Anchored:
    node: Node
    nodes: int
    height: int


class _Composer:
    """Events to nodes, with the counts that the limits need. One per manifest."""

    def __init__(self, events: Events, source: str, lines: _Lines) -> None:
        self._events = events
        self._lines = lines
        self._source = source
        self._nodes = 0
        self._alias_nodes = 0
        self._anchors: dict[str, _Anchored | None] = {}

    def documents(self) -> Iterator[Tree]:
        self._next()
        for _ in range(MANIFEST_DOCUMENTS_MAX):
            event = self._next()
            if isinstance(event, StreamEndEvent):
                return
            tree = self._document(event)
            if not (isinstance(tree.root, Scalar) and tree.root.value is None):
                yield tree
        if not isinstance(self._next(), StreamEndEvent):
            raise InvalidArgument(
                f"more than {MANIFEST_DOCUMENTS_MAX:,} documents; split the file", reason="TOO_MANY"
            )

    def _document(self, start: Event) -> Tree:
        self._anchors = {}
        before = self._alias_nodes
        first = self._next()
        root, _ = self._node(first, 1)
        end = self._next()
        text = self._source[start.end_mark.index if start.explicit else 0 : end.start_mark.index]
        return Tree(root, self._line(first), text, self._source, self._alias_nodes > before)

    def _next(self) -> Event:
        return self._events.next()

    def _line(self, event: Event) -> int:
        return self._lines.of(event.start_mark)

    def _node(self, event: Event, depth: int) -> tuple[Node, int]:
        """The node that begins with `event`, and its height."""
        line = self._line(event)
        if isinstance(event, AliasEvent):
            return self._alias(str(event.anchor), line, depth)
        if depth > MANIFEST_DEPTH_LEVELS_MAX:
            _too_deep(line)
        self._count(1, line)
        if event.anchor is None:
            return self._fresh(event, depth)
        before = self._nodes - 1
        self._anchors[event.anchor] = None
        node, height = self._fresh(event, depth)
        self._anchors[event.anchor] = _Anchored(node, self._nodes - before, height)
        return node, height

    def _fresh(self, event: Event, depth: int) -> tuple[Node, int]:
        if isinstance(event, ScalarEvent):
            return _scalar(event, self._line(event)), 1
        if isinstance(event, MappingStartEvent):
            _check_tag(event, "map", self._line(event))
            return self._table(event, depth)
        _check_tag(event, "seq", self._line(event))
        return self._row(event, depth)

    def _row(self, start: Event, depth: int) -> tuple[Node, int]:
        items: list[Node] = []
        height = 0
        event: Event
        while not isinstance(event := self._next(), SequenceEndEvent):
            node, under = self._node(event, depth + 1)
            items.append(node)
            height = max(height, under)
        return Row(tuple(items), self._line(start)), height + 1

    def _table(self, start: Event, depth: int) -> tuple[Node, int]:
        entries: dict[str, Entry] = {}
        merged: list[Table] = []
        height = 0
        event: Event
        while not isinstance(event := self._next(), MappingEndEvent):
            line = self._line(event)
            key, is_merge = self._key(event, depth)
            node, under = self._node(self._next(), depth + 1)
            height = max(height, under)
            if is_merge:
                merged.extend(_merge_sources(node, line))
                continue
            if key in entries:
                _broken(f"the key {quoted(key)} is given twice, first in line {entries[key].line}", line)
            entries[key] = Entry(line, node)
        for table in merged:
            self._count(len(table.entries), table.line)
            for key, entry in table.entries.items():
                entries.setdefault(key, entry)
        end: Event = event
        span = (start.start_mark.index, end.end_mark.index, start.start_mark.column)
        return Table(entries, self._line(start), span), height + 1

    def _key(self, event: Event, depth: int) -> tuple[str, bool]:
        line = self._line(event)
        node, _ = self._node(event, depth + 1)
        if not isinstance(node, Scalar):
            _broken("a key is a mapping or a list; keys are texts", line)
        plain = isinstance(event, ScalarEvent) and event.implicit[0] and event.style in (None, "")
        if plain and node.text == _MERGE:
            return _MERGE, True
        value = node.value
        if isinstance(value, bool | float) or value is None:
            _broken(f"the key {quoted(node.text)} is {describe(value)}; quote it", line)
        return str(value), False

    def _alias(self, name: str, line: int, depth: int) -> tuple[Node, int]:
        target = self._anchors.get(name)
        if target is None:
            inside = "stands for something that contains it" if name in self._anchors else "is not defined"
            _broken(f"the alias *{name} {inside}", line)
        self._count(target.nodes, line)
        self._alias_nodes += target.nodes
        if self._alias_nodes > MANIFEST_ALIAS_NODES_MAX:
            raise InvalidArgument(
                f"aliases stand for more than {MANIFEST_ALIAS_NODES_MAX:,} values; write them out",
                reason="YAML_BOMB",
                line=line,
            )
        if depth + target.height - 1 > MANIFEST_DEPTH_LEVELS_MAX:
            _too_deep(line)
        return target.node, target.height

    def _count(self, nodes: int, line: int) -> None:
        self._nodes += nodes
        if self._nodes > MANIFEST_NODES_MAX:
            raise InvalidArgument(
                f"more than {MANIFEST_NODES_MAX:,} values; split the file", reason="TOO_MANY_NODES", line=line
            )


def _merge_sources(node: Node, line: int) -> tuple[Table, ...]:
    tables = node.items if isinstance(node, Row) else (node,)
    found = tuple(table for table in tables if isinstance(table, Table))
    if len(found) != len(tables):
        _broken("<< takes a mapping or a list of mappings", line)
    return found


def _scalar(event: Event, line: int) -> Scalar:
    text: str = event.value
    if event.tag is None:
        return Scalar(resolve(text) if event.implicit[0] else text, text, line)
    if event.tag == "!":
        return Scalar(text, text, line)
    name = event.tag.removeprefix(_TAG)
    if name == event.tag or name not in _SCALAR_TAGS:
        _broken(f"the tag {quoted(event.tag)} is not read; remove it", line)
    if name == "str":
        return Scalar(text, text, line)
    value = resolve(text)
    if not _has_tag(value, name):
        _broken(f"{quoted(text)} is not what its tag !!{name} says", line)
    return Scalar(value, text, line)


def _has_tag(value: ScalarValue, name: str) -> bool:
    match value:
        case None:
            return name == "null"
        case bool():
            return name == "bool"
        case int():
            return name in ("int", "float")
        case float():
            return name == "float"
        case str():
            return False


def _check_tag(event: Event, name: str, line: int) -> None:
    if event.tag is not None and event.tag not in ("!", _TAG + name):
        _broken(f"the tag {quoted(event.tag)} is not read; remove it", line)


def _broken(what: str, line: int) -> NoReturn:
    raise InvalidArgument(what, reason="YAML", line=line)


def _too_deep(line: int) -> NoReturn:
    raise InvalidArgument(
        f"nested deeper than {MANIFEST_DEPTH_LEVELS_MAX} levels; a manifest never needs that",
        reason="TOO_DEEP",
        line=line,
    )
