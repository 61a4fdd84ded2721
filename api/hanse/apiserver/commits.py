"""Group commit: writes that arrive together share one transaction.

A key in a transaction of 40 costs a third of a key alone, and a store with one writer commits one transaction at a
time. So a write is a *unit* of guards and operations that takes effect as a whole; while transactions are on their
way, other units gather, and the next transaction takes as many as the store's limits allow. Nothing waits for
company: an idle committer sends a unit at once.

A unit never fails because of its company: when a transaction conflicts, the units whose guards are violated get the
conflict, and the others go again. An unknown outcome is unknown for every unit of the transaction; each settles it by
its own guards.

Units that touch the same key never share a transaction, since in one transaction a guard would not see the other
unit's write.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from hanse.model.errors import ResourceExhausted
from hanse.store.contract import (
    TXN_BYTES_MAX,
    TXN_OPS_MAX,
    Committed,
    Conflict,
    Guard,
    Op,
    Outcome,
    Store,
    Txn,
    Unknown,
)
from hanse.store.limits import txn_bytes

TXNS_IN_FLIGHT_MAX: Final = 4
UNITS_WAITING_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Unit:
    """Guards and operations that take effect together or not at all; `bytes` at least what `txn_bytes` says."""

    guards: tuple[Guard, ...]
    ops: tuple[Op, ...]
    bytes: int

    @classmethod
    def of(cls, guards: tuple[Guard, ...], ops: tuple[Op, ...]) -> "Unit":
        """A unit whose size is counted here."""
        return cls(guards, ops, txn_bytes(Txn(guards, ops)))


@dataclass(slots=True)
class _Waiting:
    unit: Unit
    done: asyncio.Future[Outcome]


@dataclass(slots=True)
class _Group:
    """Units that share a transaction."""

    members: list[_Waiting] = field(default_factory=list)
    guards: dict[str, Guard] = field(default_factory=dict)
    ops: dict[str, Op] = field(default_factory=dict)
    bytes: int = 0

    def take(self, waiting: _Waiting) -> bool:
        """Add a unit, if it fits beside the others."""
        unit = waiting.unit
        guards = {g.key: g for g in unit.guards}
        written = {op.key for op in unit.ops}
        if self.members and not self._fits(waiting, guards, written):
            return False
        self.members.append(waiting)
        self.guards.update(guards)
        self.ops.update({op.key: op for op in unit.ops})
        self.bytes += waiting.unit.bytes
        return True

    def _fits(self, waiting: _Waiting, guards: dict[str, Guard], written: set[str]) -> bool:
        new_guards = sum(key not in self.guards for key in guards)
        return (
            len(self.guards) + new_guards <= TXN_OPS_MAX
            and len(self.ops) + len(written) <= TXN_OPS_MAX
            and self.bytes + waiting.unit.bytes <= TXN_BYTES_MAX
            and all(self.guards[key] == guard for key, guard in guards.items() if key in self.guards)
            and not any(key in self.ops or key in self.guards for key in written)
            and not any(key in self.ops for key in guards)
        )

    def txn(self) -> Txn:
        return Txn(tuple(self.guards.values()), tuple(self.ops.values()))


class GroupCommitter:
    """Takes units from any number of callers; its `run` must be running."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: deque[_Waiting] = deque()
        self._arrived = asyncio.Event()

    async def commit(self, unit: Unit) -> Outcome:
        """The outcome of one unit. A caller that is cancelled does not take its unit back.

        Raises:
            ResourceExhausted: UNITS_WAITING_MAX units wait already; nothing was done.
            StoreUnavailable, LeaseGone: as of the store; nothing was done.
        """
        if len(self._waiting) >= UNITS_WAITING_MAX:
            raise ResourceExhausted(
                f"{UNITS_WAITING_MAX} writes wait for the store; try again later", reason="TOO_MANY_WRITES"
            )
        waiting = _Waiting(unit, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._arrived.set()
        return await waiting.done

    async def run(self) -> None:
        """Commit what arrives, until cancelled; units that wait then are told that they are unknown."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(TXNS_IN_FLIGHT_MAX):
                    tasks.create_task(self._work(), name=f"api-commit-{number}")
        finally:
            while self._waiting:
                _settle(self._waiting.popleft(), Unknown("the server is stopping"))

    async def _work(self) -> None:
        while True:
            while not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            group = self._gather()
            try:
                await self._commit(group)
            finally:
                for member in group.members:
                    _settle(member, Unknown("the server is stopping"))

    def _gather(self) -> _Group:
        group = _Group()
        while self._waiting and group.take(self._waiting[0]):
            self._waiting.popleft()
        return group

    async def _commit(self, group: _Group) -> None:
        """Commit a group; after a conflict once more without the units that lost, until nobody is left."""
        while group.members:
            try:
                outcome = await self._store.transact(group.txn())
            except Exception as error:  # whatever the store raises, it did nothing; the units' owners are told
                for member in group.members:
                    if not member.done.done():
                        member.done.set_exception(error)
                return
            match outcome:
                case Conflict() if len(group.members) > 1:
                    group = _without_losers(group, outcome)
                case Committed() | Conflict() | Unknown():
                    for member in group.members:
                        _settle(member, outcome)
                    return


def _without_losers(group: _Group, conflict: Conflict) -> _Group:
    """The units whose guards held, as a group of their own; the others get the conflict. If the store does not say
    whose guard failed, the first unit is taken to have lost: the group shrinks, and so the loop ends."""
    losers = [m for m in group.members if _violated(m.unit, conflict)] or group.members[:1]
    rest = _Group()
    for member in group.members:
        if any(member is loser for loser in losers):
            _settle(member, conflict)
        else:
            rest.take(member)
    return rest


def _violated(unit: Unit, conflict: Conflict) -> bool:
    return any(conflict.current.get(g.key, g.revision) != g.revision for g in unit.guards)


def _settle(waiting: _Waiting, outcome: Outcome) -> None:
    if not waiting.done.done():
        waiting.done.set_result(outcome)
