"""What an agent, or whoever has got at its certificate, says that is not its to say."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from hanse.bus.contract import BusConnection
from hanse.bus.inprocess import InProcessBus
from hanse.kit.telemetry import metrics
from hanse.kit.tls import Identity, Kind, sole_identity
from hanse.kit.trust.shown import Shown
from hanse.link.v1 import link_pb2 as pb
from hanse.model.attach import Hello, Tidied
from hanse.model.fence import Epoch, GangKey
from hanse.model.ids import Part, PoolName
from hanse.model.lifecycle import State
from hanse.model.report import Acknowledged, GangStatus
from hanse.model.summary import PoolSummary
from hanse.scheduler.core.world import World
from hanse.scheduler.shell.summaries import Summaries
from hanse.store import keys
from hanse.store.contract import Delete, Put, Txn
from hanse.store.schema import BarredValue, encode
from hanse.wire.link import LINK_VERSION
from hanse.wire.summary import capacity_topic, summary_to_bytes, summary_topic
from tests.unit.scheduler.worlds import QUEUE
from tests.unit.scheduler_shell.puppet import DEADLINE_S, stage, state_of, submit, until, wait_state
from tests.unit.scheduler_shell.test_peers import FEDERATION, POOL, said, taker

FAR: int = 2**62
OTHER = PoolName("p1")


@contextmanager
def counted(forgery: str, times: int = 1) -> Iterator[None]:
    before = metrics.FORGERIES.value(forgery)
    yield
    assert metrics.FORGERIES.value(forgery) - before == times


async def heard(summaries: Summaries, topic: str, *told: PoolSummary) -> None:
    """Summaries that come under a topic one after the other, each heard before the next."""
    bus = InProcessBus()
    following = asyncio.create_task(summaries.follow(bus, "replica"))
    async with await bus.connect("agent") as agent:
        for summary in told:
            await agent.publish(topic, summary_to_bytes(summary), retain=True)
            await marked(agent)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def marked(agent: BusConnection) -> None:
    """Something else is heard, which was said later."""
    seen = metrics.FORGERIES.value("topic")
    async with asyncio.timeout(DEADLINE_S):
        while metrics.FORGERIES.value("topic") == seen:
            await agent.publish(summary_topic(FEDERATION, "mark"), summary_to_bytes(said(1)), retain=True)
            await asyncio.sleep(0.005)


def knowing(*, agent: int, revision: int) -> tuple[World, Summaries]:
    world, summaries, _ = taker()
    world.put_agent(POOL, agent)
    world.revision = revision
    return world, summaries


@pytest.mark.parametrize("topic", [summary_topic(FEDERATION, OTHER), capacity_topic(FEDERATION, OTHER)])
async def test_a_summary_counts_under_its_own_topic_only(topic: str) -> None:
    world, summaries = knowing(agent=5, revision=9)
    await heard(summaries, topic, said(1))
    assert world.ledger(POOL).summary is None
    assert world.ledger(OTHER).summary is None


async def test_an_epoch_that_nobody_was_granted_shadows_nothing() -> None:
    world, summaries = knowing(agent=5, revision=9)
    topic = summary_topic(FEDERATION, POOL)
    with counted("epoch"):
        await heard(summaries, topic, said(9, epoch=7), said(9, epoch=FAR), said(1, epoch=5))
    found = world.ledger(POOL).summary
    assert found is not None
    assert (found.order.epoch_revision, found.order.sequence) == (5, 1)


async def test_an_epoch_is_believed_once_its_attach_is_known() -> None:
    world, summaries = knowing(agent=5, revision=9)
    await heard(summaries, summary_topic(FEDERATION, POOL), said(1, epoch=12))
    assert world.ledger(POOL).summary is None
    world.put_agent(POOL, 12)
    world.revision = 12
    summaries.look()
    found = world.ledger(POOL).summary
    assert found is not None
    assert found.order.epoch_revision == 12


async def test_on_the_link_a_summary_of_another_pool_ends_the_stream() -> None:
    async with stage() as found:
        replica = await found.replica()
        await found.puppet(replica, OTHER, {"r1": 4}).attached()
        agent = await found.puppet(replica, POOL, {"r1": 4}).attached()
        with counted("summary"):
            await agent.say(replace(said(1), pool=OTHER, epoch=agent.epoch))
            await until(lambda: replica.session(POOL) is None)
        assert replica.session(OTHER) is not None
        assert replica.world.ledger(OTHER).summary is None


async def test_on_the_link_what_is_of_an_epoch_that_was_not_granted_counts_for_nothing() -> None:
    async with stage() as found:
        replica = await found.replica()
        agent = await found.puppet(replica, POOL, {"r1": 4}).attached()
        with counted("epoch", 2):
            await agent.say(replace(said(1), epoch=Epoch(1, FAR)))
            await agent.say(Tidied(Epoch(1, FAR)))
            await agent.summary(agent.epoch.revision)
            await until(lambda: replica.world.ledger(POOL).summary is not None)
        summary = replica.world.ledger(POOL).summary
        assert summary is not None
        assert summary.order.epoch_revision == agent.epoch.revision


@pytest.mark.parametrize("status", [GangStatus.FINISHED, GangStatus.BROKEN, GangStatus.REFUSED, GangStatus.RELEASED])
@pytest.mark.parametrize("part", [0, 7])
async def test_a_report_about_a_gang_of_another_pool_moves_nothing(status: GangStatus, part: int) -> None:
    async with stage() as found:
        replica = await found.replica()
        owner = await found.puppet(replica, POOL, {"r1": 4}).attached()
        await owner.summary(owner.epoch.revision)
        job = await submit(found.store, 1, 2)
        key = await owner.bound(job)
        thief = await found.puppet(replica, OTHER, {"r1": 4}).attached()
        with counted("report"):
            await thief.report(GangKey(job, key.attempt, Part(part)), status)
            await until(lambda: any(isinstance(told, Acknowledged) for told in thief.told))
        assert (await state_of(found.store, job)).state is State.BOUND
        await owner.report(key, GangStatus.RUNNING)
        await wait_state(found.store, job, State.RUNNING)


@pytest.mark.parametrize(
    "report",
    [
        pb.Report(job="nonsense"),
        pb.Report(job="../../state/x"),
        pb.Report(job=f"{QUEUE}-{'x' * 9_999}"),
        pb.Report(job=f"{QUEUE}-{7:016d}", attempt=-1),
        pb.Report(job=f"{QUEUE}-{7:016d}", part=-2),
        pb.Report(job=f"{QUEUE}-{7:016d}", message="x" * 2_000_000),
    ],
    ids=["no id", "a path", "long", "attempt", "part", "message"],
)
async def test_a_report_that_makes_no_sense_ends_its_own_stream_and_no_other(report: pb.Report) -> None:
    async with stage() as found:
        replica = await found.replica()
        owner = await found.puppet(replica, POOL, {"r1": 4}).attached()
        await owner.summary(owner.epoch.revision)
        thief = await found.puppet(replica, OTHER, {"r1": 4}).attached()
        report.status = pb.STATUS_FINISHED
        epoch = pb.Epoch(incarnation=thief.epoch.incarnation, revision=thief.epoch.revision)
        await thief.stream.send(pb.AttachRequest(reports=pb.Reports(epoch=epoch, sequence=1, reports=[report])))
        await until(lambda: replica.session(OTHER) is None)
        job = await submit(found.store, 1, 2)
        await owner.report(await owner.bound(job), GangStatus.RUNNING)
        await wait_state(found.store, job, State.RUNNING)


async def test_a_hello_that_would_fill_the_store_is_refused() -> None:
    async with stage() as found:
        replica = await found.replica()
        agent = found.puppet(replica, POOL, {"r1": 4})
        labels = {f"l{n}": "x" * 1_000 for n in range(1_000)}
        await agent.say(Hello(LINK_VERSION, POOL, "i1", "c1", labels=labels))
        await until(agent.ended)
        assert keys.pool_config(POOL) not in (await found.store.read([keys.pool_config(POOL)])).items


async def test_what_is_revoked_in_the_store_is_known_to_every_replica() -> None:
    oslo = Shown(Identity(Kind.AGENT, "oslo"), "ab12", begins_ms=1_000, ends_ms=9_000)
    newer, other = replace(oslo, serial="ab13", begins_ms=5_001), replace(oslo, serial="ff")
    async with stage() as found:
        replicas = [await found.replica("r0"), await found.replica("r1")]
        agent, serial = keys.barred("agent", "oslo"), keys.barred_serial("ff")

        async def written(*ops: Put | Delete) -> None:
            await found.store.transact(Txn((), ops))

        await written(Put(serial, encode(BarredValue(0, 5_000))))
        await until(lambda: all(r.is_barred(other) and not r.is_barred(oslo) for r in replicas))
        await written(Put(agent, encode(BarredValue(5_000, 5_000))))
        await until(lambda: all(r.is_barred(oslo) and not r.is_barred(newer) for r in replicas))
        await written(Delete(agent), Delete(serial))
        await until(lambda: not any(r.is_barred(oslo) or r.is_barred(other) for r in replicas))


@pytest.mark.parametrize(
    ("names", "who"),
    [
        (["hanse://agent/oslo"], "agent oslo"),
        (["spiffe://x/y", "hanse://replica/r0"], "replica r0"),
        (["hanse://agent/oslo", "hanse://agent/paris"], "None"),
        (["hanse://agent/oslo", "hanse://replica/r0"], "None"),
        (["hanse://agent/oslo/paris"], "None"),
        (["hanse://agent/oslo\n"], "None"),
        (["HANSE://agent/oslo", "hanse://admin/oslo", ""], "None"),
        ([], "None"),
    ],
)
def test_a_certificate_stands_for_one_or_for_nobody(names: list[str], who: str) -> None:
    assert str(sole_identity(names)) == who
