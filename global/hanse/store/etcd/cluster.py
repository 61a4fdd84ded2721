"""The members of one etcd, as one: which to ask, and what may be asked again.

A store stays with one member, drawn at random among those that can be used (so that many replicas spread), until that
one is in trouble. Requests that change nothing, or may be repeated, are tried again, elsewhere if possible, until
their deadline. A transaction is tried again only if it is certain that it was not done (``faults``): it was never
sent, or refused before it was proposed. Everything else is the caller's to settle.

A store that answers from before what it has acknowledged was restored from a backup (or has lost its data). Nobody
may go on with it in good faith, so from then on every call is refused, until the process is started again.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import grpc

from hanse.kit.tasks import cancelled
from hanse.kit.telemetry import metrics
from hanse.store.contract import StoreUnavailable
from hanse.store.etcd.faults import Failed, Fate
from hanse.store.etcd.member import Member
from hanse.store.etcd.options import EtcdOptions
from hanse.store.etcd.tokens import Metadata, Tokens

log = logging.getLogger(__name__)

T = TypeVar("T")

OPEN_DEADLINE_S: Final = 5.0
TRY_S: Final = 1.0
"""Of a request that may be repeated; more if half of what is left of its deadline is more."""

RETRY_FIRST_S: Final = 0.02
RETRY_MAX_S: Final = 0.3
CALLS_MAX: Final = 10_000
CALLS_BYTES_MAX: Final = 256 * 1_024 * 1_024
"""Requests under way at once, and their size; beyond it they are refused. What keeps a lease is not one of them: a
replica that is busy is not dead."""

BEHIND_ENTRIES_MAX: Final = 10_000
"""A member whose log lags the furthest one's by more is asked only if there is no other."""

Attempt = Callable[[Member, float, Metadata], Awaitable[T]]
"""One try with a member: timeout in seconds, metadata. Raises Failed."""


class Cluster:
    """See the module."""

    def __init__(self, options: EtcdOptions, rng: random.Random) -> None:
        self.tokens = Tokens(options.user, options.password)
        pem = options.credentials()
        credentials = None if pem is None else grpc.ssl_channel_credentials(*pem)
        endpoints = list(options.endpoints)
        rng.shuffle(endpoints)
        self.name = f"etcd at {', '.join(options.endpoints)}"
        self._members = [Member(one, credentials, self._admit, self.tokens, self._look_again) for one in endpoints]
        self._id = 0
        self._foreign: set[int] = set()
        self._changed = asyncio.Event()
        self._favourite = self._members[0]
        self._calls = self._calls_bytes = 0
        self._revision = 0
        self._refuse_all = ""
        self._loop = asyncio.get_running_loop()
        self._pulses = [asyncio.create_task(one.run(), name=f"etcd-{one.endpoint}") for one in self._members]

    async def open(self, deadline_s: float) -> None:
        """Wait for a member that can be used. Raises StoreUnavailable."""
        await self.member(until_s=self._loop.time() + deadline_s)

    async def close(self) -> None:
        if not self._refuse_all:
            self._refuse_all = "the store is closed"
        await cancelled(list(self._pulses))
        for member in self._members:
            await member.close()

    @property
    def full(self) -> bool:
        """Some member says that there is no space left."""
        return any(member.vitals is not None and member.vitals.full for member in self._members if not member.trouble)

    def tell(self) -> None:
        """The gauges of what each member's file holds."""
        for member in self._members:
            if member.vitals is not None and not member.trouble:
                for what, size_bytes in member.vitals.sizes.items():
                    metrics.STORE_SIZE.set(size_bytes, member.endpoint, what)

    def enter(self, deadline_s: float, *, urgent: bool = False) -> None:
        """Raises StoreUnavailable if no call may begin; `urgent`: however many others are under way."""
        if self._refuse_all:
            raise StoreUnavailable(self._refuse_all)
        if deadline_s <= 0:
            raise StoreUnavailable("the deadline was over before the call began; nothing was done")
        if urgent:
            return
        if self._calls >= CALLS_MAX or self._calls_bytes >= CALLS_BYTES_MAX:
            raise StoreUnavailable(
                f"{self.name}: {self._calls} requests, {self._calls_bytes} bytes, are under way: try again later"
            )

    async def ask(
        self, attempt: Attempt[T], deadline_s: float, *, repeat: bool, size_bytes: int = 0, urgent: bool = False
    ) -> T:
        """Try until it works or the deadline is over; see the module.

        Args:
            urgent: it has a connection of its own, and must not wait for others, nor be refused because of them.

        Raises:
            Failed: with what another try does not change, or must not.
            StoreUnavailable: nobody could be asked, or (``repeat``) nobody answered.
        """
        self.enter(deadline_s, urgent=urgent)
        self._calls += 1
        self._calls_bytes += size_bytes
        try:
            return await self._try(attempt, self._loop.time() + deadline_s, repeat=repeat)
        finally:
            self._calls -= 1
            self._calls_bytes -= size_bytes

    async def _try(self, attempt: Attempt[T], until_s: float, *, repeat: bool) -> T:
        pause_s, avoid = RETRY_FIRST_S, None
        while True:
            member = self._choose(avoid) or await self.member(until_s=until_s)
            left_s = until_s - self._loop.time()
            timeout_s = min(left_s, max(TRY_S, left_s / 2)) if repeat else left_s
            metadata: Metadata = ()
            try:
                metadata = await member.metadata(timeout_s=timeout_s)
                return await attempt(member, timeout_s, metadata)
            except Failed as failed:
                if failed.fate is Fate.NOT_KNOWN_TO and self.tokens.user:
                    self.tokens.refused(metadata)
                elif failed.fate is not Fate.NOT_DONE and not (repeat and failed.fate is Fate.UNSURE):
                    raise
                if self._loop.time() + pause_s >= until_s:
                    raise StoreUnavailable(
                        f"{self.name}: {failed.cause}: nothing was done, try again later"
                    ) from None
            await asyncio.sleep(pause_s)
            pause_s, avoid = min(RETRY_MAX_S, pause_s * 2), member

    async def member(self, *, until_s: float) -> Member:
        """One that can be used, when there is one. Raises StoreUnavailable at that loop time."""
        while True:
            if self._refuse_all:
                raise StoreUnavailable(self._refuse_all)
            chosen = self._choose(None)
            if chosen is not None:
                return chosen
            self._changed.clear()
            try:
                async with asyncio.timeout_at(until_s):
                    await self._changed.wait()
            except TimeoutError:
                raise StoreUnavailable(self.trouble()) from None

    def trouble(self) -> str:
        """What is wrong with each member, in one line."""
        told = "; ".join(f"{member.endpoint} {member.trouble or 'serves'}" for member in self._members)
        return f"{self.name} cannot serve: {told}: nothing was done; start etcd, or correct the address"

    def see(self, revision: int, *, floor: int) -> bool:
        """An answer of this revision came to a request that was made when ``floor`` was known. False: the store has
        gone back, and this and every later call must be refused."""
        if revision < floor:
            self._refuse_all = (
                f"{self.name} has gone back from revision {floor} to {revision}: it was restored or has lost its "
                "data; stop every replica and start them again"
            )
            log.critical("etcd_went_back", extra={"known": floor, "told": revision})
            return False
        self._revision = max(self._revision, revision)
        return True

    @property
    def revision(self) -> int:
        """The newest that an answer has told."""
        return self._revision

    @property
    def refusal(self) -> str:
        """Why no call may begin, "" if it may."""
        return self._refuse_all

    # ------------------------------------------------------------------------------------------ the choice

    def _choose(self, avoid: Member | None) -> Member | None:
        """The favourite while it is well, else another, else the one to be avoided."""
        favourite = self._favourite
        if not favourite.trouble and favourite is not avoid:
            return favourite
        well = [member for member in self._members if not member.trouble]
        furthest = max((_applied(member) for member in well), default=0)
        better = [one for one in well if one is not avoid and furthest - _applied(one) <= BEHIND_ENTRIES_MAX]
        chosen = next(iter(better or well), None)
        if chosen is not None and favourite.trouble:
            self._favourite = chosen
        return chosen

    def _admit(self, cluster_id: int) -> bool:
        """Whether a member of that cluster is one of ours: the first one that answers decides."""
        self._id = self._id or cluster_id
        if cluster_id != self._id and cluster_id not in self._foreign:
            self._foreign.add(cluster_id)
            log.error("etcd_foreign_member", extra={"cluster": f"{cluster_id:x}", "ours": f"{self._id:x}"})
        return cluster_id == self._id

    def _look_again(self) -> None:
        self._changed.set()


def _applied(member: Member) -> int:
    return 0 if member.vitals is None else member.vitals.applied
