"""Reports wait, travel, and come back until somebody has them."""

from hanse.agent.core.outbox import Outbox
from hanse.model.report import GangReport, GangStatus
from tests.unit.agent_core.stage import key


def report(job: str, status: GangStatus) -> GangReport:
    gang = key(job)
    return GangReport(gang.job, gang.attempt, gang.part, status)


HELD, RUNNING = report("a", GangStatus.HELD), report("a", GangStatus.RUNNING)
OTHER = report("b", GangStatus.HELD)


def test_a_newer_report_replaces_one_that_waits() -> None:
    box = Outbox()
    box.put(HELD)
    box.put(OTHER)
    box.put(RUNNING)
    assert box.take(1, limit=10, now_s=0.0) == (RUNNING, OTHER)


def test_batches_are_bounded() -> None:
    box = Outbox()
    box.put(HELD)
    box.put(OTHER)
    assert box.take(1, limit=1, now_s=0.0) == (HELD,)
    assert box.take(2, limit=1, now_s=0.0) == (OTHER,)
    assert (box.waiting, box.batches_sent) == (0, 2)


def test_acknowledged_reports_are_done() -> None:
    box = Outbox()
    box.put(HELD)
    box.take(1, limit=10, now_s=0.0)
    assert box.acknowledge(1) == (HELD,)
    assert box.acknowledge(1) == ()
    box.restart()
    assert box.waiting == 0


def test_a_new_stream_sends_again_what_was_under_way() -> None:
    box = Outbox()
    box.put(HELD)
    box.put(OTHER)
    box.take(1, limit=10, now_s=0.0)
    box.put(RUNNING)
    box.restart()
    assert box.take(1, limit=10, now_s=0.0) == (RUNNING, OTHER)


def test_what_nobody_answers_in_time_is_sent_again() -> None:
    box = Outbox()
    box.put(HELD)
    box.take(1, limit=10, now_s=5.0)
    assert not box.overdue(before_s=5.0)
    assert box.overdue(before_s=5.1)
    assert box.take(2, limit=10, now_s=6.0) == (HELD,)
    assert box.acknowledge(1) == ()


def test_an_overdue_report_does_not_overtake_a_newer_one_under_way() -> None:
    box = Outbox()
    box.put(HELD)
    box.take(1, limit=10, now_s=0.0)
    box.put(RUNNING)
    box.take(2, limit=10, now_s=5.0)
    box.overdue(before_s=3.0)
    assert box.waiting == 0


def test_nobody_asks_for_a_gang_any_more() -> None:
    box = Outbox()
    box.put(HELD)
    box.drop(key("a"))
    assert box.take(1, limit=10, now_s=0.0) == ()


def test_what_was_overtaken_is_not_sent_again() -> None:
    box = Outbox()
    box.put(HELD)
    box.take(1, limit=10, now_s=0.0)
    box.put(RUNNING)
    box.take(2, limit=10, now_s=0.0)
    assert box.acknowledge(2) == (RUNNING,)
    box.restart()
    assert box.waiting == 0


def test_what_nobody_asks_for_any_more_is_not_sent_again() -> None:
    box = Outbox()
    box.put(HELD)
    box.take(1, limit=10, now_s=0.0)
    box.drop(key("a"))
    assert box.overdue(before_s=1.0)
    assert box.waiting == 0


def test_somebody_waits_for_what_is_neither_running_nor_finished() -> None:
    box = Outbox()
    box.put(RUNNING)
    assert not box.urgent
    box.put(OTHER)
    assert box.urgent
    box.take(1, limit=1, now_s=0.0)
    assert box.urgent
    box.take(2, limit=1, now_s=0.0)
    assert not box.urgent
    box.restart()
    assert box.urgent
    box.drop(OTHER.key)
    assert not box.urgent


def test_what_is_overtaken_by_a_patient_report_is_not_urgent_any_more() -> None:
    box = Outbox()
    box.put(HELD)
    box.put(RUNNING)
    assert not box.urgent
