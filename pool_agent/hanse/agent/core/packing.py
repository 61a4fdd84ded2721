"""The fragmentation score: which host and which device a pod gets that needs one host or less.

**Usable** thousandths of a host are what the pods that come (`demand`) could use of its free devices. For one kind
of pod they are three parts *reach* and one part *hold*: reach counts every free device that is large enough for one
of them, if the host has the CPU, memory and all else for one; hold counts what such pods would fill if nothing else
came, which ends where the CPU or the memory ends. Summed over the kinds by weight: pods seen for each GPU that they
ask for.

A pod goes where it takes the least: the score of a host is its usable thousandths now, less those after the pod.
Ahead of it comes what small work never breaks while there is other room: whole domains above the host (as in
`hanse.shape.single`). A whole host costs `WHOLE_HOST_MILLI` more, so that it is opened only for a reason. Equal
scores are told apart by what is free, then by merit (`scores`); names decide only between hosts in one state.

Reach alone is FGD's expected fragmentation ("Beware of Fragmentation", USENIX ATC'23). It does not see that a host
whose CPU suffices for one more pod strands all its other devices. Hold sees that, and alone it underrates what is
left for other kinds of pods. FGD weighs by requests; dividing by the GPUs of a request gives more say to the many
small pods that decide what becomes of a broken device. `docs/reference/placement.md` has the figures.

Only hosts that changed since a kind of pod was last placed are scored again for it.
"""

from typing import Final, NamedTuple

import numpy as np

from hanse.agent.core.columns import Columns, Ints
from hanse.agent.core.demand import WEIGHT, Demand
from hanse.agent.core.usable import HOLD, REACH, Floats, Mask, Usable
from hanse.agent.core.wholes import Wholes
from hanse.model.resources import DEVICE_MILLI, GPU_MILLI
from hanse.model.selectors import untolerated
from hanse.shape.ask import SetAsk
from hanse.shape.classes import Answer, HostClass
from hanse.shape.lens import Table

WHOLE_HOST_MILLI: Final = 10.0
RANKED_ROWS_MAX: Final = 1_000_000  # rows times kinds of pods whose scores are remembered; 24 bytes each
ALIKE_ROWS_MIN: Final = 64  # rows from which on it pays to look which of them are in one state
_SCALE: Final = (REACH + HOLD) * WEIGHT
_NEVER: Final = -1
_MIX: Final = 0x5851F42D4C957F2D  # odd, and its bits look random: the multiplier of a well-known generator
_FULL: Final = np.array([DEVICE_MILLI])
_NONE: Final = np.array([0])


class Spot(NamedTuple):
    """Where the pods go.

    Attributes:
        device_left: thousandths left on the device that a share goes to; 0 for pods without a share.
        score: usable thousandths that the pods take.
    """

    row: int
    device_left: int
    score: float


class Terms(NamedTuple):
    """What the score of one host is made of.

    Attributes:
        domains: whole domains above the host that the pods break; they come ahead of everything else.
        whole_host: all GPUs of the host were free.
        reach, hold: usable thousandths that the pods take, by part.
    """

    domains: int
    whole_host: bool
    reach: float
    hold: float

    @property
    def score(self) -> float:
        """As in Spot."""
        return self.reach + self.hold + self.whole_host * WHOLE_HOST_MILLI


class _Ranking:
    """Scores of one kind of pods by row, infinite without room, and the version of the row that each was made for.

    Attributes:
        open_to: by class, and last for nodes that take no pods, whether it may take such pods (`Answer`).
        need: what all the pods of the set use together, by resource.
    """

    __slots__ = ("device_left", "need", "open_to", "score", "unsure", "version")

    def __init__(self, rows: int, open_to: Ints, need: Floats) -> None:
        self.open_to = open_to
        self.unsure = bool((open_to == Answer.MAYBE).any())
        self.need = need
        self.version: Ints = np.full(rows, _NEVER, dtype=np.int64)
        self.score: Floats = np.full(rows, np.inf)
        self.device_left: Ints = np.zeros(rows, dtype=np.int64)


class Packing:
    """The score over the nodes of one set of columns, for one table of classes and one version of demand.

    Args:
        merits: nodes may differ in merit.
    """

    def __init__(self, columns: Columns, table: Table, demand: Demand, *, merits: bool) -> None:
        self.columns = columns
        self._merits = merits
        self._version = demand.version
        self._table = table
        self._devices = columns.devices()
        self._usable = Usable(demand.typical(), table, self._devices.shape[1])
        self._wholes = Wholes(columns)
        rows = len(columns.nodes)
        self._seen: Ints = np.full(rows, _NEVER, dtype=np.int64)
        self._worth: Floats = np.zeros(rows)
        self._whole: Ints = np.zeros(rows, dtype=np.int64)
        self._reach: Floats = np.zeros((rows, self._usable.kinds))
        self._pods: Floats = np.zeros((rows, self._usable.kinds))
        # Beside what typical pods use, whatever else hosts offer; only the former is looked at for room.
        offered = {name for cls in table.classes for name in (*cls.others, cls.gpu) if name}
        self._names = (*self._usable.names, *sorted(offered.difference(self._usable.names)))
        self._left: Floats = np.zeros((rows, len(self._names)))
        self._most: Ints = np.zeros(rows, dtype=np.int64)
        self._rankings: dict[tuple[int, int], _Ranking] = {}

    def fits(self, columns: Columns, table: Table, demand: Demand) -> bool:
        """Whether this is still the score over these."""
        same = columns is self.columns and table is self._table and demand.version == self._version
        return same and columns.devices() is self._devices

    def best(self, s: SetAsk, among: Mask | None = None) -> Spot | None:
        """The best host for all pods of the set together, None if no host holds them.

        A set with shares has one pod.

        Args:
            among: rows to choose from; None for all that may take such pods.
        """
        ranking = self._ranked(s, among)
        score = ranking.score if among is None else np.where(among, ranking.score, np.inf)
        if self._wholes.any:
            broken = np.where(score < np.inf, self._wholes.broken_by(), len(score))
            score = np.where(broken == broken.min(), score, np.inf)
        least = score.min(initial=np.inf)
        if least == np.inf:
            return None
        row = self._first(np.flatnonzero(score == least))
        return Spot(row, int(ranking.device_left[row]), float(least) / _SCALE)

    def _first(self, rows: Ints) -> int:
        """Of hosts with equal scores, the one with the least free; of equal ones the best, then the first."""
        if len(rows) > 1:
            rows = _least(rows, self._devices[rows].sum(axis=1))
        if len(rows) > 1:
            rows = _least(rows, self._wholes.whole_hosts_around()[rows])
        for column in (self.columns.full, *[self.columns.left(name) for name in self._usable.names]):
            if len(rows) == 1:
                break
            rows = _least(rows, column[rows])
        if len(rows) == 1 or not self._merits:
            return int(rows[0])
        nodes = self.columns.nodes
        return min((nodes[row].merit, row) for row in map(int, rows))[1]

    def terms(self, s: SetAsk, row: int, device_left: int) -> Terms:
        """The score of one host that has room for the set.

        Args:
            device_left: of the device that a share goes to.
        """
        rows, usable, milli = np.array([row]), self._usable, s.pod[GPU_MILLI]
        self._look(rows)
        need = np.array([s.pod[name] * s.count for name in usable.names], dtype=np.float64)
        left, number = self._left[rows, : len(usable.names)], self.columns.number[rows]
        reach, pods = self._reach[rows], self._pods[rows]
        before = self._parts(reach, pods, usable.room(left), number)
        if milli:
            whole = self._whole[rows] - (device_left == DEVICE_MILLI)
            usable.changed(reach, pods, whole, np.array([device_left]), np.array([device_left - milli]))
        elif s.gpus:
            whole = np.maximum(0, self._whole[rows] - s.gpus * s.count)
            usable.changed(reach, pods, whole, _FULL, _NONE, s.gpus * s.count)
        after = self._parts(reach, pods, usable.room(left - need), number)
        whole_host = 0 < self.columns.full[row] == self.columns.free[row]
        domains = int(self._wholes.broken_by()[row]) if self._wholes.any else 0
        return Terms(domains, bool(whole_host), before[0] - after[0], before[1] - after[1])

    def _parts(self, reach: Floats, pods: Floats, room: Floats, number: Ints) -> tuple[float, float]:
        """Usable thousandths of one host: reach, hold."""
        both = float(self._usable.worth(reach, pods, room, number)[0])
        only = float(self._usable.worth(reach, np.zeros_like(pods), room, number)[0])
        return only / _SCALE, (both - only) / _SCALE

    # ---- one kind of pods ---------------------------------------------------------------------------------

    def _ranked(self, s: SetAsk, among: Mask | None) -> _Ranking:
        """Scores, made anew for those of the rows that have changed."""
        ranking = self._remembered(s)
        stale = ranking.version != self.columns.version
        rows = np.flatnonzero(stale if among is None else stale & among)
        if len(rows):
            self._look(rows[self._seen[rows] != self.columns.version[rows]])
            ranking.version[rows] = self.columns.version[rows]
            ranking.score[rows] = np.inf
            rows = rows[self._has_room(s, rows, ranking)]
        if len(rows) < ALIKE_ROWS_MIN:
            if len(rows):
                self._score(s, rows, ranking)
            return ranking
        first, state = self._states(rows)
        self._score(s, first, ranking)
        ranking.score[rows], ranking.device_left[rows] = (
            ranking.score[first][state],
            ranking.device_left[first][state],
        )
        return ranking

    def _remembered(self, s: SetAsk) -> _Ranking:
        """The ranking of the kind; the one that was not used for longest goes when there are too many."""
        key = s.kind, s.count
        ranking = self._rankings.pop(key, None)
        if ranking is None:
            rows = len(self.columns.nodes)
            if len(self._rankings) * rows >= RANKED_ROWS_MAX:
                del self._rankings[next(iter(self._rankings))]
            answers = [int(open_to(self._table, cls, s)) for cls in self._table.classes]
            need = np.array([s.pod[name] * s.count for name in self._names], dtype=np.float64)
            if not set(s.pod).issubset(self._names):
                answers = [int(Answer.NO)] * len(answers)  # no host offers what the pods need
            ranking = _Ranking(rows, np.array([*answers, int(Answer.NO)], dtype=np.int64), need)
        self._rankings[key] = ranking
        return ranking

    def _has_room(self, s: SetAsk, rows: Ints, ranking: _Ranking) -> Mask:
        """Which of the rows hold the pods together."""
        answer = ranking.open_to[self.columns.number[rows]]
        mask: Mask = np.all(self._left[rows] >= ranking.need, axis=1) & (answer > 0)
        if s.pod[GPU_MILLI]:
            mask &= self._most[rows] >= s.pod[GPU_MILLI]
        if ranking.unsure:
            for at in np.flatnonzero(mask & (answer == Answer.MAYBE)).tolist():
                mask[at] = s.selector.matches(self.columns.nodes[rows[at]].facts.labels)
        return mask

    def _states(self, rows: Ints) -> tuple[Ints, Ints]:
        """One row of each different state, and for every row which of them is in its state."""
        columns = self.columns
        state = np.vstack([columns.number[rows], columns.free[rows], self._left[rows].T, self._devices[rows].T])
        state = state.astype(np.int64)
        factors = np.cumprod(np.full(len(state), _MIX, dtype=np.int64))  # wraps, which is what a hash does
        _, first, inverse = np.unique(factors @ state, return_index=True, return_inverse=True)
        if not np.array_equal(state[:, first][:, inverse], state):
            return rows, np.arange(len(rows))  # two states of one hash
        return rows[first], inverse

    def _score(self, s: SetAsk, rows: Ints, ranking: _Ranking) -> None:
        columns, kinds = self.columns, len(self._usable.names)
        room = self._usable.room(self._left[rows, :kinds] - ranking.need[:kinds])
        after = self._shared(s, rows, ranking, room) if s.pod[GPU_MILLI] else self._taken(s, rows, room)
        free, full = columns.free[rows], columns.full[rows]
        opened = (free == full) & (full > 0)
        ranking.score[rows] = self._worth[rows] - after + opened * (WHOLE_HOST_MILLI * _SCALE)

    def _look(self, rows: Ints) -> None:
        """Takes in rows that have changed, whatever kind of pod is asked for."""
        if not len(rows):
            return
        usable, columns, devices = self._usable, self.columns, self._devices[rows]
        whole = (devices == DEVICE_MILLI).sum(axis=1)
        reach, pods = usable.reach(devices, whole), usable.pods(devices, whole)
        left = np.array([columns.left(name)[rows] for name in self._names], dtype=np.float64)
        left = left.reshape(len(self._names), len(rows)).T
        self._reach[rows], self._pods[rows], self._whole[rows], self._left[rows] = reach, pods, whole, left
        self._most[rows] = devices.max(axis=1)
        room = usable.room(left[:, : len(usable.names)])
        self._worth[rows] = usable.worth(reach, pods, room, columns.number[rows])
        self._seen[rows] = columns.version[rows]

    def _taken(self, s: SetAsk, rows: Ints, room: Floats) -> Floats:
        """What is usable once the set has its whole devices, if it asks for any."""
        gpus = s.gpus * s.count
        reach, pods = self._reach[rows], self._pods[rows]
        if gpus:
            whole = np.maximum(0, self._whole[rows] - gpus)
            self._usable.changed(reach, pods, whole, _FULL, _NONE, gpus)
        return self._usable.worth(reach, pods, room, self.columns.number[rows])

    def _shared(self, s: SetAsk, rows: Ints, ranking: _Ranking, room: Floats) -> Floats:
        """What is usable after the share went to its best device; the ranking is told which that is."""
        milli, devices = s.pod[GPU_MILLI], self._devices[rows]
        fresh = devices >= milli
        fresh[:, 1:] &= devices[:, 1:] != devices[:, :-1]
        at, column = np.nonzero(fresh)
        left = devices[at, column]
        on = rows[at]
        reach, pods = self._reach[on], self._pods[on]
        self._usable.changed(reach, pods, self._whole[on] - (left == DEVICE_MILLI), left, left - milli)
        after = self._usable.worth(reach, pods, room[at], self.columns.number[on])
        starts = np.flatnonzero(np.concatenate(([True], at[1:] != at[:-1])))
        best = np.maximum.reduceat(after, starts)
        first = np.flatnonzero(after == best[at])
        ranking.device_left[rows] = left[first[np.searchsorted(first, starts)]]
        return best


def _least(rows: Ints, key: Ints) -> Ints:
    least: Ints = rows[key == key.min()]
    return least


def open_to(table: Table, cls: HostClass, s: SetAsk) -> Answer:
    """Whether hosts of a class may take the pods of a set, whatever is free on them."""
    if cls.flavor != s.flavor or untolerated(cls.taints, s.tolerations) is not None:
        return Answer.NO
    return cls.selected(s.selector, table.left_out, open_ended=table.open_ended)
