"""What happens to the pods of one gang, moment by moment."""

import msgspec
import pytest

from hanse.simcluster.engine import Engine
from hanse.simcluster.facts import Counts, FactKind
from hanse.simcluster.gang import Pod
from hanse.simcluster.inputs import (
    FailNodes,
    Forget,
    HeldSet,
    Hold,
    LoseRecord,
    Program,
    RemovePods,
    Stop,
    pack,
)
from hanse.simcluster.spec import Timing
from tests.unit.simcluster.clusters import BEGIN_MS, engine, gang, hold, run, some, spec, start


def at(cluster: Engine, ms: int) -> Counts:
    """The counts of gang 1, so many ms after the beginning."""
    cluster.advance(BEGIN_MS + ms)
    return cluster.counts(gang())


def test_pods_come_up_run_and_end() -> None:
    cluster = engine()
    run(cluster, range(4))
    assert at(cluster, 99) == Counts(pending=4)
    assert at(cluster, 100) == Counts(running=4)
    assert at(cluster, 1_099) == Counts(running=4)
    assert at(cluster, 1_100) == Counts(succeeded=4)


def test_starts_scatter_over_the_jitter_and_ends_do_not() -> None:
    cluster = engine(spec(timing=Timing(start=100, start_jitter=90, run=1_000, tick=1)))
    run(cluster, range(16))
    assert 0 < at(cluster, 130).running < 16
    assert at(cluster, 190).running == 16
    assert at(cluster, 1_189).running == 16
    assert at(cluster, 1_190).succeeded == 16


def test_starts_repeat_by_seed_and_gang() -> None:
    def moments(seed: int, number: int) -> list[int]:
        cluster = engine(spec(timing=Timing(start=100, start_jitter=900, run=1_000, tick=1), seed=seed))
        key = run(cluster, range(16), gang(number))
        return [int(ms) for ms in cluster.gangs[key].start_ms]

    assert moments(1, 1) == moments(1, 1)
    assert moments(1, 1) != moments(2, 1)
    assert moments(1, 1) != moments(1, 2)


def test_due_times_wait_for_the_tick() -> None:
    cluster = engine(spec(timing=Timing(start=101, start_jitter=0, run=1_000, tick=25)))
    run(cluster, range(2))
    assert cluster.next_wakeup() == BEGIN_MS + 125
    assert at(cluster, 124).pending == 2
    assert at(cluster, 125).running == 2


def test_each_set_has_its_own_program() -> None:
    cluster = engine()
    leader = HeldSet("leader", 0, "h100", pack(some([0])), {})
    workers = HeldSet("worker", 0, "h100", pack(some([1, 2])), {})
    cluster.apply(Hold(gang(), 7, (leader, workers)), BEGIN_MS)
    programs = (Program("leader", run_ms=200, exit_code=3), Program("worker", run_ms=500, start_ms=0))
    cluster.apply(start(gang(), *programs), BEGIN_MS)
    assert at(cluster, 0) == Counts(pending=1, running=2)
    failed = Counts(running=2, failed=1, exit_code=3, reason="Error", ended_sets=("leader",))
    assert at(cluster, 300) == failed
    ended = msgspec.structs.replace(failed, running=0, succeeded=2, ended_sets=("leader", "worker"))
    assert at(cluster, 500) == ended
    cluster.apply(RemovePods(gang(), pack(some([1]))), BEGIN_MS + 500)
    assert at(cluster, 500).ended_sets == ended.ended_sets


def test_a_set_has_not_ended_before_all_of_its_pods_were_created() -> None:
    cluster = engine()
    sets = (HeldSet("leader", 0, "h100", pack(some([0])), {}), HeldSet("worker", 0, "h100", pack(some([1, 2])), {}))
    cluster.apply(Hold(gang(), 7, sets), BEGIN_MS)
    assert at(cluster, 0) == Counts()
    cluster.apply(start(gang(), pods_max=2), BEGIN_MS)
    assert at(cluster, 1_100) == Counts(succeeded=2, ended_sets=("leader",))
    cluster.apply(start(gang()), BEGIN_MS + 1_100)
    assert at(cluster, 1_100).ended_sets == ("leader",)
    assert at(cluster, 2_200) == Counts(succeeded=3, ended_sets=("leader", "worker"))


def test_a_half_created_gang_is_completed_and_not_begun_anew() -> None:
    cluster = engine()
    cluster.apply(hold(range(4)), BEGIN_MS)
    assert cluster.apply(start(pods_max=1), BEGIN_MS) == ""
    assert at(cluster, 100) == Counts(running=1)
    assert cluster.apply(start(), BEGIN_MS + 150) == ""
    assert at(cluster, 150) == Counts(pending=3, running=1)
    assert at(cluster, 250) == Counts(running=4)
    assert at(cluster, 1_250) == Counts(succeeded=4)
    started = [fact for fact in cluster.take_facts() if fact.kind == FactKind.STARTED]
    assert [[(s.first_rank, len(s.nodes) // 4) for s in fact.sets] for fact in started] == [[(0, 1)], [(1, 3)]]


def test_the_duration_counts_from_the_first_start() -> None:
    cluster = engine()
    cluster.apply(hold(range(2)), BEGIN_MS)
    cluster.apply(start(duration_ms=300, pods_max=1), BEGIN_MS)
    assert at(cluster, 299) == Counts(running=1)
    assert at(cluster, 300) == Counts(failed=1, reason="DeadlineExceeded")
    assert "DeadlineExceeded" in cluster.apply(start(duration_ms=300), BEGIN_MS + 301)
    assert list(cluster.gangs[gang()].existing_pods()) == [Pod("worker", 0, 0, 4, 137, "DeadlineExceeded")]


@pytest.mark.parametrize(
    ("grace_ms", "gone_ms", "exit_code"), [(30_000, 50, 143), (50, 50, 143), (20, 20, 137), (0, 0, 137)]
)
def test_a_stopped_pod_ends_in_its_grace_or_is_killed(grace_ms: int, gone_ms: int, exit_code: int) -> None:
    cluster = engine()
    run(cluster, range(2))
    at(cluster, 200)
    cluster.apply(Stop(gang(), grace_ms), BEGIN_MS + 200)
    if gone_ms:
        assert at(cluster, 200 + gone_ms - 1) == Counts(stopping=2)
    assert at(cluster, 200 + gone_ms) == Counts(failed=2)
    assert {pod.exit_code for pod in cluster.gangs[gang()].existing_pods()} == {exit_code}


def test_a_pod_that_has_not_come_up_is_stopped_at_once() -> None:
    cluster = engine()
    run(cluster, range(2))
    cluster.apply(Stop(gang(), 30_000), BEGIN_MS + 50)
    assert at(cluster, 50) == Counts(failed=2)
    assert at(cluster, 500) == Counts(failed=2)


def test_a_program_that_ends_while_it_is_stopped_has_succeeded() -> None:
    """P13: finished work is not run again."""
    cluster = engine()
    run(cluster, range(2))
    cluster.apply(Stop(gang(), 30_000), BEGIN_MS + 1_080)
    assert at(cluster, 1_080) == Counts(stopping=2)
    assert at(cluster, 1_100) == Counts(succeeded=2)


def test_a_shorter_grace_shortens_the_wait_and_a_longer_one_does_not_lengthen_it() -> None:
    cluster = engine()
    run(cluster, range(2))
    at(cluster, 200)
    for grace_ms in (30_000, 10, 20_000):
        cluster.apply(Stop(gang(), grace_ms), BEGIN_MS + 200)
    assert at(cluster, 209) == Counts(stopping=2)
    assert at(cluster, 210) == Counts(failed=2)


def test_nothing_is_created_after_a_stop() -> None:
    cluster = engine()
    cluster.apply(hold(range(3)), BEGIN_MS)
    cluster.apply(start(pods_max=1), BEGIN_MS)
    cluster.apply(Stop(gang(), 0), BEGIN_MS)
    assert cluster.apply(start(), BEGIN_MS) == "the gang was told to stop"
    cluster.apply(hold(range(3), gang(2)), BEGIN_MS)
    cluster.apply(Stop(gang(2), 0), BEGIN_MS)
    assert cluster.apply(start(gang(2)), BEGIN_MS) == "the gang was told to stop"


def test_repeating_a_start_of_a_stopped_whole_gang_is_fine() -> None:
    cluster = engine()
    run(cluster, range(3))
    cluster.apply(Stop(gang(), 0), BEGIN_MS)
    assert cluster.apply(start(), BEGIN_MS) == ""


def test_a_refused_start_leaves_nothing_behind() -> None:
    cluster = engine()
    run(cluster, [2])
    cluster.advance(BEGIN_MS + 500)
    before = cluster.nodes.free.copy()
    cluster.apply(hold([0, 1, 2], gang(2)), BEGIN_MS + 500)
    assert cluster.apply(start(gang(2)), BEGIN_MS + 500) == "OutOfnvidia.com/gpu: node n-b0-r0-h2 is full"
    assert (cluster.nodes.free == before).all()
    assert cluster.gangs[gang(2)].start is None


def test_a_start_on_a_dead_node_or_without_the_resource_is_refused() -> None:
    cluster = engine()
    cluster.apply(FailNodes(pack(some([1]))), BEGIN_MS)
    cluster.apply(hold([0, 1]), BEGIN_MS)
    assert cluster.apply(start(), BEGIN_MS) == "node n-b0-r0-h1 is not ready"
    odd = HeldSet("worker", 0, "h100", pack(some([0])), {"example.com/fpga": 1})
    cluster.apply(Hold(gang(2), 7, (odd,)), BEGIN_MS)
    assert cluster.apply(start(gang(2)), BEGIN_MS) == "OutOfexample.com/fpga: no node offers it"


def test_the_first_thing_that_goes_wrong_is_told() -> None:
    cluster = engine()
    key = run(cluster, range(3), None, Program("worker", run_ms=400, exit_code=9))
    at(cluster, 200)
    cluster.apply(FailNodes(pack(some([0]))), BEGIN_MS + 200)
    counts = at(cluster, 600)
    assert (counts.missing, counts.failed) == (1, 2)
    assert (counts.reason, counts.exit_code, counts.infrastructure) == ("NodeLost", 0, True)
    assert [pod.rank for pod in cluster.gangs[key].existing_pods()] == [1, 2]


def test_finished_pods_outlive_their_machine() -> None:
    """P12: they are kept until the gang is forgotten."""
    cluster = engine()
    run(cluster, range(2))
    at(cluster, 1_100)
    cluster.apply(FailNodes(pack(some([0])), remove=True), BEGIN_MS + 1_200)
    assert at(cluster, 1_200) == Counts(succeeded=2)


def test_pods_that_somebody_deletes_are_missing() -> None:
    cluster = engine()
    run(cluster, range(3))
    at(cluster, 200)
    cluster.apply(RemovePods(gang(), pack(some([2]))), BEGIN_MS + 200)
    counts = at(cluster, 200)
    assert (counts.running, counts.missing, counts.reason) == (2, 1, "Deleted")


def test_finished_pods_that_somebody_deletes_are_missing_too() -> None:
    cluster = engine()
    run(cluster, range(3))
    at(cluster, 1_100)
    cluster.apply(RemovePods(gang(), pack(some([0]))), BEGIN_MS + 1_200)
    counts = at(cluster, 1_200)
    assert (counts.succeeded, counts.missing) == (2, 1)
    assert (cluster.nodes.free == cluster.nodes.allocatable).all()


def test_a_gang_whose_record_is_lost_is_an_orphan() -> None:
    cluster = engine()
    run(cluster, range(2))
    cluster.apply(LoseRecord(gang()), BEGIN_MS)
    assert not cluster.gangs[gang()].recorded
    assert cluster.apply(hold(range(2)), BEGIN_MS) != ""
    assert cluster.apply(start(), BEGIN_MS) == "no record of this gang"
    cluster.apply(Stop(gang(), 0), BEGIN_MS + 200)
    cluster.advance(BEGIN_MS + 200)
    assert cluster.apply(Forget(gang()), BEGIN_MS + 200) == ""
    assert cluster.gangs == {}


def test_a_gang_without_pods_is_held_and_started_and_forgotten() -> None:
    cluster = engine()
    run(cluster, [])
    assert at(cluster, 5_000) == Counts()
    assert cluster.apply(Forget(gang()), BEGIN_MS + 5_000) == ""
