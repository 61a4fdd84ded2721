"""PoolService as coroutines on messages. Figures come from the replica's view; settings are written to the store."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from hanse.api.v1 import pool_pb2, pool_service_pb2
from hanse.apiserver.access.rights import Access
from hanse.apiserver.context import CallContext, agent_deadline_s
from hanse.apiserver.leaving import check_order, left_already, ordered, readmission
from hanse.apiserver.pages import PageToken, page_size, read_token, write_token
from hanse.apiserver.ports import AgentDetails, FleetView, PoolDrain, PoolLeave, PoolView
from hanse.apiserver.requests import Request
from hanse.apiserver.seen import seen_pools
from hanse.apiserver.shapes import racks_message, shape_message
from hanse.apiserver.suggest import did_you_mean
from hanse.apiserver.writes import PlannedWrite, Writer
from hanse.kit.clock import Clock
from hanse.model.errors import InvalidArgument, NotFound, Unavailable
from hanse.model.ids import PoolName
from hanse.model.names import is_subdomain, quoted
from hanse.model.placement import Level
from hanse.store import keys
from hanse.store.contract import TXN_OPS_MAX, KeyValue, ModRevisionIs, Op, Put, Store, prefix_end
from hanse.store.schema import DrainValue, PoolConfigValue, decode, encode
from hanse.wire.limits import POOLS_PAGE_SIZE_MAX

CORDON_REASON_CHARS_MAX: Final = 256
DRAIN_DEADLINE_S_MAX: Final = 365 * 86_400
HEADS_BUMPED_MAX: Final = TXN_OPS_MAX - 3
"""One operation is the pool's settings, one the record of the request, one may be its agent's epoch."""


class PoolService:
    """The methods of hanse.api.v1.PoolService."""

    def __init__(
        self, store: Store, writer: Writer, fleet: FleetView, clock: Clock, details: AgentDetails | None = None
    ) -> None:
        self._store = store
        self._writer = writer
        self._fleet = fleet
        self._clock = clock
        self._details = details

    async def get_pool(self, ctx: CallContext, request: pool_service_pb2.GetPoolRequest) -> pool_pb2.Pool:
        """One pool; its shape if it is asked for and known."""
        view = self._view(ctx.access, request.name)
        message = pool_message(view)
        if request.shape and view.shape is not None:
            message.shape.CopyFrom(shape_message(view.shape, rows_only=request.rows_only))
        return message

    async def get_pool_racks(
        self, ctx: CallContext, request: pool_service_pb2.GetPoolRacksRequest
    ) -> pool_service_pb2.PoolRacks:
        """How each lowest domain is used.

        Raises:
            NotFound: reason POOL_NOT_FOUND.
            Unavailable: reason NO_AGENTS, AGENT_SILENT.
        """
        name = self._view(ctx.access, request.name).name
        if self._details is None:
            raise Unavailable("no agent is attached to this server; ask another replica", reason="NO_AGENTS")
        found = await self._details.racks(name, deadline_s=agent_deadline_s(ctx))
        if found is None:
            what = f"the agent of pool {quoted(name)} does not answer, or is too old to know; its shape is known"
            raise Unavailable(what, reason="AGENT_SILENT")
        return racks_message(found)

    async def list_pools(
        self, ctx: CallContext, request: pool_service_pb2.ListPoolsRequest
    ) -> pool_service_pb2.ListPoolsResponse:
        """Pools by name."""
        token = read_token(request.page_token, request)
        size = page_size(request.page_size, default=POOLS_PAGE_SIZE_MAX, most=POOLS_PAGE_SIZE_MAX)
        seen = sorted(seen_pools(ctx.access, self._fleet.pools()), key=lambda v: v.name)
        views = [view for view in seen if view.name > token.after]
        more = len(views) > size
        return pool_service_pb2.ListPoolsResponse(
            pools=[pool_message(view) for view in views[:size]],
            next_page_token=write_token(PageToken(token.filter, 0, views[size - 1].name)) if more else "",
        )

    async def watch_pools(
        self, ctx: CallContext, request: pool_service_pb2.WatchPoolsRequest
    ) -> AsyncIterator[pool_service_pb2.WatchPoolsResponse]:
        """Every pool, then those that changed. A slow reader gets the newest figures, and none of those between."""
        known: dict[PoolName, pool_pb2.Pool] = {}
        version = self._fleet.version()
        first = True
        while True:
            now = {view.name: pool_message(view) for view in seen_pools(ctx.access, self._fleet.pools())}
            changed = [m for name, m in sorted(now.items()) if not _same(known.get(name), m)]
            removed = sorted(name for name in known if name not in now)
            if changed or removed or first:
                yield pool_service_pb2.WatchPoolsResponse(pools=changed, removed=removed)
            known, first = now, False
            version = await self._fleet.changed(version)

    async def cordon_pool(self, ctx: CallContext, request: pool_service_pb2.CordonPoolRequest) -> pool_pb2.Pool:
        """Take no new work in a pool.

        Raises:
            NotFound: reason POOL_NOT_FOUND.
            InvalidArgument: reason TEXT_TOO_LONG.
        """
        reason = _reason(request.reason)

        async def plan(_: Request) -> PlannedWrite[pool_pb2.Pool]:
            return await self._plan(request.name, cordoned=True, reason=reason, drain=None)

        return await self._writer.write(ctx, "CordonPool", request, plan, pool_pb2.Pool)

    async def drain_pool(self, ctx: CallContext, request: pool_service_pb2.DrainPoolRequest) -> pool_pb2.Pool:
        """Take no new work in a pool, and move its jobs elsewhere.

        Raises:
            NotFound: reason POOL_NOT_FOUND.
            InvalidArgument: reason TEXT_TOO_LONG, DEADLINE_INVALID.
        """
        reason = _reason(request.reason)
        _check_deadline(request.deadline_s)

        async def plan(_: Request) -> PlannedWrite[pool_pb2.Pool]:
            drain = self._drain(request.deadline_s)
            return await self._plan(request.name, cordoned=True, reason=reason, drain=drain)

        return await self._writer.write(ctx, "DrainPool", request, plan, pool_pb2.Pool)

    async def uncordon_pool(self, ctx: CallContext, request: pool_service_pb2.UncordonPoolRequest) -> pool_pb2.Pool:
        """Take new work in a pool again, move no more jobs away, and let it stay. Raises NotFound."""

        async def plan(_: Request) -> PlannedWrite[pool_pb2.Pool]:
            return await self._plan(request.name, cordoned=False, reason="", drain=None)

        return await self._writer.write(ctx, "UncordonPool", request, plan, pool_pb2.Pool)

    async def leave_pool(self, ctx: CallContext, request: pool_service_pb2.LeavePoolRequest) -> pool_pb2.Pool:
        """Let a pool leave: drained first, or by force; of one that has left, say so.

        Raises:
            NotFound: reason POOL_NOT_FOUND.
            InvalidArgument: reason TEXT_TOO_LONG, DEADLINE_INVALID, FORCE_MISSING.
            FailedPrecondition: reason POOL_ATTACHED.
        """
        reason = _reason(request.reason)
        _check_deadline(request.deadline_s)
        check_order(request)

        async def plan(_: Request) -> PlannedWrite[pool_pb2.Pool]:
            left = await left_already(self._store, request.name)
            if left is not None:
                return left
            drain = None if request.force else self._drain(request.deadline_s)
            return await self._plan(request.name, cordoned=True, reason=reason, drain=drain, leave=request)

        return await self._writer.write(ctx, "LeavePool", request, plan, pool_pb2.Pool)

    async def readmit_pool(
        self, ctx: CallContext, request: pool_service_pb2.ReadmitPoolRequest
    ) -> pool_service_pb2.ReadmitPoolResponse:
        """Let a pool join again that has left. Raises NotFound: reason POOL_NOT_LEFT."""

        async def plan(_: Request) -> PlannedWrite[pool_service_pb2.ReadmitPoolResponse]:
            return await readmission(self._store, request.name)

        return await self._writer.write(ctx, "ReadmitPool", request, plan, pool_service_pb2.ReadmitPoolResponse)

    def _drain(self, deadline_s: int) -> DrainValue:
        now_ms = self._clock.now_ms()
        return DrainValue(now_ms, now_ms + deadline_s * 1_000 if deadline_s else 0)

    async def _plan(
        self,
        name: str,
        *,
        cordoned: bool,
        reason: str,
        drain: DrainValue | None,
        leave: pool_service_pb2.LeavePoolRequest | None = None,
    ) -> PlannedWrite[pool_pb2.Pool]:
        """The pool's settings anew, and its heads bumped: a commit that is on its way then fails (P1). Every commit
        compares the settings too, so a head that is left out, or made meanwhile, does no harm."""
        kv, heads = await self._read(name)
        before = decode(kv.value, PoolConfigValue)
        if drain is not None and before.drain is not None:  # it goes on
            drain = msgspec.structs.replace(drain, since_ms=before.drain.since_ms)
        order = await ordered(self._store, before, leave, now_ms=self._clock.now_ms()) if leave is not None else None
        value = msgspec.structs.replace(
            before, cordoned=cordoned, cordon_reason=reason, drain=drain, leave=order and order.value
        )
        ops: list[Op] = [Put(kv.key, encode(value)), *(order.ops if order is not None else ())]
        ops.extend(Put(head.key, head.value) for head in heads[:HEADS_BUMPED_MAX])
        view = next((v for v in self._fleet.pools() if v.name == name), None) or _bare(name, value)
        moving = PoolDrain(drain.since_ms, drain.deadline_ms) if drain is not None else None
        going = PoolLeave(order.value.since_ms, order.value.force, order.value.vouched) if order is not None else None
        told = replace(view, cordoned=cordoned, cordon_reason=reason, drain=moving, leave=going)
        guards = (ModRevisionIs(kv.key, kv.mod_revision), *(order.guards if order is not None else ()))
        return PlannedWrite(guards, tuple(ops), pool_message(told))

    async def _read(self, name: str) -> tuple[KeyValue, tuple[KeyValue, ...]]:
        pool = PoolName(name)
        if is_subdomain(name):
            kv = (await self._store.read([keys.pool_config(pool)])).items.get(keys.pool_config(pool))
            if kv is not None:
                return kv, (await self._store.range(keys.heads(pool), prefix_end(keys.heads(pool)))).items
        raise self._not_found(name, self._fleet.pools())

    def _view(self, access: Access, name: str) -> PoolView:
        seen = seen_pools(access, self._fleet.pools())
        view = next((v for v in seen if v.name == name), None)
        if view is None:
            raise self._not_found(name, seen)
        return view

    def _not_found(self, name: str, seen: Sequence[PoolView]) -> NotFound:
        hint = did_you_mean(name, (view.name for view in seen))
        return NotFound(
            f"pool {quoted(name)} does not exist{hint} (`hanse pools` lists them)",
            reason="POOL_NOT_FOUND",
            path="name",
        )


def _reason(text: str) -> str:
    """As it is kept, on one line. Raises InvalidArgument."""
    if len(text) > CORDON_REASON_CHARS_MAX:
        raise InvalidArgument(
            f"{len(text)} characters; at most {CORDON_REASON_CHARS_MAX}", reason="TEXT_TOO_LONG", path="reason"
        )
    return " ".join(text.split())


def _check_deadline(deadline_s: int) -> None:
    if not 0 <= deadline_s <= DRAIN_DEADLINE_S_MAX:
        raise InvalidArgument(
            f"a deadline of {deadline_s:,} s is not between 0 (none) and {DRAIN_DEADLINE_S_MAX:,} s",
            reason="DEADLINE_INVALID",
            path="deadline_s",
        )


def pool_message(view: PoolView) -> pool_pb2.Pool:
    """A pool as users see it, without its shape."""
    message = pool_pb2.Pool(
        name=view.name,
        region=view.region,
        dialect=view.dialect,
        labels=dict(view.labels),
        levels=[pool_pb2.PoolLevel(key=level.key, alias=level.alias) for level in view.levels],
        flavors=[
            pool_pb2.PoolFlavor(
                name=f.name,
                nodes=f.nodes,
                gpus=f.gpus,
                free_gpus=f.free_gpus,
                free_whole_hosts=f.free_whole_hosts,
            )
            for f in view.flavors
        ],
        nodes=view.nodes,
        gpus=view.gpus,
        free_gpus=view.free_gpus,
        free_whole_hosts=view.free_whole_hosts,
        health=pool_pb2.PoolHealth.ValueType(view.health),
        message=view.message,
        attached=view.attached,
        cordoned=view.cordoned,
        cordon_reason=view.cordon_reason,
        summary_age_ms=-1 if view.summary_age_ms is None else view.summary_age_ms,
        summary_exact=view.exact,
        gangs=view.gangs,
        held_gangs=view.held_gangs,
        stopping_gangs=view.stopping_gangs,
        unusable_nodes=view.unusable_nodes,
        revision=view.revision,
    )
    if view.drain is not None:
        message.drain.CopyFrom(pool_pb2.PoolDrain(since_ms=view.drain.since_ms, deadline_ms=view.drain.deadline_ms))
    if view.leave is not None:
        leave = view.leave
        message.leave.CopyFrom(
            pool_pb2.PoolLeave(since_ms=leave.since_ms, force=leave.force, vouch_dead=leave.vouched)
        )
    if view.largest_whole is not None:
        message.largest_whole.CopyFrom(
            pool_pb2.LargestWhole(level=view.largest_whole.level, hosts=view.largest_whole.hosts)
        )
    return message


def _bare(name: str, value: PoolConfigValue) -> PoolView:
    """A pool of which this replica knows only the settings."""
    return PoolView(
        name=PoolName(name),
        region=value.region,
        dialect=value.dialect,
        labels=value.labels,
        levels=tuple(Level(level.key, level.alias) for level in value.levels),
    )


def _same(old: pool_pb2.Pool | None, new: pool_pb2.Pool) -> bool:
    """Whether two messages say the same of a pool; age alone is no news."""
    if old is None:
        return False
    aged = pool_pb2.Pool()
    aged.CopyFrom(old)
    aged.summary_age_ms = new.summary_age_ms
    return bool(aged == new)
