"""The auditor is worth something only if it finds what is wrong."""

from collections.abc import Mapping

from hanse.api.v1 import job_pb2
from hanse.sim.v1 import sim_pb2
from tests.integration.auditor import Attempt, Life, _doubled, _given_up, _lost, _partial, _record


def job(state: job_pb2.JobState.ValueType, attempt: int = 1) -> job_pb2.Job:
    return job_pb2.Job(id="a", status=job_pb2.JobStatus(state=state, attempt=attempt))


def life(begun_ms: int, ended_ms: int | None, *, times: int = 1, running: int = 0, succeeded: int = 0) -> Life:
    """Of two pods."""
    created = {("worker", rank): times for rank in range(2)}
    return Life("p", created, begun_ms, ended_ms, succeeded, running)


def lost(jobs: Mapping[str, job_pb2.Job], lives: Mapping[Attempt, list[Life]]) -> list[str]:
    return list(_lost({"a": 2}, jobs, lives))


def test_what_was_acknowledged_and_is_not_listed_is_lost() -> None:
    assert lost({}, {}) == ["a: acknowledged, and not listed"]


def test_what_succeeded_or_runs_without_pods_is_lost() -> None:
    assert lost({"a": job(job_pb2.JOB_STATE_SUCCEEDED)}, {}) == ["a: SUCCEEDED in attempt 1, which never had pods"]
    running = {"a": job(job_pb2.JOB_STATE_RUNNING, 2)}
    assert lost(running, {("a", 2): [life(5, None, running=1)]}) == ["a: RUNNING in attempt 2 with 1 of 2 pods"]
    assert lost(running, {("a", 2): [life(5, None, running=2)]}) == []
    assert lost({"a": job(job_pb2.JOB_STATE_SUCCEEDED)}, {("a", 1): [life(5, 9)]}) == []


def test_attempts_that_overlap_and_pods_created_twice_are_doubled() -> None:
    (overlap,) = _doubled({}, {("a", 1): [life(5, 9)], ("a", 2): [life(8, None)]})
    assert overlap == "a: attempt 2 began in p at 8 while attempt 1 had pods in p until 9"
    (twice,) = _doubled({}, {("a", 1): [life(5, 9, times=2)]})
    assert twice == "a: attempt 1 created 2 pods twice in p, ('worker', 0) first"
    assert list(_doubled({}, {("a", 1): [life(5, 9)], ("a", 2): [life(9, None)]})) == []


def test_a_job_that_succeeds_in_two_attempts_is_doubled() -> None:
    (twice,) = _doubled({}, {("a", 1): [life(5, 9, succeeded=2)], ("a", 2): [life(9, 12, succeeded=2)]})
    assert twice == "a: succeeded in attempts [1, 2]"


def test_an_attempt_without_some_of_its_pods_is_partial() -> None:
    assert list(_partial({"a": 3}, {("a", 1): [life(5, 9)]})) == [(("a", 1), "a: attempt 1 had 2 of 3 pods created")]


def test_a_part_that_succeeded_beside_one_that_broke_is_no_success() -> None:
    lives = {("a", 1): [life(5, 9, succeeded=2), life(5, 8)], ("a", 2): [life(9, 12, succeeded=2)] * 2}
    assert list(_doubled({"a": 4}, lives)) == []


def test_an_attempt_is_given_up_when_it_is_over_and_the_job_went_on() -> None:
    lives = {("a", 1): [life(5, 9)]}
    assert _given_up(("a", 1), {"a": job(job_pb2.JOB_STATE_SUCCEEDED, 2)}, lives)
    assert not _given_up(("a", 1), {"a": job(job_pb2.JOB_STATE_SUCCEEDED, 1)}, lives)
    assert not _given_up(("a", 1), {"a": job(job_pb2.JOB_STATE_PENDING, 1)}, {("a", 1): [life(5, None)]})


def test_lives_are_read_from_the_pod_log() -> None:
    parts: dict[tuple[str, int], Life] = {}
    key = sim_pb2.GangKey(job="a", attempt=1, part=0)
    started = sim_pb2.PodLogEntry(
        at_ms=5, kind=sim_pb2.POD_LOG_KIND_STARTED, gang=key, counts=sim_pb2.PodCounts(pending=2)
    )
    started.sets.add(name="worker", nodes=["n0", "n1"])
    _record(parts, "p", started)
    _record(parts, "p", sim_pb2.PodLogEntry(at_ms=9, gang=key, counts=sim_pb2.PodCounts(succeeded=2)))
    (found,) = parts.values()
    assert (found.begun_ms, found.ended_ms, found.succeeded, len(found.created)) == (5, 9, 2, 2)
