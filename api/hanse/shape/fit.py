"""Does a gang fit a shape, where, and how well: the one answer that scheduler and agent share.

The scheduler asks it of a summary, the agent of the shape of its own nodes; the agent then maps the chosen domains
and bins on named hosts. So "fits above" is "fits below", and what `apply` leaves is what the agent publishes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hanse.model.ids import FlavorName
from hanse.model.placement import LevelUse, PartPlacement
from hanse.model.request import GangRequest
from hanse.shape.arrangement import Arrangement
from hanse.shape.ask import Ask, SetAsk, prepare
from hanse.shape.decision import Decision, SetTake, apply_set
from hanse.shape.domains import Branch, Node, branch
from hanse.shape.ground import arranged
from hanse.shape.joint import Joint, Seats, Spot
from hanse.shape.lens import Ladder
from hanse.shape.limits import LEVELS_MAX
from hanse.shape.refuse import NoFit, never, unnamed
from hanse.shape.same import known_values, no_one_value, options, same_keys
from hanse.shape.seat import Seat, View, stretched, views
from hanse.shape.shape import Shape


@dataclass(frozen=True, slots=True)
class Fit:
    """A gang's place in a shape.

    Attributes:
        score: for people and for choices within one pool, smaller is better: domains of the coarsest level, of the
            finest, hosts, GPUs left free in the smallest domain that holds a whole set; summed over the sets.
        decision: for `apply`, on this shape only.
        certain: the agent will say the same; else it may refuse for a reason that a shape cannot see.
        seats: (the set, where it goes), in the order of the request, without sets that have no pods.
        dropped: preferred slice layers that were given up; the sets of `seats` are without them.
    """

    score: tuple[int, int, int, int]
    decision: Decision
    certain: bool
    seats: tuple[tuple[SetAsk, Seat], ...]
    dropped: int = 0

    @property
    def hosts(self) -> int:
        """Hosts that are used, summed over the sets."""
        return self.score[2]

    @property
    def levels_used(self) -> tuple[LevelUse, ...]:
        """Domains used by level, coarse to fine, the host last; sets and groups summed."""
        total: dict[str, int] = {}
        for _, found in self.seats:
            for level, n in found.counts:
                total[level] = total.get(level, 0) + n
        return tuple([LevelUse(level, n, ()) for level, n in total.items()])

    @property
    def ends(self) -> tuple[str, str]:
        """The coarsest and the finest level whose domains the score counts, "" where there are only hosts."""
        levels = self.seats[0][1].counts[:-1] if self.seats else ()
        return (levels[0][0], levels[-1][0]) if levels else ("", "")

    @property
    def width(self) -> tuple[int, ...]:
        """Domains used at each level, coarse to fine, then hosts, summed over the sets; comparable between pools.

        A pool with fewer levels counts its finest one for those that it lacks.
        """
        costs = [stretched(found.cost, LEVELS_MAX)[: LEVELS_MAX + 1] for _, found in self.seats]
        return tuple([sum(column) for column in zip(*costs, strict=True)])

    @property
    def tight(self) -> tuple[int, ...]:
        """How much larger than needed the places are, see `Seat`; comparable between pools, set by set."""
        return tuple([part for _, found in self.seats for part in found.tight])

    @property
    def parts(self) -> tuple[PartPlacement, ...]:
        """Counts by level, one for each of `seats`."""
        return tuple(
            [
                PartPlacement((s.flavor,), s.count, tuple([LevelUse(a, n, ()) for a, n in found.counts]))
                for s, found in self.seats
            ]
        )


def fit(shape: Shape, request: GangRequest, flavors: tuple[FlavorName, ...]) -> Fit | NoFit:
    """The best place for a gang, with one concrete flavor per pod set."""
    return fit_ask(shape, prepare(request, flavors))


def could_ever_fit(empty: Shape, request: GangRequest, flavors: tuple[FlavorName, ...]) -> Fit | NoFit:
    """`fit` on the shape of the empty pool: a NoFit here holds for ever."""
    return fit(empty, request, flavors)


def fit_ask(shape: Shape, ask: Ask) -> Fit | NoFit:
    """`fit` for a request that is already prepared; use this to ask many pools."""
    outcome = _fit_as_asked(shape, ask)
    for dropped, softer in enumerate(ask.softer, 1):
        if isinstance(outcome, Fit):
            break
        outcome = _fit_as_asked(shape, softer)
        if isinstance(outcome, Fit):
            outcome = replace(outcome, dropped=dropped)
    return outcome


def _fit_as_asked(shape: Shape, ask: Ask) -> Fit | NoFit:
    keys = same_keys(ask)
    pinned = options(ask, lambda s: known_values(shape.table, s)) if keys else None
    if pinned is None:
        return _fit_anywhere(shape, ask)
    outcomes = [_fit_anywhere(shape, option) for option in pinned]
    fits = [outcome for outcome in outcomes if isinstance(outcome, Fit)]
    if fits:
        best = min(fits, key=lambda found: found.score)
        return replace(best, certain=best.certain and all(shape.table.is_exact(s) for s in ask.sets))
    refusals = [outcome for outcome in outcomes if isinstance(outcome, NoFit)]
    if refusals:
        return max(refusals, key=lambda no: no.nearness)
    anywhere = _fit_anywhere(shape, ask)
    return no_one_value(ask, 0) if isinstance(anywhere, Fit) else anywhere


def _fit_anywhere(shape: Shape, ask: Ask) -> Fit | NoFit:
    if not ask.sets:
        return _fit(shape, ask, [])
    order: Sequence[int] = (0,)
    hopeless = False
    if len(ask.sets) > 1:
        found = arranged(shape, ask)
        if isinstance(found, Arrangement):
            return _fit(shape, ask, found.seats, found)
        order, hopeless = big_first(ask), found
    seats = Joint(ask.sets, order, hopeless=hopeless).seats(ShapeBoard(shape))
    if isinstance(seats, NoFit):
        refusals = [never(shape, s) for s in ask.sets]
        return next((no for no in refusals if no is not None), seats)
    return _fit(shape, ask, seats)


def quick_reject(shape: Shape, ask: Ask) -> bool:
    """True only if `fit_ask` would refuse: sorts out pools in a few microseconds each."""
    return any(unnamed(shape, s) for s in (ask.softer[-1] if ask.softer else ask).sets)


def big_first(ask: Ask) -> list[int]:
    """The order in which sets are seated: big pods first, then those with a required level, then many."""
    sets = ask.sets
    return sorted(range(len(sets)), key=lambda i: (-sets[i].gpus, not sets[i].required, -sets[i].count, i))


class ShapeBoard:
    """A shape from which sets are taken; immutable."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    @property
    def ladders(self) -> Sequence[Ladder]:
        """See Board."""
        return [group.rungs for group in self._shape.groups]

    def views(self, s: SetAsk) -> list[View]:
        """See Board."""
        return views(self._shape, s)

    def taken(self, at: int, s: SetAsk, found: Seat, spot: Spot | None) -> "tuple[ShapeBoard, Spot | None]":
        """See Board. Indices follow keys, and keys change, so the spot is looked for anew."""
        left = apply_set(self._shape, SetTake(at, s.pod, found.takes, found.exclusive))
        if spot is None:
            return ShapeBoard(left), None
        before, after = self._shape.groups[spot.group].root, left.groups[spot.group].root
        return ShapeBoard(left), Spot(spot.group, _followed(before, after, spot.path))

    def undo(self) -> None:
        """See Board."""


def _followed(before: Branch, after: Branch, path: tuple[int, ...]) -> tuple[int, ...]:
    """The path in `after` of the one domain whose path in `before` is given; only what is in it has changed."""
    out: list[int] = []
    old, new = before, after
    for i in path:
        gone = old.kids[i][0]
        rest = branch([(kid, copies - (kid is gone)) for kid, copies in old.kids])
        had = {kid.key: copies for kid, copies in rest.kids}
        at = next(j for j, (kid, copies) in enumerate(new.kids) if copies > had.get(kid.key, 0))
        out.append(at)
        inner: Node = new.kids[at][0]
        if not (isinstance(gone, Branch) and isinstance(inner, Branch)):
            break
        old, new = gone, inner
    return tuple(out)


def _fit(shape: Shape, ask: Ask, seats: Seats, together: Arrangement | None = None) -> Fit:
    takes = [SetTake(ask.index[i], ask.sets[i].pod, found.takes, found.exclusive) for i, found in seats]
    scores = [found.score for _, found in seats]
    score = scores[0] if len(scores) == 1 else _summed(scores)
    return Fit(
        score=score,
        decision=Decision(shape.key, tuple(takes)) if together is None else Decision(shape.key, (), together.take),
        certain=all(found.certain for _, found in seats),
        seats=tuple([(ask.sets[i], found) for i, found in sorted(seats, key=_position)]),
    )


def _summed(scores: list[tuple[int, int, int, int]]) -> tuple[int, int, int, int]:
    columns = list(zip(*scores, strict=True)) or [()] * 4
    return sum(columns[0]), sum(columns[1]), sum(columns[2]), sum(columns[3])


def _position(seat: tuple[int, Seat]) -> int:
    return seat[0]
