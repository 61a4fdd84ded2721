"""The face of the etcd store: the contract's calls as requests, and what their failures mean.

A transaction has three outcomes and one exception. The server's word is *committed* or *conflict*. What certainly was
not done is tried again until the deadline, and then is ``StoreUnavailable``. Everything else is *unknown*.

Out of space needs care: etcd may have applied a transaction that it answers so (``faults``). While the alarm is known
to be raised, writes are refused here, and nothing is sent; deletes pass, since they make room. For a transaction that
hits it first, one linearizable read decides: if a key that it compares *and* writes still has the revision that it
compares with, it was not applied, and, having been answered, never will be. Otherwise it is unknown.

A listing is read in steps that grow with what has come: etcd limits a range by keys only, and the same number of keys
is a kilobyte of states or a hundred megabytes of specs. What a range of keys turned out to weigh is remembered by its
first path segment.
"""

import asyncio
import random
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final, Self

from hanse.etcd.v3 import rpc_pb2 as pb
from hanse.kit.telemetry import metrics
from hanse.store import limits
from hanse.store.contract import (
    RANGE_BYTES_MAX,
    RANGE_ITEMS_MAX,
    READ_DEADLINE_S,
    TXN_OPS_MAX,
    WRITE_DEADLINE_S,
    Committed,
    Compacted,
    KeyValue,
    LeaseGone,
    Outcome,
    Put,
    RangeResult,
    ReadResult,
    StoreError,
    StoreFull,
    StoreLimit,
    StoreUnavailable,
    Txn,
    Unknown,
    Watch,
    key_after,
)
from hanse.store.etcd import codec
from hanse.store.etcd.cluster import OPEN_DEADLINE_S, Cluster
from hanse.store.etcd.faults import Failed, Fate
from hanse.store.etcd.leases import Leases
from hanse.store.etcd.member import Member
from hanse.store.etcd.options import EtcdOptions
from hanse.store.etcd.steps import Steps
from hanse.store.etcd.tokens import Metadata
from hanse.store.etcd.watches import Watches

_CLOSED: Final = "the store is closed"
_FULL: Final = (
    "is out of space (alarm NOSPACE): compact, defragment every member and disarm the alarm (etcdctl compact, "
    "defrag, alarm disarm), or raise --quota-backend-bytes; until then only deletes pass"
)


class EtcdStore:
    """A ``Store``; see ``contract.Store`` for what the calls promise. Made by ``open``."""

    def __init__(self, options: EtcdOptions, rng: random.Random) -> None:
        self._cluster = Cluster(options, rng)
        self._watches = Watches(self._cluster)
        self._leases = Leases(self._cluster, rng)
        self._steps = Steps()
        self._loop = asyncio.get_running_loop()
        self._telling = ExitStack()
        self._telling.enter_context(metrics.REGISTRY.observed(self._cluster.tell))

    @classmethod
    async def open(
        cls, options: EtcdOptions, *, rng: random.Random | None = None, deadline_s: float = OPEN_DEADLINE_S
    ) -> Self:
        """Connect. Raises StoreUnavailable if no member can be used in that time, or we may not read, InvalidArgument
        for a file that cannot be read."""
        store = cls(options, rng or random.Random())
        try:
            await store._cluster.open(deadline_s)
            await store.read([])
        except BaseException:
            await store.close()
            raise
        return store

    async def close(self) -> None:
        self._telling.close()
        await self._watches.close(StoreUnavailable(_CLOSED))
        await self._cluster.close()

    # ----------------------------------------------------------------------------------------------- reads

    async def read(self, keys: Sequence[str], *, deadline_s: float = READ_DEADLINE_S) -> ReadResult:
        limits.check_read(keys)
        until_s = self._loop.time() + deadline_s
        while True:
            try:
                return await self._read(keys, until_s)
            except Failed as failed:
                # Between two of its requests the revision that the read is pinned to was compacted: from the start.
                if failed.fate is not Fate.COMPACTED:
                    raise self._refusal(failed) from None

    async def _read(self, keys: Sequence[str], until_s: float) -> ReadResult:
        if not keys:
            return ReadResult({}, (await self._range(codec.revision_request(), until_s)).header.revision)
        revision = 0
        found: dict[str, KeyValue] = {}
        for at in range(0, len(keys), TXN_OPS_MAX):
            request = codec.read_request(keys[at : at + TXN_OPS_MAX], revision=revision)
            floor = self._cluster.revision
            response = await self._txn(request, until_s, repeat=True)
            if not self._cluster.see(response.header.revision, floor=floor):
                raise StoreUnavailable(self._cluster.refusal)
            revision = revision or response.header.revision
            for answer in response.responses:
                for kv in codec.key_values(answer.response_range.kvs):
                    found[kv.key] = kv
        return ReadResult(found, revision)

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
        limits.check_range(start, end, limit=limit, at_revision=at_revision)
        until_s = self._loop.time() + deadline_s
        try:
            return await self._page(start, end, limit, at_revision, until_s, keys_only=keys_only)
        except Failed as failed:
            if failed.fate is Fate.COMPACTED:
                raise await self._compacted(start, end, at_revision) from None
            if failed.fate is Fate.FUTURE:
                raise StoreLimit(f"range at revision {at_revision}: the store is not there yet") from None
            raise self._refusal(failed) from None

    async def _page(
        self, start: str, end: str, limit: int, at_revision: int, until_s: float, *, keys_only: bool
    ) -> RangeResult:
        items: list[KeyValue] = []
        begin, size_bytes, told, shrink = start, 0, 0, 1
        more = start < end
        while more and len(items) < limit and size_bytes < RANGE_BYTES_MAX:
            step = limit if keys_only else self._steps.next_keys(begin, keys=len(items), size_bytes=size_bytes)
            step = max(1, min(step, limit - len(items)) // shrink)
            request = codec.range_request(start, end, limit=step, revision=at_revision or told, keys_only=keys_only)
            try:
                response = await self._range(request, until_s)
            except Failed as failed:
                if failed.fate is not Fate.TOO_LARGE or step == 1:
                    raise
                self._steps.forget(begin)
                shrink *= 8
                continue
            told = told or response.header.revision
            more = response.more
            found = codec.key_values(response.kvs)
            items += found
            size_bytes += sum(len(kv.value) for kv in found)
            start = key_after(items[-1].key) if items else start
        if not told:
            told = (await self._range(codec.revision_request(revision=at_revision), until_s)).header.revision
        elif not keys_only:
            self._steps.remember(begin, keys=len(items), size_bytes=size_bytes)
        return RangeResult(tuple(items), told, more)

    async def _compacted(self, start: str, end: str, at_revision: int) -> StoreError:
        """etcd does not say with a range how much history is gone; with a watch it does."""
        async with self._watches.open(start, max(end, key_after(start)), from_revision=1) as watch:
            try:
                async with asyncio.timeout(READ_DEADLINE_S):
                    await anext(watch)
            except (Compacted, StoreUnavailable) as error:
                return error
            except TimeoutError:
                pass
        return Compacted(at_revision + 1)

    # ---------------------------------------------------------------------------------------------- writes

    async def transact(self, txn: Txn, *, deadline_s: float = WRITE_DEADLINE_S) -> Outcome:
        size_bytes = limits.check_txn(txn)
        if not (txn.guards or txn.ops):
            return Committed((await self.read([], deadline_s=deadline_s)).revision)
        self._cluster.enter(deadline_s)
        if self._cluster.full and any(isinstance(op, Put) for op in txn.ops):
            raise StoreFull(f"{self._cluster.name} {_FULL}")
        floor = self._cluster.revision
        try:
            request, until_s = codec.txn_request(txn), self._loop.time() + deadline_s
            response = await self._txn(request, until_s, repeat=not txn.ops, size_bytes=size_bytes)
        except Failed as failed:
            return await self._failed(txn, failed)
        if not self._cluster.see(response.header.revision, floor=floor):
            return Unknown(self._cluster.refusal)
        if response.succeeded:
            return Committed(response.header.revision)
        return await self._conflict(txn, response.header.revision, until_s)

    async def _conflict(self, txn: Txn, revision: int, until_s: float) -> Outcome:
        """Why the guards did not hold at that revision; if that is compacted by now, what is so now."""
        while True:
            request = codec.conflict_request(txn.guards, revision=revision)
            try:
                response = await self._txn(request, until_s, repeat=True)
            except Failed as failed:
                if failed.fate is not Fate.COMPACTED:
                    raise self._refusal(failed) from None
                revision = 0
                continue
            return codec.conflict(txn.guards, response, revision=revision or response.header.revision)

    async def _failed(self, txn: Txn, failed: Failed) -> Outcome:
        match failed.fate:
            case Fate.UNSURE:
                return Unknown(f"{self._cluster.name}: {failed.cause}")
            case Fate.FULL:
                return await self._settle_full(txn)
            case Fate.LEASE_GONE:
                raise LeaseGone(next(op.lease for op in txn.ops if isinstance(op, Put) and op.lease))
            case _:
                raise self._refusal(failed)

    async def _settle_full(self, txn: Txn) -> Outcome:
        """etcd has answered that it is out of space: not applied, or applied; see the module."""
        written = {op.key for op in txn.ops}
        proofs = {guard.key: guard.revision for guard in txn.guards if guard.revision and guard.key in written}
        what = f"{self._cluster.name} {_FULL}"
        if proofs:
            try:
                found = (await self.read(list(proofs))).items
            except StoreUnavailable:
                return Unknown(what)
            if any(key in found and found[key].mod_revision == revision for key, revision in proofs.items()):
                raise StoreFull(what)
        return Unknown(what)

    async def compact(self, revision: int) -> None:
        if revision < 0:
            raise StoreLimit(f"compaction to revision {revision}: it must be 0 or more")
        request = pb.CompactionRequest(revision=revision)

        async def once(member: Member, timeout_s: float, metadata: Metadata) -> pb.CompactionResponse:
            return await member.call(member.kv.Compact, request, timeout_s=timeout_s, metadata=metadata)

        try:
            await self._cluster.ask(once, WRITE_DEADLINE_S, repeat=True)
        except Failed as failed:
            if failed.fate is Fate.FUTURE:
                raise StoreLimit(f"compaction to revision {revision}: the store is not there yet") from None
            if failed.fate is not Fate.COMPACTED:
                raise self._refusal(failed) from None

    # --------------------------------------------------------------------------------- watches and leases

    def watch(self, start: str, end: str, *, from_revision: int) -> Watch:
        limits.check_watch(start, end, from_revision=from_revision)
        return self._watches.open(start, end, from_revision=from_revision)

    async def lease_grant(self, ttl_s: float) -> int:
        limits.check_ttl(ttl_s)
        try:
            return await self._leases.grant(ttl_s)
        except Failed as failed:
            raise self._refusal(failed) from None

    async def lease_keep_alive(self, lease: int) -> float:
        try:
            return await self._leases.keep_alive(lease)
        except Failed as failed:
            raise self._refusal(failed) from None

    async def lease_revoke(self, lease: int) -> None:
        try:
            await self._leases.revoke(lease)
        except Failed as failed:
            raise self._refusal(failed) from None

    # --------------------------------------------------------------------------------------------- inside

    async def _range(self, request: pb.RangeRequest, until_s: float) -> pb.RangeResponse:
        async def once(member: Member, timeout_s: float, metadata: Metadata) -> pb.RangeResponse:
            return await member.call(member.kv.Range, request, timeout_s=timeout_s, metadata=metadata)

        floor = self._cluster.revision
        response = await self._cluster.ask(once, until_s - self._loop.time(), repeat=True)
        if not self._cluster.see(response.header.revision, floor=floor):
            raise StoreUnavailable(self._cluster.refusal)
        return response

    async def _txn(
        self, request: pb.TxnRequest, until_s: float, *, repeat: bool, size_bytes: int = 0
    ) -> pb.TxnResponse:
        async def once(member: Member, timeout_s: float, metadata: Metadata) -> pb.TxnResponse:
            return await member.call(member.kv.Txn, request, timeout_s=timeout_s, metadata=metadata)

        return await self._cluster.ask(once, until_s - self._loop.time(), repeat=repeat, size_bytes=size_bytes)

    def _refusal(self, failed: Failed) -> StoreError:
        """What another try does not change, for the caller."""
        name, user = self._cluster.name, self._cluster.tokens.user
        match failed.fate:
            case Fate.DENIED | Fate.NOT_KNOWN_TO:
                who = f"user {user!r}" if user else "us (no user is given)"
                return StoreUnavailable(
                    f"{name} refuses {who}: {failed.cause}: check the password, and that its role may read and write "
                    "every key"
                )
            case Fate.TOO_LARGE:
                return StoreLimit(f"{name}: {failed.cause}: etcd's --max-request-bytes and --max-txn-ops are too low")
            case Fate.FULL:
                return StoreFull(f"{name} {_FULL}")
            case _:
                return StoreUnavailable(f"{name}: {failed.cause}: try again later")
