"""Which of the pools that hold a gang is the best, and the terms of that choice, kept for whoever asks later.

Pools are compared by what the agents' placement minimises, as if the pools were the coarsest level of one tree:
domains used at each level and hosts, then the tightest pool and the tightest places in it; what one host holds breaks
up no whole host, rack or pool while a broken one has room. Before tightness counts what operators said a GPU costs.

Rejected: the GPUs left in the smallest domain around the gang. It fills racks well, says nothing of what is around
them, and tells no broken rack from a whole one where a pod takes a whole host.

The shape on which a choice was made is gone a moment after it, so the terms are written down with the binding: those
of the pool that won and those of the one that came next.
"""

from dataclasses import dataclass
from typing import Final

from hanse.model.ids import PoolName
from hanse.shape import Fit

Score = tuple[int, int, int, int]
Rank = tuple[int, tuple[int, ...], int, tuple[int, ...]]
"""Preferred slice layers that were given up, `Fit.width`, the cost, `Fit.tight`: the smaller one wins."""

TIGHT_KEPT: Final = 2
"""Of what two pools are tight by, the terms that are written down."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One pool that held the gang.

    Attributes:
        score: see `Fit.score`.
        cost: of a GPU-hour, in thousandths of the operators' unit.
        levels: aliases of the coarsest and of the finest level that were counted, "" where the pool has none.
        tight: the beginning of `Fit.tight`; () for gangs of several pod sets, of which it has several.
    """

    pool: PoolName
    score: Score
    cost: int
    levels: tuple[str, str]
    tight: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """The pool that won.

    Attributes:
        second: the best of the others that held the gang, None if no other did.
        fitting: pools that were found to hold it, the winner included.
        asked: pools that were asked.
    """

    won: Standing
    second: Standing | None
    fitting: int
    asked: int


def rank_of(found: Fit, cost: int) -> Rank:
    """By which a pool that holds the gang is compared with others."""
    return found.dropped, found.width, cost, found.tight


def standing(pool: PoolName, found: Fit, cost: int) -> Standing:
    """What is remembered of a pool that holds the gang."""
    tight = found.tight[:TIGHT_KEPT] if len(found.seats) == 1 else ()
    return Standing(pool, found.score, cost, found.ends, tight)
