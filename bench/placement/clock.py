"""Reading the clock, and what is told of many readings."""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from bench.contract import JsonValue

T = TypeVar("T")


class Stopwatch:
    """Times of calls on one thread: of its processor, which other processes do not lengthen, and of the wall.

    Attributes:
        cpu_ns, wall_ns: one entry for each call.
    """

    def __init__(self) -> None:
        self.cpu_ns: list[int] = []
        self.wall_ns: list[int] = []

    def time(self, call: Callable[[], T]) -> T:
        """Makes the call."""
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        result = call()
        self.cpu_ns.append(time.thread_time_ns() - cpu)
        self.wall_ns.append(time.perf_counter_ns() - wall)
        return result

    def drop(self) -> None:
        """Forgets the last call."""
        self.cpu_ns.pop()
        self.wall_ns.pop()

    def ms(self, share: float) -> float | None:
        """The processor's milliseconds that this share of the calls stayed below; None of no calls."""
        return quantile(self.cpu_ns, share, 1e6)

    def told(self) -> JsonValue:
        """For `raw`, in milliseconds."""
        return {
            "n": len(self.cpu_ns),
            "cpu_ms": {f"p{round(100 * q)}": quantile(self.cpu_ns, q, 1e6) for q in (0.5, 0.9, 0.99, 1.0)},
            "wall_ms": {f"p{round(100 * q)}": quantile(self.wall_ns, q, 1e6) for q in (0.5, 0.9, 0.99, 1.0)},
        }


def quantile(values: Sequence[int], share: float, unit: float) -> float | None:
    """The value that a share of all stays below, in units; None of nothing."""
    if not values:
        return None
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] / unit
