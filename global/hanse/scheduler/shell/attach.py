"""The attach: one guarded transaction grants a pool's agent its epoch.

`pools/<pool>/agent` is written by every attach and by nothing else, so the revision of that write is the epoch, and
a guard on that key is how a report proves that its sender is still the pool's agent (P9). `attached/<pool>` is bound
to this replica's lease and says that the agent has a live stream; while it is there, another instance is refused:
two agents for one cluster, or one identity for two clusters, must not take turns. The same instance may move to
another replica at once.

A pool that has left is not registered again by an agent that does not know: its cluster is let in as a *guest*, whose
desired set is empty and complete, so that it stops whatever it still runs; then it is told that the pool has left.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from hanse.kit.clock import Clock
from hanse.model.attach import Hello, Refusal
from hanse.model.fence import Epoch
from hanse.model.ids import PoolName, ReplicaId
from hanse.model.names import SUBDOMAIN_RULE, is_subdomain
from hanse.store import keys
from hanse.store.contract import (
    Committed,
    Conflict,
    Delete,
    ModRevisionIs,
    Op,
    Put,
    ReadResult,
    Store,
    Txn,
)
from hanse.store.schema import (
    AttachedValue,
    LeftValue,
    LevelValue,
    PoolAgentValue,
    PoolConfigValue,
    SlotsValue,
    decode,
    encode,
)
from hanse.wire.link import LINK_VERSION

log = logging.getLogger(__name__)

ATTACH_TRIES_MAX: Final = 32
POOL_SLOTS_MAX: Final = 65_535
"""Pools that a federation may ever have had: a slot is 16 bits and 65,535 stands for none."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The agent's epoch, and the mark that says its stream is here: its modification revision, and its lease.

    Attributes:
        guest: the pool has left; why it is sent away once its cluster is empty.
    """

    epoch: Epoch
    attached_revision: int
    lease: int
    guest: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Federation:
    """Who we are, as every agent is told."""

    name: str
    incarnation: int


async def attach(
    store: Store,
    clock: Clock,
    hello: Hello,
    *,
    federation: Federation,
    replica: ReplicaId,
    lease: int,
    streams_here: Callable[[PoolName], bool],
) -> Granted | Refusal:
    """Grant an epoch, or say why not.

    Args:
        streams_here: whether this replica has a live stream of a pool. A mark in the store that names this replica
            while it has none is left over from a stream, or a start, whose end could not be written.

    An unknown outcome is tried again like a conflict: another attach only grants a higher epoch, and the lost one,
    should it pass later, is superseded by it or supersedes it, in which case our own guard fails.
    """
    refusal = _refusal_by_hello(hello, federation)
    if refusal is not None:
        return refusal
    if not lease:
        return Refusal("NOT_A_MEMBER", f"replica {replica} is just joining; try again", True)
    for _ in range(ATTACH_TRIES_MAX):
        read = await store.read(_keys(hello.pool))
        refusal = _refusal_by_pool(hello, read, federation) or _refusal_by_mark(hello, read, replica, streams_here)
        if refusal is not None:
            return refusal
        outcome = await store.transact(_txn(hello, read, clock, federation, replica, lease))
        if isinstance(outcome, Committed):
            epoch = Epoch(federation.incarnation, outcome.revision)
            guest = _left(hello, read)
            log.info("agent_attached", extra={"pool": hello.pool, "epoch": str(epoch), "guest": guest is not None})
            return Granted(epoch, outcome.revision, lease, guest)
    return Refusal("CONFLICT", f"pool {hello.pool} is being attached by others at the same time; try again", True)


async def mark_again(
    store: Store, hello: Hello, granted: Granted, *, replica: ReplicaId, lease: int
) -> Granted | None:
    """Say under a new lease that the agent's stream is here; None if another agent has attached meanwhile.

    Raises:
        StoreUnavailable: nothing was written; try again.
    """
    key = keys.attached(hello.pool)
    for _ in range(ATTACH_TRIES_MAX):
        found = (await store.read([key])).items.get(key)
        if found is not None and decode(found.value, AttachedValue).instance != hello.instance:
            return None
        guards = (
            ModRevisionIs(keys.pool_agent(hello.pool), granted.epoch.revision),
            ModRevisionIs(key, found.mod_revision if found is not None else 0),
        )
        put = Put(key, encode(AttachedValue(hello.instance, replica)), lease)
        outcome = await store.transact(Txn(guards, (put,)))
        if isinstance(outcome, Committed):
            return replace(granted, attached_revision=outcome.revision, lease=lease)
        moved = outcome.current if isinstance(outcome, Conflict) else {}
        if moved.get(keys.pool_agent(hello.pool), granted.epoch.revision) != granted.epoch.revision:
            return None
    return None


async def detach(store: Store, pool: PoolName, granted: Granted) -> None:
    """The stream has ended: let another instance in without waiting for the lease to run out."""
    key = keys.attached(pool)
    await store.transact(Txn((ModRevisionIs(key, granted.attached_revision),), (Delete(key),)))


def _keys(pool: PoolName) -> list[str]:
    return [
        keys.pool_config(pool),
        keys.pool_left(pool),
        keys.pool_agent(pool),
        keys.pool_returned(pool),
        keys.attached(pool),
        keys.SLOTS,
    ]


def _refusal_by_hello(hello: Hello, federation: Federation) -> Refusal | None:
    if hello.version != LINK_VERSION:
        text = f"the agent speaks link version {hello.version}, this replica {LINK_VERSION}; upgrade the older one"
        return Refusal("VERSION", text, False)
    if not is_subdomain(hello.pool):
        return Refusal("POOL_NAME", f"{hello.pool[:64]!r} is not a pool's name; {SUBDOMAIN_RULE}", False)
    if hello.federation and hello.federation != federation.name:
        text = (
            f"the cluster belongs to federation {hello.federation}, this is {federation.name}; leave it there first"
        )
        return Refusal("FEDERATION", text, False)
    if hello.epoch.incarnation > federation.incarnation:
        text = (
            f"the cluster has accepted store incarnation {hello.epoch.incarnation}, this store is"
            f" {federation.incarnation}; it is an older copy, restore it as a new incarnation"
        )
        return Refusal("INCARNATION", text, False)
    return None


def _refusal_by_pool(hello: Hello, read: ReadResult, federation: Federation) -> Refusal | None:
    config, left = read.items.get(keys.pool_config(hello.pool)), read.items.get(keys.pool_left(hello.pool))
    if config is not None:
        value = decode(config.value, PoolConfigValue)
        if value.cluster_uid and value.cluster_uid != hello.cluster_uid:
            text = (
                f"pool {hello.pool} is cluster {value.cluster_uid}, not {hello.cluster_uid};"
                " give this cluster another pool name"
            )
            return Refusal("CLUSTER", text, False)
        if value.leave is not None and value.leave.vouched and value.leave.incarnation == federation.incarnation:
            text = f"pool {hello.pool} leaves, its machines are vouched to be dead; wait until it has left"
            return Refusal("POOL_LEAVING", text, True)
    elif left is not None and decode(left.value, LeftValue).cluster_uid not in ("", hello.cluster_uid):
        return _left(hello, read)
    return None


def _left(hello: Hello, read: ReadResult) -> Refusal | None:
    """That the pool has left, if it has."""
    if keys.pool_config(hello.pool) in read.items or keys.pool_left(hello.pool) not in read.items:
        return None
    text = (
        f"pool {hello.pool} has left the federation; stop this agent,"
        f" or let the pool join again with `hanse leave {hello.pool} --undo`"
    )
    return Refusal("POOL_LEFT", text, False)


def _refusal_by_mark(
    hello: Hello, read: ReadResult, replica: ReplicaId, streams_here: Callable[[PoolName], bool]
) -> Refusal | None:
    attached = read.items.get(keys.attached(hello.pool))
    if attached is not None:
        value = decode(attached.value, AttachedValue)
        left_over = value.replica == replica and not streams_here(hello.pool)
        if value.instance != hello.instance and not left_over:
            text = f"pool {hello.pool} already has a live agent at replica {value.replica}; stop that one first"
            return Refusal("ALREADY_ATTACHED", text, True)
    return None


def _txn(hello: Hello, read: ReadResult, clock: Clock, federation: Federation, replica: ReplicaId, lease: int) -> Txn:
    def revision(key: str) -> int:
        found = read.items.get(key)
        return found.mod_revision if found is not None else 0

    agent = PoolAgentValue(hello.instance, replica, federation.incarnation, clock.now_ms())
    ops: list[Op] = [
        Put(keys.pool_agent(hello.pool), encode(agent)),
        Put(keys.attached(hello.pool), encode(AttachedValue(hello.instance, replica)), lease),
        *_config_ops(hello, read, clock),
        *_return_ops(hello, read, federation),
    ]
    return Txn(tuple(ModRevisionIs(key, revision(key)) for key in _keys(hello.pool)), tuple(ops))


def _return_ops(hello: Hello, read: ReadResult, federation: Federation) -> list[Op]:
    """A cluster that nobody has claimed before has nothing of an earlier life of the store (P15)."""
    known = keys.pool_config(hello.pool) in read.items or keys.pool_returned(hello.pool) in read.items
    if known or hello.federation or _left(hello, read) is not None:
        return []
    return [Put(keys.pool_returned(hello.pool), str(federation.incarnation).encode())]


def _config_ops(hello: Hello, read: ReadResult, clock: Clock) -> list[Op]:
    """Register the pool, or take over what its agent says of itself; an operator's settings stay."""
    if _left(hello, read) is not None:
        return []
    found = read.items.get(keys.pool_config(hello.pool))
    levels = [LevelValue(level.key, level.alias) for level in hello.levels]
    if found is not None:
        old = decode(found.value, PoolConfigValue)
        new = _described(old, hello, levels)
        return [] if new == old else [Put(keys.pool_config(hello.pool), encode(new))]
    slots = read.items.get(keys.SLOTS)
    names = list(decode(slots.value, SlotsValue).pools) if slots is not None else []
    if hello.pool not in names:
        names.append(hello.pool)
    blank = PoolConfigValue(slot=names.index(hello.pool), joined_ms=clock.now_ms())
    return [
        Put(keys.SLOTS, encode(SlotsValue(names))),
        Put(keys.pool_config(hello.pool), encode(_described(blank, hello, levels))),
    ]


def _described(value: PoolConfigValue, hello: Hello, levels: list[LevelValue]) -> PoolConfigValue:
    return PoolConfigValue(
        slot=value.slot,
        cluster_uid=hello.cluster_uid,
        region=hello.region,
        labels=dict(hello.labels),
        cordoned=value.cordoned,
        cordon_reason=value.cordon_reason,
        cost=hello.cost,
        dialect=hello.dialect,
        levels=levels,
        joined_ms=value.joined_ms,
        drain=value.drain,
        leave=value.leave,
    )
