"""What happens while nobody looks: between two looks at the store, and while an answer is on its way."""

import asyncio

from hanse.model.ids import PoolName, ReplicaId
from hanse.model.lifecycle import State
from hanse.scheduler.core.world import ASSUMED, World
from hanse.scheduler.shell.feed import Feed
from hanse.scheduler.shell.replica import Replica
from hanse.store import keys
from hanse.store.contract import Outcome, Put, Txn, Unknown
from hanse.store.memory import MemoryStore
from tests.unit.scheduler.worlds import QUEUE, binding, request
from tests.unit.scheduler_shell.puppet import CLOCK, stage, submit, until, wait_state

POOL = PoolName("p0")


def key_of(number: int) -> str:
    return f"bindings/{POOL}/{QUEUE}-{number:016d}/00000001.0"


async def test_what_was_bound_and_released_while_the_feed_was_away_is_not_counted() -> None:
    store, world = MemoryStore(CLOCK), World(ReplicaId("r0"))
    for number in range(3):
        await store.transact(Txn((), (Put(f"queues/none-{number}", b"{}"),)))
    known_before, committed_after, open_still = 1, 2, 3
    world.put_binding(key_of(known_before), binding(known_before, POOL, request(1), 2))
    world.put_binding(key_of(committed_after), binding(committed_after, POOL, request(1), 9))
    world.put_binding(key_of(open_still), binding(open_still, POOL, request(1), ASSUMED))
    feed = Feed(store, world, CLOCK, lambda: None)
    task = asyncio.create_task(feed.run())
    await feed.loaded.wait()
    task.cancel()
    assert world.binding_keys() == (key_of(committed_after), key_of(open_still))


class LeaseLostMeanwhile(MemoryStore):
    """Answers the first attach only after the replica has lost its lease and has another."""

    replica: Replica

    def __init__(self) -> None:
        super().__init__(CLOCK)
        self.attached = 0

    async def transact(self, txn: Txn, **more: float) -> Outcome:
        outcome = await super().transact(txn, **more)
        if any(op.key == keys.attached(POOL) and isinstance(op, Put) for op in txn.ops) and not self.attached:
            self.attached = self.replica.roots.lease
            await self.lease_revoke(self.attached)
            await until(lambda: self.replica.roots.lease not in {0, self.attached})
        return outcome


async def test_an_attach_that_is_answered_under_the_next_lease_counts() -> None:
    store = LeaseLostMeanwhile()
    async with stage(store) as found:
        store.replica = replica = await found.replica()
        agent = await found.puppet(replica, POOL, {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        await wait_state(found.store, await submit(store, 1, 2), State.BOUND)
        assert replica.world.attached_to(POOL) == "r0"


class FoundingLost(MemoryStore):
    """Loses the transaction that founds the federation, once."""

    lost = False

    async def transact(self, txn: Txn, **more: float) -> Outcome:
        if not self.lost and any(op.key == keys.INCARNATION for op in txn.ops):
            self.lost = True
            return Unknown("it was lost")
        return await super().transact(txn, **more)


async def test_nobody_is_attached_before_the_store_has_an_incarnation() -> None:
    store = FoundingLost(CLOCK)
    async with stage(store) as found:
        replica = await found.replica()
        agent = await found.puppet(replica, POOL, {"r1": 4}).attached()
        assert store.lost
        assert agent.epoch.incarnation == 1
