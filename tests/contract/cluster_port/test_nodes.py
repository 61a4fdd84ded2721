"""Nodes, and what happens to pods with them; pods of somebody else."""

from hanse.agent.cluster.port import ClusterPort, ClusterState
from hanse.agent.core.facts import NodeFacts
from hanse.model.resources import PODS, Resources
from tests.contract.cluster_port.acts import (
    FIRST,
    SET,
    counts_in,
    forgotten,
    key,
    node_names,
    record,
    run_gang,
    until,
    until_counts,
)
from tests.contract.cluster_port.homes import (
    DEVICES,
    FOR_LONG_S,
    GPU,
    GPUS_PER_NODE,
    LEVELS,
    NODES,
    SMALL_POD,
    ClusterHome,
)


def node_in(state: ClusterState, name: str) -> NodeFacts:
    return next(node for node in state.nodes if node.name == name)


async def test_nodes_are_told_in_full(port: ClusterPort) -> None:
    nodes = (await port.list()).nodes
    assert {node.name: node.labels for node in await port.nodes()} == {node.name: node.labels for node in nodes}
    assert len(nodes) == len({node.name for node in nodes}) == NODES
    for node in nodes:
        assert node.allocatable[GPU] == GPUS_PER_NODE
        assert node.allocatable[PODS] > 0
        assert all(node.labels[level] for level in LEVELS)
        assert (node.ready, node.cordoned, node.healthy) == (True, False, True)
        assert node.devices == DEVICES
    assert (await port.list()).foreign == ()


async def test_a_list_has_the_nodes_as_they_are_whatever_was_listed_before(
    home: ClusterHome, port: ClusterPort
) -> None:
    first = await port.list()
    assert (await port.list()).nodes == first.nodes
    await home.fail(first.nodes[0].name)
    await until(port, lambda s: not node_in(s, first.nodes[0].name).ready)
    assert [node.name for node in (await port.list()).nodes] == [node.name for node in first.nodes]


async def test_a_dead_machine_takes_its_pods_with_it(home: ClusterHome, agent: ClusterPort) -> None:
    nodes = await node_names(agent)
    held = record(key(), nodes[:4])
    await run_gang(agent, held, home.run(SET, seconds=FOR_LONG_S))
    await until_counts(agent, held.key, lambda c: c.running == 4)
    await home.fail(nodes[1])
    lost = await until_counts(agent, held.key, lambda c: c.missing == 1)
    assert (lost.running, lost.infrastructure) == (3, True)
    state = await until(agent, lambda s: not node_in(s, nodes[1]).ready)
    assert [r.key for r in state.records] == [held.key]
    assert [pod.rank for pod in await agent.pods(held.key)] == [0, 2, 3]


async def test_a_record_stays_when_all_its_pods_are_gone(home: ClusterHome, agent: ClusterPort) -> None:
    """P7: this is how a lost gang looks."""
    nodes = await node_names(agent)
    held = record(key(), nodes[:2])
    await run_gang(agent, held, home.run(SET, seconds=FOR_LONG_S))
    await until_counts(agent, held.key, lambda c: c.running == 2)
    await home.fail(nodes[0])
    await home.fail(nodes[1])
    state = await until(agent, lambda s: counts_in(s, held.key).missing == 2)
    assert [r.key for r in state.records] == [held.key]
    assert counts_in(state, held.key).existing == 0
    await forgotten(agent, held.key)


async def test_a_restored_machine_comes_back_empty(home: ClusterHome, agent: ClusterPort) -> None:
    nodes = await node_names(agent)
    held = record(key(1), nodes[:1])
    await run_gang(agent, held, home.run(SET, seconds=FOR_LONG_S))
    await until_counts(agent, held.key, lambda c: c.running == 1)
    await home.fail(nodes[0])
    await until_counts(agent, held.key, lambda c: c.missing == 1)
    await home.restore(nodes[0])
    state = await until(agent, lambda s: node_in(s, nodes[0]).ready)
    assert counts_in(state, held.key).missing == 1
    again = record(key(2), nodes[:1])
    await run_gang(agent, again, home.run(SET, seconds=0))
    await until_counts(agent, again.key, lambda c: c.succeeded == 1)


async def test_a_machine_that_is_not_ready_keeps_its_pods(home: ClusterHome, agent: ClusterPort) -> None:
    """It speaks: what runs on it is not lost, and ends when it says so."""
    nodes = await node_names(agent)
    held, other = record(key(1), nodes[:2]), record(key(2), nodes[2:4])
    await run_gang(agent, held, home.run(SET, seconds=FOR_LONG_S))
    await until_counts(agent, held.key, lambda c: c.running == 2)
    await home.unready(nodes[0])
    state = await until(agent, lambda s: not node_in(s, nodes[0]).ready)
    await run_gang(agent, other, home.run(SET, seconds=1))
    await until_counts(agent, other.key, lambda c: c.succeeded == 2)
    for counts in (counts_in(state, held.key), counts_in(await agent.list(), held.key)):
        assert (counts.running, counts.missing, counts.failed) == (2, 0, 0)


async def test_a_cordon_keeps_what_runs(home: ClusterHome, agent: ClusterPort) -> None:
    nodes = await node_names(agent)
    held = record(key(), nodes[:1])
    await run_gang(agent, held, home.run(SET, seconds=FOR_LONG_S))
    await until_counts(agent, held.key, lambda c: c.running == 1)
    await home.cordon(nodes[0])
    state = await until(agent, lambda s: node_in(s, nodes[0]).cordoned)
    assert node_in(state, nodes[0]).ready
    assert counts_in(state, held.key).running == 1


async def test_pods_of_others_are_usage_and_nothing_else(home: ClusterHome, agent: ClusterPort) -> None:
    nodes = await node_names(agent)
    await home.add_foreign("theirs", nodes[2], SMALL_POD)
    state = await until(agent, lambda s: bool(s.foreign))
    usage = Resources({**SMALL_POD, PODS: 1})
    assert state.foreign == ((nodes[2], usage),)
    assert (state.records, state.pods) == ((), ())
    await home.remove_foreign("theirs")
    await until(agent, lambda s: not s.foreign)


async def test_our_pods_are_not_counted_as_foreign(home: ClusterHome, agent: ClusterPort) -> None:
    nodes = await node_names(agent)
    held = record(key(), nodes[:1], resources=SMALL_POD)
    await run_gang(agent, held, home.run(SET, seconds=FOR_LONG_S))
    state = await until(agent, lambda s: counts_in(s, held.key).running == 1)
    assert state.foreign == ()
    assert (await agent.read_claim()).epoch == FIRST
