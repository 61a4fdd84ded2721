"""Membership and grants: which replica admits for which root.

A replica is a leased key. Among those that are alive, the rendezvous winner of a root takes it by rewriting
`grants/<root>` with the old revision in the guard, whether or not the old holder lives: from that revision on every
commit of the old holder fails its comparison. No lease has to run out for safety; leases only say who wins. An
operator may name another holder (`holders/<root>`), which wins for as long as it is alive. Both are preferences, so
nobody compares them.

A grant names the *start* of a replica (its nonce), so every start rewrites its grants before it can commit (P4):
what the process before it sent, and nobody heard of since, finds another grant than it compared. A replica acts on a
grant only once the feed has shown it, and with it every binding that was written before it (P2).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from hanse.kit.clock import Clock
from hanse.kit.telemetry import metrics
from hanse.model.ids import ReplicaId
from hanse.scheduler.core.world import ReplicaFacts, World, winner
from hanse.store import keys
from hanse.store.contract import Committed, LeaseGone, ModRevisionIs, Put, Store, StoreUnavailable, Txn
from hanse.store.schema import GrantValue, ReplicaValue, encode

log = logging.getLogger(__name__)

RENEW_FRACTION: Final = 3.0
"""A lease is renewed this many times within its life."""

GRANTS_PER_ROUND_MAX: Final = 256
"""Roots taken in one go."""

GRANTS_AT_ONCE: Final = 16
"""Of these, transactions that are on their way together."""


class Roots:
    """Keeps this replica a member, and its grants rewritten.

    Attributes:
        nonce: identity of this start.
        lease: the session's lease; 0 while there is none. What is bound to it dies with this replica.
        alive: set while there is a lease.
    """

    def __init__(
        self,
        store: Store,
        world: World,
        clock: Clock,
        *,
        replica: ReplicaId,
        nonce: str,
        address: str,
        schedules: bool,
        lease_ttl_s: float,
        on_join: Callable[[], None],
    ) -> None:
        self._store = store
        self._world = world
        self._clock = clock
        self._replica = replica
        self._address = address
        self._schedules = schedules
        self._lease_ttl_s = lease_ttl_s
        self._on_join = on_join
        self._wake = asyncio.Event()
        self._won_of: tuple[tuple[str, ...], tuple[ReplicaFacts, ...], dict[str, ReplicaId]] = ((), (), {})
        self._winning: tuple[str, ...] = ()
        self._closed = False
        self._renewed_s = float("-inf")
        self.nonce = nonce
        self.lease = 0
        self.alive = asyncio.Event()
        self.taken = 0  # roots that it took over from another start, of itself or of others

    async def run_membership(self) -> None:
        """Stay a member until cancelled or closed: renew the lease, and join anew when it was lost."""
        while not self._closed:
            try:
                if self.lease == 0:
                    await self._join()
                await asyncio.sleep(self._lease_ttl_s / RENEW_FRACTION)
                if self.lease:
                    asked_s = self._clock.monotonic()
                    await self._store.lease_keep_alive(self.lease)
                    self._renewed_s = asked_s
            except LeaseGone:
                log.warning("membership_lost", extra={"replica": self._replica})
                self._leave()
            except StoreUnavailable as error:
                log.warning("membership_unavailable", extra={"cause": str(error)})
                await asyncio.sleep(self._lease_ttl_s / RENEW_FRACTION / 2)

    def _leave(self) -> None:
        self.lease = 0
        self.alive.clear()

    def is_member(self) -> bool:
        """Whether the lease, as far as this replica knows, has not run out; false while the store does not answer."""
        return self.alive.is_set() and self._clock.monotonic() - self._renewed_s < self._lease_ttl_s

    async def _join(self) -> None:
        """Write this replica's key under a new lease, or leave it to the next round, whose lease is another.

        The guard is against ourselves: a write of an earlier round that was lost on its way must not come after this
        one and bind the key to a lease that nobody renews.
        """
        asked_s = self._clock.monotonic()
        lease = await self._store.lease_grant(self._lease_ttl_s)
        key = keys.replica(self._replica)
        found = (await self._store.read([key])).items.get(key)
        guard = ModRevisionIs(key, found.mod_revision if found is not None else 0)
        value = ReplicaValue(self.nonce, self._address, self._schedules, self._clock.now_ms())
        outcome = await self._store.transact(Txn((guard,), (Put(key, encode(value), lease),)))
        if not isinstance(outcome, Committed):
            return
        self.lease, self._renewed_s = lease, asked_s
        self.alive.set()
        log.info("membership_joined", extra={"replica": self._replica, "nonce": self.nonce})
        self._on_join()

    async def close(self) -> None:
        """Leave at once instead of by the lease's end, and for good."""
        self._closed = True
        lease, self.lease = self.lease, 0
        if lease:
            await self._store.lease_revoke(lease)

    def look(self) -> None:
        """Something about roots, grants or replicas may have changed."""
        self._wake.set()

    async def run_grants(self, took: Callable[[], None]) -> None:
        """Rewrite the grants of every root that this replica wins, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                if await self._take():
                    took()
            except StoreUnavailable as error:
                log.warning("grants_unavailable", extra={"cause": str(error)})
                await asyncio.sleep(self._lease_ttl_s / RENEW_FRACTION / 2)
                self._wake.set()

    def wanted(self) -> list[str]:
        """Roots that this replica wins and whose grant does not name this start of it."""
        me = self._world.replicas.get(self._replica)
        if not self._schedules or me is None or me.nonce != self.nonce:
            return []
        held = self._world.held_roots(self.nonce)
        return [root for root in self._won() if root not in held]

    def _won(self) -> tuple[str, ...]:
        """Roots that this replica wins; worked out when the roots, the members or the names given are others."""
        roots, wanted = self._world.roots(), dict(self._world.wanted)
        members = tuple(self._world.replicas[r] for r in sorted(self._world.replicas))
        if (roots, members, wanted) != self._won_of:
            self._won_of = (roots, members, wanted)
            self._winning = tuple(root for root in roots if self._winner(root, members) == self._replica)
        return self._winning

    def _winner(self, root: str, members: Sequence[ReplicaFacts]) -> ReplicaId | None:
        """Who is to admit for a root: whom an operator named, if it may, else the rendezvous winner."""
        named = self._world.wanted.get(root)
        able = any(member.replica == named and member.schedules for member in members)
        return named if able else winner(root, members)

    async def _take(self) -> bool:
        """Try to take what is wanted; whether anything was tried. A lost race shows in the feed, which wakes us."""
        roots = self.wanted()[:GRANTS_PER_ROUND_MAX]
        for start in range(0, len(roots), GRANTS_AT_ONCE):
            some = roots[start : start + GRANTS_AT_ONCE]
            done = await asyncio.gather(*(self._take_one(root) for root in some), return_exceptions=True)
            for error in (one for one in done if one is not None):
                raise error
        return bool(roots)

    async def _take_one(self, root: str) -> None:
        known = self._world.grants.get(root)
        guard = ModRevisionIs(keys.grant(root), known.revision if known is not None else 0)
        value = GrantValue(self._replica, self.nonce, self._clock.now_ms())
        outcome = await self._store.transact(Txn((guard,), (Put(keys.grant(root), encode(value)),)))
        self.taken += isinstance(outcome, Committed) and known is not None
        before = known.replica if known is not None else ""
        log.info("grant_taken", extra={"root": root, "before": before, "outcome": type(outcome).__name__})
        metrics.ROOTS_TAKEN.add(1, type(outcome).__name__.lower())
