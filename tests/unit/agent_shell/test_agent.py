"""An agent beside a simulated cluster, attached to a replica that a test plays, in virtual time."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from hanse.agent.cluster.port import Epoch
from hanse.agent.core.outbox import PATIENT
from hanse.bus.inprocess import InProcessBus
from hanse.model.attach import Refusal, Settings
from hanse.model.desired import Desired, DesiredAction
from hanse.model.ids import FlavorName
from hanse.model.placement import Level
from hanse.model.queue import Flavor
from hanse.model.reasons import Reason
from hanse.model.report import GangStatus
from hanse.model.summary import PoolSummary
from hanse.shape import decode
from hanse.simcluster.inputs import EpochId
from hanse.wire.summary import summary_from_bytes
from tests.unit.agent_shell.flaky import FlakyCluster
from tests.unit.agent_shell.stage import POOL, Puppet, Stage, key, play, spec_bytes, stopped

STATUSES = [GangStatus.STARTED, GangStatus.RUNNING, GangStatus.FINISHED]


# ---- the way of a gang --------------------------------------------------------------------------------------


def test_gang_is_placed_run_and_forgotten() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        _, task = stage.start()
        await stage.until(lambda: puppet.summaries)
        await puppet.bound(key())
        await stage.status(key(), GangStatus.FINISHED)
        assert [report.status for report in puppet.reports(key())] == STATUSES
        assert [use.level for use in puppet.reports(key())[0].domains] == ["rack", "host"]
        assert stage.engine.gangs, "finished pods are kept until the binding is gone"
        await puppet.drop(key())
        await stage.until(lambda: not stage.engine.gangs)
        await stopped(task)

    play(scene)


def test_stop_ends_pods_and_is_released() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        puppet.bind(key())
        _, task = stage.start()
        await stage.status(key(), GangStatus.RUNNING)
        await puppet.turn(key(), DesiredAction.STOP)
        await stage.status(key(), GangStatus.RELEASED)
        assert all(gang.counts.occupying == 0 for gang in stage.engine.gangs.values())
        await stage.until(lambda: puppet.shape.free_gpus() == 64)
        await stopped(task)

    play(scene)


def test_node_failure_is_reported_as_infrastructure() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        puppet.bind(key(), pods=8)
        _, task = stage.start()
        await stage.status(key(), GangStatus.RUNNING)
        stage.fail_nodes(3)
        await stage.status(key(), GangStatus.BROKEN)
        report = puppet.reports(key())[-1]
        assert (report.reason, report.infrastructure) == (Reason.INFRASTRUCTURE, True)
        await stage.until(lambda: puppet.summaries[-1].usable_nodes == 7)
        await stopped(task)

    play(scene)


def test_refusal_comes_after_a_summary_of_what_the_agent_saw() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        _, task = stage.start()
        await stage.until(lambda: puppet.summaries)
        await puppet.bound(key("a"), pods=6)
        await puppet.bound(key("b"), pods=4)
        await stage.status(key("b"), GangStatus.REFUSED)
        report = puppet.reports(key("b"))[-1]
        assert (report.wanted, report.found) == (4, 2)
        heard = puppet.heard[: puppet.heard.index(puppet.batches[-1])]
        before = [said for said in heard if isinstance(said, PoolSummary)][-1]
        assert before.observed_revision == puppet.revision
        assert puppet.shape.free_gpus() == 16
        await stopped(task)

    play(scene)


# ---- attaching ----------------------------------------------------------------------------------------------


def test_hello_says_who_the_agent_is_and_what_its_cluster_has_accepted() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        _, task = stage.start()
        await stage.until(lambda: puppet.summaries)
        puppet.cut()
        await stage.until(lambda: len(puppet.hellos) == 2)
        first, second = puppet.hellos
        assert (first.pool, first.cluster_uid, first.federation, first.region) == (POOL, "c0", "", "eu")
        assert [level.alias for level in first.levels] == ["rack", "host"]
        assert (second.instance, second.federation) == (first.instance, "f")
        assert (second.epoch, second.accepted_revision) == (Epoch(1, 101), 101)
        await stopped(task)

    play(scene)


def test_broken_stream_is_dialled_again_at_once_and_unacknowledged_reports_come_again() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        puppet.acknowledges = False
        puppet.bind(key())
        _, task = stage.start()
        await stage.status(key(), GangStatus.RUNNING)
        said, cut_s = len(puppet.reports(key())), stage.loop.time()
        puppet.cut()
        await stage.until(lambda: len(puppet.hellos) == 2)
        assert stage.loop.time() - cut_s < 0.2
        await stage.until(lambda: len(puppet.reports(key())) > said)
        assert puppet.status(key()) is GangStatus.RUNNING
        assert puppet.batches[-1].epoch == puppet.epoch
        await stopped(task)

    play(scene)


def test_reports_for_which_nobody_waits_gather_and_others_go_at_once() -> None:
    async def scene(stage: Stage) -> None:
        puppet, stage.config = stage.puppet, replace(stage.config, report_gather_s=1.0)
        _, task = stage.start()
        await stage.until(lambda: puppet.summaries)
        gangs = [key(name) for name in "abcdefgh"]
        for gang in gangs:
            await puppet.bound(gang, pods=1)
            await asyncio.sleep(0.03)
        assert all(puppet.reports(gang) for gang in gangs), "somebody waits to hear that they have started"
        await stage.until(lambda: all(puppet.status(gang) is GangStatus.FINISHED for gang in gangs))
        patient = [len(b.reports) for b in puppet.batches if {r.status for r in b.reports} <= PATIENT]
        assert sum(patient) == 2 * len(gangs)
        assert len(patient) <= len(gangs)
        await stopped(task)

    play(scene)


def test_reports_that_nobody_acknowledges_are_sent_again() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        puppet.acknowledges = False
        puppet.bind(key())
        _, task = stage.start()
        await stage.status(key(), GangStatus.RUNNING)
        await stage.until(lambda: puppet.reports(key())[-2:] == puppet.reports(key())[-1:] * 2)
        assert puppet.status(key()) is GangStatus.RUNNING
        assert len(puppet.hellos) == 1
        await stopped(task)

    play(scene)


def test_silent_replica_is_left() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        _, task = stage.start()
        await stage.until(lambda: puppet.summaries)
        puppet.silent, since_s = True, stage.loop.time()
        await stage.until(lambda: len(puppet.hellos) > 1)
        assert stage.loop.time() - since_s <= stage.config.silence_max_s + 1
        puppet.silent = False
        await stage.until(lambda: puppet.summaries[-1].epoch == puppet.epoch and len(puppet.hellos) > 2)
        await stopped(task)

    play(scene)


def test_refused_agent_tries_again_and_waits_longer() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        puppet.refusal = Refusal("ALREADY_ATTACHED", "another agent is attached", retry=True)
        _, task = stage.start()
        await stage.until(lambda: len(puppet.hellos) == 8)
        assert stage.loop.time() > 1_005
        puppet.refusal = None
        await stage.until(lambda: puppet.summaries)
        await stopped(task)

    play(scene)


def test_first_summary_of_a_stream_has_the_empty_shape_and_later_ones_do_not() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        _, task = stage.start()
        await stage.until(lambda: puppet.summaries)
        await puppet.bound(key())
        await stage.until(lambda: len(puppet.summaries) == 3)
        puppet.cut()
        await stage.until(lambda: puppet.summaries[-1].epoch == puppet.epoch and len(puppet.hellos) == 2)
        firsts = [
            summary.sequence == min(s.sequence for s in puppet.summaries if s.epoch == summary.epoch)
            for summary in puppet.summaries
        ]
        assert [summary.empty_shape is not None for summary in puppet.summaries] == firsts
        empty = puppet.summaries[0].empty_shape
        assert empty is not None
        assert decode(empty).free_gpus() == 64
        await stopped(task)

    play(scene)


def test_quiet_pool_has_a_heartbeat() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        _, task = stage.start()
        await stage.until(lambda: len(puppet.summaries) == 3)
        first, second, third = puppet.summaries
        assert second.published_ms - first.published_ms >= 10_000
        assert [first.sequence, second.sequence, third.sequence] == [1, 2, 3]
        await stopped(task)

    play(scene)


def test_changes_of_a_while_go_into_one_summary() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        _, task = stage.start()
        await stage.until(lambda: puppet.summaries)
        for turn in range(40):
            name = key(f"g{turn}")
            await puppet.bound(name, pods=1)
            await stage.status(name, GangStatus.STARTED)
            await puppet.turn(name, DesiredAction.STOP)
            await stage.status(name, GangStatus.RELEASED)
        await stage.until(lambda: puppet.summaries[-1].observed_revision == puppet.revision)
        times_ms = [summary.published_ms for summary in puppet.summaries]
        assert all(after - before >= 500 for before, after in pairwise(times_ms))
        assert 3 <= len(times_ms) < 40
        await stopped(task)

    play(scene)


# ---- fences -------------------------------------------------------------------------------------------------


def older_store(puppet: Puppet) -> None:
    puppet.revision = 50


def other_federation(puppet: Puppet) -> None:
    puppet.federation = "g"


def older_incarnation(puppet: Puppet) -> None:
    puppet.incarnation = 0


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (older_store, "OLDER_EPOCH"),
        (other_federation, "OTHER_FEDERATION"),
        (older_incarnation, "OLDER_INCARNATION"),
    ],
)
def test_what_does_not_pass_the_fence_changes_nothing_and_is_said(
    spoil: Callable[[Puppet], None], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(stage: Stage) -> None:
        puppet, port = stage.puppet, FlakyCluster(stage.port)
        puppet.bind(key())
        _, task = stage.start(port=port)
        await stage.status(key(), GangStatus.RUNNING)
        puppet.desired.clear()
        spoil(puppet)
        written, hellos = len(port.writes), len(puppet.hellos)
        puppet.cut()
        await stage.until(lambda: len(puppet.hellos) >= hellos + 3)
        assert len(port.writes) == written
        assert all(gang.counts.running == 2 for gang in stage.engine.gangs.values()), "work goes on"
        await stopped(task)

    play(scene)
    refused = [str(vars(r)["cause"]) for r in caplog.records if r.message == "attachment_refused"]
    assert len(refused) >= 2
    assert all(cause.startswith(reason) for cause in refused)


def test_newer_incarnation_may_count_from_the_beginning() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        puppet.bind(key())
        _, task = stage.start()
        await stage.status(key(), GangStatus.RUNNING)
        puppet.incarnation, puppet.revision = 2, 5
        puppet.desired.clear()
        puppet.cut()
        await stage.until(lambda: not stage.engine.gangs)
        await stopped(task)

    play(scene)


def test_incomplete_set_is_not_acted_upon() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        puppet.bind(key())
        _, task = stage.start()
        await stage.status(key(), GangStatus.RUNNING)
        await puppet.tell(Desired(puppet.epoch, puppet.revision + 1, complete_begin=True))
        await asyncio.sleep(5)
        puppet.cut()
        await stage.until(lambda: len(puppet.hellos) == 2)
        assert all(gang.counts.running == 2 for gang in stage.engine.gangs.values())
        await stopped(task)

    play(scene)


def test_agent_that_is_superseded_touches_nothing_and_attaches_anew() -> None:
    async def scene(stage: Stage) -> None:
        puppet, port = stage.puppet, FlakyCluster(stage.port)
        _, task = stage.start(port=port)
        await stage.until(lambda: puppet.summaries)
        stage.cluster.claim("f", EpochId(1, 10_000), 10_000)
        await puppet.bound(key())
        await stage.until(lambda: len(puppet.hellos) >= 3)
        assert not stage.engine.gangs
        assert len(port.writes) == 1, "the write that was refused"
        puppet.revision = 20_000
        puppet.bind(key("later"))
        await stage.status(key("later"), GangStatus.STARTED)
        await stopped(task)

    play(scene)


# ---- restarts -----------------------------------------------------------------------------------------------


def test_stopping_an_agent_stops_no_pod_and_the_next_one_adopts() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        puppet.bind(key())
        _, task = stage.start()
        await stage.status(key(), GangStatus.RUNNING)
        await stopped(task)
        assert stage.engine.gangs
        await asyncio.sleep(5)
        _, task = stage.start()
        await stage.until(lambda: len(puppet.hellos) == 2 and puppet.batches[-1].epoch == puppet.epoch)
        assert puppet.status(key()) is GangStatus.RUNNING
        assert puppet.summaries[-1].free_gpus == 48
        await stage.status(key(), GangStatus.FINISHED)
        await stopped(task)

    play(scene)


def test_success_while_no_agent_was_there_is_found() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        puppet.bind(key())
        _, task = stage.start()
        await stage.status(key(), GangStatus.RUNNING)
        await stopped(task)
        await asyncio.sleep(100)
        _, task = stage.start()
        await stage.status(key(), GangStatus.FINISHED)
        assert puppet.summaries[-1].free_gpus == 64
        await stopped(task)

    play(scene)


def test_what_was_cancelled_while_no_agent_was_there_is_stopped() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        puppet.bind(key())
        _, task = stage.start()
        await stage.status(key(), GangStatus.RUNNING)
        await stopped(task)
        puppet.desired.clear()
        puppet.bind(key("next"), pods=8)
        _, task = stage.start()
        await stage.until(lambda: list(stage.engine.gangs) and puppet.status(key("next")) is GangStatus.REFUSED)
        await stage.until(lambda: not stage.engine.gangs)
        await stopped(task)

    play(scene)


# ---- a cluster that fails -----------------------------------------------------------------------------------


@pytest.mark.parametrize("happens", [True, False], ids=["the write happened", "the write did not happen"])
def test_unanswered_write_is_settled_by_a_newer_epoch(happens: bool) -> None:
    async def scene(stage: Stage) -> None:
        puppet, port = stage.puppet, FlakyCluster(stage.port)
        _, task = stage.start(port=port)
        await stage.until(lambda: puppet.summaries)
        port.lose_answers, port.drop_writes = (1, 0) if happens else (0, 1)
        await puppet.bound(key())
        await stage.status(key(), GangStatus.RUNNING)
        assert len(puppet.hellos) == 2
        assert len(stage.engine.gangs) == 1
        await stopped(task)

    play(scene)


def test_nothing_is_published_while_a_write_is_in_doubt() -> None:
    async def scene(stage: Stage) -> None:
        puppet, port = stage.puppet, FlakyCluster(stage.port)
        bus = InProcessBus()
        _, task = stage.start(bus, port)
        await stage.until(lambda: puppet.summaries)
        subscription = await (await bus.connect("reader")).subscribe("hanse/v1/f/pools/p0/summary")
        await anext(subscription)
        puppet.refusal = Refusal("ALREADY_ATTACHED", "not now", retry=True)
        port.drop_writes = 1
        await puppet.bound(key())
        await stage.until(lambda: len(puppet.hellos) > 1)
        while subscription.inbox._waiting:
            await anext(subscription)
        await asyncio.sleep(60)
        assert not subscription.inbox._waiting
        await stopped(task)

    play(scene)


def test_claim_without_a_list_lets_nothing_be_written() -> None:
    async def scene(stage: Stage) -> None:
        puppet, port = stage.puppet, FlakyCluster(stage.port)
        agent, task = stage.start(port=port)
        await stage.until(lambda: puppet.summaries)
        port.fail_lists = 1
        puppet.bind(key())
        puppet.cut()
        await stage.until(lambda: port.fail_lists == 0)
        assert agent.pool.gangs.doubted
        await stage.status(key(), GangStatus.RUNNING)
        await stopped(task)

    play(scene)


def test_agent_waits_for_a_cluster_that_is_down_when_it_starts() -> None:
    async def scene(stage: Stage) -> None:
        port = FlakyCluster(stage.port)
        port.down = True
        _, task = stage.start(port=port)
        await asyncio.sleep(20)
        assert stage.puppet.hellos == []
        port.down = False
        await stage.until(lambda: stage.puppet.summaries)
        await stopped(task)

    play(scene)


def test_lost_watch_is_answered_with_a_list() -> None:
    async def scene(stage: Stage) -> None:
        puppet, port = stage.puppet, FlakyCluster(stage.port)
        puppet.bind(key())
        _, task = stage.start(port=port)
        await stage.status(key(), GangStatus.RUNNING)
        lists = port.lists
        port.lose_watches()
        await stage.until(lambda: port.lists == lists + 1)
        await stage.status(key(), GangStatus.FINISHED)
        assert len(puppet.hellos) == 1
        await stopped(task)

    play(scene)


def test_what_the_watch_does_not_tell_is_found_within_a_resync() -> None:
    async def scene(stage: Stage) -> None:
        puppet, port = stage.puppet, FlakyCluster(stage.port)
        _, task = stage.start(port=port)
        await stage.until(lambda: puppet.summaries)
        port.deaf = True
        stage.fail_nodes(0, 1)
        since_s = stage.loop.time()
        await stage.until(lambda: puppet.summaries[-1].usable_nodes == 6)
        assert stage.loop.time() - since_s <= stage.config.resync_s + 1
        await stopped(task)

    play(scene)


def test_agents_of_one_process_list_their_clusters_in_turns() -> None:
    async def scene(stage: Stage) -> None:
        turns = asyncio.Semaphore(1)
        agent = stage.agent(turns=turns)
        await turns.acquire()
        task = asyncio.create_task(agent.run(), name="agent")
        await asyncio.sleep(5.0)
        assert agent.pool.ledger is None
        turns.release()
        await stage.until(lambda: stage.puppet.summaries)
        assert not turns.locked()
        await stopped(task)

    play(scene)


def test_a_resync_looks_at_nodes_again_only_if_one_has_changed() -> None:
    async def scene(stage: Stage) -> None:
        stage.puppet.bind(key())
        agent, task = stage.start()
        await stage.status(key(), GangStatus.RUNNING)
        kept = []
        for resyncs in (1, 2, 3):
            await stage.until(lambda resyncs=resyncs: agent.pool.resyncs == resyncs)  # type: ignore[misc]
            assert agent.pool.ledger is not None
            kept.append(agent.pool.ledger.inventory)
            if resyncs == 2:
                stage.fail_nodes(6, 7)
        assert kept[0] is kept[1] is not kept[2]
        assert agent.pool.repairs == 0
        await stopped(task)

    play(scene)


def test_resyncs_of_agents_that_started_together_drift_apart() -> None:
    async def scene(stage: Stage) -> None:
        agent, task = stage.start()
        await stage.until(lambda: stage.puppet.summaries)
        times_s: list[float] = []
        for count in range(1, 5):
            await stage.until(lambda count=count: agent.pool.resyncs == count)  # type: ignore[misc]
            times_s.append(stage.loop.time())
        pauses_s = [after - before for before, after in pairwise(times_s)]
        longest_s = stage.config.resync_s
        assert all(longest_s / 2 <= pause_s <= longest_s + 1 for pause_s in pauses_s)
        assert max(pauses_s) - min(pauses_s) > 1
        await stopped(task)

    play(scene)


def test_corrupt_ledger_is_repaired_within_a_resync_and_counted() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        agent, task = stage.start()
        await stage.until(lambda: puppet.summaries)
        ledger = agent.pool.ledger
        assert ledger is not None
        for node in list(ledger.inventory):
            ledger.inventory.hold(node.name, {node.facts.allocatable: 1})
        await puppet.bound(key(), pods=8)
        await stage.status(key(), GangStatus.REFUSED)
        await stage.until(lambda: agent.pool.repairs == 1)
        await puppet.bound(key(attempt=2), pods=8)
        await stage.status(key(attempt=2), GangStatus.RUNNING)
        await stopped(task)

    play(scene)


# ---- settings -----------------------------------------------------------------------------------------------


def test_changed_flavors_change_what_is_offered_and_nothing_that_runs() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        puppet.bind(key())
        _, task = stage.start()
        await stage.status(key(), GangStatus.RUNNING)
        await puppet.tell(Settings((Flavor(FlavorName("any"), 0),), 2))
        await stage.until(lambda: puppet.shape.flavors == ("any",))
        assert puppet.shape.free_gpus() == 48
        await stopped(task)

    play(scene)


def test_levels_may_be_given() -> None:
    async def scene(stage: Stage) -> None:
        stage.config = replace(stage.config, levels=(Level("topology.kubernetes.io/rack", "cabinet"),))
        _, task = stage.start()
        await stage.until(lambda: stage.puppet.summaries)
        assert [level.alias for level in stage.puppet.hellos[0].levels] == ["cabinet", "host"]
        assert [level.alias for level in stage.puppet.shape.levels] == ["cabinet"]
        await stopped(task)

    play(scene)


# ---- the bus ------------------------------------------------------------------------------------------------


def test_summaries_are_retained_on_the_bus_and_presence_ends_with_the_agent() -> None:
    async def scene(stage: Stage) -> None:
        bus = InProcessBus()
        _, task = stage.start(bus)
        await stage.until(lambda: stage.puppet.summaries)
        await stage.puppet.bound(key())
        await stage.until(lambda: len(stage.puppet.summaries) == 2)
        reader = await bus.connect("reader")
        subscription = await reader.subscribe("hanse/v1/f/pools/+/+")
        kept = {m.topic.rsplit("/", 1)[1]: m.payload for m in [await anext(subscription) for _ in range(3)]}
        summary = summary_from_bytes(kept["summary"])
        assert (summary.sequence, summary.empty_shape) == (stage.puppet.summaries[-1].sequence, None)
        assert summary_from_bytes(kept["capacity"]).empty_shape is not None
        assert kept["presence"] == b"present"
        await stopped(task)
        while (message := await anext(subscription)).topic != "hanse/v1/f/pools/p0/presence":
            pass
        assert message.payload == b"gone"

    play(scene)


def test_broken_bus_is_no_reason_to_stop() -> None:
    async def scene(stage: Stage) -> None:
        bus = InProcessBus()
        agent, task = stage.start(bus)
        await stage.until(lambda: stage.puppet.summaries)
        name = f"hanse-agent-p0-{agent.instance}"
        for _ in range(3):
            await stage.until(lambda: name in bus._connections)
            (await bus.connect(name)).fail("the test took it")  # a second connection takes the first one over
        await stage.puppet.bound(key())
        await stage.status(key(), GangStatus.RUNNING)
        await stage.until(lambda: name in bus._connections)
        await stopped(task)

    play(scene)


# ---- the same again -----------------------------------------------------------------------------------------


def test_equal_beginnings_give_equal_runs() -> None:
    def run() -> list[object]:
        heard: list[object] = []

        async def scene(stage: Stage) -> None:
            puppet = stage.puppet
            for number in range(6):
                puppet.bind(key(f"j{number}"), pods=number % 3 + 1)
            _, task = stage.start()
            await stage.until(lambda: puppet.status(key("j0")) is GangStatus.FINISHED)
            await stopped(task)
            heard.extend([puppet.hellos, puppet.batches, puppet.summaries])

        play(scene)
        return heard

    assert run() == run()


def test_spec_that_is_none_is_refused() -> None:
    async def scene(stage: Stage) -> None:
        stage.puppet.bind(key(), spec=b"\xff\xff")
        stage.puppet.bind(key("good"), spec=spec_bytes(2))
        _, task = stage.start()
        await stage.status(key("good"), GangStatus.RUNNING)
        assert stage.puppet.status(key()) is GangStatus.REFUSED
        await stopped(task)

    play(scene)
