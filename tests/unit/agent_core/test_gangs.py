"""Gangs of a pool: order, attempts, release, adoption, and what the cluster may do to them."""

from dataclasses import replace

import pytest

from hanse.agent.core.gang import MESSAGE_CHARS_MAX
from hanse.agent.core.records import ForgetGang, HoldGang, PodCounts, Rejected, StartPods, StopPods
from hanse.model.desired import Binding, DesiredAction
from hanse.model.fence import GangKey
from hanse.model.reasons import Reason
from hanse.model.report import GangStatus
from hanse.model.resources import NVIDIA_GPU
from tests.unit.agent_core.stage import HOSTS, Stage, bound, key, record, rejecting, told

HOLD, START, STOP = DesiredAction.HOLD, DesiredAction.START, DesiredAction.STOP


# ---- a gang's way -------------------------------------------------------------------------------------------


def test_record_is_written_before_the_first_pod() -> None:
    stage = Stage()
    stage.accept(5, bound(key(), 5))
    assert [type(op) for op in stage.write()] == [HoldGang, StartPods]


def test_nothing_is_reported_before_the_cluster_has_it() -> None:
    stage = Stage()
    stage.accept(5, bound(key(), 5))
    assert stage.take()
    assert stage.said() == {}


def test_gang_runs_when_all_of_its_pods_do() -> None:
    stage = Stage()
    stage.accept(5, bound(key(), 5))
    stage.write()
    assert stage.statuses() == {key(): GangStatus.STARTED}
    stage.count(key(), pending=1, running=1)
    assert stage.statuses() == {}
    stage.count(key(), running=1, succeeded=1)
    assert stage.statuses() == {key(): GangStatus.RUNNING}


def test_finished_gives_places_back_and_keeps_the_record_until_the_binding_is_gone() -> None:
    stage = Stage()
    stage.accept(5, bound(key(), 5))
    stage.write()
    stage.count(key(), succeeded=2)
    assert stage.statuses() == {key(): GangStatus.FINISHED}
    assert stage.free_hosts == HOSTS
    assert stage.write() == []
    stage.change(6, removed=(key(),))
    assert stage.write() == [ForgetGang(key())]


def test_hold_starts_nothing_until_told() -> None:
    stage = Stage()
    held = bound(key(), 5, HOLD)
    stage.accept(5, held)
    assert stage.kinds() == ["HoldGang"]
    assert stage.statuses() == {key(): GangStatus.HELD}
    stage.change(6, told(held, START, 6))
    assert stage.kinds() == ["StartPods"]
    assert stage.statuses() == {key(): GangStatus.STARTED}


def test_report_carries_domains_until_a_replica_knows_them() -> None:
    stage = Stage()
    stage.accept(5, bound(key(), 5))
    stage.write()
    assert [use.level for use in stage.said()[key()].domains] == ["rack", "host"]
    stage.count(key(), running=2)
    assert stage.said()[key()].domains == ()


# ---- pod sets that end before others -----------------------------------------------------------------------


DRIVEN = ("worker", "driver")
DRIVER = ("driver",)


def driven() -> Stage:
    """A gang of two workers and a driver on three of the four hosts, all of which run."""
    stage = Stage()
    stage.accept(5, bound(key(), 5, drivers=1))
    stage.write()
    stage.count(key(), running=3)
    stage.said()
    return stage


def test_set_that_ended_gives_its_places_back_and_nothing_else_changes() -> None:
    stage = driven()
    places = stage.gangs.sets(key())
    stage.gangs.changed = False
    stage.count(key(), running=2, succeeded=1, ended_sets=DRIVER)
    assert stage.gangs.changed
    stage.gangs.changed = False
    stage.count(key(), running=2, succeeded=1, ended_sets=DRIVER)
    assert not stage.gangs.changed
    assert stage.free_hosts == HOSTS - 2
    assert stage.statuses() == {}
    assert stage.write() == []
    assert stage.gangs.sets(key()) == places
    assert stage.gangs.figures.started == 1


def test_places_of_a_set_that_ended_are_free_for_others() -> None:
    stage = driven()
    stage.count(key(), running=2, succeeded=1, ended_sets=DRIVER)
    stage.change(6, bound(key("k"), 6, pods=2))
    stage.write()
    assert stage.statuses() == {key("k"): GangStatus.STARTED}
    assert stage.free_hosts == 0
    stage.count(key(), succeeded=3, ended_sets=DRIVEN)
    assert stage.statuses() == {key(): GangStatus.FINISHED}
    assert stage.free_hosts == HOSTS - 2
    stage.change(7, removed=(key(),))
    stage.write()
    assert stage.free_hosts == HOSTS - 2
    assert stage.inventory.account(NVIDIA_GPU).balanced


@pytest.mark.parametrize(
    ("counts", "status"),
    [
        ({"failed": 2, "succeeded": 1, "exit_code": 1}, GangStatus.BROKEN),
        ({"missing": 2, "succeeded": 1}, GangStatus.BROKEN),
        ({"succeeded": 3}, GangStatus.FINISHED),
    ],
)
def test_places_are_given_back_once_however_the_others_end(counts: dict[str, int], status: GangStatus) -> None:
    stage = driven()
    stage.count(key(), running=2, succeeded=1, ended_sets=DRIVER)
    stage.change(6, bound(key("k"), 6))
    stage.write()
    stage.said()
    stage.count(key(), **counts, ended_sets=DRIVEN)
    assert stage.statuses() == {key(): status}
    assert stage.free_hosts == HOSTS - 2
    stage.change(7, removed=(key(), key("k")))
    stage.count(key("k"), failed=2)
    stage.write()
    assert all(not node.own for node in stage.inventory)


def test_stopped_gang_gives_back_what_its_other_sets_have() -> None:
    stage = driven()
    binding = bound(key(), 5, drivers=1)
    stage.count(key(), running=2, succeeded=1, ended_sets=DRIVER)
    stage.change(6, told(binding, STOP, 6), bound(key("k"), 6))
    assert stage.kinds() == ["StopPods", "HoldGang", "StartPods"]
    stage.count(key(), stopping=2, succeeded=1, ended_sets=DRIVER)
    assert stage.free_hosts == 0
    stage.said()
    stage.count(key(), failed=2, succeeded=1, ended_sets=DRIVEN)
    assert stage.statuses() == {key(): GangStatus.RELEASED}
    assert stage.free_hosts == HOSTS - 2


def test_a_failed_set_ends_the_attempt_and_frees_what_it_has_left() -> None:
    stage = driven()
    stage.count(key(), running=2, failed=1, exit_code=3, ended_sets=DRIVER)
    assert stage.statuses() == {key(): GangStatus.BROKEN}
    assert stage.free_hosts == HOSTS - 2


def test_restart_and_resync_find_the_sets_that_ended() -> None:
    of_old = record(key(), 5, "n0", "n1", drivers=("n2",))
    counted = PodCounts(key(), running=2, succeeded=1, ended_sets=DRIVER)
    stage = Stage(of_old, pods=(counted,))
    stage.accept(5, bound(key(), 5, drivers=1))
    assert stage.free_hosts == HOSTS - 2
    assert [use.count for use in stage.said()[key()].domains] == [2, 3]
    assert stage.relist(of_old, pods=(counted,)) == 0
    stage.gangs.reconcile(now_ms=stage.now_ms)
    assert stage.free_hosts == HOSTS - 2
    assert stage.inventory.faults() == ()


def test_restart_takes_nothing_for_a_set_whose_finished_pods_somebody_removed() -> None:
    """Its places may be others' already, as they are here."""
    records = record(key(), 5, "n0", "n1", drivers=("n2",)), record(key("k"), 6, "n2", "n3")
    counted = PodCounts(key(), running=2, missing=1, ended_sets=DRIVER), PodCounts(key("k"), running=2)
    stage = Stage(*records, pods=counted)
    stage.accept(6, bound(key(), 5, drivers=1), bound(key("k"), 6))
    assert stage.statuses()[key()] is GangStatus.BROKEN
    assert stage.inventory.faults() == ()
    assert stage.free_hosts == 0


def test_half_created_gang_keeps_all_of_its_places() -> None:
    counted = PodCounts(key(), succeeded=2, ended_sets=("worker",))
    stage = Stage(record(key(), 5, "n0", "n1", drivers=("n2",)), pods=(counted,))
    stage.accept(5, bound(key(), 5, drivers=1))
    assert stage.free_hosts == HOSTS - 3


def test_lost_record_takes_no_places_back() -> None:
    stage = driven()
    stage.count(key(), running=2, succeeded=1, ended_sets=DRIVER)
    stage.change(6, bound(key("k"), 6))
    stage.write()
    stage.relist(
        record(key("k"), 6, "n2", "n3"),
        pods=(PodCounts(key(), running=2, succeeded=1), PodCounts(key("k"), running=2)),
    )
    stage.accept(6, bound(key(), 5, drivers=1), bound(key("k"), 6))
    assert stage.inventory.faults() == ()


# ---- refusals (P5) ------------------------------------------------------------------------------------------


def test_gang_that_does_not_fit_is_refused_with_what_is_missing_and_takes_nothing() -> None:
    stage = Stage()
    stage.accept(5, bound(key(), 5, pods=HOSTS + 1))
    report = stage.said()[key()]
    assert (report.status, report.wanted, report.found) == (GangStatus.REFUSED, HOSTS + 1, HOSTS)
    assert report.reason is not Reason.UNSPECIFIED
    assert stage.write() == []
    assert stage.free_hosts == HOSTS


def test_refusal_is_final_for_its_attempt_even_when_room_comes() -> None:
    stage = Stage()
    first, second = bound(key("a"), 5, pods=3), bound(key("b"), 6, pods=3)
    stage.accept(6, first, second)
    stage.write()
    assert stage.statuses()[key("b")] is GangStatus.REFUSED
    stage.change(7, removed=(key("a"),))
    stage.count(key("a"), failed=3)
    stage.write()
    assert stage.free_hosts == HOSTS
    stage.relist()
    stage.accept(8, second)
    assert stage.statuses() == {key("b"): GangStatus.REFUSED}
    assert stage.write() == []
    stage.change(9, told(second, STOP, 9))
    assert stage.statuses().get(key("b"), GangStatus.REFUSED) is GangStatus.REFUSED
    stage.change(10, bound(key("b", 2), 10, pods=3), removed=(key("b"),))
    assert stage.kinds() == ["HoldGang", "StartPods"]


def needing(gang: GangKey, revision: int, secret: str, pods: int = 1) -> Binding:
    return replace(bound(gang, revision, pods=pods), spec=f"{pods}!{secret}".encode())


def test_what_gangs_need_is_asked_for_in_their_order_and_once() -> None:
    stage = Stage()
    stage.gangs.accept(
        9,
        [needing(key("c"), 8, "x"), needing(key("a"), 6, "y"), bound(key("b"), 7), needing(key("d"), 9, "x")],
        now_ms=1,
    )
    assert [want.needs[0].name for want in stage.gangs.wanted(10)] == ["y", "x"]
    assert [want.needs[0].name for want in stage.gangs.wanted(2)] == ["y"]


def test_a_gang_whose_cluster_lacks_what_it_needs_is_refused_before_anything_is_written() -> None:
    stage = Stage()
    stage.gangs.accept(6, [needing(key(), 5, "token"), bound(key("k"), 6, pods=1)], now_ms=1)
    (want,) = stage.gangs.wanted(10)
    turn = stage.gangs.place(10, now_ms=1, lacking={want: ("Secret token in namespace q",)})
    assert turn.refused == (Reason.NEEDS,)
    wrote = stage.write()
    assert {op.record.key for op in wrote if isinstance(op, HoldGang)} == {key("k")}
    report = stage.said()[key()]
    assert (report.status, report.reason, report.constraint) == (GangStatus.REFUSED, Reason.NEEDS, "needs")
    assert report.message == "there is no Secret token in namespace q; create it in the cluster"
    assert stage.free_hosts == HOSTS - 1


def test_a_gang_that_nobody_has_looked_for_waits_and_so_do_those_behind_it() -> None:
    stage = Stage()
    gangs = [bound(key("a"), 5, pods=1), needing(key("b"), 6, "x"), bound(key("c"), 7, pods=1)]
    stage.gangs.accept(7, gangs, now_ms=1)
    assert stage.gangs.place(10, now_ms=1, lacking={}).placed == 1
    assert stage.gangs.observed_revision == 5
    (want,) = stage.gangs.wanted(10)
    assert stage.gangs.place(10, now_ms=1, lacking={want: ()}).placed == 2


def test_a_gang_that_is_to_stop_needs_nothing() -> None:
    stage = Stage()
    stage.gangs.accept(5, [told(needing(key(), 5, "x"), STOP, 5)], now_ms=1)
    assert stage.gangs.wanted(10) == ()


def test_spec_that_cannot_be_read_is_refused() -> None:
    stage = Stage()
    stage.accept(5, bound(key(), 5), told(bound(key("k"), 4), START, 4))
    stage.write()
    stage.change(6, bound(key("x"), 6, STOP).__class__(key("x"), 6, 6, START, spec=b"?"))
    report = stage.said()[key("x")]
    assert (report.status, report.constraint) == (GangStatus.REFUSED, "spec")


def test_rejected_record_is_a_refusal_and_frees_the_places() -> None:
    stage = Stage()
    stage.accept(5, bound(key(), 5))
    stage.write(rejecting(HoldGang, StartPods))
    assert stage.statuses() == {key(): GangStatus.REFUSED}
    assert stage.free_hosts == HOSTS


def test_rejected_start_takes_the_whole_gang_back_before_it_is_refused() -> None:
    stage = Stage()
    stage.accept(5, bound(key(), 5))
    assert stage.kinds(rejecting(StartPods)) == ["HoldGang", "StartPods", "StopPods", "ForgetGang"]
    assert stage.statuses() == {key(): GangStatus.REFUSED}
    assert stage.free_hosts == HOSTS


def test_rejected_start_of_a_gang_that_was_shown_as_held_is_broken_not_refused() -> None:
    stage = Stage()
    held = bound(key(), 5, HOLD)
    stage.accept(5, held)
    stage.write()
    stage.said()
    stage.change(6, told(held, START, 6))
    assert stage.kinds(rejecting(StartPods)) == ["StartPods", "StopPods"]
    report = stage.said()[key()]
    assert (report.status, report.infrastructure) == (GangStatus.BROKEN, True)
    stage.change(7, told(held, STOP, 7))
    assert stage.statuses() == {key(): GangStatus.RELEASED}
    assert stage.free_hosts == HOSTS


def test_rejected_start_that_left_pods_is_broken_and_its_pods_end_at_once() -> None:
    stage = Stage()
    binding = bound(key(), 5)
    stage.accept(5, binding)
    ops = stage.gangs.take_ops(100)
    stage.count(key(), running=1)
    stage.gangs.written([rejecting(StartPods)(op) for op in ops], now_ms=1)
    assert stage.statuses() == {key(): GangStatus.BROKEN}
    assert stage.write() == [StopPods(key())]
    assert stage.free_hosts == HOSTS - 2
    stage.count(key(), failed=1)
    assert stage.free_hosts == HOSTS
    assert stage.write() == []
    stage.change(6, told(binding, STOP, 6))
    assert stage.statuses() == {key(): GangStatus.RELEASED}


# ---- order (P10) --------------------------------------------------------------------------------------------


def test_bindings_are_placed_in_the_order_of_their_creation() -> None:
    stage = Stage()
    stage.accept(9, bound(key("late"), 9, pods=3), bound(key("early"), 4, pods=3))
    stage.write()
    assert stage.statuses() == {key("early"): GangStatus.STARTED, key("late"): GangStatus.REFUSED}


def test_observed_revision_is_what_is_placed_or_refused_not_what_is_received() -> None:
    stage = Stage()
    gangs = stage.gangs
    gangs.accept(9, [bound(key("a"), 4), bound(key("b"), 7), bound(key("c"), 8)], now_ms=1)
    assert gangs.observed_revision == 3
    gangs.place(1, now_ms=1)
    assert gangs.observed_revision == 6
    gangs.place(1, now_ms=1)
    gangs.place(1, now_ms=1)
    assert gangs.observed_revision == 9


def test_bindings_of_one_change_are_placed_in_the_order_of_their_creation() -> None:
    stage = Stage()
    stage.accept(5)
    stage.change(9, bound(key("late"), 9, pods=3), bound(key("early"), 8, pods=3))
    stage.write()
    assert stage.statuses() == {key("early"): GangStatus.STARTED, key("late"): GangStatus.REFUSED}


# ---- release (P12, P13) -------------------------------------------------------------------------------------


def test_stop_is_released_when_every_pod_is_gone_and_not_before() -> None:
    stage = Stage()
    binding = bound(key(), 5)
    stage.accept(5, binding)
    stage.write()
    stage.said()
    stage.change(6, told(binding, STOP, 6))
    assert stage.write() == [StopPods(key())]
    assert stage.statuses() == {}
    stage.count(key(), stopping=1, failed=1)
    assert stage.statuses() == {}
    assert stage.free_hosts == HOSTS - 2
    stage.count(key(), failed=2)
    assert stage.statuses() == {key(): GangStatus.RELEASED}
    assert stage.free_hosts == HOSTS
    assert stage.write() == []
    stage.change(7, removed=(key(),))
    assert stage.write() == [ForgetGang(key())]


def test_stop_while_the_start_is_under_way_waits_for_its_answer() -> None:
    stage = Stage()
    binding = bound(key(), 5)
    stage.accept(5, binding)
    ops = stage.gangs.take_ops(100)
    stage.change(6, told(binding, STOP, 6))
    assert stage.statuses() == {}
    stage.gangs.written([rejecting()(op) for op in ops], now_ms=1)
    assert stage.write() == [StopPods(key())]
    assert GangStatus.RELEASED not in stage.statuses().values()


def test_stop_before_anything_was_written_is_released_at_once() -> None:
    stage = Stage()
    binding = bound(key(), 5)
    stage.accept(5, binding)
    stage.change(6, told(binding, STOP, 6))
    assert stage.statuses() == {key(): GangStatus.RELEASED}
    assert stage.write() == []
    assert stage.free_hosts == HOSTS


def test_stop_of_a_hold_forgets_the_record_which_would_hold_places_for_ever() -> None:
    stage = Stage()
    binding = bound(key(), 5, HOLD)
    stage.accept(5, binding)
    stage.write()
    stage.said()
    stage.change(6, told(binding, STOP, 6))
    assert stage.statuses() == {}
    assert stage.write() == [ForgetGang(key())]
    assert stage.statuses() == {key(): GangStatus.RELEASED}
    assert stage.free_hosts == HOSTS


def test_stop_of_a_gang_that_was_never_here_is_released() -> None:
    stage = Stage()
    stage.accept(5, bound(key(), 3, STOP))
    assert stage.statuses() == {key(): GangStatus.RELEASED}


def test_released_stays_released_whatever_is_counted_later() -> None:
    stage = Stage()
    binding = bound(key(), 5)
    stage.accept(5, binding)
    stage.write()
    stage.change(6, told(binding, STOP, 6))
    stage.write()
    stage.count(key(), failed=2)
    stage.said()
    stage.count(key(), succeeded=2)
    assert stage.statuses() == {}


def test_success_wins_over_stop() -> None:
    stage = Stage()
    binding = bound(key(), 5)
    stage.accept(5, binding)
    stage.write()
    stage.change(6, told(binding, STOP, 6))
    stage.write()
    stage.count(key(), succeeded=2)
    assert stage.statuses() == {key(): GangStatus.FINISHED}


def test_finished_stays_finished_when_its_nodes_are_removed() -> None:
    stage = Stage()
    stage.accept(5, bound(key(), 5))
    stage.write()
    stage.count(key(), succeeded=2)
    stage.said()
    stage.count(key(), succeeded=1, missing=1)
    assert stage.statuses() == {}


# ---- failures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "reason", "infrastructure"),
    [
        ({"running": 1, "failed": 1, "exit_code": 3, "reason": "Error"}, Reason.POD_FAILED, False),
        ({"running": 1, "failed": 1, "reason": "NodeLost", "infrastructure": True}, Reason.INFRASTRUCTURE, True),
        ({"running": 1, "missing": 1}, Reason.INFRASTRUCTURE, True),
        ({"failed": 2, "reason": "DeadlineExceeded"}, Reason.DURATION_EXCEEDED, False),
        ({"running": 1, "failed": 1}, Reason.INFRASTRUCTURE, True),
    ],
)
def test_gang_that_cannot_go_on_says_why(counts: dict[str, int], reason: Reason, infrastructure: bool) -> None:
    stage = Stage()
    stage.accept(5, bound(key(), 5))
    stage.write()
    stage.count(key(), **counts)
    report = stage.said()[key()]
    assert (report.status, report.reason, report.infrastructure) == (GangStatus.BROKEN, reason, infrastructure)
    assert report.message
    assert stage.write() == [], "what still runs goes on until stop is desired"


def test_broken_gang_is_stopped_and_released() -> None:
    stage = Stage()
    binding = bound(key(), 5)
    stage.accept(5, binding)
    stage.write()
    stage.count(key(), running=1, failed=1, exit_code=1)
    assert stage.free_hosts == HOSTS - 2
    stage.change(6, told(binding, STOP, 6))
    assert stage.write() == [StopPods(key())]
    stage.count(key(), failed=2, exit_code=1)
    assert stage.statuses() == {key(): GangStatus.RELEASED}
    assert stage.free_hosts == HOSTS


def test_a_gang_that_is_told_to_stop_does_not_break() -> None:
    stage = Stage()
    binding = bound(key(), 5)
    stage.accept(5, binding)
    stage.write()
    stage.change(6, told(binding, STOP, 6))
    stage.write()
    stage.count(key(), stopping=1, failed=1, exit_code=143)
    assert GangStatus.BROKEN not in stage.statuses().values()


def test_a_count_from_before_the_start_says_nothing() -> None:
    stage = Stage()
    stage.accept(5, bound(key(), 5))
    stage.write()
    stage.said()
    stage.count(key())
    stage.count(key(), pending=1)
    assert stage.statuses() == {}
    assert stage.write() == []


# ---- restarts (P7) ------------------------------------------------------------------------------------------


def test_running_gang_is_adopted_after_a_restart() -> None:
    stage = Stage(record(key(), 5, "n0", "n1"), pods=(PodCounts(key(), running=2),))
    assert stage.write() == [], "nothing is done before a complete set was accepted"
    stage.accept(9, bound(key(), 5))
    assert stage.free_hosts == HOSTS - 2
    assert stage.statuses() == {key(): GangStatus.RUNNING}
    assert stage.write() == []


def test_adopted_hold_is_started_where_it_was_held() -> None:
    stage = Stage(record(key(), 5, "n2", "n3", started=False))
    stage.accept(9, bound(key(), 5))
    assert stage.statuses() == {key(): GangStatus.HELD}
    assert stage.kinds() == ["StartPods"]


def test_record_without_its_pods_is_lost_never_run_again() -> None:
    stage = Stage(record(key(), 5, "n0", "n1"), pods=(PodCounts(key(), missing=2),))
    stage.accept(9, bound(key(), 5))
    report = stage.said()[key()]
    assert (report.status, report.infrastructure) == (GangStatus.BROKEN, True)
    assert stage.write() == []
    assert stage.free_hosts == HOSTS


def test_start_that_was_cut_off_is_completed() -> None:
    stage = Stage(record(key(), 5, "n0", "n1"), pods=(PodCounts(key(), running=1),))
    stage.accept(9, bound(key(), 5))
    assert stage.kinds() == ["StartPods"]
    stage.count(key(), running=2)
    assert stage.statuses() == {key(): GangStatus.RUNNING}


def test_tombstone_of_a_finished_gang_takes_no_places_after_a_restart() -> None:
    stage = Stage(record(key(), 5, "n0", "n1"), pods=(PodCounts(key(), succeeded=2),))
    stage.accept(9, bound(key(), 5))
    assert stage.statuses() == {key(): GangStatus.FINISHED}
    assert stage.free_hosts == HOSTS
    assert stage.write() == []


def test_stop_of_a_start_that_was_cut_off_ends_it() -> None:
    stage = Stage(record(key(), 5, "n0", "n1"), pods=(PodCounts(key(), failed=1),))
    stage.accept(9, bound(key(), 5, STOP))
    assert stage.free_hosts == HOSTS - 2, "one pod might still be created"
    assert stage.write() == [StopPods(key())]
    assert stage.statuses() == {key(): GangStatus.RELEASED}
    assert stage.free_hosts == HOSTS


def test_order_to_stop_is_given_again_by_an_agent_that_cannot_know_that_it_was() -> None:
    stage = Stage()
    binding = bound(key(), 5)
    stage.accept(5, binding)
    stage.write()
    stage.change(6, told(binding, STOP, 6))
    assert stage.write() == [StopPods(key())]
    stage.relist(record(key(), 5, "n0", "n1"), pods=(PodCounts(key(), running=2),))
    stage.accept(9, told(binding, STOP, 6))
    assert stage.write() == [StopPods(key())]


def test_reports_of_all_desired_gangs_are_made_again_after_a_new_attachment() -> None:
    stage = Stage()
    binding = bound(key(), 5)
    stage.accept(5, binding)
    stage.write()
    stage.said()
    stage.relist(record(key(), 5, "n0", "n1"), pods=(PodCounts(key(), running=2),))
    stage.accept(9, binding)
    assert stage.statuses() == {key(): GangStatus.RUNNING}


def test_record_that_somebody_removed_is_a_loss() -> None:
    stage = Stage()
    binding = bound(key(), 5)
    stage.accept(5, binding)
    stage.write()
    assert stage.relist() == 1
    stage.accept(9, binding)
    assert stage.statuses() == {key(): GangStatus.BROKEN}
    assert stage.write() == []
    assert stage.free_hosts == HOSTS


# ---- orphans and attempts (S3, S4) --------------------------------------------------------------------------


def test_what_is_not_desired_is_stopped_then_forgotten() -> None:
    stage = Stage(record(key(), 5, "n0", "n1"), pods=(PodCounts(key(), running=2),))
    stage.accept(9)
    assert stage.write() == [StopPods(key())]
    assert stage.free_hosts == HOSTS - 2
    stage.count(key(), failed=2)
    assert stage.write() == [ForgetGang(key())]
    assert stage.free_hosts == HOSTS
    assert stage.said() == {}


def test_newer_attempt_waits_until_the_older_one_is_gone() -> None:
    stage = Stage(record(key(attempt=1), 5, "n0", "n1"), pods=(PodCounts(key(attempt=1), running=2),))
    stage.accept(9, bound(key(attempt=2), 8), bound(key("other"), 9))
    assert stage.gangs.observed_revision == 7
    assert [type(op).__name__ for op in stage.write()] == ["StopPods", "HoldGang", "StartPods"]
    assert stage.statuses() == {key("other"): GangStatus.STARTED}
    stage.count(key(attempt=1), failed=2)
    assert stage.kinds() == ["ForgetGang"]
    stage.gangs.place(10, now_ms=1)
    assert stage.kinds() == ["HoldGang", "StartPods"]
    assert stage.gangs.observed_revision == 9


def test_older_attempt_stops_whatever_its_binding_says() -> None:
    stage = Stage()
    older = bound(key(attempt=1), 5)
    stage.accept(5, older)
    stage.write()
    stage.change(6, bound(key(attempt=2), 6))
    assert stage.write() == [StopPods(key(attempt=1))]
    stage.count(key(attempt=1), failed=2)
    stage.gangs.place(10, now_ms=1)
    assert stage.kinds() == ["HoldGang", "StartPods"]


def test_attempt_older_than_an_accepted_one_is_not_placed() -> None:
    stage = Stage()
    stage.accept(5, bound(key(attempt=2), 5))
    stage.write()
    stage.said()
    stage.change(6, bound(key(attempt=1), 6))
    assert stage.statuses() == {key(attempt=1): GangStatus.REFUSED}
    assert stage.write() == []


def test_same_key_of_another_life_of_the_store_is_cleared_away_first() -> None:
    stage = Stage(record(key(), 50, "n0", "n1"), pods=(PodCounts(key(), running=2),))
    stage.accept(9, bound(key(), 7))
    assert stage.write() == [StopPods(key())]
    stage.count(key(), failed=2)
    assert stage.kinds() == ["ForgetGang"]
    stage.gangs.place(10, now_ms=1)
    assert stage.kinds() == ["HoldGang", "StartPods"]


def test_pods_without_a_record_end_and_nothing_is_placed_meanwhile() -> None:
    stage = Stage(pods=(PodCounts(key(), running=2),))
    stage.accept(9, bound(key("other"), 9))
    assert stage.write() == [StopPods(key())]
    stage.count(key(), failed=2)
    assert stage.kinds() == ["ForgetGang"]
    stage.gangs.place(10, now_ms=1)
    assert stage.kinds() == ["HoldGang", "StartPods"]


def test_desired_pods_without_a_record_are_lost() -> None:
    stage = Stage(pods=(PodCounts(key(), running=2),))
    binding = bound(key(), 5)
    stage.accept(9, binding)
    assert stage.statuses() == {key(): GangStatus.BROKEN}
    stage.change(10, told(binding, STOP, 10))
    assert stage.write() == [StopPods(key())]
    stage.count(key(), failed=2)
    assert stage.statuses() == {key(): GangStatus.RELEASED}


def test_late_count_of_a_forgotten_gang_is_no_orphan() -> None:
    stage = Stage()
    stage.accept(5, bound(key(), 5))
    stage.write()
    stage.count(key(), succeeded=2)
    stage.change(6, removed=(key(),))
    stage.write()
    stage.count(key(), succeeded=2)
    assert stage.write() == []


def test_gang_that_the_cluster_does_not_let_go_is_tried_again_when_its_pods_change() -> None:
    stage = Stage(record(key(), 5, "n0", "n1"), pods=(PodCounts(key(), failed=2),))
    stage.accept(9)
    assert stage.kinds(rejecting(ForgetGang)) == ["ForgetGang"]
    assert stage.write() == []
    stage.count(key(), failed=2)
    assert stage.kinds() == ["ForgetGang"]


# ---- doubt (P3, P8) -----------------------------------------------------------------------------------------


def test_after_an_unanswered_write_nothing_is_written_or_concluded_until_the_next_claim() -> None:
    stage = Stage()
    binding = bound(key(), 5)
    stage.accept(5, binding)
    stage.take()
    stage.gangs.doubt()
    stage.change(6, told(binding, STOP, 6), bound(key("other"), 6))
    assert stage.take() == []
    assert stage.statuses() == {}
    stage.relist(epoch=2)
    stage.accept(7, told(binding, STOP, 6), bound(key("other"), 6))
    assert stage.statuses() == {key(): GangStatus.RELEASED}
    assert stage.kinds() == ["HoldGang", "StartPods"]


def test_nothing_is_written_while_somebody_claims_the_cluster_anew() -> None:
    stage = Stage()
    stage.accept(5, bound(key(), 5))
    stage.gangs.doubt()
    assert stage.take() == []


def test_unanswered_write_that_did_happen_is_taken_as_it_is_found() -> None:
    stage = Stage()
    binding = bound(key(), 5)
    stage.accept(5, binding)
    stage.take()
    stage.gangs.doubt()
    stage.relist(record(key(), 5, "n0", "n1"), pods=(PodCounts(key(), running=2),), epoch=2)
    stage.accept(7, binding)
    assert stage.statuses() == {key(): GangStatus.RUNNING}
    assert stage.write() == []


def test_gang_that_had_places_only_in_memory_is_placed_anew_after_a_relist() -> None:
    stage = Stage()
    stage.accept(5, bound(key(), 5))
    stage.relist(listed=1)
    stage.gangs.reconcile(now_ms=1)
    stage.gangs.place(10, now_ms=1)
    assert stage.statuses() == {key(): GangStatus.REFUSED}


# ---- the accepted revision ----------------------------------------------------------------------------------


def test_acceptance_goes_ahead_of_the_first_operation_that_rests_on_it() -> None:
    stage = Stage()
    stage.accept(5, bound(key(), 5))
    ops = stage.gangs.take_ops(100)
    assert [type(op).__name__ for op in ops] == ["AcceptRevision", "HoldGang", "StartPods"]


def test_acceptance_is_written_alone_only_when_asked() -> None:
    stage = Stage()
    stage.accept(5)
    assert stage.gangs.take_ops(100) == ()
    assert stage.gangs.acceptance_behind
    ops = stage.gangs.take_ops(100, flush=True)
    assert [type(op).__name__ for op in ops] == ["AcceptRevision"]
    stage.gangs.written([rejecting()(op) for op in ops], now_ms=1)
    assert not stage.gangs.acceptance_behind


def test_a_write_has_no_more_operations_than_it_may() -> None:
    stage = Stage(listed=40)
    stage.accept(20, *(bound(key(f"j{i}"), i + 1, pods=1) for i in range(20)))
    assert len(stage.gangs.take_ops(11)) <= 11


def test_what_a_cluster_says_is_cut_to_one_line() -> None:
    stage = Stage()
    stage.accept(5, bound(key(), 5))
    ops = stage.gangs.take_ops(100)
    stage.gangs.written([Rejected("line\n" * 1_000) for _ in ops], now_ms=1)
    message = stage.said()[key()].message
    assert len(message) == MESSAGE_CHARS_MAX
    assert "\n" not in message


def test_rejection_without_a_reason_is_one_all_the_same() -> None:
    stage = Stage()
    stage.accept(5, bound(key(), 5))
    ops = stage.gangs.take_ops(100)
    stage.gangs.written([Rejected("") for _ in ops], now_ms=1)
    assert stage.statuses() == {key(): GangStatus.REFUSED}
