"""Which certificates are believed no more: by what stands for somebody, or by its number.

What is barred is in the store, in the range that every replica follows, so each knows it as soon as it knows a
binding. A mark of somebody bars the certificates that began until then: he may come back with a newer one. A mark of
a number bars that certificate alone; an agent whose key was stolen is barred by its pool, since the thief may have
renewed what he has.
"""

from hanse.kit.trust.shown import Shown
from hanse.model.ids import PoolName
from hanse.scheduler.core.world import World
from hanse.store import keys
from hanse.store.contract import ModRevisionIs, Put, Store, Txn
from hanse.store.schema import BarredValue, encode


def is_barred(world: World, shown: Shown) -> bool:
    """Whether the certificate is revoked, as far as this replica knows."""
    if not world.barred:
        return False  # it is asked with each message
    if keys.barred_serial(shown.serial) in world.barred:
        return True
    if shown.identity is None:
        return False
    until_ms = world.barred.get(keys.barred(shown.identity.kind, shown.identity.name))
    return until_ms is not None and shown.begins_ms <= until_ms


async def bar_left(store: Store, pool: PoolName, *, now_ms: int) -> None:
    """The pool has left and its cluster is empty: what its agent shows is believed no more, until it may join again.

    What an operator has barred stays as it is. An outcome that is unknown, or a conflict, is left so: the agent is
    let in again only as a guest, and gets no newer certificate.

    Raises:
        StoreError.
    """
    key, left = keys.barred("agent", pool), keys.pool_left(pool)
    found = (await store.read([key, left])).items
    if key in found or left not in found:
        return
    value = BarredValue(now_ms, now_ms, reason="the pool has left", left=True)
    guards = (ModRevisionIs(key, 0), ModRevisionIs(left, found[left].mod_revision))
    await store.transact(Txn(guards, (Put(key, encode(value)),)))
