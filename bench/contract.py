"""What a bench is: a module `bench/NAME.py` (or a package `bench/NAME`) with one function:

    def run(args: Mapping[str, str]) -> BenchResult: ...

`args` holds what the caller wrote beside the name: `make bench BENCH=embedded POOLS=5` gives
`{"POOLS": "5"}`. A bench reads them with a `BenchArgs`, which knows defaults and refuses the rest. A bench
that is asynchronous calls `asyncio.run` itself. It may print while it runs; the runner prints the figures.

`figures` are what a reader compares: a name that ends in its unit (`placed_ms_p99`, `gangs_per_s`), and a
finite number, or None for "could not be measured here", with the reason in `raw`. `raw` is what they were
computed from, as plain JSON values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

JsonValue: TypeAlias = (
    "bool | int | float | str | list[JsonValue] | tuple[JsonValue, ...] | Mapping[str, JsonValue] | None"
)


class BenchArgumentError(ValueError):
    """The caller's fault, in one line: which argument, what it was, what it should be."""


@dataclass(frozen=True, slots=True)
class BenchResult:
    """What one run of a bench measured; see the module docstring."""

    figures: Mapping[str, float | None]
    raw: JsonValue = field(default=None)


class Bench(Protocol):
    """What the runner expects of a bench's module."""

    def run(self, args: Mapping[str, str]) -> BenchResult:
        """Measures, and returns what it found. Raises BenchArgumentError for arguments it cannot use."""
        ...


@dataclass(frozen=True, slots=True)
class BenchArgs:
    """Arguments of one run, read by name. `done` refuses what was given and never read."""

    given: Mapping[str, str]
    known: dict[str, str] = field(default_factory=dict)

    def text(self, name: str, default: str) -> str:
        """The argument as written, or the default."""
        value = self.given.get(name, default)
        self.known[name] = value
        return value

    def whole(self, name: str, default: int, *, least: int = 1) -> int:
        """The argument as an integer of at least `least`. Raises BenchArgumentError."""
        text = self.text(name, str(default))
        if not text.lstrip("-").isdecimal() or int(text) < least:
            raise BenchArgumentError(f"{name}={text}: give a whole number of at least {least}")
        return int(text)

    def number(self, name: str, default: float) -> float:
        """The argument as a number. Raises BenchArgumentError."""
        text = self.text(name, repr(default))
        try:
            return float(text)
        except ValueError:
            raise BenchArgumentError(f"{name}={text}: give a number") from None

    def done(self) -> dict[str, str]:
        """All that was read, for `raw`. Raises BenchArgumentError if something else was given."""
        unknown = sorted(set(self.given) - set(self.known))
        if unknown:
            raise BenchArgumentError(f"{unknown[0]}: no such argument; known: {', '.join(self.known)}")
        return dict(self.known)
