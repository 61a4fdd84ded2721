"""How a pool is told to leave, and let in again: what is written, and what is refused.

The order is a setting of the pool, so it is taken back like a cordon for as long as the pool is there. What follows
from it is done by the replicas (`scheduler.shell.leaves`). That a pool has left is remembered under a key of its own,
since its agent need not know.
"""

from dataclasses import dataclass

import msgspec

from hanse.api.v1 import pool_pb2, pool_service_pb2
from hanse.apiserver.writes import PlannedWrite
from hanse.model.errors import FailedPrecondition, InvalidArgument, NotFound
from hanse.model.ids import PoolName
from hanse.model.names import is_subdomain
from hanse.store import keys
from hanse.store.contract import Delete, Guard, ModRevisionIs, Op, Store
from hanse.store.schema import AttachedValue, BarredValue, LeaveValue, LeftValue, PoolConfigValue, decode


def check_order(request: pool_service_pb2.LeavePoolRequest) -> None:
    """Raises InvalidArgument: reason FORCE_MISSING or DEADLINE_INVALID."""
    if request.vouch_dead and not request.force:
        raise InvalidArgument(
            "only a pool that leaves by force can be vouched to be dead; set force as well",
            reason="FORCE_MISSING",
            path="vouch_dead",
        )
    if request.force and request.deadline_s:
        raise InvalidArgument(
            "a pool that leaves by force is not drained; leave the deadline out",
            reason="DEADLINE_INVALID",
            path="deadline_s",
        )


@dataclass(frozen=True, slots=True)
class Order:
    """What an order to leave compares and writes beside the pool's settings; `value` is kept in them."""

    value: LeaveValue
    guards: tuple[Guard, ...] = ()
    ops: tuple[Op, ...] = ()


async def ordered(
    store: Store, before: PoolConfigValue, request: pool_service_pb2.LeavePoolRequest, *, now_ms: int
) -> Order:
    """The order; one that goes on keeps its beginning.

    By force, the pool must not be reachable. From an order that is vouched on no agent speaks for it, whatever it has
    sent.

    Raises:
        FailedPrecondition: reason POOL_ATTACHED.
    """
    since_ms = before.leave.since_ms if before.leave is not None else now_ms
    if not request.force:
        return Order(LeaveValue(since_ms))
    mark, agent = keys.attached(PoolName(request.name)), keys.pool_agent(PoolName(request.name))
    found = (await store.read([mark, agent, keys.INCARNATION])).items
    if mark in found:
        replica = decode(found[mark].value, AttachedValue).replica
        raise FailedPrecondition(
            f"pool {request.name} is reachable, its agent is attached to {replica}: let it leave without force,"
            " or stop its agent first",
            reason="POOL_ATTACHED",
            path="force",
        )
    life = int(found[keys.INCARNATION].value) if keys.INCARNATION in found else 0
    value, unreachable = LeaveValue(since_ms, force=True, incarnation=life), ModRevisionIs(mark, 0)
    if not request.vouch_dead:
        return Order(value, (unreachable,))
    epoch = ModRevisionIs(agent, found[agent].mod_revision if agent in found else 0)
    return Order(msgspec.structs.replace(value, vouched=True), (unreachable, epoch), (Delete(agent),))


async def left_already(store: Store, name: str) -> PlannedWrite[pool_pb2.Pool] | None:
    """The answer about a pool that has left and did not join again; None about any other."""
    if not is_subdomain(name):
        return None
    pool = PoolName(name)
    read = await store.read([keys.pool_config(pool), keys.pool_left(pool)])
    found = read.items.get(keys.pool_left(pool))
    if found is None or keys.pool_config(pool) in read.items:
        return None
    value = decode(found.value, LeftValue)
    answer = pool_pb2.Pool(
        name=name,
        leave=pool_pb2.PoolLeave(
            since_ms=value.since_ms, force=value.force, vouch_dead=value.vouched, left_ms=value.left_ms
        ),
    )
    return PlannedWrite((ModRevisionIs(found.key, found.mod_revision),), (), answer)


async def readmission(store: Store, name: str) -> PlannedWrite[pool_service_pb2.ReadmitPoolResponse]:
    """Forget that a pool has left, and that its certificates are not believed for that.

    Raises:
        NotFound: reason POOL_NOT_LEFT.
    """
    key, barred = keys.pool_left(PoolName(name)), keys.barred("agent", name)
    items = (await store.read([key, barred])).items if is_subdomain(name) else {}
    found, bar = items.get(key), items.get(barred)
    if found is None:
        raise NotFound(f"no pool of the name {name[:64]!r} has left", reason="POOL_NOT_LEFT", path="name")
    guards = [
        ModRevisionIs(key, found.mod_revision),
        ModRevisionIs(barred, bar.mod_revision if bar is not None else 0),
    ]
    ops = [Delete(key), *([Delete(barred)] if bar is not None and decode(bar.value, BarredValue).left else [])]
    return PlannedWrite(tuple(guards), tuple(ops), pool_service_pb2.ReadmitPoolResponse())
