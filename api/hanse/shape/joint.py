"""Several pod sets of one gang, seated one after the other: for gangs that are too large for `together`.

Each set keeps its own constraints, all of them find room or none, and no place is used twice. They belong together,
so first the smallest domain is sought that holds them all: from the lowest level up, the domains that could hold each
set alone, tightest first. Then the whole pool, in several orders of the sets. Then, for sets with a required level,
other domains than the best one. Sets of one group go into one domain of the group's level together; a gang with
groups is sought in one domain that is no coarser, then group by group, each in every domain of its level. Each of
these searches is bounded (`SEATS_MAX`), so such a gang may be refused though some arrangement exists; a gang of one
set never is.

The search runs on a `Board`: a shape above, counted nodes below.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, permutations
from typing import Final, Protocol

from hanse.shape.ask import SetAsk
from hanse.shape.capacity import Cap, joined
from hanse.shape.lens import Ladder
from hanse.shape.refuse import NoFit, refuse_among, refuse_group
from hanse.shape.seat import Seat, View, exclusive_depths, seat_among
from hanse.shape.take import Take

ORDERS_MAX: Final = 6  # orders of the sets, in one domain and in the whole pool
SPOTS_MAX: Final = 12  # domains of one level that are tried
SEATS_MAX: Final = 200  # sets that are seated in all before a gang is refused


@dataclass(frozen=True, slots=True)
class Spot:
    """One domain: its group, and the indices of children that lead to it from the root of the group's Cap."""

    group: int
    path: tuple[int, ...]


class Board(Protocol):
    """Capacity from which sets can be taken one after the other."""

    @property
    def ladders(self) -> Sequence[Ladder]:
        """The levels of every group."""
        ...

    def views(self, s: SetAsk) -> list[View]:
        """What a set sees now."""
        ...

    def taken(self, at: int, s: SetAsk, found: Seat, spot: Spot | None) -> "tuple[Board, Spot | None]":
        """The board after set number `at` took its seat, and where the spot is on it."""
        ...

    def undo(self) -> None:
        """Puts back what the last `taken` took, where a board does so in place."""
        ...


Seats = list[tuple[int, Seat]]  # position of the set in the ask, in the order of taking


class Joint:
    """One search for all sets of a gang.

    Args:
        order: in which they are seated first.
        hopeless: it is known that they do not fit together, and only what is missing is asked for.
    """

    def __init__(self, sets: Sequence[SetAsk], order: Sequence[int], *, hopeless: bool = False) -> None:
        self._sets = sets
        self._order = tuple(order)
        self._left = SEATS_MAX
        self._hopeless = hopeless
        self._refusal: NoFit | None = None

    def seats(self, board: Board) -> Seats | NoFit:
        """Seats for every set, or what was missing in the first order that was tried in the whole pool."""
        if len(self._order) == 1:
            found = self._seat(board, self._order[0], None)
            s = self._sets[self._order[0]]
            return refuse_among(board.views, s, alone=True) if found is None else [(self._order[0], found)]
        if any(s.group for s in self._sets):
            found_all = None if self._hopeless else self._together(board) or self._by_group(board)
            return found_all or refuse_group(board.views, self._grouped_sets())
        if self._hopeless:
            self._sequence(board, self._order, None)
            return self._refusal or self._all(board)
        return self._all(board)

    def _all(self, board: Board) -> Seats | NoFit:
        together = self._together(board) or self._apart(board) or self._branching(board, self._order)
        assert together is not None or self._refusal is not None
        return together or self._refusal or []

    def _together(self, board: Board) -> Seats | None:
        """All sets in one domain, the smallest that holds them."""
        for spot in self._spots(board):
            if not self._holds_groups(board, spot):
                continue
            found = self._sequence(board, self._order, spot)
            if found is not None:
                return found
        return None

    def _holds_groups(self, board: Board, spot: Spot) -> bool:
        """Whether what is inside a domain is inside one domain of every group's level."""
        depth, rungs = len(spot.path) - 1, board.ladders[spot.group]
        levels = [rungs.find(s.group.level) for s in self._sets if s.group]
        return all(level is not None and level <= depth for level in levels)

    def _grouped_sets(self) -> list[SetAsk]:
        """The sets of the first group."""
        first = next(s.group for s in self._sets if s.group)
        return [s for s in self._sets if s.group == first]

    def _by_group(self, board: Board) -> Seats | None:
        """Group by group, sets without one between them, on what those before left, in several orders."""
        units: dict[object, list[int]] = {}
        for i in self._order:
            units.setdefault(self._sets[i].group or i, []).append(i)
        for order in islice(permutations(units.values()), ORDERS_MAX):
            found = self._units(board, order)
            if found is not None:
                return found
        return None

    def _units(self, board: Board, units: Sequence[Sequence[int]]) -> Seats | None:
        if not units:
            return []
        first, rest = units[0], units[1:]
        group = self._sets[first[0]].group
        for spot in [None] if group is None else self._spots_at(board, first, group.level):
            found = self._unit(board, first, spot, rest)
            if found is not None:
                return found
        return None

    def _unit(
        self, board: Board, sets: Sequence[int], spot: Spot | None, rest: Sequence[Sequence[int]]
    ) -> Seats | None:
        """The sets of one unit one after the other in a domain, then the other units."""
        if not sets:
            return self._units(board, rest)
        found = self._seat(board, sets[0], spot)
        if found is None:
            return None
        left, moved = board.taken(sets[0], self._sets[sets[0]], found, spot)
        more = self._unit(left, sets[1:], moved, rest)
        left.undo()
        return None if more is None else [(sets[0], found), *more]

    def _spots_at(self, board: Board, sets: Sequence[int], level: str) -> Iterator[Spot]:
        """Domains of a level in which each of the sets would find room if it were alone, tightest first."""
        for g, rungs in enumerate(board.ladders):
            depth = rungs.find(level)
            pairs = [(v, self._sets[i]) for i in sets for v in board.views(self._sets[i]) if v.group == g]
            if depth is not None and depth < rungs.depth and len(pairs) == len(sets):
                yield from _spots_of(pairs[0][0], pairs, depth)

    def _apart(self, board: Board) -> Seats | None:
        """Each set at its best place on what the ones before it left, in several orders."""
        for order in islice(permutations(self._order), ORDERS_MAX):
            found = self._sequence(board, order, None)
            if found is not None:
                return found
        return None

    def _seat(self, board: Board, i: int, spot: Spot | None) -> Seat | None:
        if self._left <= 0:
            return None
        self._left -= 1
        s = self._sets[i]
        seen = board.views(s)
        exclusive = exclusive_depths(list(board.ladders), s)
        if spot is None:
            return seat_among(seen, s, exclusive)
        inside = [_inside(v, spot.path) for v in seen if v.group == spot.group]
        found = seat_among(inside, s, exclusive)
        return None if found is None else _placed(found, spot)

    def _sequence(self, board: Board, order: tuple[int, ...], spot: Spot | None) -> Seats | None:
        """The sets one after the other, each at its best place on what the others left."""
        if not order:
            return []
        found = self._seat(board, order[0], spot)
        if found is None:
            if spot is None and self._refusal is None:
                s = self._sets[order[0]]
                self._refusal = refuse_among(board.views, s, alone=len(order) == len(self._order))
            return None
        left, moved = board.taken(order[0], self._sets[order[0]], found, spot)
        rest = self._sequence(left, order[1:], moved)
        left.undo()
        return None if rest is None else [(order[0], found), *rest]

    def _branching(self, board: Board, order: tuple[int, ...]) -> Seats | None:
        """Like `_sequence`, but a set with a required level tries every domain of it."""
        if not order:
            return []
        s = self._sets[order[0]]
        spots: list[Spot | None] = [None]
        if s.required:
            spots = [spot for v in board.views(s) for spot in _spots_of(v, [(v, s)], v.depth)]
        for spot in spots:
            found = self._seat(board, order[0], spot)
            if found is not None:
                left, _ = board.taken(order[0], s, found, spot)
                rest = self._branching(left, order[1:])
                left.undo()
                if rest is not None:
                    return [(order[0], found), *rest]
        return None

    def _spots(self, board: Board) -> Iterator[Spot]:
        """Domains in which each set would find room if it were alone, lowest level first, tightest first."""
        seen = [(board.views(self._sets[i]), self._sets[i]) for i in self._order]
        for g, rungs in enumerate(board.ladders):
            pairs = [(v, s) for views, s in seen for v in views if v.group == g]
            if len(pairs) == len(seen):
                for depth in range(rungs.depth - 1, -1, -1):
                    yield from _spots_of(pairs[0][0], pairs, depth)


def _spots_of(v: View, pairs: list[tuple[View, SetAsk]], depth: int) -> list[Spot]:
    """The tightest domains of a depth in which every set of `pairs` (views of one group) finds room."""
    out: list[tuple[int, tuple[int, ...]]] = []
    _descend([view.cap for view, _ in pairs], pairs, depth, (), out)
    return [Spot(v.group, path) for _, path in sorted(out)[:SPOTS_MAX]]


def _descend(
    caps: list[Cap],
    pairs: list[tuple[View, SetAsk]],
    depth: int,
    path: tuple[int, ...],
    out: list[tuple[int, tuple[int, ...]]],
) -> None:
    if len(path) == depth + 1:
        spare = [(c.fit - s.count) * max(1, s.gpus) for c, (_, s) in zip(caps, pairs, strict=True)]
        out.append((sum(spare), path))
        return
    for i in range(len(caps[0].kids)):
        kids = [cap.kids[i][0] for cap in caps]
        at = len(path)
        if all(
            kid.fit >= s.count and (v.depth <= at or kid.peak[v.depth - at] >= s.count)
            for kid, (v, s) in zip(kids, pairs, strict=True)
        ):
            _descend(kids, pairs, depth, (*path, i), out)


def _inside(view: View, path: tuple[int, ...]) -> View:
    """The view as if its group held that one domain only."""
    chain: list[Cap] = [view.cap]
    for i in path:
        chain.append(chain[-1].kids[i][0])
    cap = chain[-1]
    for depth in range(len(path) - 2, -2, -1):
        cap = joined(((cap, 1),), view.lens, depth)
    return View(view.group, view.rungs, view.lens, cap, view.depth)


def _placed(found: Seat, spot: Spot) -> Seat:
    """A seat inside `_inside`, with indices as on the board."""
    ((_, take),) = found.takes
    below = take
    for _ in spot.path:
        below = below.kids[0][2]
    for i in reversed(spot.path):
        below = Take((), ((i, 1, below),))
    return found._replace(takes=((spot.group, below),))
