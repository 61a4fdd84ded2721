"""What is sent, in which batches, and how answers are told in the user's own file."""

import pytest

from hanse.api.v1 import error_pb2, job_service_pb2, job_spec_pb2
from hanse.client.submission import batches, order_of
from hanse.client.waiting import Until, far_enough, parse_until
from hanse.model.errors import InvalidArgument
from hanse.model.ids import QueueName
from hanse.model.job import JobSpec, PodSet
from hanse.model.lifecycle import TERMINAL, State
from hanse.wire.limits import BATCH_BYTES_MAX, JOBS_PER_BATCH_MAX

SPEC = JobSpec("a", QueueName("q"), (PodSet("w", 1, 1),))


def sized(size: int) -> job_spec_pb2.JobSpec:
    return job_spec_pb2.JobSpec(name="x" * size)


def test_batches_stay_below_both_limits() -> None:
    many = list(batches([sized(1)] * (2 * JOBS_PER_BATCH_MAX + 1), atomic=False))
    assert [len(batch) for batch in many] == [JOBS_PER_BATCH_MAX, JOBS_PER_BATCH_MAX, 1]
    heavy = list(batches([sized(BATCH_BYTES_MAX // 3)] * 7, atomic=False))
    assert sum(len(batch) for batch in heavy) == 7
    for batch in heavy:
        assert job_service_pb2.SubmitJobsRequest(request_id="r" * 128, jobs=batch).ByteSize() <= BATCH_BYTES_MAX


@pytest.mark.parametrize(
    ("specs", "atomic", "reason"),
    [
        ([sized(1)] * (JOBS_PER_BATCH_MAX + 1), True, "BATCH_TOO_LARGE"),
        ([sized(BATCH_BYTES_MAX)], False, "SPEC_TOO_LARGE"),
    ],
)
def test_what_no_server_takes_is_not_sent(specs: list[job_spec_pb2.JobSpec], atomic: bool, reason: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        list(batches(specs, atomic=atomic))
    assert refused.value.reason == reason


def test_specs_and_messages_go_in_alike() -> None:
    message = order_of(SPEC).specs[0]
    assert order_of([SPEC, message], queue="other").specs == (order_of(message, queue="other").specs * 2)
    assert (message.queue, order_of(message, queue="other").specs[0].queue) == ("q", "other")


def test_an_error_without_a_file_keeps_its_path() -> None:
    error = error_pb2.Error(reason="X", path="pod_sets[0].count", message="m", code=3)
    response = job_service_pb2.SubmitJobsResponse(jobs=[job_service_pb2.SubmittedJob(name="a", error=error)])
    submission = order_of(SPEC).answered([response], "r")
    assert (submission.refusals[0].error.path, submission.ids) == ("pod_sets[0].count", ())


def test_how_far_is_far_enough() -> None:
    assert [s for s in State if far_enough(s, Until.DONE)] == [s for s in State if s in TERMINAL]
    placed = {s for s in State if far_enough(s, parse_until("placed"))}
    running = {s for s in State if far_enough(s, Until.RUNNING)}
    assert placed - running == {State.PLACED, State.STARTING}
    with pytest.raises(InvalidArgument):
        parse_until("soon")
