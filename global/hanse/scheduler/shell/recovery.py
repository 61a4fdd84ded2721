"""After a restore from a backup: a new life of the store, and the pools that come back to it one by one (P15).

A backup knows nothing of what was bound after it. A job that is pending in it may run in some pool, so nothing is
bound or started until every pool has attached in the new life and has stopped what is not desired. The life is
`meta/incarnation`; that a pool has come back is `pools/<pool>/returned`, written under the fence of its agent.

A restore is an operator's work: end every replica, set the store back, raise the incarnation, start replicas again.
A pool that never comes back holds everybody up until it is taken out and vouched for as dead. A pool that joined only
after the backup was made is not waited for, since nothing in the store speaks of it: let such a pool's agent attach
first.
"""

import asyncio
import logging
from typing import Final, NamedTuple

from hanse.model.errors import FailedPrecondition
from hanse.model.fence import Epoch
from hanse.model.ids import PoolName
from hanse.store import keys
from hanse.store.contract import Committed, ModRevisionIs, Put, Store, StoreUnavailable, Txn, prefix_end

REPLICAS_LOOK_EVERY_S: Final = 0.5

log = logging.getLogger(__name__)


class NewLife(NamedTuple):
    """A life of the store that has begun, and the pools that are waited for, by name."""

    incarnation: int
    pools: tuple[PoolName, ...]


async def begin_new_life(store: Store, *, wait_s: float) -> NewLife:
    """What an operator does after a restore, and before any replica starts.

    A lease that was in the backup begins anew when the backup is restored, so the replicas of that time are members
    for a while.

    Args:
        wait_s: how long they may be members.

    Raises:
        FailedPrecondition: a replica is a member still; and as `raise_incarnation`.
    """
    ends_s = asyncio.get_running_loop().time() + wait_s
    while members := await _named(store, keys.REPLICAS):
        if asyncio.get_running_loop().time() > ends_s:
            what = f"{', '.join(members)} of this store still runs; end every replica, then ask again"
            raise FailedPrecondition(what, reason="STORE_IN_USE")
        await asyncio.sleep(REPLICAS_LOOK_EVERY_S)
    incarnation = await raise_incarnation(store)
    return NewLife(incarnation, tuple(PoolName(name) for name in await _named(store, keys.POOLS)))


async def _named(store: Store, prefix: str) -> list[str]:
    """The names that have keys below a prefix."""
    found = await store.range(prefix, prefix_end(prefix), keys_only=True)
    return sorted({kv.key.removeprefix(prefix).partition("/")[0] for kv in found.items})


async def raise_incarnation(store: Store) -> int:
    """Begin a new life of a store that was restored, while no replica runs; its number.

    Raises:
        FailedPrecondition: the store was never used, or somebody else writes to it.
    """
    found = (await store.read([keys.INCARNATION])).items.get(keys.INCARNATION)
    if found is None:
        raise FailedPrecondition("the store holds no federation; restore a backup first", reason="STORE_EMPTY")
    number = int(found.value) + 1
    guard = ModRevisionIs(keys.INCARNATION, found.mod_revision)
    outcome = await store.transact(Txn((guard,), (Put(keys.INCARNATION, str(number).encode()),)))
    if not isinstance(outcome, Committed):
        raise FailedPrecondition("somebody else writes to the store; end every replica first", reason="STORE_IN_USE")
    return number


async def mark_returned(store: Store, pool: PoolName, epoch: Epoch) -> None:
    """Write down that nothing undesired runs in the pool, unless another agent has attached meanwhile.

    Raises:
        StoreUnavailable: nothing was written, or nobody knows; attach anew, and try again.
    """
    key = keys.pool_returned(pool)
    found = (await store.read([key])).items.get(key)
    value = str(epoch.incarnation).encode()
    if found is not None and found.value == value:
        return
    guards = (
        ModRevisionIs(keys.pool_agent(pool), epoch.revision),
        ModRevisionIs(key, found.mod_revision if found is not None else 0),
    )
    outcome = await store.transact(Txn(guards, (Put(key, value),)))
    if not isinstance(outcome, Committed):
        raise StoreUnavailable(f"pool {pool} has come back, and that could not be written")
    log.info("pool_returned", extra={"pool": pool, "epoch": str(epoch)})
