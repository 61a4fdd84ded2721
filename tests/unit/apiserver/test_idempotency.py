"""A request id is used once or not at all, whatever is lost on the way: every job is stored once, all or none."""

import asyncio
import random
from collections import Counter

import pytest

from hanse.api.v1 import job_service_pb2, queue_pb2, queue_service_pb2
from hanse.apiserver.context import CallContext
from hanse.apiserver.submissions import ROUNDS_MAX
from hanse.model.errors import AlreadyExists, Unavailable
from hanse.store import keys
from hanse.store.contract import Conflict, Delete, Put, Txn, prefix_end
from tests.unit.apiserver.stage import CTX, Stage, batch, many, pool, second, spec, stage

FATES = ("lost", "silent", "late")


def writes_jobs(txn: Txn) -> bool:
    return any(isinstance(op, Put) and op.key.startswith(keys.STATES) for op in txn.ops)


def fate_of_nth(on: Stage, number: int, what: str) -> None:
    """The `number`-th transaction that stores jobs meets this fate; the others pass."""
    seen = 0

    def rule(txn: Txn) -> str:
        nonlocal seen
        seen += writes_jobs(txn)
        return what if writes_jobs(txn) and seen == number else ""

    on.store.rule = rule


async def stored_once(on: Stage, answer: job_service_pb2.SubmitJobsResponse, jobs: int) -> None:
    """Every job of the answer is stored, and no other; each of its three keys."""
    assert {job.id for job in answer.jobs if job.id} == set(await on.states())
    assert len(await on.states()) == await on.count(keys.SPECS) == await on.count(keys.NAMES) == jobs


async def test_a_repetition_gives_the_same_answer_and_stores_nothing_more() -> None:
    async with stage() as on:
        first = await on.submit(many(100, request_id="r1"))
        again = await on.submit(many(100, request_id="r1"))
        await stored_once(on, again, 100)
    assert [job.SerializeToString() for job in again.jobs] == [job.SerializeToString() for job in first.jobs]


async def test_a_repetition_at_another_replica_gives_the_same_answer() -> None:
    async with stage() as on, second(on) as other:
        first = await on.submit(many(50, request_id="r1"))
        again = await other.submit(many(50, request_id="r1"))
        await stored_once(on, again, 50)
    assert [job.id for job in again.jobs] == [job.id for job in first.jobs]


async def test_the_same_id_with_another_body_is_refused() -> None:
    async with stage() as on:
        await on.submit(batch(spec("a"), request_id="r1"))
        with pytest.raises(AlreadyExists) as refused:
            await on.submit(batch(spec("b"), request_id="r1"))
        assert len(await on.states()) == 1
    assert refused.value.reason == "REQUEST_ID_REUSED"


async def test_the_same_id_for_another_method_is_refused() -> None:
    async with stage() as on:
        await on.submit(batch(spec("a"), request_id="r1"))
        with pytest.raises(AlreadyExists):
            await on.api.queues.hold_queue(CTX, queue_service_pb2.HoldQueueRequest(name="research", request_id="r1"))


async def test_two_bodies_under_one_id_at_the_same_time_are_one_too_many() -> None:
    async with stage() as on, second(on) as other:
        await on.api.queues.create_queue(CTX, queue_service_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name="b")))
        answers = await asyncio.gather(
            on.submit(batch(spec("x"), request_id="r1")),
            other.submit(batch(spec("x", queue="b"), request_id="r1")),
            return_exceptions=True,
        )
        assert len(await on.states()) == 1
    assert sorted(type(answer).__name__ for answer in answers) == ["AlreadyExists", "SubmitJobsResponse"]


async def test_two_settings_under_one_id_at_the_same_time_are_one_too_many() -> None:
    async with stage() as on, second(on) as other:
        answers = await asyncio.gather(
            *(
                at.api.queues.create_queue(
                    CTX, queue_service_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name=name), request_id="r1")
                )
                for at, name in ((on, "x"), (other, "y"))
            ),
            return_exceptions=True,
        )
        assert await on.count(keys.QUEUES) == 2
    assert sorted(type(answer).__name__ for answer in answers) == ["AlreadyExists", "Queue"]


async def test_a_lost_batch_that_arrives_late_stores_nothing_beside_the_one_that_took_its_place() -> None:
    async with stage(pool("oslo", 1, 2)) as on:
        on.store.rule = lambda txn: "late" if writes_jobs(txn) else ""
        request = batch(spec("small"), spec("large", count=4), request_id="r1")
        with pytest.raises(Unavailable):
            await on.submit(request)
        on.store.rule = lambda txn: ""
        on.fleet.become(pool("oslo", 1, 8))
        answer = await on.submit(request)
        await on.store.deliver()
        await stored_once(on, answer, 2)
        await stored_once(on, await on.submit(request), 2)


async def test_ids_are_each_principals_own() -> None:
    async with stage() as on:
        mine = await on.submit(batch(spec("a"), request_id="r1"))
        yours = await on.api.jobs.submit_jobs(CallContext(principal="bob"), batch(spec("b"), request_id="r1"))
        assert len(await on.states()) == 2
    assert mine.jobs[0].id != yours.jobs[0].id


async def test_what_was_refused_stays_refused_although_the_world_has_changed() -> None:
    async with stage(pool("oslo", 1, 2)) as on:
        first = await on.submit(batch(spec("small"), spec("large", count=4), request_id="r1"))
        on.fleet.become(pool("oslo", 1, 8))
        again = await on.submit(batch(spec("small"), spec("large", count=4), request_id="r1"))
        anew = await on.submit(batch(spec("large", count=4), request_id="r2"))
        await stored_once(on, job_service_pb2.SubmitJobsResponse(jobs=[*again.jobs, *anew.jobs]), 2)
    assert [job.error.reason for job in first.jobs] == ["", "NEVER_FITS"] == [job.error.reason for job in again.jobs]


async def test_a_batch_of_which_nothing_was_stored_may_be_tried_again() -> None:
    async with stage() as on:
        request = batch(spec("a"), spec("b", queue="later"), request_id="r1", atomic=True)
        assert (await on.submit(request)).aborted
        await on.api.queues.create_queue(
            CTX, queue_service_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name="later"), request_id="q")
        )
        again = await on.submit(request)
        await stored_once(on, again, 2)


@pytest.mark.parametrize("atomic", [True, False])
async def test_what_was_refused_is_not_stored_by_a_message_that_was_late(atomic: bool) -> None:
    """The first try found a fleet that takes the batch; its transaction arrives after the repetition was refused."""
    request = batch(spec("large", count=4), request_id="r1", atomic=atomic)
    async with stage(pool("oslo", 1, 8)) as on:
        on.store.rule = lambda txn: "late" if writes_jobs(txn) else ""
        with pytest.raises(Unavailable):
            await on.submit(request)
        on.store.rule = lambda txn: ""
        on.fleet.become(pool("oslo", 1, 2))
        assert [job.error.reason for job in (await on.submit(request)).jobs] == ["NEVER_FITS"]
        assert all(isinstance(outcome, Conflict) for outcome in await on.store.deliver())
        assert not await on.states()
        on.fleet.become(pool("oslo", 1, 8))
        await stored_once(on, await on.submit(request), 1)


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_an_unknown_outcome_is_settled_by_going_round_once_more(fate: str, number: int) -> None:
    async with stage() as on:
        fate_of_nth(on, number, fate)
        answer = await on.submit(many(100, request_id="r1"))
        await stored_once(on, answer, 100)
        assert all(isinstance(outcome, Conflict) for outcome in await on.store.deliver())
        await stored_once(on, answer, 100)


@pytest.mark.parametrize("fate", ["lost", "late"])
async def test_an_outcome_that_stays_unknown_is_told_and_completed_by_the_repetition(fate: str) -> None:
    async with stage() as on:
        on.store.rule = lambda txn: fate if writes_jobs(txn) and len(on.store.txns) > 2 else ""
        request = many(100, request_id="r1")
        with pytest.raises(Unavailable) as told:
            await on.submit(request)
        assert told.value.reason == "OUTCOME_UNKNOWN"
        on.store.rule = lambda txn: ""
        answer = await on.submit(request)
        await stored_once(on, answer, 100)
        await on.store.deliver()
        await stored_once(on, answer, 100)


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_crash_between_two_transactions_is_completed_by_another_replica(number: int) -> None:
    async with stage() as on:
        request = many(100, request_id="r1")
        hung = asyncio.Event()
        seen = 0

        def rule(txn: Txn) -> str:
            nonlocal seen
            seen += writes_jobs(txn)
            if writes_jobs(txn) and seen == number:
                hung.set()
                raise asyncio.CancelledError  # the replica dies here: the transaction was never sent
            return ""

        on.store.rule = rule
        call = asyncio.create_task(on.submit(request))
        await hung.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        on.store.rule = lambda txn: ""
        async with second(on) as other:
            answer = await other.submit(request)
            await stored_once(on, answer, 100)


async def test_two_replicas_at_the_same_request_store_it_once() -> None:
    async with stage() as on, second(on) as other:
        request = many(120, request_id="r1")
        one, two = await asyncio.gather(on.submit(request), other.submit(request))
        await stored_once(on, one, 120)
    assert [job.id for job in one.jobs] == [job.id for job in two.jobs]


@pytest.mark.parametrize("seed", range(10))
async def test_whatever_is_lost_every_acknowledged_job_is_stored_once(seed: int) -> None:
    rng = random.Random(seed)
    async with stage() as on, second(on) as other:
        on.store.rule = lambda txn: rng.choice(["", "", "", *FATES])
        requests = [many(rng.choice([1, 3, 42, 43, 90]), request_id=f"r{i}") for i in range(6)]
        for request in requests:
            request.jobs[0].name = f"first-{request.request_id}"

        async def persist(request: job_service_pb2.SubmitJobsRequest) -> job_service_pb2.SubmitJobsResponse:
            while True:
                try:
                    return await rng.choice([on, other]).submit(request)
                except Unavailable:
                    await on.store.deliver()

        answers = await asyncio.gather(*(persist(request) for request in requests))
        await on.store.deliver()
        everything = job_service_pb2.SubmitJobsResponse(jobs=[job for answer in answers for job in answer.jobs])
        await stored_once(on, everything, sum(len(request.jobs) for request in requests))


async def test_an_id_that_was_forgotten_after_its_day_does_not_store_its_jobs_again() -> None:
    async with stage() as on:
        first = await on.submit(batch(spec("a"), request_id="r1"))
        await on.store.core.transact(Txn((), (Delete(keys.request("ann", "r1")),)))
        again = await on.submit(batch(spec("a"), request_id="r1"))
        await stored_once(on, again, 1)
        assert again.jobs[0].id == first.jobs[0].id
        await on.store.core.transact(Txn((), (Delete(keys.request("ann", "r1")),)))
        with pytest.raises(AlreadyExists):
            await on.submit(batch(spec("b"), request_id="r1"))


async def test_records_of_requests_end_with_a_lease() -> None:
    async with stage() as on:
        await on.submit(batch(spec("a"), request_id="r1"))
        kv = (await on.store.core.read([keys.request("ann", "r1")])).items[keys.request("ann", "r1")]
        await on.store.core.lease_revoke(kv.lease)
        assert await on.count(keys.REQUESTS) == 0
        again = await on.submit(batch(spec("b"), request_id="r2"))  # under a lease that is gone, and so a new one
        assert again.jobs[0].id in await on.states()


async def test_rounds_are_bounded() -> None:
    async with stage() as on:
        before = len(on.store.txns)
        on.store.rule = lambda txn: "lost"
        with pytest.raises(Unavailable):
            await on.submit(batch(spec("a"), request_id="r1"))
        assert len(on.store.txns) - before == ROUNDS_MAX


async def test_no_lease_has_more_records_than_a_store_can_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hanse.apiserver.requests.RECORDS_PER_LEASE_MAX", 3)
    async with stage() as on:
        before = {kv.key for kv in (await on.store.core.range(keys.REQUESTS, prefix_end(keys.REQUESTS))).items}
        for number in range(7):
            await on.submit(batch(spec(f"job-{number}"), request_id=f"r{number}"))
        records = (await on.store.core.range(keys.REQUESTS, prefix_end(keys.REQUESTS))).items
    per_lease = Counter(kv.lease for kv in records if kv.key not in before)
    assert sum(per_lease.values()) == 7
    assert max(per_lease.values()) == 3
