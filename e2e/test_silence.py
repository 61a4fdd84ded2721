"""Nodes that fall silent on a real API server: nobody knows what runs there, so their pods are there until somebody
says that they are gone: the kubelet, whoever removes the node, or the operator, by the time to give them up after."""

import asyncio
from dataclasses import replace

import pytest

from e2e.control_plane import ControlPlane
from e2e.home import HASTY, KubernetesHome
from hanse.agent.cluster.port import ClusterPort, Done, ForgetGang, Rejected, StopPods
from tests.contract.cluster_port.acts import (
    FEDERATION,
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
from tests.contract.cluster_port.homes import FOR_LONG_S, NODES
from tests.contract.cluster_port.test_nodes import node_in

PATIENT = replace(HASTY, node_lost_s=600.0)


@pytest.fixture
def patient(home: KubernetesHome, plane: ControlPlane) -> ClusterPort:
    return home.port(PATIENT)


async def test_pods_of_a_silent_node_are_there_until_it_says_otherwise(
    home: KubernetesHome, patient: ClusterPort
) -> None:
    await patient.claim(FEDERATION, FIRST, 100)
    nodes = await node_names(patient)
    held, other = record(key(1), nodes[:3]), record(key(2), nodes[3:5])
    await run_gang(patient, held, home.run(SET, seconds=FOR_LONG_S))
    await until_counts(patient, held.key, lambda c: c.running == 3)
    await home.fail(nodes[0])
    await until(patient, lambda s: not node_in(s, nodes[0]).ready)
    await run_gang(patient, other, home.run(SET, seconds=1))
    await until_counts(patient, other.key, lambda c: c.succeeded == 2)
    counts = counts_in(await patient.list(), held.key)
    assert (counts.running, counts.missing, counts.failed) == (3, 0, 0)

    assert await patient.write(FIRST, [StopPods(held.key)]) == (Done(),)
    stopping = await until_counts(patient, held.key, lambda c: c.occupying == 1)
    assert (stopping.stopping, stopping.missing) == (1, 0)
    (refused,) = await patient.write(FIRST, [ForgetGang(held.key)])
    assert isinstance(refused, Rejected)

    await home.restore(nodes[0])
    await home.plane.restart_kubelets()
    await until_counts(patient, held.key, lambda c: c.occupying == 0)
    await forgotten(patient, held.key)


async def test_a_silent_node_that_is_known_to_be_dead_gives_its_pods_back(
    home: KubernetesHome, patient: ClusterPort, plane: ControlPlane
) -> None:
    """By the taint with which operators, and controllers of theirs, say so."""
    await patient.claim(FEDERATION, FIRST, 100)
    nodes = await node_names(patient)
    held = record(key(1), nodes[:2])
    await run_gang(patient, held, home.run(SET, seconds=FOR_LONG_S))
    await until_counts(patient, held.key, lambda c: c.running == 2)
    await home.fail(nodes[0])
    taints = {"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}}
    await asyncio.to_thread(plane.call, "PATCH", f"/api/v1/nodes/{nodes[0]}", taints)
    dead = await until_counts(patient, held.key, lambda c: c.occupying == 1)
    assert (dead.running, dead.failed, dead.infrastructure) == (1, 1, True)


async def test_pods_of_a_node_that_is_removed_are_gone(home: KubernetesHome, agent: ClusterPort) -> None:
    """As clouds do with machines that they replace."""
    nodes = await node_names(agent)
    held = record(key(1), nodes[:2])
    await run_gang(agent, held, home.run(SET, seconds=FOR_LONG_S))
    await until_counts(agent, held.key, lambda c: c.running == 2)
    async with home.removed(nodes[0]):
        await until(agent, lambda s: len(s.nodes) == NODES - 1)
        lost = await until_counts(agent, held.key, lambda c: c.occupying == 1)
    assert (lost.running, lost.failed + lost.missing, lost.infrastructure) == (1, 1, True)


async def test_where_most_nodes_fall_silent_none_is_given_up(home: KubernetesHome, agent: ClusterPort) -> None:
    """An API server that heard of nobody says so of everybody."""
    nodes = await node_names(agent)
    held, other = record(key(1), nodes[:7]), record(key(2), nodes[7:])
    await run_gang(agent, held, home.run(SET, seconds=FOR_LONG_S))
    await until_counts(agent, held.key, lambda c: c.running == 7)
    for node in nodes[:5]:
        await home.fail(node)
    await until(agent, lambda s: sum(not node.ready for node in s.nodes) == 5)
    await run_gang(agent, other, home.run(SET, seconds=2 * HASTY.node_lost_s))
    await until_counts(agent, other.key, lambda c: c.succeeded == 1)
    counts = counts_in(await agent.list(), held.key)
    assert (counts.running, counts.missing) == (7, 0)
    await home.restore(nodes[4])
    await home.plane.restart_kubelets()
    lost = await until_counts(agent, held.key, lambda c: c.missing > 0)
    assert lost.infrastructure
    await until_counts(agent, held.key, lambda c: c.missing == 4)
