"""Jobs that were submitted as objects: an adapter runs the object, or, where there are no objects, what it says."""

import json

import pytest

from hanse.agent.cluster.port import ClusterPort, Done, GangKey, HoldGang, PodPhase, Rejected, StartPods, StopPods
from hanse.simcluster.programs import EXIT_ENV, RUNTIME_ENV
from tests.contract.cluster_port.acts import (
    FIRST,
    SET,
    counts_in,
    forgotten,
    key,
    node_names,
    record,
    until_counts,
)
from tests.contract.cluster_port.homes import FOR_LONG_S, SMALL_POD, ClusterHome

PODS = 3


def job(pods: int, seconds: float, exit_code: int) -> str:
    """A Job as its user has it."""
    asks = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
    env = [{"name": RUNTIME_ENV, "value": str(seconds)}, {"name": EXIT_ENV, "value": str(exit_code)}]
    container = {"name": "main", "image": "example.com/train:1", "env": env, "resources": {"limits": asks}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "backoffLimit": 0}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}}
    return json.dumps({**body, "spec": {**spec, "template": template}})


def start_job(home: ClusterHome, gang: GangKey, *, seconds: float = FOR_LONG_S, exit_code: int = 0) -> StartPods:
    run = home.run(SET, seconds=seconds, exit_code=exit_code)
    return StartPods(gang, "train", "", (run,), manifest=job(PODS, seconds, exit_code))


@pytest.fixture
async def hosts(agent: ClusterPort) -> list[str]:
    return (await node_names(agent))[:PODS]


async def test_an_object_runs_on_the_nodes_that_were_chosen_and_ends(
    home: ClusterHome, agent: ClusterPort, hosts: list[str]
) -> None:
    held = record(key(), hosts, resources=SMALL_POD)
    order = start_job(home, held.key, seconds=1)
    assert await agent.write(FIRST, [HoldGang(held), order, order]) == (Done(), Done(), Done())
    await until_counts(agent, held.key, lambda c: c.running == PODS)
    assert [(pod.rank, pod.node) for pod in await agent.pods(held.key)] == list(enumerate(hosts))
    done = await until_counts(agent, held.key, lambda c: c.succeeded == PODS)
    assert (done.occupying, done.missing, done.failure) == (0, 0, "")
    assert {pod.phase for pod in await agent.pods(held.key)} == {PodPhase.SUCCEEDED}
    await forgotten(agent, held.key)
    state = await agent.list()
    assert (state.records, state.pods, state.foreign) == ((), (), ())


async def test_an_object_whose_program_fails_says_how(
    home: ClusterHome, agent: ClusterPort, hosts: list[str]
) -> None:
    held = record(key(), hosts, resources=SMALL_POD)
    await agent.write(FIRST, [HoldGang(held), start_job(home, held.key, seconds=0.1, exit_code=17)])
    failed = await until_counts(agent, held.key, lambda c: c.failed > 0)
    assert (failed.exit_code, failed.infrastructure) == (17, False)


async def test_an_object_is_stopped_whole_and_told_alike_to_whoever_lists(
    home: ClusterHome, agent: ClusterPort, hosts: list[str]
) -> None:
    held = record(key(), hosts, resources=SMALL_POD)
    await agent.write(FIRST, [HoldGang(held), start_job(home, held.key)])
    running = await until_counts(agent, held.key, lambda c: c.running == PODS)
    assert counts_in(await home.port().list(), held.key) == running
    assert await agent.write(FIRST, [StopPods(held.key)]) == (Done(),)
    gone = await until_counts(agent, held.key, lambda c: c.occupying == 0)
    assert gone.existing + gone.missing == PODS
    await forgotten(agent, held.key)


async def test_an_object_is_never_started_without_a_record(home: ClusterHome, agent: ClusterPort) -> None:
    (refused,) = await agent.write(FIRST, [start_job(home, key())])
    assert isinstance(refused, Rejected)
    assert (await agent.list()).records == ()
