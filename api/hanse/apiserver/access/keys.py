"""The keys of an issuer: fetched when they are needed, kept for a while, fetched again when a token names a new one.

What an attacker can make this do is bounded: the place is configured and never taken from a token, a key that nobody
knows makes it look again at most once in ASKED_AGAIN_S, everybody who waits waits for the same fetch, and not for
longer than its deadline. An issuer that is away leaves the keys that were read last good for TRUSTED_S.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from hanse.kit.clock import Clock
from hanse.model.errors import HanseError, ResourceExhausted, Unavailable

FRESH_S: Final = 600.0
ASKED_AGAIN_S: Final = 30.0
TRUSTED_S: Final = 6 * 3_600.0
FETCH_DEADLINE_S: Final = 5.0
WAITING_MAX: Final = 256

log = logging.getLogger(__name__)

K = TypeVar("K")


class KeyCache(Generic[K]):
    """Keys as they were read last.

    Args:
        fetch: reads them; raises HanseError.
        fresh_s: they are read again after so long.
    """

    def __init__(
        self,
        fetch: Callable[[], Awaitable[K]],
        clock: Clock,
        *,
        fresh_s: float = FRESH_S,
        asked_again_s: float = ASKED_AGAIN_S,
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._fresh_s = fresh_s
        self._asked_again_s = asked_again_s
        self._keys: K | None = None
        self._read_s = float("-inf")
        self._tried_s = float("-inf")
        self._lock = asyncio.Lock()
        self._waiting = 0
        self.fetches = 0

    async def keys(self) -> K:
        """The keys, not older than they may be.

        Raises:
            Unavailable: reason KEYS_UNAVAILABLE; they cannot be read, and none that were read are good any more.
            ResourceExhausted: reason TOO_MANY_CALLS; very many wait for them.
        """
        if self._clock.monotonic() - self._read_s > self._fresh_s:
            await self._look_again()
        if self._keys is None or self._clock.monotonic() - self._read_s > TRUSTED_S:
            raise Unavailable("the keys of the issuer of tokens cannot be read; try again", reason="KEYS_UNAVAILABLE")
        return self._keys

    async def newer(self) -> K:
        """The keys, read again if they were not a moment ago: a token names one that is not among them."""
        await self._look_again()
        return await self.keys()

    async def _look_again(self) -> None:
        if self._waiting >= WAITING_MAX:
            raise ResourceExhausted(
                f"{WAITING_MAX} calls wait for the keys of the issuer of tokens; try again in a moment",
                reason="TOO_MANY_CALLS",
            )
        self._waiting += 1
        try:
            async with self._lock:
                if self._clock.monotonic() - self._tried_s < self._asked_again_s:
                    return
                self._tried_s = self._clock.monotonic()
                await self._read()
        finally:
            self._waiting -= 1

    async def _read(self) -> None:
        self.fetches += 1
        try:
            async with asyncio.timeout(FETCH_DEADLINE_S):
                self._keys = await self._fetch()
        except (HanseError, TimeoutError) as error:
            cause = str(error) or f"no answer within {FETCH_DEADLINE_S:g} s"
            log.error("issuer_keys_unreadable", extra={"cause": cause, "kept": self._keys is not None})
            return
        self._read_s = self._clock.monotonic()
