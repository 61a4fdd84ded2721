"""Records and pods: held, started, ended, stopped, forgotten; every operation alone and idempotent."""

import asyncio
from dataclasses import replace

import pytest

from hanse.agent.cluster.port import (
    AcceptRevision,
    ClusterPort,
    Done,
    ForgetGang,
    GangChanged,
    HoldGang,
    PodPhase,
    Rejected,
    StopPods,
)
from tests.contract.cluster_port.acts import (
    FIRST,
    LEADER,
    PATIENCE_S,
    SET,
    counts_in,
    forgotten,
    key,
    node_names,
    record,
    run_gang,
    start,
    until,
    until_counts,
    with_leader,
)
from tests.contract.cluster_port.homes import FOR_LONG_S, GPUS_PER_NODE, SMALL_POD, ClusterHome


@pytest.fixture
async def nodes(agent: ClusterPort) -> list[str]:
    return await node_names(agent)


async def test_a_held_gang_is_a_record_and_nothing_else(agent: ClusterPort, nodes: list[str]) -> None:
    held = record(key(part=2), nodes[:3], first_rank=5, payload=bytes(range(256)))
    assert await agent.write(FIRST, [HoldGang(held)]) == (Done(),)
    state = await agent.list()
    assert state.records == (held,)
    assert state.pods == ()
    assert await agent.pods(held.key) == ()


async def test_holding_again_is_fine_and_holding_otherwise_is_not(agent: ClusterPort, nodes: list[str]) -> None:
    held = record(key(), nodes[:2])
    other = record(key(), nodes[2:4])
    first, again, otherwise = await agent.write(FIRST, [HoldGang(held), HoldGang(held), HoldGang(other)])
    assert (first, again) == (Done(), Done())
    assert isinstance(otherwise, Rejected)
    assert otherwise.reason
    assert (await agent.list()).records == (held,)


async def test_attempts_and_parts_of_a_job_are_gangs_of_their_own(agent: ClusterPort, nodes: list[str]) -> None:
    keys = [key(), key(attempt=2), key(part=1)]
    await agent.write(FIRST, [HoldGang(record(k, nodes[i : i + 1])) for i, k in enumerate(keys)])
    assert {r.key for r in (await agent.list()).records} == set(keys)


async def test_a_refused_operation_stops_none_after_it(
    home: ClusterHome, agent: ClusterPort, nodes: list[str]
) -> None:
    results = await agent.write(
        FIRST,
        [start(key(1), home.run(SET, seconds=1)), HoldGang(record(key(2), nodes[:1])), AcceptRevision(101)],
    )
    assert isinstance(results[0], Rejected)
    assert results[1:] == (Done(), Done())


async def test_a_start_that_is_refused_stops_none_after_it(
    home: ClusterHome, agent: ClusterPort, nodes: list[str]
) -> None:
    """In the middle of a call: two gangs want the same node."""
    gangs = [record(key(1), nodes[:1]), record(key(2), nodes[:1]), record(key(3), nodes[1:2])]
    ops = [op for held in gangs for op in (HoldGang(held), start(held.key, home.run(SET, seconds=FOR_LONG_S)))]
    results = await agent.write(FIRST, ops)
    assert [results[at] for at in (0, 1, 2, 4, 5)] == [Done()] * 5
    await until_counts(agent, key(3), lambda c: c.running == 1)
    await until(agent, lambda s: sum(counts_in(s, held.key).running for held in gangs[:2]) == 1)


async def test_a_started_gang_runs_and_succeeds_and_stays_visible(
    home: ClusterHome, agent: ClusterPort, nodes: list[str]
) -> None:
    held = record(key(), nodes)
    await run_gang(agent, held, home.run(SET, seconds=0.2))
    assert (await agent.list()).records == (replace(held, started=True),)
    running = await until_counts(agent, held.key, lambda c: c.running == len(nodes))
    assert running.occupying == running.existing == len(nodes)
    done = await until_counts(agent, held.key, lambda c: c.succeeded == len(nodes))
    assert (done.occupying, done.missing, done.reason) == (0, 0, "")
    assert all(pod.phase is PodPhase.SUCCEEDED for pod in await agent.pods(held.key))
    await forgotten(agent, held.key)
    state = await agent.list()
    assert (state.records, state.pods) == ((), ())


async def test_starting_again_creates_nothing_twice(home: ClusterHome, agent: ClusterPort, nodes: list[str]) -> None:
    held = record(key(), nodes[:4])
    again = start(held.key, home.run(SET, seconds=0.1))
    await agent.write(FIRST, [HoldGang(held), again, again])
    await until_counts(agent, held.key, lambda c: c.succeeded == 4)
    assert await agent.write(FIRST, [again]) == (Done(),)
    assert counts_in(await agent.list(), held.key).succeeded == 4


async def test_a_program_that_fails_says_how(home: ClusterHome, agent: ClusterPort, nodes: list[str]) -> None:
    held = record(key(), nodes[:2])
    await run_gang(agent, held, home.run(SET, seconds=0.1, exit_code=17))
    failed = await until_counts(agent, held.key, lambda c: c.failed > 0)
    assert (failed.exit_code, failed.infrastructure) == (17, False)
    assert failed.reason
    assert {pod.exit_code for pod in await agent.pods(held.key) if pod.phase is PodPhase.FAILED} == {17}


async def test_a_gang_does_not_outlast_its_duration(home: ClusterHome, agent: ClusterPort, nodes: list[str]) -> None:
    held = record(key(), nodes[:2])
    await run_gang(agent, held, home.run(SET, seconds=FOR_LONG_S), duration_s=1)
    ended = await until_counts(agent, held.key, lambda c: c.occupying == 0)
    assert (ended.failed, ended.reason, ended.infrastructure) == (2, "DeadlineExceeded", False)


async def test_pods_are_told_by_set_and_rank(home: ClusterHome, agent: ClusterPort, nodes: list[str]) -> None:
    held = with_leader(record(key(), nodes[:3], first_rank=4, resources=SMALL_POD), nodes[3], resources=SMALL_POD)
    runs = (home.run(LEADER, seconds=FOR_LONG_S), home.run(SET, seconds=FOR_LONG_S))
    assert await agent.write(FIRST, [HoldGang(held), start(held.key, *runs)]) == (Done(), Done())
    await until_counts(agent, held.key, lambda c: c.running == 4)
    told = [(pod.pod_set, pod.rank, pod.node, pod.phase) for pod in await agent.pods(held.key)]
    expected = [(LEADER, 0, nodes[3]), (SET, 4, nodes[0]), (SET, 5, nodes[1]), (SET, 6, nodes[2])]
    assert told == [(*pod, PodPhase.RUNNING) for pod in expected]


async def test_a_set_that_has_ended_is_named_and_makes_room(
    home: ClusterHome, agent: ClusterPort, nodes: list[str]
) -> None:
    """Its record and its pods stay, and it stays named for whoever lists, however the other set ends."""
    held, other = with_leader(record(key(1), nodes[:2]), nodes[2]), record(key(2), nodes[2:3])
    runs = (home.run(LEADER, seconds=0.2), home.run(SET, seconds=FOR_LONG_S))
    await agent.write(FIRST, [HoldGang(held), start(held.key, *runs)])
    assert (await until_counts(agent, held.key, lambda c: c.running == 3)).ended_sets == ()
    counts = await until_counts(agent, held.key, lambda c: c.succeeded == 1)
    assert (counts.running, counts.ended_sets) == (2, (LEADER,))
    await run_gang(agent, other, home.run(SET, seconds=FOR_LONG_S))
    await until_counts(agent, other.key, lambda c: c.running == 1)
    for state in (await agent.list(), await home.port().list()):
        assert counts_in(state, held.key) == counts
        assert [r.sets for r in state.records if r.key == held.key] == [held.sets]
    assert len(await agent.pods(held.key)) == 3
    await agent.write(FIRST, [StopPods(held.key)])
    gone = await until_counts(agent, held.key, lambda c: c.occupying == 0)
    assert (gone.succeeded, gone.ended_sets) == (1, (LEADER, SET))


async def test_a_set_that_has_ended_is_told_to_who_watches(
    home: ClusterHome, agent: ClusterPort, nodes: list[str]
) -> None:
    held = with_leader(record(key(), nodes[:2]), nodes[2])
    runs = (home.run(LEADER, seconds=FOR_LONG_S), home.run(SET, seconds=0.2, exit_code=1))
    await agent.write(FIRST, [HoldGang(held), start(held.key, *runs)])
    version = (await agent.list()).version
    async with asyncio.timeout(PATIENCE_S):
        async for events in agent.watch(version):
            told = [e.counts for e in events if isinstance(e, GangChanged) and e.counts.failed == 2]
            if told:
                break
    assert (told[0].running, told[0].ended_sets) == (1, (SET,))


async def test_stopped_pods_end_and_stay_visible(home: ClusterHome, agent: ClusterPort, nodes: list[str]) -> None:
    held = record(key(), nodes)
    await run_gang(agent, held, home.run(SET, seconds=FOR_LONG_S))
    await until_counts(agent, held.key, lambda c: c.running == len(nodes))
    assert await agent.write(FIRST, [StopPods(held.key), StopPods(held.key)]) == (Done(), Done())
    gone = await until_counts(agent, held.key, lambda c: c.occupying == 0)
    assert (gone.existing, gone.infrastructure) == (len(nodes), False)
    await forgotten(agent, held.key)


async def test_pods_can_be_stopped_before_they_run(home: ClusterHome, agent: ClusterPort, nodes: list[str]) -> None:
    held = record(key(), nodes)
    await run_gang(agent, held, home.run(SET, seconds=FOR_LONG_S))
    await agent.write(FIRST, [StopPods(held.key, grace_s=0)])
    await until_counts(agent, held.key, lambda c: c.occupying == 0)


async def test_a_gang_that_only_holds_can_be_stopped_and_forgotten(agent: ClusterPort, nodes: list[str]) -> None:
    held = record(key(), nodes)
    assert await agent.write(FIRST, [HoldGang(held), StopPods(held.key), ForgetGang(held.key)]) == (Done(),) * 3
    assert (await agent.list()).records == ()


async def test_unknown_gangs_are_gone_already(agent: ClusterPort) -> None:
    assert await agent.write(FIRST, [StopPods(key(9)), ForgetGang(key(9))]) == (Done(), Done())


async def test_a_gang_is_not_forgotten_while_it_occupies_nodes(
    home: ClusterHome, agent: ClusterPort, nodes: list[str]
) -> None:
    held = record(key(), nodes[:1])
    await run_gang(agent, held, home.run(SET, seconds=FOR_LONG_S))
    (refused,) = await agent.write(FIRST, [ForgetGang(held.key)])
    assert isinstance(refused, Rejected)
    assert [r.key for r in (await agent.list()).records] == [held.key]


async def test_a_full_node_is_not_overcommitted(home: ClusterHome, agent: ClusterPort, nodes: list[str]) -> None:
    """An adapter refuses at once, or the scheduler or the kubelet refuses the pod: visible in any case, and it does
    not run."""
    first, second = record(key(1), nodes[:1]), record(key(2), nodes[:2])
    await run_gang(agent, first, home.run(SET, seconds=FOR_LONG_S))
    await until_counts(agent, first.key, lambda c: c.running == 1)
    _, started = await agent.write(FIRST, [HoldGang(second), start(second.key, home.run(SET, seconds=FOR_LONG_S))])
    if isinstance(started, Rejected):
        assert "OutOf" in started.reason
        assert counts_in(await agent.list(), second.key).existing == 0
        assert [r.started for r in (await agent.list()).records] == [True, False]
    else:
        refused = await until_counts(agent, second.key, lambda c: c.failed > 0)
        assert refused.infrastructure
        assert any(words in refused.reason for words in ("OutOf", "Insufficient"))


async def test_pods_share_a_node_as_far_as_it_goes(home: ClusterHome, agent: ClusterPort, nodes: list[str]) -> None:
    held = record(key(1), nodes[:1] * GPUS_PER_NODE, resources=SMALL_POD)
    await run_gang(agent, held, home.run(SET, seconds=FOR_LONG_S))
    await until_counts(agent, held.key, lambda c: c.running == GPUS_PER_NODE)


async def test_ended_pods_make_room(home: ClusterHome, agent: ClusterPort, nodes: list[str]) -> None:
    for number in range(3):
        held = record(key(number), nodes)
        await run_gang(agent, held, home.run(SET, seconds=0))
        await until_counts(agent, held.key, lambda c: c.succeeded == len(nodes))


async def test_logs_of_a_pod(home: ClusterHome, agent: ClusterPort, nodes: list[str]) -> None:
    held = record(key(), nodes[:2])
    await run_gang(agent, held, home.run(SET, seconds=0.1))
    await until(agent, lambda state: counts_in(state, held.key).running + counts_in(state, held.key).succeeded > 0)
    lines = [line async for batch in agent.logs(held.key, pod_set=SET, rank=1, follow=True, tail=0) for line in batch]
    assert lines
    await until_counts(agent, held.key, lambda c: c.succeeded == 2)
    tail = [line async for batch in agent.logs(held.key, pod_set=SET, rank=1, follow=False, tail=1) for line in batch]
    assert tail == lines[-1:]


async def test_a_pod_that_does_not_exist_has_no_log(agent: ClusterPort) -> None:
    assert [b async for b in agent.logs(key(9), pod_set=SET, rank=0, follow=True, tail=0)] == []
