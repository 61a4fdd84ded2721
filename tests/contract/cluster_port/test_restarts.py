"""What must outlive the processes: the agent keeps nothing, so the cluster keeps it all (P7, P8, P12)."""

from dataclasses import replace

import pytest

from hanse.agent.cluster.port import AcceptRevision, ClusterPort, HoldGang
from tests.contract.cluster_port.acts import (
    FIRST,
    LEADER,
    SET,
    counts_in,
    forgotten,
    key,
    node_names,
    record,
    run_gang,
    start,
    until_counts,
    with_leader,
)
from tests.contract.cluster_port.homes import FOR_LONG_S, ClusterHome


@pytest.fixture(autouse=True)
def _durable(home: ClusterHome) -> None:
    if not home.durable:
        pytest.skip("a cluster in memory ends with its process")


async def test_claim_records_and_pods_outlive_a_restart(home: ClusterHome, agent: ClusterPort) -> None:
    nodes = await node_names(agent)
    running, holding = record(key(1), nodes[:3]), record(key(2), nodes[3:5], payload=b"\x00\xff")
    await run_gang(agent, running, home.run(SET, seconds=FOR_LONG_S))
    await agent.write(FIRST, [HoldGang(holding), AcceptRevision(123)])
    await until_counts(agent, running.key, lambda c: c.running == 3)
    before = await agent.read_claim()
    await home.restart()
    state = await home.port().list()
    assert state.claim == before
    assert state.records == (replace(running, started=True), holding)
    assert counts_in(state, running.key).running == 3


async def test_work_goes_on_while_nobody_looks(home: ClusterHome, agent: ClusterPort) -> None:
    nodes = await node_names(agent)
    held = record(key(), nodes)
    await run_gang(agent, held, home.run(SET, seconds=1))
    await until_counts(agent, held.key, lambda c: c.running == len(nodes))
    await home.restart()
    port = home.port()
    await until_counts(port, held.key, lambda c: c.succeeded == len(nodes))
    await forgotten(port, held.key)
    await home.restart()
    assert (await home.port().list()).records == ()


async def test_dead_machines_stay_dead(home: ClusterHome, agent: ClusterPort) -> None:
    nodes = await node_names(agent)
    held = record(key(), nodes[:2])
    await run_gang(agent, held, home.run(SET, seconds=FOR_LONG_S))
    await until_counts(agent, held.key, lambda c: c.running == 2)
    await home.fail(nodes[0])
    await until_counts(agent, held.key, lambda c: c.missing == 1)
    await home.restart()
    state = await home.port().list()
    assert counts_in(state, held.key).missing == 1
    assert [node.name for node in state.nodes if not node.ready] == [nodes[0]]


async def test_sets_that_have_ended_outlive_a_restart(home: ClusterHome, agent: ClusterPort) -> None:
    nodes = await node_names(agent)
    held = with_leader(record(key(), nodes[:2]), nodes[2])
    runs = (home.run(LEADER, seconds=0.1), home.run(SET, seconds=FOR_LONG_S))
    await agent.write(FIRST, [HoldGang(held), start(held.key, *runs)])
    before = await until_counts(agent, held.key, lambda c: (c.succeeded, c.running) == (1, 2))
    await home.restart()
    assert counts_in(await home.port().list(), held.key) == before
    assert before.ended_sets == (LEADER,)
