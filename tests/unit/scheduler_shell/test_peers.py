"""What replicas of different processes ask each other, over real gRPC on the loopback."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

import grpc
import pytest

from hanse.apiserver.ports import ExecPiece, PartAt, PodRef
from hanse.bus.inprocess import InProcessBus
from hanse.kit.stream import StreamClosed
from hanse.link.v1 import peer_pb2_grpc
from hanse.model.detail import (
    REPLY_WINDOW,
    ChoiceQuestion,
    DetailReply,
    DetailRequest,
    ExecInput,
    ExecQuestion,
    ExplainQuestion,
    LogQuestion,
    NodesQuestion,
)
from hanse.model.errors import HanseError, Unavailable
from hanse.model.fence import Epoch, GangKey
from hanse.model.ids import Attempt, JobId, NodeName, Part, PoolName, QueueName, ReplicaId
from hanse.model.job import JobSpec, PodSet
from hanse.model.lifecycle import State
from hanse.model.placement import NodePlace
from hanse.model.resources import Resources
from hanse.model.summary import KnownSummary, PoolSummary
from hanse.scheduler.core.world import World
from hanse.scheduler.shell.peer_client import GrpcPeers
from hanse.scheduler.shell.peer_service import PeerService
from hanse.scheduler.shell.replica import Replica, ReplicaConfig
from hanse.scheduler.shell.summaries import Summaries
from hanse.shape import encode
from hanse.store import keys, schema
from hanse.store.contract import Put, Txn
from hanse.wire.peer import SUMMARIES_PER_FETCH_MAX, ask_from_wire, ask_to_wire, fetch_from_wire, fetch_to_wire
from hanse.wire.summary import capacity_topic, summary_to_bytes, summary_topic
from tests.unit.scheduler.worlds import GPU, H100, QUEUE, inventory
from tests.unit.scheduler_shell.puppet import CLOCK, Puppet, Stage, stage, submit, until, wait_state

JOB = JobId(f"{QUEUE}-{7:016d}")
FEDERATION = "hanse"
POOL = PoolName("p0")
AT = PartAt(Part(0), POOL)
POD = PodRef(JOB, Attempt(1), Part(0), POOL, "worker", 0)
ENDS_SOON_S = 5.0


@asynccontextmanager
async def process(found: Stage, name: str, *, federation: str = FEDERATION) -> AsyncIterator[Replica]:
    """A replica with a port of its own, as a process has one."""
    server = grpc.aio.server()
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    peers = GrpcPeers(federation)
    config = ReplicaConfig(ReplicaId(name), address=address, lease_ttl_s=5.0)
    replica = Replica(config, found.store, None, CLOCK, random.Random(name), peers)
    peer_pb2_grpc.add_PeerServiceServicer_to_server(PeerService(lambda: replica), server)
    await server.start()
    running = asyncio.create_task(replica.run(), name=name)
    try:
        await until(lambda: replica.ready)
        yield replica
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await server.stop(0)
        await peers.close()


@asynccontextmanager
async def two() -> AsyncIterator[tuple[Stage, Replica, Replica, Puppet]]:
    """Two processes; the pool's agent is attached to the first, and both know it."""
    async with stage() as found, process(found, "r0") as first, process(found, "r1") as second:
        agent = await found.puppet(first, POOL, {"r1": 4}).attached()
        await until(lambda: second.world.attached_to(POOL) == "r0" and "r0" in second.world.replicas)
        yield found, first, second, agent


async def asked(agent: Puppet) -> DetailRequest:
    """The question that the agent was asked."""
    await until(lambda: any(isinstance(value, DetailRequest) for value in agent.told))
    return next(value for value in agent.told if isinstance(value, DetailRequest))


# ---- questions ----------------------------------------------------------------------------------------------


async def test_a_question_reaches_the_agent_of_another_replica_and_its_answer_comes_back() -> None:
    async with two() as (_, _, second, agent):
        asking = asyncio.create_task(second.details.nodes(JOB, Attempt(1), [AT], deadline_s=10))
        question = await asked(agent)
        assert question.question == NodesQuestion(GangKey(JOB, Attempt(1), Part(0)))
        places = [NodePlace(NodeName(f"n{n}"), "worker", (n,), ("r1",)) for n in range(3)]
        await agent.say(DetailReply(question.id, nodes=tuple(places[:2])))
        await agent.say(DetailReply(question.id, end=True, nodes=(places[2],)))
        answer = await asking
        assert answer.places == tuple((POOL, place) for place in places)
        assert answer.silent == ()


async def test_the_nearest_miss_of_a_pool_elsewhere_is_told_too() -> None:
    async with two() as (_, _, second, agent):
        job = JobSpec("job", QueueName("research"), (PodSet("worker", 9, 9, Resources({GPU: 8}), (H100,)),))
        asking = asyncio.create_task(second.details.explain_nodes(JOB, job, [POOL], deadline_s=10))
        question = await asked(agent)
        assert isinstance(question.question, ExplainQuestion)
        assert question.question.flavors == (H100,)
        await agent.say(DetailReply(question.id, end=True, lines=("4 of 9 hosts in r1",)))
        assert await asking == {POOL: ("4 of 9 hosts in r1",)}


async def test_why_a_gang_is_where_it_is_is_told_from_elsewhere() -> None:
    async with two() as (_, _, second, agent):
        asking = asyncio.create_task(second.details.explain_placed(JOB, Attempt(1), [AT], deadline_s=10))
        question = await asked(agent)
        assert question.question == ChoiceQuestion(GangKey(JOB, Attempt(1), Part(0)))
        await agent.say(DetailReply(question.id, end=True, lines=("1 block",)))
        assert await asking == {POOL: ("1 block",)}


async def test_every_replica_tells_how_it_is_and_who_is_silent_is_left_out() -> None:
    async with two() as (_, first, second, _):
        told = await second.all_vitals(deadline_s=10)
        assert {name: vitals.agents for name, vitals in told.items()} == {
            first.config.replica: 1,
            second.config.replica: 0,
        }
        assert all(vitals.ready for vitals in told.values())
        assert set(await second.all_vitals(deadline_s=0.0)) == {second.config.replica}


async def test_an_agent_that_leaves_amid_its_answer_is_silent_at_once() -> None:
    async with two() as (_, first, second, agent):
        asking = asyncio.create_task(second.details.nodes(JOB, Attempt(1), [AT], deadline_s=60))
        question = await asked(agent)
        await agent.say(DetailReply(question.id, lines=("some",)))
        agent.close()
        async with asyncio.timeout(ENDS_SOON_S):
            assert (await asking).silent == (POOL,)
        assert first.session(POOL) is None


async def test_an_agent_that_does_not_answer_costs_the_deadline_and_is_told_to_stop() -> None:
    async with two() as (_, _, second, agent):
        assert (await second.details.nodes(JOB, Attempt(1), [AT], deadline_s=0.2)).silent == (POOL,)
        await until(lambda: sum(isinstance(value, DetailRequest) for value in agent.told) == 2)


async def test_whoever_follows_a_log_is_told_when_the_agent_moves() -> None:
    async with two() as (_, _, second, agent):
        logs = second.details.logs(POD, tail_lines=1, follow=True)
        first_line = asyncio.ensure_future(anext(logs))
        question = await asked(agent)
        assert question.question == LogQuestion(GangKey(JOB, Attempt(1), Part(0)), "worker", 0, True, 1, REPLY_WINDOW)
        await agent.say(DetailReply(question.id, lines=("hello",)))
        assert [entry.text for entry in await first_line] == ["hello"]
        agent.close()
        with pytest.raises(Unavailable, match="is moving"):
            async with asyncio.timeout(ENDS_SOON_S):
                await anext(logs)


async def typed() -> AsyncIterator[ExecInput]:
    yield ExecInput(b"abc")
    yield ExecInput(end=True)


async def test_a_command_reads_and_writes_through_the_replica_that_has_the_agent() -> None:
    async with two() as (_, _, second, agent):
        running = second.details.exec(POD, command=["cat"], tty=False, inputs=typed())
        first = asyncio.ensure_future(anext(running))
        question = await asked(agent)
        gang = GangKey(JOB, Attempt(1), Part(0))
        assert question.question == ExecQuestion(gang, "worker", 0, ("cat",), stdin=True, window=REPLY_WINDOW)
        await agent.say(DetailReply(question.id, counted=True))
        await until(lambda: sum(isinstance(value, DetailRequest) for value in agent.told) == 3)
        told = [value.question for value in agent.told if isinstance(value, DetailRequest)]
        assert told[1:] == [ExecInput(b"abc"), ExecInput(end=True)]
        await agent.say(DetailReply(question.id, inputs_taken=2))
        await agent.say(DetailReply(question.id, stdout=b"abc", counted=True))
        assert await first == ExecPiece(stdout=b"abc")
        await agent.say(DetailReply(question.id, exit_code=3, counted=True))
        await agent.say(DetailReply(question.id, end=True))
        assert [piece async for piece in running] == [ExecPiece(exit_code=3)]


async def test_a_command_whose_agent_leaves_may_have_run() -> None:
    async with two() as (_, _, second, agent):
        running = asyncio.ensure_future(anext(second.details.exec(POD, command=["x"], tty=False, inputs=None)))
        await asked(agent)
        agent.close()
        with pytest.raises(Unavailable, match="may run on") as left:
            async with asyncio.timeout(ENDS_SOON_S):
                await running
        assert left.value.reason == "EXEC_UNKNOWN"


async def test_nobody_is_asked_for_a_pool_without_an_agent() -> None:
    async with two() as (_, _, second, _):
        assert second.agent(PoolName("nowhere")) is None


async def test_a_replica_that_is_gone_is_silent() -> None:
    async with stage() as found, process(found, "r1") as second:
        async with process(found, "r0") as first:
            agent = await found.puppet(first, POOL, {"r1": 4}).attached()
            await until(lambda: second.world.attached_to(POOL) == "r0")
        value = schema.encode(schema.AttachedValue("i1", "r0"))
        await found.store.transact(Txn((), (Put(keys.attached(POOL), value),)))  # what a killed replica leaves
        await until(lambda: second.world.attached_to(POOL) == "r0")
        assert (await second.details.nodes(JOB, Attempt(1), [AT], deadline_s=1)).silent == (POOL,)
        agent.close()


@contextmanager
def refused(code: grpc.StatusCode) -> Iterator[None]:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        yield
    assert error.value.code() is code


async def test_another_federation_and_nonsense_are_refused() -> None:
    async with two() as (_, first, _, _), grpc.aio.insecure_channel(first.config.address) as channel:
        stub = peer_pb2_grpc.PeerServiceStub(channel)
        question = NodesQuestion(GangKey(JOB, Attempt(1), Part(0)))
        with refused(grpc.StatusCode.FAILED_PRECONDITION):
            await stub.FetchSummaries(fetch_to_wire("other", ()))
        with refused(grpc.StatusCode.FAILED_PRECONDITION):
            await stub.AskPool(ask_to_wire("other", POOL, question)).read()
        with refused(grpc.StatusCode.UNAVAILABLE):
            await stub.AskPool(ask_to_wire(FEDERATION, PoolName("p9"), question)).read()
        with refused(grpc.StatusCode.INVALID_ARGUMENT):
            await stub.AskPool(ask_to_wire(FEDERATION, PoolName(""), question)).read()
        many = [KnownSummary(PoolName(f"p{n}")) for n in range(SUMMARIES_PER_FETCH_MAX + 1)]
        with refused(grpc.StatusCode.INVALID_ARGUMENT):
            await stub.FetchSummaries(fetch_to_wire(FEDERATION, many))


# ---- summaries without a bus (P14) --------------------------------------------------------------------------


async def test_without_a_bus_a_replica_plans_for_a_pool_that_is_attached_elsewhere() -> None:
    async with two() as (found, first, second, agent):
        holder, other = (first, second) if first.world.held_roots(first.nonce) else (second, first)
        if holder is first:  # the agent has to be elsewhere
            agent.close()
            agent = await found.puppet(other, POOL, {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        job = await submit(found.store, 1, 2)
        key = await agent.bound(job)
        assert key.attempt == 1
        assert (await wait_state(found.store, job, State.BOUND)).attempt == 1
        known = holder.world.ledger(POOL).summary
        assert known is not None
        assert known.empty_shape is not None, "what can never fit is known without a bus too"


async def test_a_summary_is_fetched_once_and_again_only_if_there_is_a_newer_one() -> None:
    async with two() as (_, first, second, agent):
        await agent.summary(agent.epoch.revision)
        await until(lambda: second.world.ledger(POOL).summary is not None)
        summary = second.world.ledger(POOL).summary
        assert summary is not None
        known = KnownSummary(POOL, agent.epoch, summary.order.sequence)
        assert first.summaries.newer_than([known]) == []
        assert len(first.summaries.newer_than([replace(known, sequence=0), KnownSummary(PoolName("p9"))])) == 1


async def test_a_peer_that_hangs_costs_nothing_but_its_own_summaries() -> None:
    async with grpc_that_hangs() as address:
        peer = GrpcPeers(FEDERATION).at(address)
        with pytest.raises((StreamClosed, TimeoutError)):
            await peer.fetch([KnownSummary(POOL)])


@asynccontextmanager
async def grpc_that_hangs() -> AsyncIterator[str]:
    """Takes connections, and says nothing."""
    server = await asyncio.start_server(lambda reader, writer: asyncio.sleep(3_600), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server:
        yield f"{host}:{port}"


# ---- by whichever way ---------------------------------------------------------------------------------------


def taker() -> tuple[World, Summaries, list[int]]:
    world = World(ReplicaId("r0"))
    world.incarnation = 1
    news: list[int] = []
    return world, Summaries(world, CLOCK, FEDERATION, lambda: news.append(1)), news


def said(sequence: int, *, racks: int = 1, epoch: int = 5, empty: bool = True) -> PoolSummary:
    free = inventory({f"r{n}": 4 for n in range(racks)})
    shape = encode(free.empty_shape())
    return PoolSummary(
        POOL, Epoch(1, epoch), sequence, 0, 0, encode(free.shape()), shape if empty else None, settings_revision=9
    )


def test_the_newest_summary_wins_whatever_way_it_came() -> None:
    world, summaries, news = taker()
    for summary in (said(2), said(2), said(1), said(3, epoch=4), said(3)):
        summaries.take(summary)
    found = world.ledger(POOL).summary
    assert found is not None
    assert (found.order.sequence, len(news)) == (3, 2)


def test_an_empty_shape_that_is_left_out_is_the_one_before() -> None:
    world, summaries, _ = taker()
    summaries.take_from_agent(said(1))
    summaries.take_from_agent(said(2, empty=False))
    found = world.ledger(POOL).summary
    assert found is not None
    assert found.empty_shape is not None
    (kept,) = summaries.newer_than([KnownSummary(POOL)])
    assert (kept.sequence, kept.empty_shape) == (2, said(1).empty_shape)


def test_the_empty_shape_may_come_alone_before_or_after_and_never_goes_back() -> None:
    world, summaries, _ = taker()
    summaries.take_capacity(replace(said(2, racks=2), shape=b""))
    summaries.take(said(3, racks=2, empty=False))
    summaries.take_capacity(replace(said(1), shape=b""))
    found = world.ledger(POOL).summary
    assert found is not None
    assert found.empty_shape is not None
    assert found.empty_shape.hosts(found.empty_shape.flavors[0]) == 8
    summaries.take_capacity(replace(said(4, racks=3), shape=b""))
    again = world.ledger(POOL).summary
    assert again is not None
    assert again.empty_shape is not None
    assert again.empty_shape.hosts(again.empty_shape.flavors[0]) == 12


def test_a_pool_that_is_forgotten_is_spoken_for_no_more() -> None:
    _, summaries, _ = taker()
    summaries.take_from_agent(said(1))
    summaries.forget(POOL)
    assert summaries.newer_than([KnownSummary(POOL)]) == []


@pytest.mark.parametrize("damaged", [replace(said(1), shape=b"\xff\xff"), replace(said(1), empty_shape=b"\xff\xff")])
def test_a_summary_that_cannot_be_read_is_left_out(damaged: PoolSummary) -> None:
    world, summaries, news = taker()
    summaries.take(damaged)
    summaries.take_capacity(replace(damaged, shape=b""))
    assert (world.ledger(POOL).summary is None or damaged.shape != b"\xff\xff", len(news) <= 1) == (True, True)


async def test_what_lies_on_the_bus_is_taken_summaries_and_capacities() -> None:
    world, summaries, _ = taker()
    world.put_agent(POOL, 5)
    world.revision = 9
    bus = InProcessBus()
    async with await bus.connect("agent") as agent:
        await agent.publish(
            capacity_topic(FEDERATION, POOL), summary_to_bytes(replace(said(1), shape=b"")), retain=True
        )
        await agent.publish(summary_topic(FEDERATION, POOL), summary_to_bytes(said(1, empty=False)), retain=True)
        await agent.publish(summary_topic(FEDERATION, PoolName("p1")), b"\xff nonsense", retain=True)
        await agent.publish(f"hanse/v1/{FEDERATION}/pools/p2/presence", b"present", retain=True)
        following = asyncio.create_task(summaries.follow(bus, "replica"))
        await until(lambda: world.ledger(POOL).summary is not None)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    found = world.ledger(POOL).summary
    assert found is not None
    assert found.empty_shape is not None


async def test_the_shape_of_the_empty_pool_decides_only_under_today_s_flavors() -> None:
    async with two() as (found, first, _, agent):
        await agent.summary(agent.epoch.revision)
        await until(lambda: first.world.ledger(POOL).summary is not None)
        (view,) = first.fleet.pools()
        assert view.empty_shape is None, "the agent did not say which flavors it knows"
        first.summaries.take(replace(said(99, epoch=agent.epoch.revision), settings_revision=10**6))
        (view,) = first.fleet.pools()
        assert view.empty_shape is not None
        assert found.store is not None


# ---- the wire -----------------------------------------------------------------------------------------------


def test_questions_and_what_is_known_keep_their_meaning_on_the_wire() -> None:
    question = LogQuestion(GangKey(JOB, Attempt(2), Part(1)), "worker", 3, True, 10)
    assert ask_from_wire(ask_to_wire("f", POOL, question)) == (POOL, question)
    known = (KnownSummary(POOL), KnownSummary(PoolName("p1"), Epoch(2, 30), 4))
    assert fetch_from_wire(fetch_to_wire("f", known)) == known
    with pytest.raises(HanseError):
        ask_from_wire(ask_to_wire("f", PoolName(""), question))


async def test_a_lost_mark_takes_the_pool_out_of_reach() -> None:
    async with two() as (found, _, second, _):
        await found.store.transact(Txn((), (Put("attached/p7", b"not a value"),)))
        assert second.agent(PoolName("p7")) is None
