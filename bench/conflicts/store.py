"""The store of the simulated replicas: in memory, with a price on a commit, and with either kind of guard.

The product guards the head of each flavor that a plan takes from; a head moves when somebody takes from that flavor
of the pool. To guard a pool's *whole version* instead, every commit here moves all heads of a pool that it takes
from, and so does every gang that leaves the pool: what a schema with one generation for each pool would do.
"""

import asyncio
from collections.abc import Iterator

from bench.conflicts.fleet import FLAVORS
from hanse.kit.clock import Clock
from hanse.model.ids import PoolName
from hanse.store import keys
from hanse.store.contract import WRITE_DEADLINE_S, Delete, Op, Outcome, Put, Txn
from hanse.store.memory import MemoryStore


class PricedStore(MemoryStore):
    """See the module.

    Args:
        txn_s: how long a transaction that takes from pools is on its way.
        whole: guard whole pools.
    """

    def __init__(self, clock: Clock, *, txn_s: float, whole: bool) -> None:
        super().__init__(clock)
        self._txn_s = txn_s
        self._whole = whole

    async def transact(self, txn: Txn, *, deadline_s: float = WRITE_DEADLINE_S) -> Outcome:
        if any(keys.head_flavor(op.key) is not None for op in txn.ops):
            await asyncio.sleep(self._txn_s)
        return await super().transact(with_versions(txn) if self._whole else txn, deadline_s=deadline_s)


def with_versions(txn: Txn) -> Txn:
    """The transaction, which also moves every head of each pool that it takes from or gives back to."""
    present = {op.key for op in txn.ops}
    heads = dict.fromkeys(keys.head(pool, flavor.name) for pool in _changed(txn) for flavor in FLAVORS)
    return Txn(txn.guards, (*txn.ops, *(Put(head, b"") for head in heads if head not in present)))


def _changed(txn: Txn) -> Iterator[PoolName]:
    for op in txn.ops:
        if _takes(op):
            yield keys.pool_of(op.key)
        elif isinstance(op, Delete) and op.key.startswith(keys.BINDINGS):
            yield keys.parse_binding(op.key).pool


def _takes(op: Op) -> bool:
    return isinstance(op, Put) and keys.head_flavor(op.key) is not None
