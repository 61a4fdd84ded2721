"""When leases run out: deadlines on the store's clock, and one timer on the loop for the nearest of them.

A lease is never ended early: the timer only causes a look at the clock. ``look()`` is also called before
every operation, so that a store whose clock ran ahead of its loop (or whose loop was blocked) never
serves a key of a lease that is over. Deadlines live in memory only; a store that restarts gives every
lease its full time again, since it cannot know how long it was away.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from hanse.kit.clock import Clock
from hanse.store.contract import LeaseGone

TIMER_MIN_S: Final = 0.001
"""The timer never asks for less, so that rounding between loop and clock cannot make it spin."""


class LeaseKeeper:
    """Calls ``expire(lease)`` once for every lease whose time is over, and forgets it."""

    def __init__(self, clock: Clock, expire: Callable[[int], None]) -> None:
        self._clock = clock
        self._expire = expire
        self._ttl_s: dict[int, float] = {}
        self._due: dict[int, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = float("inf")

    def __contains__(self, lease: int) -> bool:
        return lease in self._due

    def grant(self, lease: int, ttl_s: float) -> None:
        self._ttl_s[lease] = ttl_s
        self._due[lease] = self._clock.monotonic() + ttl_s
        self._arm()

    def renew(self, lease: int) -> float:
        """The full time in seconds; raises ``LeaseGone``."""
        if lease not in self._due:
            raise LeaseGone(lease)
        self._due[lease] = self._clock.monotonic() + self._ttl_s[lease]
        return self._ttl_s[lease]

    def drop(self, lease: int) -> None:
        """Forget a lease without expiring it; raises ``LeaseGone``."""
        if self._due.pop(lease, None) is None:
            raise LeaseGone(lease)
        del self._ttl_s[lease]

    def look(self) -> None:
        """Expire what is due, in the order in which it became due."""
        now = self._clock.monotonic()
        if not self._due or now < self._timer_due:
            return
        over = sorted((due, lease) for lease, due in self._due.items() if due <= now)
        for _, lease in over:
            self.drop(lease)
        self._timer_due = float("inf")
        self._arm()
        for _, lease in over:
            self._expire(lease)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due.clear()

    def _arm(self) -> None:
        """``_timer_due`` never lies above the nearest deadline; renewals leave it below, which costs one
        look."""
        nearest = min(self._due.values(), default=float("inf"))
        if nearest >= self._timer_due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = nearest
        wait_s = max(TIMER_MIN_S, nearest - self._clock.monotonic())
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self.look()
        if self._timer is None and self._due:
            self._timer_due = float("inf")
            self._arm()
