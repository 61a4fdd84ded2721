"""A place in a document: a node, its path as the user would write it, its line. Reading is asking for a type.

Every reader of a manifest walks these, so that each refusal names path and line without anybody passing them along.
"Not set" is `None` everywhere: a key that is absent, and one whose value is null, are the same to Kubernetes.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Generic, NoReturn, TypeVar

from hanse.manifests.scalars import describe
from hanse.manifests.tree import Entry, Node, Row, Scalar, Table
from hanse.model.errors import InvalidArgument
from hanse.model.names import QUALIFIED_CHARS_MAX, below, quoted
from hanse.model.resources import parse_amount

COUNT_MAX: Final = 2**31 - 1

T = TypeVar("T")


def suggestion(word: str, known: Collection[str]) -> str:
    """`; did you mean "replicas"?`, or nothing if no known word is near."""
    if len(word) > QUALIFIED_CHARS_MAX:
        return ""
    lowered = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), lowered, n=1, cutoff=0.7)
    return f"; did you mean {quoted(lowered[near[0]])}?" if near else ""


@dataclass(frozen=True, slots=True)
class Field:
    """One value in a document."""

    node: Node
    path: str
    line: int

    def refuse(self, reason: str, message: str) -> NoReturn:
        """Refuse what stands here."""
        raise InvalidArgument(message, reason=reason, path=self.path, line=self.line)

    # Mappings.

    def get(self, key: str) -> "Field | None":
        """The value under `key`; None if it is not set."""
        entry = self._table().entries.get(key)
        return None if entry is None else self._child(key, entry)

    def need(self, key: str, why: str = "") -> "Field":
        """The value under `key`, refused if it is not set."""
        found = self.get(key)
        if found is None:
            raise InvalidArgument(why or "is missing", reason="MISSING", path=below(self.path, key), line=self.line)
        return found

    def entries(self) -> Iterator[tuple[str, "Field"]]:
        """Keys and values that are set, in document order."""
        for key, entry in self._table().entries.items():
            child = self._child(key, entry)
            if child is not None:
                yield key, child

    def texts(self) -> dict[str, str]:
        """A mapping of texts to texts, such as labels."""
        return {key: child.text() for key, child in self.entries()}

    def only(self, known: Collection[str], *, reserved: Collection[str] = ()) -> None:
        """Refuse keys that are neither known nor reserved; reserved ones are refused as not supported yet."""
        for key, child in self.entries():
            if key in reserved:
                child.refuse("NOT_SUPPORTED", f"{key} is not supported yet; remove it")
            if key not in known:
                child.refuse("UNKNOWN_FIELD", f"no field of this name{suggestion(key, known)}")

    # Sequences.

    def items(self) -> Iterator["Field"]:
        """The items of a list, none of which may be null."""
        if not isinstance(self.node, Row):
            self._mistyped("a list")
        for index, node in enumerate(self.node.items):
            item = Field(node, f"{self.path}[{index}]", node.line)
            if isinstance(node, Scalar) and node.value is None:
                item.refuse("TYPE", "an empty item; fill it or remove it")
            yield item

    # Scalars.

    def text(self) -> str:
        """A text. A number or boolean is refused, as Kubernetes does, with the advice to quote it."""
        value = self._scalar("a text").value
        if not isinstance(value, str):
            shown = self._scalar("a text").text
            self.refuse("TYPE", f"{shown} is {describe(value)} where a text is wanted; write {quoted(shown)}")
        return value

    def word(self) -> str:
        """A text that is not empty."""
        value = self.text()
        if not value:
            self.refuse("TYPE", "an empty text; fill it or remove it")
        return value

    def boolean(self) -> bool:
        """A boolean."""
        value = self._scalar("true or false").value
        if not isinstance(value, bool):
            self.refuse("TYPE", f"{quoted(self.shown)} is {describe(value)}; write true or false")
        return value

    def integer(self) -> int:
        """A whole number; `8.0` and `1e3` are whole, as in Kubernetes' JSON."""
        value = self._scalar("a whole number").value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            hint = "; remove the quotes" if isinstance(value, str) and value.isdecimal() else ""
            self.refuse("TYPE", f"{quoted(self.shown)} is {describe(value)}, not a whole number{hint}")
        if abs(value) > 2**63 - 1:
            self.refuse("OUT_OF_RANGE", f"{quoted(self.shown)} is too large a number")
        return value

    def at_least(self, least: int, what: str) -> int:
        """A whole number of at least `least` that fits 32 bits; `what` names the things that are counted."""
        value = self.integer()
        if value < least:
            self.refuse("COUNT_OUT_OF_RANGE", f"{value} {what}; it must be at least {least}")
        if value > COUNT_MAX:
            self.refuse("COUNT_OUT_OF_RANGE", f"{value} {what}; it must be at most {COUNT_MAX}")
        return value

    def amount(self, resource: str) -> int:
        """A Kubernetes quantity of `resource`, in its canonical unit, never negative."""
        scalar = self._scalar("a quantity")
        value = scalar.value
        if isinstance(value, bool) or value is None:
            self.refuse("QUANTITY", f"{quoted(scalar.text)} is {describe(value)}, not a quantity")
        written = scalar.text.replace("_", "") if isinstance(value, float) else value
        try:
            amount = parse_amount(resource, written)
        except ValueError as error:
            self.refuse("QUANTITY", str(error))
        if amount < 0:
            self.refuse("QUANTITY", f"{scalar.text} is negative; an amount is at least 0")
        return amount

    def one_of(self, *words: str) -> str:
        """One of the given words."""
        value = self.text()
        if value not in words:
            choice = ", ".join(words[:-1]) + f" or {words[-1]}" if len(words) > 1 else words[0]
            self.refuse("UNKNOWN_VALUE", f"{quoted(value)} is not known; use {choice}")
        return value

    @property
    def shown(self) -> str:
        """A scalar as written, for messages."""
        return self.node.text if isinstance(self.node, Scalar) else ""

    def _scalar(self, wanted: str) -> Scalar:
        if not isinstance(self.node, Scalar):
            self._mistyped(wanted)
        return self.node

    def _table(self) -> Table:
        if not isinstance(self.node, Table):
            self._mistyped("a mapping")
        return self.node

    def _mistyped(self, wanted: str) -> NoReturn:
        match self.node:
            case Table():
                found = "a mapping"
            case Row():
                found = "a list"
            case Scalar():
                found = f"{describe(self.node.value)} ({quoted(self.node.text, chars=40)})"
        self.refuse("TYPE", f"{found} stands here, {wanted} is wanted")

    def _child(self, key: str, entry: Entry) -> "Field | None":
        if isinstance(entry.node, Scalar) and entry.node.value is None:
            return None
        return Field(entry.node, below(self.path, key), entry.line)


@dataclass(frozen=True, slots=True)
class Placed(Generic[T]):
    """A value and where it was written."""

    value: T
    field: Field
