"""A store whose calls are timed: the same contract, one histogram.

Rejected: timing in each adapter. There are three, and the wrapper is what all of them would repeat.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, TypeVar

from hanse.kit.clock import Clock
from hanse.kit.telemetry import metrics
from hanse.store.contract import (
    RANGE_ITEMS_MAX,
    READ_DEADLINE_S,
    WRITE_DEADLINE_S,
    Committed,
    Conflict,
    Outcome,
    RangeResult,
    ReadResult,
    Store,
    StoreError,
    StoreUnavailable,
    Txn,
    Unknown,
)

T = TypeVar("T")

_OUTCOMES: Final[Mapping[type, str]] = {Committed: "committed", Conflict: "conflict", Unknown: "unknown"}


class MeasuredStore:
    """Wraps a store; see `hanse.store.contract.Store` for what each call promises."""

    def __init__(self, store: Store, clock: Clock, system: str) -> None:
        self._store = store
        self._clock = clock
        self._system = system
        self.watch = store.watch
        self.lease_grant = store.lease_grant
        self.lease_keep_alive = store.lease_keep_alive
        self.lease_revoke = store.lease_revoke
        self.compact = store.compact
        self.close = store.close

    async def read(self, keys: Sequence[str], *, deadline_s: float = READ_DEADLINE_S) -> ReadResult:
        return await self._timed("read", self._store.read(keys, deadline_s=deadline_s))

    async def range(
        self,
        start: str,
        end: str,
        *,
        limit: int = RANGE_ITEMS_MAX,
        at_revision: int = 0,
        keys_only: bool = False,
        deadline_s: float = READ_DEADLINE_S,
    ) -> RangeResult:
        call = self._store.range(
            start, end, limit=limit, at_revision=at_revision, keys_only=keys_only, deadline_s=deadline_s
        )
        return await self._timed("range", call)

    async def transact(self, txn: Txn, *, deadline_s: float = WRITE_DEADLINE_S) -> Outcome:
        return await self._timed("transact", self._store.transact(txn, deadline_s=deadline_s))

    async def _timed(self, operation: str, call: Awaitable[T]) -> T:
        begun_s = self._clock.monotonic()
        try:
            found = await call
        except StoreError as error:
            self._record(begun_s, operation, "unavailable" if isinstance(error, StoreUnavailable) else "error")
            raise
        self._record(begun_s, operation, _OUTCOMES.get(type(found), "done"))
        return found

    def _record(self, begun_s: float, operation: str, outcome: str) -> None:
        metrics.STORE_DURATION.record(self._clock.monotonic() - begun_s, self._system, operation, outcome)
