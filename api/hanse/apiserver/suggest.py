"""`did you mean`: the nearest known name, in words that end an error message."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from hanse.model.names import quoted

CLOSENESS_MIN: Final = 0.6
NAMES_COMPARED_MAX: Final = 2_000
NAMES_LISTED_MAX: Final = 8


def did_you_mean(wanted: str, known: Iterable[str]) -> str:
    """`; did you mean "research"?`, or "" if nothing is near."""
    names = sorted(known)[:NAMES_COMPARED_MAX]
    near = get_close_matches(wanted, names, n=1, cutoff=CLOSENESS_MIN)
    return f"; did you mean {quoted(near[0])}?" if near else ""


def listed(known: Iterable[str]) -> str:
    """`a, b, c`, cut where it gets long; `none` if there is nothing."""
    names = sorted(known)
    more = ", …" if len(names) > NAMES_LISTED_MAX else ""
    return ", ".join(names[:NAMES_LISTED_MAX]) + more if names else "none"
