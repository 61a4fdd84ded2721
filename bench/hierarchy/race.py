"""A stream of gangs through one side, in virtual time.

Both sides decide at the same moments, every ROUND_S: what has ended by then has given its places back, what has come
by then waits. A gang that starts runs for its duration, on whatever it runs. Nothing here reads a clock.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from bench.hierarchy.stream import Gang
from hanse.model.ids import JobId

ROUND_S: Final = 10.0


class Side(Protocol):
    """Who decides."""

    def submit(self, gang: Gang) -> None:
        """The gang waits from now on."""
        ...

    def release(self, gang: Gang, at_s: float) -> None:
        """Every pod of a gang that was started is gone since then."""
        ...

    def decide(self, now_s: float) -> list[JobId]:
        """The jobs that start now."""
        ...


@dataclass(frozen=True, slots=True)
class Course:
    """What became of a stream.

    Attributes:
        started_s: of every gang that was started.
        allocated: (moment, GPUs that gangs held) after each round.
    """

    started_s: dict[JobId, float]
    allocated: tuple[tuple[float, int], ...]


def run_side(side: Side, gangs: Sequence[Gang], horizon_s: float) -> Course:
    """The whole stream; what has not ended at the horizon is cut off there."""
    by_job = {gang.job: gang for gang in gangs}
    started_s: dict[JobId, float] = {}
    running: list[tuple[float, JobId]] = []
    allocated: list[tuple[float, int]] = []
    held = come = 0
    for turn in range(int(horizon_s / ROUND_S) + 1):
        now_s = turn * ROUND_S
        while running and running[0][0] <= now_s:
            end_s, job = heapq.heappop(running)
            side.release(by_job[job], end_s)
            held -= by_job[job].gpus
        while come < len(gangs) and gangs[come].arrival_s <= now_s:
            side.submit(gangs[come])
            come += 1
        for job in side.decide(now_s):
            started_s[job] = now_s
            heapq.heappush(running, (now_s + by_job[job].duration_s, job))
            held += by_job[job].gpus
        allocated.append((now_s, held))
    return Course(started_s, tuple(allocated))


def gpu_seconds(course: Course, gangs: Sequence[Gang], since_s: float, until_s: float) -> float:
    """GPU-seconds that were used in a span of time."""
    total = 0.0
    for gang in gangs:
        start_s = course.started_s.get(gang.job)
        if start_s is not None:
            end_s = min(until_s, start_s + gang.duration_s)
            total += gang.gpus * max(0.0, end_s - max(since_s, start_s))
    return total


def waits_s(course: Course, gangs: Sequence[Gang], since_s: float, until_s: float, least_gpus: int) -> list[float]:
    """How long gangs of so many GPUs and more waited that came in a span of time; to its end if they still wait."""
    large = (g for g in gangs if since_s <= g.arrival_s < until_s and g.gpus >= least_gpus)
    return [course.started_s.get(g.job, until_s) - g.arrival_s for g in large]
