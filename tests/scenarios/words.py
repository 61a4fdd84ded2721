"""Reads story files: paragraphs of commands with golden output, and the words of one command."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from hanse.model.resources import CPU, NVIDIA_GPU, Resources, parse_quantity

MARK: Final = "----"
NOT_YET: Final = "# not yet: "
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SCALES: Final = {CPU: 1000}
_SHORT: Final = {"gpus": NVIDIA_GPU}


class Misread(Exception):
    """A story that cannot be told: what is wrong, and in which line."""


@dataclass(frozen=True, slots=True)
class Line:
    """One command.

    Attributes:
        more: the pod sets after a `+`, each a line of its own.
        beside: it began with `&`: the next command does not wait for it.
    """

    number: int
    verb: str
    words: tuple[str, ...]
    named: Mapping[str, str]
    more: tuple["Line", ...] = ()
    beside: bool = False

    def word(self, at: int, what: str) -> str:
        """A word that must be there."""
        if at >= len(self.words):
            raise Misread(f"line {self.number}: {self.verb} needs {what}")
        return self.words[at]

    def has(self, word: str) -> bool:
        """Whether a flag is given."""
        return word in self.words

    def integer(self, name: str, default: int) -> int:
        """A named number."""
        return int(self.named.get(name, default))

    def seconds(self, name: str, default: float) -> float:
        """A named span."""
        return seconds(self.named[name]) if name in self.named else default

    def resources(self) -> Resources:
        """Every amount among the named values: `gpus`, `cpu`, `memory`, `pods` of a host, `rdma/hca`, …"""
        return amounts({k: v for k, v in self.named.items() if k in ("gpus", "cpu", "memory", "pods") or "/" in k})

    def prefixed(self, prefix: str) -> dict[str, str]:
        """Named values whose names begin so, without that beginning."""
        return {k[len(prefix) :]: v for k, v in self.named.items() if k.startswith(prefix)}

    def listed(self, name: str) -> tuple[str, ...]:
        """A named list, separated by commas."""
        return tuple(word for word in self.named.get(name, "").split(",") if word)


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Commands, remarks among them, and what they showed when it was written down."""

    source: tuple[str, ...]
    lines: tuple[Line, ...]
    golden: tuple[str, ...]

    def written(self, output: Sequence[str]) -> str:
        """The paragraph with other output."""
        return "\n".join([*self.source, MARK, *output] if output else self.source)


@dataclass(frozen=True, slots=True)
class Story:
    """A file."""

    paragraphs: tuple[Paragraph, ...]

    @property
    def title(self) -> str:
        """The first remark."""
        return self.paragraphs[0].source[0].lstrip("# ")

    @property
    def not_yet(self) -> str:
        """Why the story does not come true yet, "" if it does: a remark `not yet: WHY` right below the title."""
        remarks = self.paragraphs[0].source[1:2]
        return remarks[0].removeprefix(NOT_YET) if remarks and remarks[0].startswith(NOT_YET) else ""

    def golden(self) -> str:
        """The file as it is written."""
        return self.written([p.golden for p in self.paragraphs])

    def written(self, outputs: Sequence[Sequence[str]]) -> str:
        """The file with other output."""
        told = (p.written(o) for p, o in zip(self.paragraphs, outputs, strict=True))
        return "\n\n".join(told) + "\n"


def parse(text: str) -> Story:
    """A story from its text.

    Raises:
        Misread: it does not begin with a title, or a line makes no sense.
    """
    if not text.startswith("# "):
        raise Misread("line 1: a story begins with its title, as a remark")
    found: list[Paragraph] = []
    block: list[str] = []
    begins = 1
    for number, raw in enumerate([*text.splitlines(), ""], 1):
        if raw.strip():
            block.append(raw.rstrip())
            continue
        if block:
            found.append(_paragraph(block, begins))
        block, begins = [], number + 1
    return Story(tuple(found))


def _paragraph(block: list[str], begins: int) -> Paragraph:
    at = block.index(MARK) if MARK in block else len(block)
    lines = [parse_line(raw, begins + i) for i, raw in enumerate(block[:at]) if not raw.startswith("#")]
    return Paragraph(tuple(block[:at]), tuple(lines), tuple(block[at + 1 :]))


def parse_line(raw: str, number: int) -> Line:
    """One command."""
    beside = raw.startswith("& ")
    first, *others = _split(raw.removeprefix("& ").split())
    verb, *rest = first
    more = tuple(_line(number, words[0], words[1:]) for words in others if words)
    line = _line(number, verb, rest)
    return Line(number, verb, line.words, line.named, more, beside)


def _line(number: int, verb: str, rest: list[str]) -> Line:
    named = dict(word.split("=", 1) for word in rest if "=" in word)
    return Line(number, verb, tuple(word for word in rest if "=" not in word), named)


def _split(words: list[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in words:
        if word == "+":
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def seconds(text: str) -> float:
    """A span: `5s`, `300ms`, `1h`."""
    for unit, factor in _UNITS_S.items():
        if text.endswith(unit) and text[: -len(unit)].replace(".", "", 1).isdigit():
            return float(text[: -len(unit)]) * factor
    raise Misread(f"{text!r} is no span of time; write 5s, 300ms, 2m or 1h")


def amounts(named: Mapping[str, str]) -> Resources:
    """Amounts as Kubernetes writes them; `gpus` stands for NVIDIA's."""
    full = {_SHORT.get(name, name): text for name, text in named.items()}
    return Resources({name: parse_quantity(text, scale=_SCALES.get(name, 1)) for name, text in full.items()})


def matches(name: str, pattern: str) -> bool:
    """Whether a job is meant by a glob."""
    return fnmatchcase(name, pattern)


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as they need, two spaces between; a column that is empty everywhere takes no room."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    used = [i for i, width in enumerate(widths) if width]
    return ["  ".join(row[i].ljust(widths[i]) for i in used).rstrip() for row in rows]
