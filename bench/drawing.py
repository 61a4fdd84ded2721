"""Charts as SVG text: scales, axes, lines, marks. Enough for the plots of the docs, and nothing to install.

Every colour is one that can be read on white and on near-black paper, since a reader's theme is not known; there is
no background. Pixels are written with one decimal, so that equal data give equal bytes.

Rejected: matplotlib. Its files are larger and change with its version, and it would be one of the largest packages of
the set-up, for two plots.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, NamedTuple

INK: Final = "#6b7681"  # contrast 4.6 on white, 4.1 on GitHub's dark background
GRID: Final = "#8b949e"
BLUE: Final = "#2f81f7"
ORANGE: Final = "#d9730d"
GREY: Final = "#8b949e"
GREEN: Final = "#2da44e"

TEXT_PX: Final = 13
TITLE_PX: Final = 15


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values on pixels of one direction; `at_low` may be the larger pixel (upwards)."""

    low: float
    high: float
    at_low: float
    at_high: float

    def at(self, value: float) -> float:
        """The pixel of a value."""
        return self.at_low + (value - self.low) / (self.high - self.low) * (self.at_high - self.at_low)

    def ticks(self, step: float) -> list[float]:
        """Multiples of `step` within the scale."""
        first, last = round(self.low / step + 0.499), int(self.high / step + 1e-9)
        return [n * step for n in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class Panel:
    """A rectangle with a scale each way."""

    x: Scale
    y: Scale

    def grid_x(self, ticks: Iterable[float], form: str = "g") -> Iterator[str]:
        """Vertical lines with numbers below."""
        low, high = self.y.at_low, self.y.at_high
        for value in ticks:
            at = self.x.at(value)
            yield segment(at, low, at, high, GRID, opacity=0.3)
            yield text(at, max(low, high) + 18, format(value, form), anchor="middle")

    def grid_y(self, ticks: Iterable[float], form: str = "g") -> Iterator[str]:
        """Horizontal lines with numbers on the left."""
        left, right = self.x.at_low, self.x.at_high
        for value in ticks:
            at = self.y.at(value)
            yield segment(left, at, right, at, GRID, opacity=0.3)
            yield text(left - 8, at + 4, format(value, form), anchor="end")

    def line(self, points: Iterable[tuple[float, float]], colour: str, *, width: float = 1.6) -> str:
        """Values joined by a line."""
        path = " ".join(f"{_short(self.x.at(x))},{_short(self.y.at(y))}" for x, y in points)
        look = f'fill="none" stroke="{colour}" stroke-width="{width:g}" stroke-linejoin="round"'
        return f'<polyline points="{path}" {look}/>'


def text(
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "start",
    size: int = TEXT_PX,
    colour: str = INK,
    turn: float = 0.0,
) -> str:
    """One line of words; `turn` in degrees about its anchor."""
    turned = f' transform="rotate({turn:g} {_short(x)} {_short(y)})"' if turn else ""
    weight = ' font-weight="600"' if size > TEXT_PX else ""
    where = f'x="{_short(x)}" y="{_short(y)}" text-anchor="{anchor}"'
    return f'<text {where} font-size="{size}" fill="{colour}"{weight}{turned}>{escape(words)}</text>'


def segment(
    x1: float,
    y1: float,
    x2: float,
    y2: float,
    colour: str,
    *,
    opacity: float = 1.0,
    dash: str = "",
    width: float = 1.0,
) -> str:
    """A straight line."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    ends = f'x1="{_short(x1)}" y1="{_short(y1)}" x2="{_short(x2)}" y2="{_short(y2)}"'
    return f'<line {ends} stroke="{colour}" stroke-opacity="{opacity:g}" stroke-width="{width:g}"{dashed}/>'


def box(x1: float, y1: float, x2: float, y2: float, colour: str, *, opacity: float = 1.0) -> str:
    """A filled rectangle between two corners."""
    place = f'x="{_short(min(x1, x2))}" y="{_short(min(y1, y2))}"'
    size = f'width="{_short(abs(x2 - x1))}" height="{_short(abs(y2 - y1))}"'
    return f'<rect {place} {size} fill="{colour}" fill-opacity="{opacity:g}"/>'


def dot(x: float, y: float, colour: str, *, hollow: bool = False, radius: float = 5.0) -> str:
    """A round mark."""
    look = f'fill="none" stroke="{colour}" stroke-width="2"' if hollow else f'fill="{colour}"'
    return f'<circle cx="{_short(x)}" cy="{_short(y)}" r="{radius:g}" {look}/>'


def diamond(x: float, y: float, colour: str, *, radius: float = 6.0) -> str:
    """A hollow mark that differs from a dot also without colour."""
    corners = ((x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y))
    points = " ".join(f"{_short(a)},{_short(b)}" for a, b in corners)
    return f'<polygon points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'


class Key(NamedTuple):
    """An entry of a legend."""

    mark: str
    colour: str
    words: str


def legend(keys: Sequence[Key], y: float, *, gap: float = 24.0) -> Iterator[str]:
    """Entries beside each other."""
    x = 60.0
    for key in keys:
        match key.mark:
            case "line":
                yield segment(x, y, x + 18, y, key.colour, width=2)
            case "diamond":
                yield diamond(x + 9, y, key.colour)
            case _:
                yield dot(x + 9, y, key.colour, hollow=key.mark == "ring")
        yield text(x + 26, y + 4, key.words)
        x += 26 + 7.2 * len(key.words) + gap


def document(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """The whole picture; `title` is what a screen reader says."""
    family = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    lines = [f'{head} font-family="{family}" role="img">', f"<title>{escape(title)}</title>", *parts, "</svg>"]
    return "\n".join(lines) + "\n"


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
