"""What is not ours is never adopted, changed or deleted on a real API server; what is ours is kept as long as it has
to be, whoever deletes it."""

import asyncio
from typing import Any, Final

from e2e.home import KubernetesHome
from hanse.agent.cluster.port import ClusterPort, Done, ForgetGang, HoldGang, PodPhase, PodRun, Rejected, StopPods
from hanse.model.selectors import Effect, Taint, Toleration
from tests.contract.cluster_port.acts import (
    FEDERATION,
    FIRST,
    PATIENCE_S,
    SECOND,
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
)
from tests.contract.cluster_port.homes import FOR_LONG_S, SMALL_POD

LOOK_EVERY_S: Final = 0.1
JOBS: Final = "/api/v1/namespaces/hanse-jobs"
BATCH: Final = "/apis/batch/v1/namespaces/hanse-jobs/jobs"
TAINT: Final = {"key": "example.com/training", "value": "only", "effect": "NoSchedule"}


async def call(home: KubernetesHome, method: str, path: str, body: object = None) -> Any:
    return await asyncio.to_thread(home.plane.call, method, path, body)


async def first_pod(home: KubernetesHome) -> str:
    """Name of the pod that has rank 0."""
    found = await call(home, "GET", f"{JOBS}/pods?labelSelector=hanse.dev/rank=0")
    name: str = found["items"][0]["metadata"]["name"]
    return name


async def test_a_strangers_job_of_the_same_name_is_left_alone(home: KubernetesHome, agent: ClusterPort) -> None:
    held = record(key(), (await node_names(agent))[:2], resources=SMALL_POD)
    name = f"{held.key.job}-1-0-{SET}"
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
    theirs = {"metadata": {"name": name}, "spec": {"suspend": True, "template": {"spec": pod}}}
    before = await call(home, "POST", BATCH, theirs)
    _, refused = await agent.write(FIRST, [HoldGang(held), start(held.key, home.run(SET, seconds=1))])
    assert isinstance(refused, Rejected)
    assert "not ours" in refused.reason
    assert await agent.write(FIRST, [StopPods(held.key), ForgetGang(held.key)]) == (Done(), Done())
    after = await call(home, "GET", f"{BATCH}/{name}")
    assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])
    assert "deletionTimestamp" not in after["metadata"]


async def test_a_copy_of_a_pod_of_ours_is_a_strangers(home: KubernetesHome, agent: ClusterPort) -> None:
    """Somebody debugs with a copy, labels and all."""
    nodes = await node_names(agent)
    held = record(key(), nodes[:1], resources=SMALL_POD)
    await run_gang(agent, held, home.run(SET, seconds=FOR_LONG_S))
    await until_counts(agent, held.key, lambda c: c.running == 1)
    (ours,) = (await call(home, "GET", f"{JOBS}/pods"))["items"]
    labels = {name: value for name, value in ours["metadata"]["labels"].items() if name.startswith("hanse.dev/")}
    copy = {"metadata": {"name": "debug", "labels": labels}, "spec": ours["spec"]}
    await call(home, "POST", f"{JOBS}/pods", copy)
    state = await until(agent, lambda s: bool(s.foreign))
    assert [node for node, _ in state.foreign] == [nodes[0]]
    assert counts_in(state, held.key).existing == 1
    await agent.write(FIRST, [StopPods(held.key)])
    await until_counts(agent, held.key, lambda c: c.occupying == 0)
    await forgotten(agent, held.key)
    async with asyncio.timeout(PATIENCE_S):
        while len(found := (await call(home, "GET", f"{JOBS}/pods"))["items"]) > 1:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_EVERY_S)  # the Job's own pods go with it
    (left,) = found
    assert left["metadata"]["name"] == "debug"
    assert "deletionTimestamp" not in left["metadata"]


async def test_a_pod_that_somebody_deletes_is_told_with_its_end(home: KubernetesHome, agent: ClusterPort) -> None:
    held = record(key(), (await node_names(agent))[:2], resources=SMALL_POD)
    await run_gang(agent, held, home.run(SET, seconds=FOR_LONG_S))
    await until_counts(agent, held.key, lambda c: c.running == 2)
    await call(home, "DELETE", f"{JOBS}/pods/{await first_pod(home)}")
    ended = await until_counts(agent, held.key, lambda c: c.failed == 1)
    assert (ended.running, ended.missing, ended.exit_code, ended.reason) == (1, 0, 0, "")
    assert [pod.phase for pod in await agent.pods(held.key)] == [PodPhase.FAILED, PodPhase.RUNNING]


async def test_a_finished_pod_outlives_whoever_deletes_it(home: KubernetesHome, agent: ClusterPort) -> None:
    held = record(key(), (await node_names(agent))[:1], resources=SMALL_POD)
    await run_gang(agent, held, home.run(SET, seconds=0))
    await until_counts(agent, held.key, lambda c: c.succeeded == 1)
    await call(home, "DELETE", f"{JOBS}/pods/{await first_pod(home)}")
    assert counts_in(await agent.list(), held.key).succeeded == 1
    await forgotten(agent, held.key)
    async with asyncio.timeout(PATIENCE_S):
        while (await call(home, "GET", f"{JOBS}/pods"))["items"]:  # noqa: ASYNC110 - goes with its Job
            await asyncio.sleep(LOOK_EVERY_S)


async def test_a_tolerated_taint_keeps_nobody_away(home: KubernetesHome, agent: ClusterPort) -> None:
    nodes = await node_names(agent)
    await call(home, "PATCH", f"/api/v1/nodes/{nodes[0]}", {"spec": {"taints": [TAINT]}})
    state = await until(agent, lambda s: any(node.taints for node in s.nodes))
    told = Taint(TAINT["key"], TAINT["value"], Effect.NO_SCHEDULE)
    assert [node.taints for node in state.nodes if node.taints] == [(told,)]
    plain = home.run(SET, seconds=0)
    tolerant = PodRun(SET, plain.image, (), (), plain.env, tolerations=(Toleration(told.key, False, told.value),))
    for number, run, runs in ((1, tolerant, True), (2, plain, False)):
        held = record(key(number), nodes[:1], resources=SMALL_POD)
        await run_gang(agent, held, run)
        ended = await until_counts(agent, held.key, lambda c: c.succeeded + c.failed == 1)
        assert (ended.succeeded == 1) is runs
        assert runs or (ended.infrastructure and "taint" in ended.reason)


async def test_services_that_a_dying_agent_left_are_removed(home: KubernetesHome, agent: ClusterPort) -> None:
    """It had forgotten the gang and removed its pods; those of gangs that are there, and of others, stay."""
    nodes = await node_names(agent)
    over, there = record(key(1), nodes[:2], resources=SMALL_POD), record(key(2), nodes[:2], resources=SMALL_POD)
    for held in (over, there):
        await run_gang(agent, held, home.run(SET, seconds=FOR_LONG_S))
        await until_counts(agent, held.key, lambda c: c.running == 2)
    services = {one["metadata"]["name"]: one for one in (await call(home, "GET", f"{JOBS}/services"))["items"]}
    left = services[f"hanse-{over.key.job}-1-0"]
    await agent.write(FIRST, [StopPods(over.key)])
    await until_counts(agent, over.key, lambda c: c.occupying == 0)
    await forgotten(agent, over.key)
    theirs = {**left["metadata"]["labels"], "hanse.dev/federation": "theirs"}
    ours = left["metadata"]["labels"]
    for name, labels in (("", ours), ("-of-others", theirs), ("-copy", ours)):
        meta = {"name": f"{left['metadata']['name']}{name}", "labels": labels}
        await call(home, "POST", f"{JOBS}/services", {"metadata": meta, "spec": {"clusterIP": "None"}})

    async def names() -> set[str]:
        return {one["metadata"]["name"] for one in (await call(home, "GET", f"{JOBS}/services"))["items"]}

    successor = home.port()
    await successor.claim(FEDERATION, SECOND, 100)
    await successor.list()
    async with asyncio.timeout(PATIENCE_S):
        while left["metadata"]["name"] in await names():  # noqa: ASYNC110 - goes on behind the list
            await asyncio.sleep(LOOK_EVERY_S)
    kept = {f"hanse-{there.key.job}-1-0", f"{left['metadata']['name']}-of-others", f"{left['metadata']['name']}-copy"}
    assert await names() == kept
