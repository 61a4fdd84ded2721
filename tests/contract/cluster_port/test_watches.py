"""Watching: a hint that something changed and what it is now. Never a gap at the end; a lost watch says so."""

import asyncio
from collections.abc import Callable

import pytest

from hanse.agent.cluster.port import ClusterEvent, ClusterPort, GangChanged, NodeChanged, WatchLost
from hanse.model.resources import PODS, Resources
from tests.contract.cluster_port.acts import PATIENCE_S, SET, key, node_names, record, run_gang, until_counts
from tests.contract.cluster_port.homes import FOR_LONG_S, SMALL_POD, ClusterHome


async def seen(port: ClusterPort, version: int, wanted: Callable[[ClusterEvent], bool]) -> list[ClusterEvent]:
    """Events after a version, up to the first that is wanted."""
    found: list[ClusterEvent] = []
    async with asyncio.timeout(PATIENCE_S):
        async for batch in port.watch(version):
            assert batch, "an empty batch tells nothing"
            for event in batch:
                found.append(event)
                if wanted(event):
                    return found
    raise AssertionError("the watch ended without WatchLost")


async def test_a_watch_tells_of_pods_up_to_their_end(home: ClusterHome, agent: ClusterPort) -> None:
    nodes, version = await node_names(agent), (await agent.list()).version
    held = record(key(), nodes[:3])
    watching = asyncio.create_task(
        seen(agent, version, lambda e: isinstance(e, GangChanged) and e.counts.succeeded == 3)
    )
    await run_gang(agent, held, home.run(SET, seconds=0.1))
    events = await watching
    assert all(isinstance(e, GangChanged) and e.counts.gang == held.key for e in events)


async def test_a_watch_begins_with_what_changed_since_the_version(home: ClusterHome, agent: ClusterPort) -> None:
    nodes, version = await node_names(agent), (await agent.list()).version
    held = record(key(), nodes[:3])
    await run_gang(agent, held, home.run(SET, seconds=0))
    await until_counts(agent, held.key, lambda c: c.succeeded == 3)
    events = await seen(agent, version, lambda e: isinstance(e, GangChanged) and e.counts.succeeded == 3)
    assert len([e for e in events if isinstance(e, GangChanged)]) >= 1


async def test_a_watch_does_not_repeat_what_was_listed(home: ClusterHome, agent: ClusterPort) -> None:
    nodes = await node_names(agent)
    first, second = record(key(1), nodes[:1]), record(key(2), nodes[1:2])
    await run_gang(agent, first, home.run(SET, seconds=0))
    await until_counts(agent, first.key, lambda c: c.succeeded == 1)
    version = (await agent.list()).version
    await run_gang(agent, second, home.run(SET, seconds=FOR_LONG_S))
    events = await seen(agent, version, lambda e: isinstance(e, GangChanged))
    assert [e.counts.gang for e in events if isinstance(e, GangChanged)] == [second.key]


async def test_a_watch_tells_of_nodes_with_their_foreign_usage(home: ClusterHome, agent: ClusterPort) -> None:
    nodes, version = await node_names(agent), (await agent.list()).version
    await home.add_foreign("theirs", nodes[5], SMALL_POD)
    usage = Resources({**SMALL_POD, PODS: 1})
    await seen(
        agent, version, lambda e: isinstance(e, NodeChanged) and e.node.name == nodes[5] and e.foreign == usage
    )
    await home.fail(nodes[6])
    await seen(agent, version, lambda e: isinstance(e, NodeChanged) and e.node.name == nodes[6] and not e.node.ready)


async def test_several_watch_at_once(home: ClusterHome, agent: ClusterPort) -> None:
    nodes, version = await node_names(agent), (await agent.list()).version
    watching = [
        asyncio.create_task(seen(home.port(), version, lambda e: isinstance(e, NodeChanged) and e.node.cordoned))
        for _ in range(3)
    ]
    await home.cordon(nodes[0])
    for task in watching:
        await task


async def test_a_version_of_no_past_is_lost(agent: ClusterPort) -> None:
    version = (await agent.list()).version
    with pytest.raises(WatchLost):
        await seen(agent, version + 1_000_000, lambda event: True)
