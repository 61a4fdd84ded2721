"""The log of one pod: computed when somebody reads it, stored nowhere, the same for everybody who reads it.

A program says what it is when it begins, and then one line a second.
"""

from typing import Final, NamedTuple
from zlib import crc32

from hanse.model.errors import NotFound
from hanse.simcluster.engine import Engine
from hanse.simcluster.gang import Gang
from hanse.simcluster.inputs import GangId, Program

LOG_LINE_EVERY_MS: Final = 1_000
LOG_BATCH_MAX: Final = 500  # lines


class PodName(NamedTuple):
    """One pod."""

    gang: GangId
    pod_set: str
    rank: int


class PodLines:
    """Reads one pod's log from its beginning, or from the last `tail` lines on (0: all)."""

    def __init__(self, engine: Engine, pod: PodName, tail: int) -> None:
        self._engine = engine
        self._pod = pod
        self._number = number_of(engine, pod)
        self._next = max(0, self._written() - tail) if tail else 0

    def _gang(self) -> Gang:
        gang = self._engine.gangs.get(self._pod.gang)
        if gang is None:
            raise NotFound(f"no pods of job {self._pod.gang.job}, attempt {self._pod.gang.attempt}")
        return gang

    @property
    def ended(self) -> bool:
        """Whether nothing more will be written."""
        gang = self._engine.gangs.get(self._pod.gang)
        if gang is None:
            return True
        return gang.stopped if self._number >= gang.created else not bool(gang.occupying[self._number])

    def _written(self) -> int:
        """Lines that the pod has written by now."""
        gang = self._gang()
        start_ms, end_ms = int(gang.start_ms[self._number]), int(gang.ended_ms[self._number])
        until_ms = end_ms or self._engine.now_ms
        if self._number >= gang.created or until_ms < start_ms:
            return 0
        return 1 + (until_ms - start_ms) // LOG_LINE_EVERY_MS

    def next_batch(self) -> tuple[str, ...]:
        """The next lines, at most LOG_BATCH_MAX; none if there are no more yet."""
        if self._pod.gang not in self._engine.gangs:
            return ()
        end = min(self._written(), self._next + LOG_BATCH_MAX)
        gang, pod = self._gang(), self._pod
        seed = crc32(f"{pod.gang.job}/{pod.gang.attempt}/{pod.pod_set}/{pod.rank}".encode())
        begin, self._next = self._next, max(self._next, end)
        if begin >= end:
            return ()
        doing = next((p for p in gang.programs if p.pod_set == pod.pod_set), Program(pod.pod_set))
        first = f"rank {pod.rank} of {pod.pod_set} on {self._node()}: {doing.title or 'no command'}"
        return tuple(_step(seed, number) if number else first for number in range(begin, end))

    def _node(self) -> str:
        return self._engine.nodes.names[int(self._gang().nodes[self._number])]


def number_of(engine: Engine, pod: PodName) -> int:
    """The pod's number within its gang. Raises NotFound."""
    gang = engine.gangs.get(pod.gang)
    if gang is None:
        raise NotFound(f"no pods of job {pod.gang.job}, attempt {pod.gang.attempt}")
    for held, (first, end) in zip(gang.hold.sets, gang.bounds, strict=True):
        number = first + pod.rank - held.first_rank
        if held.name == pod.pod_set and first <= number < end:
            return number
    raise NotFound(f"no pod {pod.rank} of pod set {pod.pod_set!r} in job {pod.gang.job}, attempt {pod.gang.attempt}")


def _step(seed: int, number: int) -> str:
    noise = crc32(f"{seed}/{number}".encode()) % 1000 / 10_000
    return f"step {number} loss {2.0 + 9.0 / (1 + number / 20) + noise:.4f}"
