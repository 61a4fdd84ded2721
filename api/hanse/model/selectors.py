"""Node selection and tolerations, with the exact semantics of Kubernetes, and one operator more: versions.

A selector is an OR of terms; a term is an AND of requirements; an empty selector matches every node. Constraints
that come from several places are ANDed into every term (`Selector.and_`), never appended as one more term, which
would widen the selection.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, unique
from typing import Final


@unique
class Operator(IntEnum):
    """The operators of a Kubernetes node selector requirement, and VERSION_AT_LEAST."""

    UNSPECIFIED = 0
    IN = 1
    NOT_IN = 2
    EXISTS = 3
    DOES_NOT_EXIST = 4
    GT = 5
    LT = 6
    VERSION_AT_LEAST = 7  # ours: a dotted version, compared number by number


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


_VERSION: Final = re.compile(r"v?([0-9]{1,9}(?:\.[0-9]{1,9})*)(?:[-_+].*)?")


def version_of(text: str) -> tuple[int, ...] | None:
    """The numbers of a dotted version: 550.54.15 → (550, 54, 15). A leading v and a suffix from -, _ or + on are left
    out, so are zeros at the end; None if it is no version."""
    match = _VERSION.fullmatch(text)
    if match is None:
        return None
    numbers = [int(part) for part in match[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def at_least(text: str, least: str) -> bool:
    """Whether a version is the same as another or newer; false if one of them is no version."""
    mine, wanted = version_of(text), version_of(least)
    return mine is not None and wanted is not None and mine >= wanted


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels satisfies the condition. NOT_IN holds for an absent label."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GT | Operator.LT:
                return self._compares(value)
            case Operator.VERSION_AT_LEAST:
                return value is not None and len(self.values) == 1 and at_least(value, self.values[0])
            case Operator.UNSPECIFIED:
                return False

    def _compares(self, value: str | None) -> bool:
        left = None if value is None else _integer(value)
        right = _integer(self.values[0]) if len(self.values) == 1 else None
        if left is None or right is None:
            return False
        return left > right if self.operator is Operator.GT else left < right


@dataclass(frozen=True, slots=True)
class Selector:
    """An OR of ANDs of requirements; no term at all selects everything."""

    terms: tuple[tuple[Requirement, ...], ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels is selected. A term without requirements selects nothing."""
        if not self.terms:
            return True
        return any(bool(term) and all(req.matches(labels) for req in term) for term in self.terms)

    def and_(self, requirements: tuple[Requirement, ...]) -> "Selector":
        """This selector with the requirements added to every term."""
        if not requirements:
            return self
        return Selector(tuple((*term, *requirements) for term in (self.terms or ((),))))

    @property
    def keys(self) -> tuple[str, ...]:
        """The label keys that decide, sorted."""
        return tuple(sorted({req.key for term in self.terms for req in term}))


@unique
class Effect(IntEnum):
    """Taint effects; UNSPECIFIED in a toleration tolerates every effect."""

    UNSPECIFIED = 0
    NO_SCHEDULE = 1
    PREFER_NO_SCHEDULE = 2
    NO_EXECUTE = 3


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint on a node."""

    key: str
    value: str
    effect: Effect


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of a pod: `exists` ignores the value; an empty key with `exists` tolerates everything."""

    key: str = ""
    exists: bool = False
    value: str = ""
    effect: Effect = Effect.UNSPECIFIED

    def tolerates(self, taint: Taint) -> bool:
        """Whether a pod with this toleration may run beside this taint."""
        if self.effect is not Effect.UNSPECIFIED and self.effect is not taint.effect:
            return False
        if not self.key:
            return self.exists
        return self.key == taint.key and (self.exists or self.value == taint.value)


def untolerated(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """The first taint that keeps a pod off the node, or None. PREFER_NO_SCHEDULE keeps nobody off."""
    for taint in taints:
        if taint.effect is Effect.PREFER_NO_SCHEDULE:
            continue
        if not any(t.tolerates(taint) for t in tolerations):
            return taint
    return None
