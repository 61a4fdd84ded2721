"""A limit for requests about pods, of which one gang makes thousands; what fences and leases need never waits here.

A bucket of tokens bounds the rate, a number of slots bounds what is under way. Waiters go in order, so a gang of
thousands delays the next one and starves nobody.
"""

import asyncio
from types import TracebackType


class Throttle:
    """`async with throttle:` around each request.

    Args:
        per_s: tokens that come back in a second.
        burst: tokens at most.
        at_once: requests under way at a time.
    """

    def __init__(self, *, per_s: float, burst: int, at_once: int) -> None:
        self._per_s = per_s
        self._burst = float(burst)
        self._tokens = float(burst)
        self._seen_s: float | None = None
        self._turn = asyncio.Lock()
        self._slots = asyncio.Semaphore(at_once)

    async def __aenter__(self) -> None:
        await self._slots.acquire()
        try:
            async with self._turn:
                await self._token()
        except BaseException:
            self._slots.release()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._slots.release()

    async def _token(self) -> None:
        self._refill()
        if self._tokens < 1:
            await asyncio.sleep((1 - self._tokens) / self._per_s)
            self._refill()
        self._tokens -= 1

    def _refill(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._seen_s is not None:
            self._tokens = min(self._burst, self._tokens + (now_s - self._seen_s) * self._per_s)
        self._seen_s = now_s
