"""Does a gang fit a shape, where, and how well: the one answer that scheduler and agent share.

The scheduler asks it of a summary, the agent of the shape of its own nodes; the agent then maps the chosen domains
and bins on named hosts. So "fits above" is "fits below", and what `apply` leaves is what the agent publishes.

A gang of several pod sets is placed set by set, the bigger pods first, each set on what the others left; other orders
are tried when one fails. It is all or nothing.
"""

from dataclasses import dataclass
from itertools import islice, permutations
from typing import Final

from hanse.model.ids import FlavorName
from hanse.model.placement import LevelUse, PartPlacement
from hanse.model.request import GangRequest
from hanse.shape.decision import Decision, SetTake, apply_set
from hanse.shape.lens import Ask, SetAsk, prepare
from hanse.shape.refuse import NoFit, refuse, unnamed
from hanse.shape.seat import Seat, seat
from hanse.shape.shape import Shape

ORDERS_MAX: Final = 24  # orders of pod sets that are tried before a gang is refused


@dataclass(frozen=True, slots=True)
class Fit:
    """A gang's place in a shape.

    Attributes:
        score: comparable between pools, smaller is better: domains of the coarsest level, of the finest, hosts, GPUs
            left free in the smallest domain that holds a whole set.
        levels_used: domains used by level, coarse to fine, the host last; sets and groups summed.
        parts: one per pod set that has pods, in the order of the request.
        decision: for `apply`, on this shape only.
        certain: the agent will say the same; else it may refuse for a reason that a shape cannot see.
    """

    score: tuple[int, int, int, int]
    levels_used: tuple[LevelUse, ...]
    parts: tuple[PartPlacement, ...]
    decision: Decision
    certain: bool


def fit(shape: Shape, request: GangRequest, flavors: tuple[FlavorName, ...]) -> Fit | NoFit:
    """The best place for a gang, with one concrete flavor per pod set."""
    return fit_ask(shape, prepare(request, flavors))


def could_ever_fit(empty: Shape, request: GangRequest, flavors: tuple[FlavorName, ...]) -> Fit | NoFit:
    """`fit` on the shape of the empty pool: a NoFit here holds for ever."""
    return fit(empty, request, flavors)


def fit_ask(shape: Shape, ask: Ask) -> Fit | NoFit:
    """`fit` for a request that is already prepared; use this to ask many pools."""
    first: NoFit | None = None
    for order in islice(permutations(big_first(ask)), ORDERS_MAX):
        result = _in_order(shape, ask, order)
        if isinstance(result, Fit):
            return result
        first = first or result
        if result.final:
            break
    assert first is not None
    return first


def quick_reject(shape: Shape, ask: Ask) -> bool:
    """True only if `fit_ask` would refuse: for sorting out pools in about a microsecond each."""
    return any(unnamed(shape, s) for s in ask.sets)


def big_first(ask: Ask) -> list[int]:
    sets = ask.sets
    return sorted(range(len(sets)), key=lambda i: (-sets[i].pod.gpus, not sets[i].required, -sets[i].count, i))


def _in_order(shape: Shape, ask: Ask, order: tuple[int, ...]) -> Fit | NoFit:
    left = shape
    seats: dict[int, Seat] = {}
    takes: list[SetTake] = []
    for i in order:
        found = seat(left, ask.sets[i])
        if found is None:
            return refuse(left, ask.sets[i], alone=len(seats) == 0)
        seats[i] = found
        takes.append(SetTake(ask.index[i], ask.sets[i].pod, found.takes, found.exclusive))
        if len(order) > 1:
            left = apply_set(left, takes[-1])
    return _fit(shape, ask, seats, takes)


def _fit(shape: Shape, ask: Ask, seats: dict[int, Seat], takes: list[SetTake]) -> Fit:
    parts = [_part(shape, ask.sets[i], seats[i]) for i in sorted(seats)]
    total: dict[str, int] = {}
    for part in parts:
        for use in part.domains:
            total[use.level] = total.get(use.level, 0) + use.count
    scores = [seats[i].score for i in sorted(seats)]
    return Fit(
        score=(
            sum([s[0] for s in scores]),
            sum([s[1] for s in scores]),
            sum([s[2] for s in scores]),
            sum([s[3] for s in scores]),
        ),
        levels_used=tuple([LevelUse(level, n, ()) for level, n in total.items()]),
        parts=tuple(parts),
        decision=Decision(shape.key, tuple(takes)),
        certain=all(s.certain for s in seats.values()),
    )


def _part(shape: Shape, s: SetAsk, found: Seat) -> PartPlacement:
    return PartPlacement((s.flavor,), s.count, tuple([LevelUse(a, n, ()) for a, n in found.counts]))
