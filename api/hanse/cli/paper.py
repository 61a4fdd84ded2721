"""What text is written on: how wide it is, whether it shows colour, and which characters it knows.

Drawings use a fixed set of symbols. Where the encoding is not UTF-8 each of them has a stand-in of ASCII, chosen so
that bars and pictures stay in line; that happens once, in `Paper.write`, and no drawing knows of it. Control
characters that did not come from here are taken out there too: a name or a message can never move the cursor.

Colour means state only, and never alone: whatever is coloured also has a symbol or a word.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, unique
from typing import Final, Protocol

from hanse.cli.symbols import DASH, TIMES

WIDTH_DEFAULT: Final = 80
WIDTH_MIN: Final = 40
GLUE: Final = "\N{NO-BREAK SPACE}"


@unique
class Tone(Enum):
    """What a colour says. The values are SGR parameters; blue and yellow stay apart for colour-blind eyes."""

    PLAIN = ""
    STRONG = "1"
    DIM = "2"
    GOOD = "36"
    WAITING = "33"
    BAD = "1;31"


_SGR: Final = re.compile("\x1b\\[[0-9;]*m")
_CONTROL: Final = re.compile("\x1b(?!\\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]")

_ASCII: Final = str.maketrans(
    {
        "✔": "+",
        "✘": "x",
        "•": "*",
        "·": ".",
        "…": "~",
        DASH: "-",
        "—": "-",
        "→": "->",
        "≥": ">=",
        "≤": "<=",
        TIMES: "x",
        "µ": "u",
        "▁": "_",
        "▂": "-",
        "▃": ":",
        "▄": "=",
        "▅": "+",
        "▆": "*",
        "▇": "#",
        "█": "#",
        "░": ",",
        "│": "|",
        "─": "-",
    }
)


@dataclass(frozen=True, slots=True)
class Paper:
    """One kind of surface.

    Attributes:
        width: columns of a line.
        colour: SGR sequences are understood.
        unicode: the symbols of `show` can be written.
        cut: long cells are cut to fit the width; off in a pipe, where a program may read on.
        encoding: of the stream; what it does not know becomes `?`.
    """

    width: int = WIDTH_DEFAULT
    colour: bool = False
    unicode: bool = True
    cut: bool = True
    encoding: str = "utf-8"

    def paint(self, text: str, tone: Tone) -> str:
        """The text in a colour, or as it is."""
        if not self.colour or tone is Tone.PLAIN or not text:
            return text
        return f"\x1b[{tone.value}m{text}\x1b[0m"

    def write(self, text: str) -> str:
        """The text as this surface can show it."""
        safe = _CONTROL.sub("", text)
        if self.unicode:
            return safe
        return safe.translate(_ASCII).encode(self.encoding, errors="replace").decode(self.encoding)


PLAIN_PAPER: Final = Paper()
"""80 columns without colour: what golden texts are drawn on."""


class TextStream(Protocol):
    """What is asked of stdout and stderr."""

    @property
    def encoding(self) -> str | None: ...

    def isatty(self) -> bool: ...


def paper_of(stream: TextStream, environment: Mapping[str, str], *, columns: int) -> Paper:
    """The surface behind a stream.

    Args:
        columns: width of the terminal, used if the stream is one.
    """
    terminal = stream.isatty()
    encoding = stream.encoding or "ascii"
    return Paper(
        width=max(WIDTH_MIN, columns) if terminal else WIDTH_DEFAULT,
        colour=_colourful(environment, terminal=terminal),
        unicode=encoding.lower().replace("-", "").replace("_", "") in ("utf8", "utf16", "utf32"),
        cut=terminal,
        encoding=encoding,
    )


def _colourful(environment: Mapping[str, str], *, terminal: bool) -> bool:
    """NO_COLOR wins, then FORCE_COLOR, then what the stream is."""
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return terminal and environment.get("TERM", "") != "dumb"


def columns_of(text: str) -> int:
    """Columns that a text takes on a terminal."""
    bare = _SGR.sub("", text)
    if bare.isascii():
        return len(bare)
    return sum(_columns_of_char(char) for char in bare)


def _columns_of_char(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut_to(text: str, columns: int) -> str:
    """A text without colour, cut to so many columns; the cut shows as `…`."""
    if columns_of(text) <= columns:
        return text
    taken, kept = 0, []
    for char in text:
        taken += _columns_of_char(char)
        if taken > columns - 1:
            break
        kept.append(char)
    return "".join(kept) + "…"


def wrapped(text: str, columns: int) -> list[str]:
    """A text as lines of at most so many columns, broken at spaces, not at `GLUE`; a longer word stands alone."""
    lines: list[str] = []
    for word in filter(None, text.split(" ")):
        if lines and columns_of(lines[-1]) + 1 + columns_of(word) <= columns:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines or [""]


def joined(lines: Iterable[str]) -> str:
    """Lines as one text, without spaces at their ends; what was glued is parted by a space again."""
    return "".join(f"{line.rstrip()}\n" for line in lines).replace(GLUE, " ")
