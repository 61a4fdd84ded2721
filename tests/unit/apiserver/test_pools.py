"""Pools as they are shown, followed and cordoned; explanations, nodes and logs as agents give them."""

import asyncio
from dataclasses import replace

import pytest

from hanse.api.v1 import job_service_pb2, pool_service_pb2
from hanse.apiserver.ports import Explanation, NodesAnswer, PodRef, PoolVerdict, PoolView, Suggestion
from hanse.apiserver.shapes import RACKS_MAX
from hanse.model.detail import RackUse
from hanse.model.errors import FailedPrecondition, InvalidArgument, NotFound, Unavailable
from hanse.model.ids import Attempt, JobId, NodeName, Part, PoolName
from hanse.model.job import JobSpec
from hanse.model.lifecycle import JobState
from hanse.model.placement import NodePlace
from hanse.model.reasons import Reason
from hanse.store import keys
from hanse.store.contract import Delete, Put, Txn
from hanse.store.schema import AttachedValue, BarredValue, LeftValue, PoolConfigValue, decode, encode
from tests.unit.apiserver.stage import CTX, H100, Stage, WrittenDetails, batch, pool, spec, stage
from tests.unit.apiserver.test_cancelling import OSLO, bind

PATIENCE_S = 10.0
CONFIG = keys.pool_config(OSLO)


async def join(on: Stage) -> None:
    """The pool `oslo` as a link would register it, with two heads."""
    ops = (
        Put(CONFIG, encode(PoolConfigValue(0, region="no"))),
        Put(keys.head(OSLO, H100), b"1"),
        Put(f"{keys.heads(OSLO)}a100", b"7"),
    )
    await on.store.core.transact(Txn((), ops))


# ---- pools --------------------------------------------------------------------------------------------------


async def test_pools_are_listed_by_name_in_pages() -> None:
    async with stage(pool("oslo", 2, 2), pool("iowa", 1, 1)) as on:
        first = await on.api.pools.list_pools(CTX, pool_service_pb2.ListPoolsRequest(page_size=1))
        rest = await on.api.pools.list_pools(
            CTX, pool_service_pb2.ListPoolsRequest(page_size=1, page_token=first.next_page_token)
        )
    assert ([p.name for p in first.pools], [p.name for p in rest.pools]) == (["iowa"], ["oslo"])
    assert rest.next_page_token == ""
    assert (rest.pools[0].gpus, rest.pools[0].levels[0].alias) == (32, "rack")


async def test_rows_of_a_shape_come_without_the_search_for_what_fits() -> None:
    async with stage(pool("oslo", 3, 4)) as on:
        asked = pool_service_pb2.GetPoolRequest(name="oslo", shape=True, rows_only=True)
        shape = (await on.api.pools.get_pool(CTX, asked)).shape
    assert (len(shape.rows), len(shape.largest_gangs)) == (1, 0)


async def test_racks_are_told_as_the_agent_knows_them_and_their_number_is_bounded() -> None:
    details = WrittenDetails(answer=NodesAnswer(()), lines={})
    asked = pool_service_pb2.GetPoolRacksRequest(name="oslo")
    async with stage(pool("oslo", 1, 1), details=details) as on:
        with pytest.raises(Unavailable, match="does not answer"):
            await on.api.pools.get_pool_racks(CTX, asked)
        details.used = (RackUse(("b0", "r0"), 4, 1, 1, gpus=32, free_gpus=8, held_gpus=4, broken_gpus=8),) * (
            RACKS_MAX + 2
        )
        found = await on.api.pools.get_pool_racks(CTX, asked)
    assert (len(found.racks), found.left_out) == (RACKS_MAX, 2)
    first = found.racks[0]
    assert (list(first.path), first.hosts, first.held_gpus, first.broken_gpus) == (["b0", "r0"], 4, 4, 8)
    async with stage(pool("oslo", 1, 1)) as alone:
        with pytest.raises(Unavailable):
            await alone.api.pools.get_pool_racks(CTX, asked)


async def test_the_shape_of_a_pool_is_drawn_and_says_what_still_fits() -> None:
    async with stage(pool("oslo", 3, 4)) as on:
        shown = await on.api.pools.get_pool(CTX, pool_service_pb2.GetPoolRequest(name="oslo", shape=True))
        plain = await on.api.pools.get_pool(CTX, pool_service_pb2.GetPoolRequest(name="oslo"))
    [row] = shown.shape.rows
    assert (row.domains, row.level, row.cells[0].hosts, row.cells[0].free_whole_hosts) == (3, "rack", 4, 4)
    most = {(g.level, g.gpus_per_pod): g.pods for g in shown.shape.largest_gangs}
    assert most == {("", 1): 96, ("rack", 1): 32, ("", 8): 12, ("rack", 8): 4}
    assert not plain.HasField("shape")


async def test_an_unknown_pool_suggests_the_nearest() -> None:
    async with stage(pool("oslo", 1, 1)) as on:
        with pytest.raises(NotFound) as refused:
            await on.api.pools.get_pool(CTX, pool_service_pb2.GetPoolRequest(name="olso"))
        with pytest.raises(NotFound):
            await on.api.pools.cordon_pool(CTX, pool_service_pb2.CordonPoolRequest(name="../x"))
    assert '"oslo"' in refused.value.message


async def test_following_pools_tells_changes_only() -> None:
    oslo, iowa = pool("oslo", 1, 1), pool("iowa", 1, 1)
    async with stage(oslo, iowa) as on, asyncio.timeout(PATIENCE_S):
        news = on.api.pools.watch_pools(CTX, pool_service_pb2.WatchPoolsRequest())
        first = await anext(news)
        on.fleet.become(replace(oslo, summary_age_ms=500), replace(iowa, cordoned=True))
        second = await anext(news)
        on.fleet.become(replace(oslo, summary_age_ms=900))
        third = await anext(news)
    assert [p.name for p in first.pools] == ["iowa", "oslo"]
    assert ([p.name for p in second.pools], list(second.removed)) == (["iowa"], [])
    assert ([p.name for p in third.pools], list(third.removed)) == ([], ["iowa"])


async def test_cordoning_rewrites_the_settings_and_bumps_every_head_at_one_revision() -> None:
    async with stage(pool("oslo", 1, 1)) as on:
        await join(on)
        told = await on.api.pools.cordon_pool(
            CTX, pool_service_pb2.CordonPoolRequest(name="oslo", reason="new\nfirmware", request_id="c1")
        )
        again = await on.api.pools.cordon_pool(
            CTX, pool_service_pb2.CordonPoolRequest(name="oslo", reason="new\nfirmware", request_id="c1")
        )
        wanted = [CONFIG, keys.head(OSLO, H100), f"{keys.heads(OSLO)}a100"]
        items = (await on.store.core.read(wanted)).items
        value = decode(items[CONFIG].value, PoolConfigValue)
        opened = await on.api.pools.uncordon_pool(CTX, pool_service_pb2.UncordonPoolRequest(name="oslo"))
    assert (value.cordoned, value.cordon_reason, value.region) == (True, "new firmware", "no")
    assert {kv.mod_revision for kv in items.values()} == {told.revision}
    assert [kv.value for kv in items.values()][1:] == [b"1", b"7"]
    assert (told, told.cordoned, opened.cordoned, opened.cordon_reason) == (again, True, False, "")


async def test_a_drain_keeps_its_beginning_gets_a_new_deadline_and_ends_with_the_cordon() -> None:
    async with stage(pool("oslo", 1, 1)) as on:
        await join(on)
        first = await on.api.pools.drain_pool(CTX, pool_service_pb2.DrainPoolRequest(name="oslo", reason="old"))
        second = await on.api.pools.drain_pool(CTX, pool_service_pb2.DrainPoolRequest(name="oslo", deadline_s=60))
        value = decode((await on.store.core.read([CONFIG])).items[CONFIG].value, PoolConfigValue)
        opened = await on.api.pools.uncordon_pool(CTX, pool_service_pb2.UncordonPoolRequest(name="oslo"))
        after = decode((await on.store.core.read([CONFIG])).items[CONFIG].value, PoolConfigValue)
    assert (first.cordoned, first.cordon_reason, first.drain.deadline_ms) == (True, "old", 0)
    assert second.drain.since_ms == first.drain.since_ms
    assert value.drain is not None
    assert value.drain.deadline_ms >= value.drain.since_ms + 60_000
    assert (after.cordoned, after.drain, opened.HasField("drain")) == (False, None, False)


async def config(on: Stage) -> PoolConfigValue:
    return decode((await on.store.core.read([CONFIG])).items[CONFIG].value, PoolConfigValue)


def leaving(**more: object) -> pool_service_pb2.LeavePoolRequest:
    return pool_service_pb2.LeavePoolRequest(name="oslo", **more)  # type: ignore[arg-type]


async def test_a_pool_that_leaves_is_drained_and_stays_when_it_is_uncordoned() -> None:
    async with stage(pool("oslo", 1, 1)) as on:
        await join(on)
        first = await on.api.pools.leave_pool(CTX, leaving(reason="sold", deadline_s=60))
        kept = await config(on)
        again = await on.api.pools.leave_pool(CTX, leaving(force=True))
        forced = await config(on)
        opened = await on.api.pools.uncordon_pool(CTX, pool_service_pb2.UncordonPoolRequest(name="oslo"))
        stays = await config(on)
    assert (first.cordoned, first.cordon_reason, first.leave.force, first.leave.left_ms) == (True, "sold", False, 0)
    assert kept.leave is not None
    assert kept.drain is not None
    assert kept.drain.deadline_ms == kept.drain.since_ms + 60_000
    assert again.leave.since_ms == first.leave.since_ms, "it goes on, by another order"
    assert (forced.cordoned, forced.drain, again.HasField("drain")) == (True, None, False)
    assert (stays.cordoned, stays.drain, stays.leave, opened.HasField("leave")) == (False, None, None, False)


async def test_an_order_by_force_needs_a_pool_that_nobody_reaches() -> None:
    agent, mark = keys.pool_agent(OSLO), keys.attached(OSLO)
    async with stage(pool("oslo", 1, 1)) as on:
        await join(on)
        there = (Put(agent, b"{}"), Put(mark, encode(AttachedValue("i1", "r1"))))
        await on.store.core.transact(Txn((), there))
        with pytest.raises(FailedPrecondition) as attached:
            await on.api.pools.leave_pool(CTX, leaving(force=True))
        await on.store.core.transact(Txn((), (Delete(mark),)))
        await on.api.pools.leave_pool(CTX, leaving(force=True))
        forced = (await on.store.core.read([agent])).items
        told = await on.api.pools.leave_pool(CTX, leaving(force=True, vouch_dead=True))
        vouched = (await on.store.core.read([agent])).items
    assert (attached.value.reason, "r1" in attached.value.message) == ("POOL_ATTACHED", True)
    assert (agent in forced, agent in vouched) == (True, False), "nobody speaks for a pool that is dead"
    assert (told.leave.force, told.leave.vouch_dead) == (True, True)


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (leaving(vouch_dead=True), "FORCE_MISSING"),
        (leaving(force=True, deadline_s=5), "DEADLINE_INVALID"),
        (leaving(deadline_s=-1), "DEADLINE_INVALID"),
    ],
)
async def test_an_order_to_leave_that_cannot_be(order: pool_service_pb2.LeavePoolRequest, reason: str) -> None:
    async with stage(pool("oslo", 1, 1)) as on:
        await join(on)
        with pytest.raises(InvalidArgument) as refused:
            await on.api.pools.leave_pool(CTX, order)
        assert (await config(on)).leave is None
    assert refused.value.reason == reason


async def test_a_pool_that_has_left_says_so_whoever_asks_and_may_be_let_in_again() -> None:
    gone = keys.pool_left(OSLO)
    async with stage(pool("oslo", 1, 1)) as on:
        await on.store.core.transact(Txn((), (Put(gone, encode(LeftValue("c", 9, 7, force=True))),)))
        for order in (leaving(), leaving(force=True, vouch_dead=True)):
            told = await on.api.pools.leave_pool(CTX, order)
            assert (told.leave.left_ms, told.leave.since_ms, told.leave.force) == (9, 7, True)
        await on.api.pools.readmit_pool(CTX, pool_service_pb2.ReadmitPoolRequest(name="oslo"))
        assert gone not in (await on.store.core.read([gone])).items
        with pytest.raises(NotFound) as unknown:
            await on.api.pools.readmit_pool(CTX, pool_service_pb2.ReadmitPoolRequest(name="oslo"))
        assert unknown.value.reason == "POOL_NOT_LEFT"


@pytest.mark.parametrize("left", [True, False])
async def test_who_is_let_in_again_is_believed_again_unless_an_operator_has_revoked_it(*, left: bool) -> None:
    gone, barred = keys.pool_left(OSLO), keys.barred("agent", OSLO)
    async with stage(pool("oslo", 1, 1)) as on:
        ops = (Put(gone, encode(LeftValue("c", 9, 7))), Put(barred, encode(BarredValue(9, 9, left=left))))
        await on.store.core.transact(Txn((), ops))
        await on.api.pools.readmit_pool(CTX, pool_service_pb2.ReadmitPoolRequest(name="oslo"))
        assert (barred in (await on.store.core.read([barred])).items) is not left


async def test_a_reason_that_is_too_long() -> None:
    async with stage(pool("oslo", 1, 1)) as on:
        with pytest.raises(InvalidArgument):
            await on.api.pools.cordon_pool(CTX, pool_service_pb2.CordonPoolRequest(name="oslo", reason="x" * 1_000))


# ---- explanations -------------------------------------------------------------------------------------------


class WrittenExplainer:
    """A scheduler that gives a written answer."""

    def __init__(self, *pools: PoolVerdict) -> None:
        self.answer = Explanation(
            "train waits: no pool has 2 whole racks", Reason.SHAPE, 5, 1, pools, (Suggestion("1 rack", "starts now"),)
        )

    async def explain(self, job: JobId, spec: JobSpec, state: JobState) -> Explanation:
        return self.answer


def miss(name: str) -> PoolVerdict:
    return PoolVerdict(PoolName(name), False, Reason.SHAPE, "racks", 2, 1, "racks", "1/2 racks in b3", H100, 40)


async def test_an_explanation_of_a_waiting_job_has_lines_about_nodes_of_the_nearest_pools() -> None:
    details = WrittenDetails(NodesAnswer(()), {PoolName("p3"): ("r12: 1 host cordoned",)})
    verdicts = [miss(f"p{i}") for i in range(12)]
    async with stage(explainer=WrittenExplainer(*verdicts), details=details) as on:
        await on.submit(batch(spec()))
        told = await on.api.jobs.explain_job(CTX, job_service_pb2.ExplainJobRequest(job="train"))
        plain = await on.api.jobs.explain_job(CTX, job_service_pb2.ExplainJobRequest(job="train", without_nodes=True))
    assert (told.answer, told.reason, told.position) == ("train waits: no pool has 2 whole racks", "SHAPE", 1)
    third = told.pools[3]
    assert (third.pool, third.fits, third.reason, third.constraint, third.wanted, third.found) == (
        "p3", False, "SHAPE", "racks", 2, 1,
    )  # fmt: skip
    assert list(third.nodes) == ["r12: 1 host cordoned"]
    assert details.asked == [tuple(PoolName(f"p{i}") for i in range(8))]
    assert not any(p.nodes for p in plain.pools)
    assert told.helps[0].change == "1 rack"


async def test_without_a_scheduler_the_answer_says_so() -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        told = await on.api.jobs.explain_job(CTX, job_service_pb2.ExplainJobRequest(job="train"))
    assert ("no scheduler" in told.answer, told.reason) == (True, "WAITING")


# ---- nodes and logs -----------------------------------------------------------------------------------------


async def bound(on: Stage) -> JobId:
    await on.submit(batch(spec()))
    [(job, state)] = (await on.states()).items()
    await bind(on, job, state)
    return job


async def test_nodes_are_fetched_when_they_are_asked_for() -> None:
    place = NodePlace(NodeName("n7"), "worker", (0, 1), ("b1", "r2"))
    details = WrittenDetails(NodesAnswer(((OSLO, place),), (PoolName("iowa"),)), {})
    async with stage(details=details) as on:
        job = await bound(on)
        with_nodes = await on.api.jobs.get_job(CTX, job_service_pb2.GetJobRequest(job=job, nodes=True))
        without = await on.api.jobs.get_job(CTX, job_service_pb2.GetJobRequest(job=job))
    [node] = with_nodes.status.nodes
    assert (node.name, node.pod_set, list(node.ranks), list(node.path), node.pool) == (
        "n7", "worker", [0, 1], ["b1", "r2"], "oslo",
    )  # fmt: skip
    assert list(with_nodes.status.pools_silent) == ["iowa"]
    assert not without.status.nodes


async def test_without_agents_their_pools_are_silent() -> None:
    async with stage() as on:
        job = await bound(on)
        told = await on.api.jobs.get_job(CTX, job_service_pb2.GetJobRequest(job=job, nodes=True))
    assert list(told.status.pools_silent) == ["oslo"]


async def test_log_lines_of_a_rank() -> None:
    details = WrittenDetails(NodesAnswer(()), {})
    async with stage(details=details) as on:
        job = await bound(on)
        request = job_service_pb2.TailLogsRequest(job="train", rank=1)
        lines = [line.text async for r in on.api.jobs.tail_logs(CTX, request) for line in r.lines]
    assert lines == ["step 1", "step 2"]
    assert details.pods == [PodRef(job, Attempt(1), Part(0), OSLO, "worker", 1)]


@pytest.mark.parametrize(
    ("request_", "kind", "reason"),
    [
        (job_service_pb2.TailLogsRequest(job="train", pod_set="wroker"), NotFound, "POD_SET_NOT_FOUND"),
        (job_service_pb2.TailLogsRequest(job="train", rank=2), InvalidArgument, "RANK_INVALID"),
        (job_service_pb2.TailLogsRequest(job="train", rank=-1), InvalidArgument, "RANK_INVALID"),
        (job_service_pb2.TailLogsRequest(job="train", tail_lines=-1), InvalidArgument, "TAIL_LINES_INVALID"),
        (job_service_pb2.TailLogsRequest(job="waiting"), FailedPrecondition, "NO_PODS"),
        (job_service_pb2.TailLogsRequest(job="train"), Unavailable, "NO_AGENTS"),
    ],
)
async def test_logs_that_are_not_there(
    request_: job_service_pb2.TailLogsRequest, kind: type[Exception], reason: str
) -> None:
    async with stage() as on:
        await bound(on)
        await on.submit(batch(spec("waiting")))
        with pytest.raises(kind) as refused:
            await anext(on.api.jobs.tail_logs(CTX, request_))
    assert getattr(refused.value, "reason", "") == reason


def test_a_pool_view_needs_no_more_than_a_name() -> None:
    assert PoolView(PoolName("new")).shape is None
