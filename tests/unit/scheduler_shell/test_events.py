"""What replicas remember of what happened, each for itself and all together, also when one of them is gone."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import msgspec
import pytest

from hanse.api.v1 import event_service_pb2
from hanse.apiserver.access.policy import Binding, Policy
from hanse.apiserver.access.verbs import Role
from hanse.apiserver.context import CallContext
from hanse.apiserver.events import EventService
from hanse.apiserver.ports import EventPage
from hanse.apiserver.rows import JobReader
from hanse.apiserver.services import NoFleet
from hanse.apiserver.sight import Sight
from hanse.kit.stream import StreamClosed
from hanse.model.errors import HanseError, InvalidArgument, NotFound, OutOfRange
from hanse.model.ids import JobId, PoolName
from hanse.model.lifecycle import SetHold, SetPriority, State, Stop
from hanse.model.occurrence import (
    EVENTS_PER_FETCH_MAX,
    Occurrence,
    OccurrenceKind,
    OccurrenceQuery,
    RingCursor,
    RingPage,
)
from hanse.model.reasons import Reason
from hanse.model.report import GangStatus
from hanse.scheduler.shell.events import in_order
from hanse.scheduler.shell.replica import Replica
from hanse.store import keys, schema
from hanse.store.contract import Put, Txn
from hanse.store.moves import commit_move
from hanse.wire.peer import events_from_wire, events_to_wire, ring_page_from_wire, ring_page_to_wire
from tests.unit.scheduler.worlds import QUEUE
from tests.unit.scheduler_shell.puppet import CLOCK, DEADLINE_S, Stage, stage, submit, until, wait_state
from tests.unit.scheduler_shell.test_peers import FEDERATION, POOL, process, two

KIND = OccurrenceKind
CTX = CallContext()


def of(job: str = "", pool: str = "") -> OccurrenceQuery:
    return OccurrenceQuery(JobId(job), PoolName(pool))


async def told(replica: Replica, query: OccurrenceQuery) -> EventPage:
    return await replica.events.events(query, {}, deadline_s=DEADLINE_S)


def kinds(page: EventPage | RingPage) -> list[OccurrenceKind]:
    return [event.kind for event in page.events]


async def informed(found: Stage) -> Replica:
    """A replica that follows the queue's jobs."""
    replica = await found.replica()
    await until(lambda: replica.states.loaded(QUEUE))
    return replica


async def seen(replica: Replica, query: OccurrenceQuery, *last: OccurrenceKind) -> list[OccurrenceKind]:
    """What the replica remembers, once that ends so."""

    def now() -> list[OccurrenceKind]:
        return kinds(replica.ring.page(query, RingCursor(), EVENTS_PER_FETCH_MAX))

    await until(lambda: tuple(now()[-len(last) :]) == last)
    return now()


async def change_pool(found: Stage, pool: str, **changes: object) -> None:
    """As an operator does."""
    key = keys.pool_config(PoolName(pool))
    value = schema.decode((await found.store.read([key])).items[key].value, schema.PoolConfigValue)
    await found.store.transact(Txn((), (Put(key, schema.encode(msgspec.structs.replace(value, **changes))),)))


# ---- one replica --------------------------------------------------------------------------------------------


async def test_the_life_of_a_job_is_told_in_order() -> None:
    async with stage() as found:
        replica = await informed(found)
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        job = await submit(found.store, 1, 2)
        for event in (SetHold(held=True), SetPriority(9), SetHold(held=False)):
            await commit_move(found.store, job, event, clock=CLOCK, write_id=replica.write_id)
        await agent.summary(agent.epoch.revision)
        key = await agent.bound(job)
        await agent.report(key, GangStatus.REFUSED, reason=Reason.SHAPE)
        await until(lambda: any(k.attempt == 2 for k in agent.desired))
        key = next(k for k in agent.desired if k.attempt == 2)
        await agent.report(key, GangStatus.RUNNING)
        await wait_state(found.store, job, State.RUNNING)
        await agent.report(key, GangStatus.FINISHED)
        every = await seen(replica, of(job), KIND.ENDED)
        page = await told(replica, of(job))
    assert every == [
        KIND.SUBMITTED,
        KIND.HELD,
        KIND.PRIORITY_CHANGED,
        KIND.RELEASED,
        KIND.BOUND,
        KIND.REFUSED,
        KIND.BOUND,
        KIND.RUNNING,
        KIND.ENDED,
    ]
    assert [event.attempt for event in page.events] == [0, 0, 0, 0, 1, 1, 2, 2, 2]
    assert page.events[5].pool == "p0"
    assert page.silent == ()


async def test_a_pool_tells_who_attached_and_who_cordoned_it() -> None:
    async with stage() as found:
        replica = await found.replica()
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        await change_pool(found, "p0", cordoned=True, cordon_reason="network")
        await change_pool(found, "p0", region="north")
        await change_pool(found, "p0", cordoned=False)
        agent.close()
        every = await seen(replica, of(pool="p0"), KIND.DETACHED)
        page = await told(replica, of(pool="p0"))
    assert sorted(every[:3]) == [KIND.JOINED, KIND.EPOCH_CHANGED, KIND.ATTACHED]
    assert every[3:] == [KIND.CORDONED, KIND.UNCORDONED, KIND.DETACHED]
    assert [event.message for event in page.events][2:4] == [
        "its agent is attached to r0",
        "cordoned, takes no new work: network",
    ]


async def test_a_summary_that_is_too_old_is_told_once_and_so_is_its_return() -> None:
    async with stage() as found:
        replica = await found.replica()
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        await until(lambda: replica.world.ledger(PoolName("p0")).summary is not None)
        ledger = replica.world.ledger(PoolName("p0"))
        assert ledger.summary is not None
        ledger.summary = replace(ledger.summary, received_s=CLOCK.monotonic() - 1_000)
        await seen(replica, of(pool="p0"), KIND.SUMMARY_OLD)
        await agent.summary(agent.epoch.revision)
        every = await seen(replica, of(pool="p0"), KIND.SUMMARY_OLD, KIND.SUMMARY_FRESH)
    assert every.count(KIND.SUMMARY_OLD) == 1


async def test_what_was_there_before_the_replica_came_is_no_news() -> None:
    async with stage() as found:
        await submit(found.store, 1, 2)
        replica = await found.replica()
        await until(lambda: len(replica.states.pending) == 1)
        page = await told(replica, of())
    assert page.events == ()
    assert 0 < page.since_ms <= CLOCK.now_ms()


# ---- several replicas ---------------------------------------------------------------------------------------


async def test_any_replica_tells_what_all_of_them_saw_and_each_thing_once() -> None:
    async with two() as (found, first, second, agent):
        await until(lambda: first.states.loaded(QUEUE) or second.states.loaded(QUEUE))
        holder, other = (first, second) if first.states.loaded(QUEUE) else (second, first)
        await agent.summary(agent.epoch.revision)
        job = await submit(found.store, 1, 2)
        await agent.bound(job)
        await seen(holder, of(job), KIND.SUBMITTED, KIND.BOUND)
        await until(lambda: KIND.ATTACHED in kinds(other.ring.page(of(pool=POOL), RingCursor(), 9)))
        pages = [await told(replica, of(job)) for replica in (holder, other)]
        pool = await told(other, of(pool=POOL))
        assert len(other.ring.page(of(job), RingCursor(), 9).events) == 0
    assert pages[0].events == pages[1].events
    assert kinds(pages[0]) == [KIND.SUBMITTED, KIND.BOUND]
    assert kinds(pool).count(KIND.ATTACHED) == 1
    assert pages[1].silent == ()


async def test_a_reader_goes_on_where_it_was_in_every_ring() -> None:
    async with two() as (found, first, second, _):
        await until(lambda: first.states.loaded(QUEUE) or second.states.loaded(QUEUE))
        holder, other = (first, second) if first.states.loaded(QUEUE) else (second, first)
        page = await told(other, of())
        job = await submit(found.store, 1, 2)
        await seen(holder, of(job), KIND.SUBMITTED)
        page = await other.events.events(of(), page.cursors, deadline_s=DEADLINE_S)
        again = await other.events.events(of(), page.cursors, deadline_s=DEADLINE_S)
    assert [(event.kind, event.job) for event in page.events] == [(KIND.SUBMITTED, job)]
    assert again.events == ()


async def test_a_replica_that_does_not_answer_makes_the_answer_partial_and_its_end_moves_what_is_complete() -> None:
    async with stage() as found, process(found, "r0") as first:
        async with process(found, "r1"):
            await until(lambda: "r1" in first.world.replicas)
            assert (await told(first, of())).silent == ()
        page = await told(first, of())
        assert page.silent == ("r1",)
        await until(lambda: "r1" not in first.world.replicas)
        later = await told(first, of())
    assert later.silent == ()
    assert later.since_ms > page.since_ms


async def test_another_federation_is_refused_and_too_much_is() -> None:
    async with two() as (_, first, second, _):
        assert second._elsewhere is not None
        peer = second._elsewhere._peers.at(first.config.address)
        peer._federation = "other"  # type: ignore[attr-defined]
        with pytest.raises(StreamClosed, match="belongs to federation"):
            await peer.events(of(), RingCursor())
    request = events_to_wire(FEDERATION, of("j"), RingCursor("n", 4))
    assert events_from_wire(request) == (of("j"), RingCursor("n", 4), EVENTS_PER_FETCH_MAX)
    request.events_max = EVENTS_PER_FETCH_MAX + 1
    with pytest.raises(InvalidArgument):
        events_from_wire(request)


def test_a_page_survives_the_wire() -> None:
    event = Occurrence(5, KIND.REFUSED, JobId("j"), PoolName("a,b"), 2, Reason.SHAPE, "told", 9)  # type: ignore[arg-type]
    page = RingPage((event,), RingCursor("n", 4), 3, more=True)
    assert ring_page_from_wire(ring_page_to_wire(page)) == page


def test_events_stand_by_revision_and_what_has_none_by_time() -> None:
    late = Occurrence(1, KIND.BOUND, JobId("a"), revision=8)
    early = Occurrence(5, KIND.SUBMITTED, JobId("a"), revision=7)
    old = Occurrence(4, KIND.SUMMARY_OLD, pool=PoolName("p"))
    assert in_order([late, early, old, early]) == (old, early, late)


# ---- the service --------------------------------------------------------------------------------------------


class Memory:
    """The port of the API server, as a seat has it."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def events(
        self, query: OccurrenceQuery, cursors: Mapping[str, RingCursor], *, deadline_s: float
    ) -> EventPage:
        return await self._replica.events.events(query, cursors, deadline_s=deadline_s)

    async def news(self) -> None:
        await self._replica.recorder.news()

    def retried(self, old: JobId, new: JobId, revision: int) -> None:
        self._replica.recorder.retried(old, new, revision)


def tail(found: Stage, **request: object) -> AsyncIterator[event_service_pb2.TailEventsResponse]:
    reader = JobReader(found.store)
    service = EventService(found.store, reader, Sight(found.store, reader), Memory(found.replicas[0]), NoFleet())
    return service.tail_events(CTX, event_service_pb2.TailEventsRequest(**request))  # type: ignore[arg-type]


async def words(answers: AsyncIterator[event_service_pb2.TailEventsResponse]) -> list[str]:
    async with asyncio.timeout(DEADLINE_S):
        return [OccurrenceKind(event.kind).name for answer in [a async for a in answers] for event in answer.events]


async def test_following_a_job_ends_with_it() -> None:
    async with stage() as found:
        replica = await informed(found)
        job = await submit(found.store, 1, 2)
        await seen(replica, of(job), KIND.SUBMITTED)
        reading = asyncio.create_task(words(tail(found, job=job, follow=True)))
        await commit_move(found.store, job, SetHold(held=True), clock=CLOCK, write_id=replica.write_id)
        await seen(replica, of(job), KIND.HELD)
        stop = Stop(State.CANCELLED, Reason.CANCELLED_BY_USER)
        await commit_move(found.store, job, stop, clock=CLOCK, write_id=replica.write_id)
        assert await reading == ["SUBMITTED", "HELD", "ENDED"]
        assert await words(tail(found, job=job, follow=True)) == ["SUBMITTED", "HELD", "ENDED"]
        assert await words(tail(found, job=job, tail_events=1)) == ["ENDED"]


async def test_a_job_that_no_replica_remembers_is_told_from_its_record() -> None:
    async with stage() as found:
        replica = await found.replica()
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        job = await submit(found.store, 1, 2)
        key = await agent.bound(job)
        await agent.report(key, GangStatus.REFUSED, reason=Reason.SHAPE)
        await until(lambda: any(k.attempt == 2 for k in agent.desired))
        key = next(k for k in agent.desired if k.attempt == 2)
        await agent.report(key, GangStatus.HELD, held_ms=5)
        await agent.report(key, GangStatus.RUNNING, held_ms=5, started_ms=6, running_ms=7)
        await wait_state(found.store, job, State.RUNNING)
        await agent.report(key, GangStatus.RELEASED)
        await wait_state(found.store, job, State.PENDING, State.BOUND)
        found.replicas.clear()
        await found.replica("r9", seed=9)
        told = await words(tail(found, job=job))
    assert told[:3] == ["SUBMITTED", "BOUND", "REFUSED"]
    assert {"BOUND", "PLACED", "RUNNING", "REQUEUED"} <= set(told[3:])


async def test_what_is_older_than_memory_is_refused_with_the_time_that_is_not() -> None:
    async with stage() as found:
        replica = await informed(found)
        with pytest.raises(OutOfRange) as refused:
            await words(tail(found, since_ms=1))
        assert (refused.value.reason, refused.value.path) == ("EVENTS_GONE", "since_ms")
        assert await words(tail(found, since_ms=replica.ring.since_ms)) == []
        job = await submit(found.store, 1, 2)
        await seen(replica, of(job), KIND.SUBMITTED)
        assert await words(tail(found, job=job, since_ms=1)) == ["SUBMITTED"]


@pytest.mark.parametrize(
    ("request_", "kind", "reason"),
    [
        ({"pool": "nowhere"}, NotFound, "POOL_NOT_FOUND"),
        ({"job": "nobody"}, NotFound, "JOB_NOT_FOUND"),
        ({"job": "a", "pool": "b"}, InvalidArgument, "TOO_MANY"),
        ({"tail_events": 1_001}, InvalidArgument, "TAIL_EVENTS_INVALID"),
        ({"since_ms": -1}, InvalidArgument, "SINCE_INVALID"),
    ],
)
async def test_what_is_asked_for_wrongly_is_refused(
    request_: dict[str, object], kind: type[Exception], reason: str
) -> None:
    async with stage() as found:
        await found.replica()
        with pytest.raises(kind) as refused:
            await words(tail(found, **request_))
    assert getattr(refused.value, "reason", "") == reason


# ---- tenants ------------------------------------------------------------------------------------------------


def calls(*queues: str) -> CallContext:
    """Somebody who views some queues."""
    binding = Binding(Role.VIEWER, frozenset({"eve"}), frozenset(), queues)
    return CallContext(principal="eve", access=Policy((binding,)).access("eve"))


async def told_to(found: Stage, ctx: CallContext, **request: object) -> str:
    """All that is told, or why nothing is."""
    reader = JobReader(found.store)
    service = EventService(found.store, reader, Sight(found.store, reader), Memory(found.replicas[0]), NoFleet())
    asked = event_service_pb2.TailEventsRequest(**request)  # type: ignore[arg-type]
    try:
        async with asyncio.timeout(DEADLINE_S):
            return "".join([str(answer) async for answer in service.tail_events(ctx, asked)])
    except HanseError as error:
        return f"{error.reason}: {error}"


async def test_a_tenant_is_told_of_their_own_queues_and_of_no_pool() -> None:
    async with stage() as found:
        replica = await informed(found)
        job = await submit(found.store, 1, 2)
        await seen(replica, of(job), KIND.SUBMITTED)
        names = [str(facts.queue.name) for facts in replica.world.queues.values()]
        assert job in await told_to(found, calls(*names))
        assert job in await told_to(found, calls("*"))
        assert job not in await told_to(found, calls("other"))
        assert "JOINED" not in await told_to(found, calls(*names))
        gone = "zzzzzzzz-0123456789abcdef"
        hidden = await told_to(found, calls("other"), job=job)
        assert hidden.startswith("JOB_NOT_FOUND")
        assert hidden.replace(job, gone) == await told_to(found, calls("other"), job=gone)
        for pool in ("p0", "nonesuch"):
            assert (await told_to(found, calls(*names), pool=pool)).startswith("ROLE_MISSING")
