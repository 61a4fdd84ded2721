"""The best place for a gang of several sets, decided exactly while the problem is small.

Best is the smallest *cost* of the gang as a whole: domains that any of its sets uses, level by level from the top
down, hosts, then what the used ones could hold of the gang before it came (the pods of each set that fit, in GPUs),
from the top down, hosts last. With one set that is the cost of `solve`.

If some child of a domain holds everything, the answer lies in one child, and the children are searched in the order
of a lower bound on their cost. Else the tables of all children are added (`mixes`): the least cost of every state of
the gang, on hosts, then in lowest domains, then above, cut back at every level to states that the level allows: a set
that requires the level is in one of its domains as a whole or not at all, sets of a group all together, and slices
are not cut.

Small means a limit on pairs of states (`mixes.PAIRS_MAX`) and one on the additions of tables (`WORK_MAX`); both are
counted, never timed, so that all who look at one shape come to one answer. Beyond them `joint` answers. What the
search does not take on: sets that want a domain for themselves, even shares, a smaller last slice, shares of a GPU,
devices of one group, and gangs without any GPU, which have an order of their own.
"""

from collections.abc import Sequence
from math import gcd
from typing import Final, Generic, NamedTuple

import numpy as np

from hanse.model.resources import GPU_MILLI
from hanse.shape.areas import Area, Bin, Census, Ground, P, counted, total
from hanse.shape.ask import SetAsk
from hanse.shape.lens import Layers, layered
from hanse.shape.mixes import (
    FAR,
    PAIRS_MAX,
    Costs,
    Ints,
    Mask,
    Piece,
    Place,
    Scale,
    Sum,
    Table,
    dearer,
    grid_of,
    is_held,
)
from hanse.shape.seat import View
from hanse.shape.take import Cost
from hanse.shape.tightest import fewest

WORK_MAX: Final = 1_000_000
"""Pairs of states that are added up for one gang."""

ADDITION_WORK: Final = 1_000
"""What an addition of two tables costs beside its pairs, in pairs."""


class Found(NamedTuple):
    """Where a gang goes.

    Attributes:
        pieces: the coarsest domains that are used.
        states: pods by set, by number of a state.
        proven: nothing costs less.
    """

    pieces: tuple[Piece, ...]
    states: Ints
    proven: bool


class _Best(NamedTuple):
    cost: complex
    pieces: tuple[Piece, ...]


def in_scope(sets: Sequence[SetAsk]) -> bool:
    """Whether the search takes a gang on at all."""
    return (
        len(sets) > 1
        and any(s.gpus for s in sets)
        and not any(
            s.exclusive
            or s.balanced
            or s.ragged
            or s.pod[GPU_MILLI]
            or s.devices
            or any(s.count % layer.size for layer in s.slices)
            for s in sets
        )
    )


class Together(Generic[P]):
    """One search. After `found`, `refused` says that no arrangement exists, as far as the ground can tell.

    Args:
        pairs, work: limits, for a bench that wants to know what lies beyond them.
    """

    def __init__(
        self, ground: Ground[P], sets: Sequence[SetAsk], *, pairs: int = PAIRS_MAX, work: int = WORK_MAX
    ) -> None:
        self._ground = ground
        self._pairs_max = pairs
        self._sets = sets
        self.ladders = ground.ladders()
        self._left = work
        self._spent = False
        self._roots: dict[int, Area[P]] = {}
        self.refused = False
        self._gpus = sum([s.gpus * s.count for s in sets])
        self._tables: dict[tuple[int, int, object], Table] = {}
        self._masks: dict[tuple[int, int], Mask] = {}
        self._bins: dict[tuple[int, object], list[Bin]] = {}
        self._inner: dict[tuple[int, object], Table | None] = {}

    def found(self) -> Found | None:
        """The best place; None if there is none, or if the problem is too large."""
        counts = tuple([s.count for s in self._sets])
        grid = grid_of(counts, tuple([self._unit(s) for s in self._sets]), self._pairs_max)
        if grid is None:
            return None
        self._grid = grid
        if not self._looked():
            self.refused = True
            return None
        roots = list(self._roots.values())
        kids = [kid for root in roots for kid in self._kids(root)]
        self._deepest = max([self.ladders[root.group].depth for root in roots])
        self._scale = self._scaled(roots)
        if not self._scale.holds:
            return None
        best = self._inside(kids)
        self.refused = best is None and not self._spent
        return None if best is None else Found(best.pieces, grid.states, not self._spent)

    def least(self) -> tuple[int, ...]:
        """Domains at each level of one group, then hosts, without which the gang does not go; () if it never does.

        Of a pool with several groups, (): what their levels have in common is not looked at.
        """
        if not self._looked() or len(self._roots) > 1:
            return ()
        counts = self._fewest(self._roots[next(iter(self._roots))])
        return tuple(counts) if min(counts) >= 0 else ()

    def _looked(self) -> bool:
        """Takes in what every set sees; false if some set would not fit even alone."""
        self._views = [{v.group: v for v in self._ground.views(s)} for s in self._sets]
        for g in sorted({g for views in self._views for g in views}):
            caps = tuple([v.cap if (v := views.get(g)) else None for views in self._views])
            self._roots[g] = Area(g, 0, 1, -1, caps, self._ground.root(g))
        return (
            all(self._views)
            and self._suffice(list(self._roots.values()))
            and all(
                not s.required or any(v.cap.peak[v.depth + 1] >= s.count for v in views.values())
                for s, views in zip(self._sets, self._views, strict=True)
            )
        )

    def views_of(self, i: int) -> dict[int, View]:
        """What a set sees, by group."""
        return self._views[i]

    def cost_of(self, i: int, pieces: Sequence[Piece]) -> Cost:
        """What a set uses of one group, as `solve` counts it."""
        half = self.ladders[pieces[0].group].depth + 1
        cost = [0] * (2 * half)
        self._add_up(i, pieces, self._roots[pieces[0].group], cost)
        return tuple(cost)

    def _add_up(self, i: int, pieces: Sequence[Piece], around: Area[P], cost: list[int]) -> None:
        half = len(cost) // 2
        for piece in pieces:
            if not self._grid.states[piece.state, i]:
                continue
            if piece.below:
                area = self._kids(around)[piece.index]
                cost[area.depth] += 1
                cost[half + area.depth] += area.fits[i]
                self._add_up(i, piece.below, area, cost)
            else:
                cost[half - 1] += 1
                cost[-1] += next(b.alone[i] for b in self._hosts(around) if b.number == piece.index)

    # ---- what there is ------------------------------------------------------------------------------------

    def _unit(self, s: SetAsk) -> int:
        """What the pods on a host come in multiples of, in every group that is a place for the set."""
        layers = [layered(s, rungs) for rungs in self.ladders]
        return max(1, gcd(*[own.host for own in layers if isinstance(own, Layers)]))

    def _kids(self, area: Area[P]) -> list[Area[P]]:
        if area._kids is None:
            below = [None if cap is None else cap.kids for cap in area.caps]
            area._kids = [
                Area(
                    area.group,
                    i,
                    copies,
                    area.depth + 1,
                    tuple([None if kids is None else kids[i][0] for kids in below]),
                    place,
                )
                for i, (place, copies) in enumerate(self._ground.kids(area.place))
            ]
        return area._kids

    def _hosts(self, area: Area[P]) -> list[Bin]:
        key = area.group, self._ground.key(area.place)
        found = self._bins.get(key)
        if found is None:
            found = self._bins[key] = self._ground.bins(area)
        return found

    def _census(self, area: Area[P]) -> list[Census]:
        """For 1, 2, … levels below: how many domains (at last: hosts) have how many GPUs for the gang."""
        if area._census is None:
            if area.is_lowest:
                area._census = [counted([(b.gpus, b.hosts) for b in self._hosts(area)])]
            else:
                kids = [(self._census(kid), kid.copies) for kid in self._kids(area)]
                first = counted([(total(own[-1]), copies) for own, copies in kids])
                deeper = [
                    counted([(gpus, many * copies) for own, copies in kids for gpus, many in own[at].items()])
                    for at in range(len(kids[0][0]))
                ]
                area._census = [first, *deeper]
        return area._census

    def _suffice(self, areas: Sequence[Area[P]]) -> bool:
        """Whether areas could hold every set if it were alone."""
        return all(
            sum([cap.fit * area.copies for area in areas if (cap := area.caps[i]) is not None]) >= s.count
            for i, s in enumerate(self._sets)
        )

    def _scaled(self, roots: Sequence[Area[P]]) -> Scale:
        pods = sum([s.count for s in self._sets])
        worth = sum([
            max(cap.full) * s.gpus for root in roots for cap, s in zip(root.caps, self._sets, strict=True) if cap
        ])  # fmt: skip
        return Scale([pods] * (self._deepest + 1) + [worth] * (self._deepest + 1))

    # ---- costs --------------------------------------------------------------------------------------------

    def _cost(self, first: int, last: int, worth: int) -> complex:
        """Of one place that counts at these levels, the hosts being the last of all."""
        counts = [int(first <= at <= last) for at in range(self._deepest + 1)]
        return self._scale.cost([*counts, *[n * worth for n in counts]])

    def _own_cost(self, area: Area[P]) -> complex:
        """Of a domain that is used, without what is in it; a missing finer level is the same as the lowest one."""
        worth = sum([fit * s.gpus for fit, s in zip(area.fits, self._sets, strict=True)])
        return self._cost(area.depth, self._deepest - 1 if area.is_lowest else area.depth, worth)

    def _bound(self, area: Area[P]) -> complex:
        """No arrangement inside the domain costs less, its own cost included; infinite if there is none."""
        counts = self._fewest(area)
        if min(counts) < 0:
            return complex(np.inf)
        least = [0] * (self._deepest + 1)
        for level in range(area.depth + 1, self._deepest if not area.is_lowest else 0):
            least[level] = counts[min(level - area.depth - 1, len(counts) - 2)]
        least[-1] = counts[-1]
        return self._own_cost(area) + self._scale.cost([*least, *[self._gpus if n else 0 for n in least]])

    def _fewest(self, area: Area[P]) -> list[int]:
        """For 1, 2, … levels below, a number of domains (at last: hosts) without which it does not go; -1: never."""
        out: list[int] = []
        for below, together in enumerate(self._census(area)):
            least = fewest(tuple(sorted(together.items(), reverse=True)), self._gpus)
            alone = [
                fewest(cap.census[below], s.count)
                for cap, s in zip(area.caps, self._sets, strict=True)
                if cap is not None
            ]
            out.append(-1 if least < 0 else max([least, *alone]))
        return out

    # ---- the search ---------------------------------------------------------------------------------------

    def _inside(self, kids: Sequence[Area[P]]) -> _Best | None:
        """The best arrangement of everything in these children of one domain."""
        best: _Best | None = None
        bounds = [(self._bound(kid), kid) for kid in kids if self._suffice([kid]) and self._may_hold(kid)]
        for bound, kid in sorted(bounds, key=_by_bound):
            if self._spent or bound.real == np.inf or (best is not None and dearer(bound, best.cost)):
                break
            found = self._within(kid)
            if found is not None and (best is None or not dearer(found.cost, best.cost)):
                best = found
        if best is not None or self._spent or not self._suffice(kids):
            return best
        return self._everything(self._joined(kids))

    def _may_hold(self, area: Area[P]) -> bool:
        return bool(self._mask(area.group, area.depth)[-1])

    def _within(self, area: Area[P]) -> _Best | None:
        """The best arrangement of everything in one domain."""
        found = self._everything(self._of_hosts(area)) if area.is_lowest else self._inside(self._kids(area))
        if found is None:
            return None
        state = len(self._grid.states) - 1
        return _Best(found.cost + self._own_cost(area), (Piece(area.group, area.index, state, found.pieces),))

    def _everything(self, table: Table | None) -> _Best | None:
        if table is None or self._spent or not is_held(complex(table.costs[-1])):
            return None
        return _Best(complex(table.costs[-1]), tuple(table.gives(len(table.costs) - 1)))

    def _joined(self, kids: Sequence[Area[P]]) -> Table | None:
        """The table of several domains together."""
        total: Table | None = None
        self._spent = self._spent or len(kids) * (self._grid.pairs + ADDITION_WORK) > self._left
        for kid in kids:
            if any(kid.fits) and not self._spent:
                table = self._table(kid)
                total = self._sum(total, None if table is None else self._times(table, kid.copies))
        return total

    def _table(self, area: Area[P]) -> Table | None:
        key = area.group, area.depth, self._ground.key(area.place)
        found = self._tables.get(key)
        inside = None if found is not None else self._contents(area)
        if inside is not None:
            costs = inside.costs + self._own_cost(area)
            costs[0] = 0j
            cut = self._cut(costs, area.group, area.depth)
            found = self._tables[key] = Place(area.group, area.index, inside, cut)
        if isinstance(found, Place) and found.index != area.index:
            found = Place(area.group, area.index, found.inside, found.costs)
        return found

    def _contents(self, area: Area[P]) -> Table | None:
        return self._of_hosts(area) if area.is_lowest else self._joined(self._kids(area))

    def _of_hosts(self, area: Area[P]) -> Table | None:
        key = area.group, self._ground.key(area.place)
        if key not in self._inner:
            self._inner[key] = self._hosts_joined(area)
        return self._inner[key]

    def _hosts_joined(self, area: Area[P]) -> Table | None:
        total: Table | None = None
        depth = self.ladders[area.group].depth
        for at in self._hosts(area):
            worth = sum([pods * s.gpus for pods, s in zip(at.alone, self._sets, strict=True)])
            held = self._ground.holds(area, at, self._grid.states)
            costs = self._grid.table(held, self._cost(self._deepest, self._deepest, worth))
            one = Place(area.group, at.number, None, self._cut(costs, area.group, depth))
            total = self._sum(total, self._times(one, at.hosts))
        return total

    def _times(self, one: Table, copies: int) -> Table:
        """So many equal places, each of which may stay unused; no more than there are pods."""
        most = min(copies, int(self._grid.states[-1].sum()))
        total: Table | None = None
        while True:
            if most & 1:
                total = self._sum(total, one) or one
            most >>= 1
            if not most or self._spent:
                return total or one
            one = self._sum(one, one) or one

    def _sum(self, one: Table | None, other: Table | None) -> Table | None:
        if one is None or other is None:
            return one or other
        self._left -= self._grid.pairs + ADDITION_WORK
        if self._left < 0:
            self._spent = True
            return one
        return Sum(self._grid, one, other, self._grid.sum(one.costs, other.costs))

    def _cut(self, costs: Costs, group: int, depth: int) -> Costs:
        """The costs without states that a place of this depth, the ladder's for a host, may not hold."""
        return np.where(self._mask(group, depth), costs, FAR)

    def _mask(self, group: int, depth: int) -> Mask:
        found = self._masks.get((group, depth))
        if found is None:
            found = np.ones(len(self._grid.states), dtype=bool)
            for i, s in enumerate(self._sets):
                found &= _allowed(self._grid.states[:, i], s, self._views[i].get(group), depth)
            for together in {s.group for s in self._sets if s.group}:
                own = [i for i, s in enumerate(self._sets) if s.group == together]
                found &= _as_one(self._grid.states[:, own], self.ladders[group].find(together.level), depth)
            self._masks[group, depth] = found
        return found


def _allowed(pods: Ints, s: SetAsk, view: View | None, depth: int) -> Mask:
    """Which numbers of pods of a set one place of the depth may hold."""
    if view is None:
        return np.asarray(pods == 0)
    host = depth == view.rungs.depth
    lens = view.lens
    step = lens.steps[-1] if host else lens.floors[depth]
    out = pods % step == 0 if step > 1 else np.ones(len(pods), dtype=bool)
    if s.spread is not None and view.rungs.find(s.spread.level) == depth:
        out &= pods <= s.spread.max_pods
    if view.depth == depth:
        out &= (pods == 0) | (pods == s.count)
    return np.asarray(out)


def _as_one(pods: Ints, level: int | None, depth: int) -> Mask:
    """Which states of the sets of a group one place may hold: at the group's level all of them or none."""
    none = np.all(pods == 0, axis=1)
    if level is None:
        return np.asarray(none)
    return np.asarray(none | np.all(pods == pods[-1], axis=1)) if level == depth else np.ones(len(pods), dtype=bool)


def _by_bound(item: tuple[complex, Area[P]]) -> tuple[float, float]:
    return item[0].real, item[0].imag
