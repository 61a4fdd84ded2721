"""The pods of one gang as arrays: a gang of thousands changes by a handful of array operations.

A pod's number is its position set by set in rank order. Pods are created from number 0 on, so that "which were
ever created" is one count. The programs of a pod set begin together when the set's last pod has started (as
collective training does), hence all pods of a set end at once, whatever the jitter of their starts.

Phases go NEVER → PENDING → RUNNING → SUCCEEDED | FAILED, from RUNNING also to STOPPING → SUCCEEDED | FAILED, from
PENDING straight to FAILED when it is told to stop, and from everywhere to MISSING. The gang gives back what a pod
took exactly when the pod stops occupying its node.
"""

from collections.abc import Iterator
from enum import IntEnum, unique
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hanse.simcluster.facts import Counts
from hanse.simcluster.inputs import DEFAULT_MS, HeldSet, Hold, Program, Start, unpack
from hanse.simcluster.nodes import Indexes, NodeTable, Request
from hanse.simcluster.spec import Timing
from hanse.simcluster.waves import round_up, wave_offsets, waves

NEVER: Final = 0
PENDING: Final = 1
RUNNING: Final = 2
SUCCEEDED: Final = 3
FAILED: Final = 4
STOPPING: Final = 5
MISSING: Final = 6
_PHASES: Final = 7
_OCCUPIES: Final = np.array([False, True, True, False, False, True, False])
_IN_PROGRAM: Final = np.array([False, False, True, False, False, True, False])

FOR_EVER_MS: Final = 2**62
SIGTERM_EXIT: Final = 143
SIGKILL_EXIT: Final = 137

DEADLINE_EXCEEDED: Final = "DeadlineExceeded"

Mask = NDArray[np.bool_]


@unique
class Cause(IntEnum):
    """Why a pod ended."""

    NONE = 0
    BY_EXIT = 1
    BY_STOP = 2
    BY_KILL = 3
    BY_DEADLINE = 4


class Pod(NamedTuple):
    """One pod that exists; exit code and reason of a failed one."""

    pod_set: str
    rank: int
    node: int
    phase: int
    exit_code: int
    reason: str


class Gang:
    """One gang of one cluster: its record (while there is one) and its pods.

    Attributes:
        serial: order of creation, which breaks ties between things that are due at once.
        hold: the record as it was written; kept for the placement when the record itself is lost.
        recorded: whether the record exists.
        created: pods that were ever created.
        started_ms: time of the first start, 0 if never started.
        stopped: whether it was ever told to stop.
        distinct: whether no two of its pods share a node.
        cause: why each finished pod ended.
        start_ms, ended_ms: of each pod, 0 if not reached.
        due_ms: when something happens next by itself; FOR_EVER_MS if nothing will.
    """

    __slots__ = (
        "bounds",
        "cause",
        "counts",
        "created",
        "deadline_ms",
        "distinct",
        "due_ms",
        "ended_ms",
        "failure",
        "hold",
        "nodes",
        "phase",
        "programs",
        "recorded",
        "requests",
        "serial",
        "set_end_ms",
        "start",
        "start_ms",
        "started_ms",
        "stop_end_ms",
        "stop_kills",
        "stopped",
        "wave_ms",
    )

    def __init__(self, serial: int, hold: Hold, table: NodeTable) -> None:
        self.serial = serial
        self.hold = hold
        self.recorded = True
        self.created = 0
        self.started_ms = 0
        self.stopped = False
        self.start: Start | None = None
        self.programs: tuple[Program, ...] = tuple(Program(held.name) for held in hold.sets)
        sets = hold.sets
        self.nodes: Indexes = unpack(sets[0].nodes if len(sets) == 1 else b"".join(s.nodes for s in sets))
        self.bounds: tuple[tuple[int, int], ...] = _bounds(hold)
        self.distinct = len(set(self.nodes.tolist())) == len(self.nodes)
        self.requests: tuple[Request, ...] = tuple(table.request(held.resources) for held in sets)
        pods = len(self.nodes)
        self.phase: NDArray[np.uint8] = np.zeros(pods, dtype=np.uint8)
        self.cause: NDArray[np.uint8] = np.zeros(pods, dtype=np.uint8)
        self.start_ms: NDArray[np.int64] = np.zeros(pods, dtype=np.int64)
        self.ended_ms: NDArray[np.int64] = np.zeros(pods, dtype=np.int64)
        self.wave_ms: list[int] = []
        self.set_end_ms: list[int] = [FOR_EVER_MS] * len(sets)
        self.stop_end_ms = FOR_EVER_MS
        self.stop_kills = False
        self.deadline_ms = FOR_EVER_MS
        self.due_ms = FOR_EVER_MS
        self.failure: tuple[int, str, bool] = (0, "", False)
        self.counts = Counts()

    @property
    def occupying(self) -> Mask:
        """Which pods occupy their node."""
        return _OCCUPIES[self.phase]

    @property
    def exists(self) -> Mask:
        """Which pods exist, finished ones included."""
        exists: Mask = (self.phase != NEVER) & (self.phase != MISSING)
        return exists

    def existing_pods(self) -> Iterator[Pod]:
        """The pods that exist, by set and rank."""
        for held, (first, end), program in zip(self.hold.sets, self.bounds, self.programs, strict=True):
            for number in (first + np.flatnonzero(self.exists[first:end])).tolist():
                rank, node = held.first_rank + number - first, int(self.nodes[number])
                code, reason = self._verdict(number, program)
                yield Pod(held.name, rank, node, int(self.phase[number]), code, reason)

    def _verdict(self, number: int, program: Program) -> tuple[int, str]:
        """Exit code and reason of a pod that failed."""
        if self.phase[number] != FAILED:
            return 0, ""
        match int(self.cause[number]):
            case Cause.BY_EXIT:
                return program.exit_code, "Error"
            case Cause.BY_STOP:
                return SIGTERM_EXIT, "Stopped"
            case Cause.BY_KILL:
                return SIGKILL_EXIT, "Killed"
            case _:
                return SIGKILL_EXIT, DEADLINE_EXCEEDED

    def created_sets(self, first: int) -> tuple[HeldSet, ...]:
        """The sets as far as their pods were created, from a number on."""
        if first == 0 and self.created == len(self.nodes):
            return self.hold.sets
        sets: list[HeldSet] = []
        for held, (a, b) in zip(self.hold.sets, self.bounds, strict=True):
            low, high = max(a, first), min(b, self.created)
            if low < high:
                rank, nodes = held.first_rank + low - a, held.nodes[(low - a) * 4 : (high - a) * 4]
                sets.append(HeldSet(held.name, rank, held.flavor, nodes, held.resources))
        return tuple(sets)

    def begin(self, start: Start, table: NodeTable, timing: Timing, seed: int, now_ms: int) -> str:
        """Create the pods that were never created; all of them or, if the cluster refuses, none.

        Returns:
            "" or why not.
        """
        first, end = self.created, len(self.nodes)
        if start.pods_max:
            end = max(first, min(end, start.pods_max))
        refused = self._refusal(first, end, table, now_ms) or self._take(first, end, table)
        if refused:
            return refused
        if self.start is None:
            self.started_ms = now_ms
            self._learn(start)
            if start.duration_ms:
                self.deadline_ms = round_up(now_ms + start.duration_ms, timing.tick)
        if end > first:
            self._create(first, end, timing, seed, now_ms)
        self._changed()
        return ""

    def _learn(self, start: Start) -> None:
        self.start = start
        self.programs = tuple(_program(start, held.name) for held in self.hold.sets)

    def resume(self, start: Start | None, table: NodeTable) -> None:
        """Go on from arrays and times that were set from outside; what the pods occupy is taken, fit or not."""
        if start is not None:
            self._learn(start)
        occupying = self.occupying
        for (a, b), request in zip(self.bounds, self.requests, strict=True):
            table.occupy(self.nodes[a:b][occupying[a:b]], request)
        self._changed()

    def take_over(self, other: "Gang", table: NodeTable) -> None:
        """Go on as another object of the same pods was left."""
        self.recorded, self.created = other.recorded, other.created
        self.started_ms, self.stopped = other.started_ms, other.stopped
        self.phase[:], self.cause[:] = other.phase, other.cause
        self.start_ms[:], self.ended_ms[:] = other.start_ms, other.ended_ms
        self.wave_ms, self.set_end_ms = other.wave_ms, other.set_end_ms
        self.stop_end_ms, self.stop_kills = other.stop_end_ms, other.stop_kills
        self.deadline_ms, self.failure = other.deadline_ms, other.failure
        self.resume(other.start, table)

    def _refusal(self, first: int, end: int, table: NodeTable, now_ms: int) -> str:
        if self.stopped and end > first:
            return "the gang was told to stop"
        limit_ms = self.start.duration_ms if self.start is not None else 0
        if limit_ms and end > first and now_ms >= self.started_ms + limit_ms:
            return f"{DEADLINE_EXCEEDED}: the gang has used up its duration"
        nodes = self.nodes[first:end]
        if table.ready[nodes].all():
            return ""
        return f"node {table.names[int(nodes[int(table.ready[nodes].argmin())])]} is not ready"

    def _take(self, first: int, end: int, table: NodeTable) -> str:
        taken: list[tuple[int, int, Request]] = []
        for (a, b), request in zip(self.bounds, self.requests, strict=True):
            low, high = max(a, first), min(b, end)
            if low >= high:
                continue
            refused = table.take(self.nodes[low:high], request, distinct=self.distinct)
            if refused:
                for undo_low, undo_high, undo in taken:
                    table.give(self.nodes[undo_low:undo_high], undo, distinct=self.distinct)
                return refused
            taken.append((low, high, request))
        return ""

    def _create(self, first: int, end: int, timing: Timing, seed: int, now_ms: int) -> None:
        delays = self._delays(first, end, timing, seed)
        moments = set(self.wave_ms)
        for index, (a, b) in enumerate(self.bounds):
            low, high = max(a, first), min(b, end)
            if low >= high:
                continue
            program = self.programs[index]
            wait = timing.start if program.start_ms == DEFAULT_MS else program.start_ms
            run = timing.run if program.run_ms == DEFAULT_MS else program.run_ms
            base = round_up(now_ms + wait, timing.tick)
            if delays is None or program.start_ms != DEFAULT_MS:
                self.start_ms[low:high] = base
                found = {base}
            else:
                self.start_ms[low:high] = base + delays[low - first : high - first]
                found = set(self.start_ms[low:high].tolist())
            moments |= found
            last_start = max(found) if low == a else int(self.start_ms[a:high].max())
            self.set_end_ms[index] = round_up(last_start + run, timing.tick)
        self.wave_ms = sorted(moments)
        self.phase[first:end] = PENDING
        self.created = end

    def _delays(self, first: int, end: int, timing: Timing, seed: int) -> NDArray[np.int64] | None:
        """How much later than the earliest each new pod comes up; None if all come up at once."""
        if not timing.start_jitter:
            return None
        offsets = wave_offsets(timing.start_jitter, timing.tick)
        return offsets[waves(seed, self.hold.gang, first, end)]

    def stop(self, timing: Timing, grace_ms: int, now_ms: int, table: NodeTable) -> None:
        """Tell every pod to end; may be repeated with another grace, which can only shorten the wait."""
        self.stopped = True
        self.wave_ms = []
        self._leave(self.phase == PENDING, FAILED, Cause.BY_STOP, now_ms, table)
        running = (self.phase == RUNNING) | (self.phase == STOPPING)
        if running.any():
            self.phase[running] = STOPPING
            end = round_up(now_ms + min(grace_ms, timing.stop), timing.tick)
            if end < self.stop_end_ms:
                self.stop_end_ms, self.stop_kills = end, grace_ms < timing.stop
        self._changed()

    def advance(self, now_ms: int, table: NodeTable) -> bool:
        """Let everything happen that is due by now. Returns whether any pod changed."""
        before = self.counts
        self._run_waves(now_ms)
        for index, end in enumerate(self.set_end_ms):
            if end <= now_ms:
                self._end_set(index, end, table)
        if self.stop_end_ms <= now_ms:
            self._leave(
                self.phase == STOPPING, FAILED, Cause.BY_KILL if self.stop_kills else Cause.BY_STOP, now_ms, table
            )
            self.stop_end_ms = FOR_EVER_MS
        if self.deadline_ms <= now_ms:
            self._fail_first((0, DEADLINE_EXCEEDED, False), self.occupying)
            self._leave(self.occupying, FAILED, Cause.BY_DEADLINE, now_ms, table)
            self.deadline_ms = FOR_EVER_MS
        self._changed()
        return self.counts != before

    def _run_waves(self, now_ms: int) -> None:
        passed = 0
        while passed < len(self.wave_ms) and self.wave_ms[passed] <= now_ms:
            passed += 1
        if passed:
            del self.wave_ms[:passed]
            up = self.phase == PENDING
            if self.wave_ms:
                up &= self.start_ms <= now_ms
            self.phase[up] = RUNNING

    def _end_set(self, index: int, now_ms: int, table: NodeTable) -> None:
        self.set_end_ms[index] = FOR_EVER_MS
        a, b = self.bounds[index]
        inside = _IN_PROGRAM[self.phase]
        if len(self.bounds) > 1:
            inside[:a] = inside[b:] = False
        code = self.programs[index].exit_code
        if code:
            self._fail_first((code, "Error", False), inside)
        self._leave(inside, FAILED if code else SUCCEEDED, Cause.BY_EXIT, now_ms, table)

    def lose(self, gone: Mask, table: NodeTable, reason: str, now_ms: int) -> bool:
        """Pods cease to exist. Returns whether there were any."""
        existing = gone & self.exists
        if not existing.any():
            return False
        self._fail_first((0, reason, True), existing)
        self._leave(existing & self.occupying, MISSING, Cause.NONE, now_ms, table)
        self.phase[existing] = MISSING
        self._changed()
        return True

    def _leave(self, leaving: Mask, phase: int, cause: int, now_ms: int, table: NodeTable) -> None:
        """Pods that occupy their node stop doing so."""
        count = int(np.count_nonzero(leaving))
        if not count:
            return
        for (a, b), request in zip(self.bounds, self.requests, strict=True):
            nodes = self.nodes[a:b] if count == len(leaving) else self.nodes[a:b][leaving[a:b]]
            if len(nodes):
                table.give(nodes, request, distinct=self.distinct)
        self.phase[leaving] = phase
        self.cause[leaving] = cause
        self.ended_ms[leaving] = now_ms

    def _ended_sets(self) -> tuple[str, ...]:
        """The sets of which every pod was created and none occupies its node any more."""
        occupying = self.occupying
        ends = zip(self.hold.sets, self.bounds, strict=True)
        return tuple([held.name for held, (a, b) in ends if a < b <= self.created and not occupying[a:b].any()])

    def _fail_first(self, failure: tuple[int, str, bool], touched: Mask) -> None:
        if not self.failure[1] and not self.stopped and touched.any():
            self.failure = failure

    def _by_phase(self) -> list[int]:
        numbers: list[int] = np.bincount(self.phase, minlength=_PHASES).tolist()
        return numbers

    def _changed(self) -> None:
        """Bring the counts and the due time up to date."""
        _, pending, running, succeeded, failed, stopping, missing = self._by_phase()
        ended = self._ended_sets() if len(self.bounds) > 1 else ()
        self.counts = Counts(pending, running, succeeded, failed, stopping, missing, *self.failure, ended)
        wave = self.wave_ms[0] if self.wave_ms else FOR_EVER_MS
        deadline = self.deadline_ms if self.counts.occupying else FOR_EVER_MS
        self.due_ms = min(wave, *self.set_end_ms, self.stop_end_ms, deadline)


def _bounds(hold: Hold) -> tuple[tuple[int, int], ...]:
    """First and end number of the pods of each set."""
    bounds: list[tuple[int, int]] = []
    at = 0
    for held in hold.sets:
        end = at + len(held.nodes) // 4
        bounds.append((at, end))
        at = end
    return tuple(bounds)


def _program(start: Start, pod_set: str) -> Program:
    """What a set runs; a set that the start does not name runs as long as the cluster's timing says."""
    return next((program for program in start.programs if program.pod_set == pod_set), Program(pod_set))
