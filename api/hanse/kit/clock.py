"""Time as an argument.

Shells take a `Clock`; nothing else in the product reads a clock. Under the simulator the clock is the virtual
time of its event loop, so a run of an hour takes as long as its events, and equal seeds see equal times.
Sleeping goes through asyncio, whose loop time the simulator controls too.
"""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Two readings: one that never goes back, one that people understand."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never decreases."""
        ...

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970-01-01 UTC; may step."""
        ...


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class LoopClock:
    """The running event loop's time, offset to a fixed wall time: what the simulator and fast tests use."""

    def __init__(self, *, epoch_ms: int = 1_700_000_000_000) -> None:
        self._epoch_ms = epoch_ms

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def now_ms(self) -> int:
        return self._epoch_ms + int(asyncio.get_running_loop().time() * 1000)
