"""Named terms that decide between places which placement holds equal: power headroom, temperature, health.

A term reads one number from a label of the node and has a weight. The merit of a host is the weighted sum over the
terms, larger is better; a host that says nothing about a term comes after those that do, because nothing is known in
its favour. Between domains, the merit of their hosts is averaged.

Terms act last. Which domains, and which hosts up to equality, follows from the objective of placement alone, on the
shape that the scheduler sees too; what a scheduler expects stays true whatever the terms say.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from hanse.model.resources import parse_quantity

VALUE_SCALE: Final = 1_000
"""Values are compared in thousandths, as integers."""

TERMS_MAX: Final = 8
"""Of one pool."""

WEIGHT_MAX: Final = 1_000
"""Of one term, either way."""


@dataclass(frozen=True, slots=True)
class ScoreTerm:
    """One term.

    Attributes:
        name: as people are told, such as `power`.
        label: of the nodes; its value is a number such as 412, 0.75 or 4k.
        weight: above zero if more is better, below if less is.
    """

    name: str
    label: str
    weight: int


Merit = tuple[int, int]
"""(terms that the host says nothing about, minus the weighted sum): the smaller one is the better host."""

NO_MERIT: Final[Merit] = (0, 0)


def value_of(labels: Mapping[str, str], term: ScoreTerm) -> int | None:
    """The number on a host in 1/VALUE_SCALE, None if the label is missing or no number."""
    text = labels.get(term.label)
    if text is None:
        return None
    try:
        return parse_quantity(text, scale=VALUE_SCALE)
    except ValueError:
        return None


def merit_of(labels: Mapping[str, str], terms: Iterable[ScoreTerm]) -> Merit:
    """How a host stands among hosts that placement holds equal."""
    silent = total = 0
    for term in terms:
        value = value_of(labels, term)
        if value is None:
            silent += 1
        else:
            total += term.weight * value
    return silent, -total


def mean_merit(merits: Iterable[Merit]) -> tuple[float, float]:
    """The merit of a domain with these hosts."""
    every = list(merits)
    hosts = max(1, len(every))
    return sum(silent for silent, _ in every) / hosts, sum(total for _, total in every) / hosts
