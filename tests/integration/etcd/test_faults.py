"""Three members, each killed and frozen in turn under load: nothing acknowledged is lost, nothing seen twice or
missed, and what is not known is said to be unknown."""

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from hanse.kit.tasks import cancelled
from hanse.store.contract import KEYS_END, Store, StoreUnavailable
from hanse.store.etcd import EtcdStore
from tests.integration.etcd.ledger import Ledger, Watcher, again, check, replay, until
from tests.services.etcd import EtcdServers

SEEDS: Final = (0, 1, 4)
"""Of clients; each of these prefers another member."""

WRITERS: Final = 4
COMMITS_BETWEEN: Final = 5

ROUNDS: Final = int(os.environ.get("ETCD_FAULT_ROUNDS", "0"))
"""Of the long variant; `make etcd-faults` sets it."""


@asynccontextmanager
async def stores(servers: EtcdServers) -> AsyncIterator[list[Store]]:
    """Clients that prefer different members."""
    opened: list[Store] = [await EtcdStore.open(servers.options(), rng=random.Random(n)) for n in SEEDS]
    try:
        yield opened
    finally:
        for store in opened:
            await store.close()


class Load:
    """Writers and watchers over several clients, and the books at the end."""

    def __init__(self, clients: list[Store], begin: int) -> None:
        self.ledger = Ledger()
        self.watchers = [Watcher(store, from_revision=begin) for store in clients]
        self._clients = clients
        self._begin = begin
        self._writers = [
            asyncio.create_task(self.ledger.write(clients[n % len(clients)], f"w{n}"), name=f"writer-{n}")
            for n in range(WRITERS * len(clients))
        ]

    async def more(self, commits: int = COMMITS_BETWEEN) -> None:
        await self.ledger.more(commits)

    async def close(self) -> None:
        """Whatever has happened."""
        await cancelled(list(self._writers))
        for watcher in self.watchers:
            await watcher.close()

    async def settle(self) -> None:
        """Stop the load and compare."""
        self.ledger.stop()
        await asyncio.gather(*self._writers)
        end = (await again(lambda: self._clients[0].range("", KEYS_END, keys_only=True))).items
        last = max(kv.mod_revision for kv in end)
        history = await replay(self._clients[0], from_revision=self._begin, to_revision=last)
        check(self.ledger, history)
        for watcher in self.watchers:
            await watcher.reached(last)
            await watcher.close()
            assert watcher.events == history


@asynccontextmanager
async def load(servers: EtcdServers) -> AsyncIterator[Load]:
    async with stores(servers) as clients:
        running = Load(clients, (await clients[0].read([])).revision + 1)
        try:
            await until(lambda: len(running.ledger.counts) == len(clients) * WRITERS)
            await running.more()
            yield running
            await running.settle()
        finally:
            await running.close()


async def test_every_member_killed_in_turn(three: EtcdServers) -> None:
    async with load(three) as running:
        for member in three.members:
            member.kill()
            await running.more()
            member.launch()
            await member.wait_ready_async()
            await running.more()


async def test_every_member_frozen_in_turn(three: EtcdServers) -> None:
    async with load(three) as running:
        for member in three.members:
            member.freeze()
            await running.more()
            member.thaw()
            await running.more()


async def test_the_majority_is_lost_and_comes_back(three: EtcdServers) -> None:
    """Nobody can write meanwhile: writers are refused or unsure, watchers wait."""
    async with load(three) as running:
        for member in three.members[:2]:
            member.kill()
        await until(lambda: running.ledger.outages + running.ledger.unknown > 0)
        for member in three.members[:2]:
            member.launch()
        for member in three.members:
            await member.wait_ready_async()
        await running.more()


async def test_all_members_restart(three: EtcdServers) -> None:
    async with load(three) as running:
        for member in three.members:
            member.kill()
        for member in three.members:
            member.launch()
        for member in three.members:
            await member.wait_ready_async()
        await running.more()


async def test_a_member_that_was_away_serves_what_it_missed(three: EtcdServers) -> None:
    """Reads and a watch through that member alone, from before it went away."""
    async with stores(three) as clients:
        begin = (await clients[0].read([])).revision + 1
        behind = three.members[2]
        behind.kill()
        ledger = Ledger()
        writers = [asyncio.create_task(ledger.write(clients[0], f"w{n}"), name=f"writer-{n}") for n in range(16)]
        await until(lambda: len(ledger.counts) == 16)
        await ledger.more(100)
        ledger.stop()
        await asyncio.gather(*writers)
        behind.launch()
        alone = await again(lambda: EtcdStore.open(three.options(only=2)))
        assert {kv.key for kv in (await alone.range("item/", "item0")).items} == ledger.committed.keys()
        check(ledger, await replay(alone, from_revision=begin, to_revision=max(ledger.committed.values())))
        await alone.close()


async def test_without_a_server_the_error_names_each_member(three: EtcdServers) -> None:
    store = await EtcdStore.open(three.options())
    three.stop()
    with pytest.raises(StoreUnavailable) as caught:
        await store.read(["a"], deadline_s=1.0)
    assert "\n" not in str(caught.value)
    assert all(endpoint in str(caught.value) for endpoint in three.endpoints)
    await store.close()


@pytest.mark.skipif(not ROUNDS, reason="the long variant: `make etcd-faults` runs it")
async def test_random_faults(three: EtcdServers) -> None:
    """Kill, freeze, or kill all, at random moments, again and again."""
    rng = random.Random(ROUNDS)
    async with load(three) as running:
        for _ in range(ROUNDS):
            await running.more(rng.randrange(20))
            victims = rng.sample(three.members, rng.choice((1, 1, 1, 2, 3)))
            frozen = rng.random() < 0.4
            for member in victims:
                member.freeze() if frozen else member.kill()
            if len(victims) == 1:
                await running.more(rng.randrange(1, 10))
            for member in victims:
                member.thaw() if frozen else member.launch()
            for member in three.members:
                await member.wait_ready_async()
