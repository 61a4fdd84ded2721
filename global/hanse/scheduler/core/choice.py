"""Why a pool was chosen: the terms by which the pools that held a gang were compared, kept for whoever asks later.

The shape on which a choice was made is gone a moment after it, so the terms are written down with the binding: those
of the pool that won and those of the one that came next.
"""

from dataclasses import dataclass

from hanse.model.ids import PoolName

Score = tuple[int, int, int, int]
Rank = tuple[int, Score, int]
"""Preferred slice layers that were given up, `Fit.score`, then the cost: the smaller one wins."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One pool that held the gang.

    Attributes:
        score: see `Fit.score`.
        cost: of a GPU-hour, in thousandths of the operators' unit.
        levels: aliases of the coarsest and of the finest level that were counted, "" where the pool has none.
    """

    pool: PoolName
    score: Score
    cost: int
    levels: tuple[str, str]


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
