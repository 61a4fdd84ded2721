"""Which of several jobs is meant, when nobody may guess."""

import pytest

from hanse.api.v1 import job_pb2
from hanse.cli.naming import choose, newest
from hanse.model.errors import FailedPrecondition
from tests.unit.cli.messages import named

DONE = job_pb2.JOB_STATE_SUCCEEDED
WAITS = job_pb2.JOB_STATE_PENDING


def test_a_name_that_is_written_out_wins() -> None:
    jobs = [named("train"), named("train-2"), named("trainer")]
    assert choose("train", jobs).name == "train"


def test_the_only_one_that_has_not_ended_wins() -> None:
    jobs = [named("train-1", state=DONE), named("train-2", state=WAITS), named("train-3", state=DONE)]
    assert choose("train", jobs).name == "train-2"


def test_of_one_name_in_one_queue_the_newest_is_meant() -> None:
    jobs = [named("train", at_s=1), named("train", at_s=3), named("train", at_s=2)]
    assert choose("train", jobs).id == "train-id-3"
    assert newest(jobs).id == "train-id-3"


def test_several_are_refused_with_the_newest_five() -> None:
    jobs = [named(f"train-{n}", at_s=n) for n in range(7)]
    with pytest.raises(FailedPrecondition) as caught:
        choose("train", jobs)
    assert caught.value.reason == "JOB_AMBIGUOUS"
    assert caught.value.message.startswith('"train" may mean train-6 (RUNNING in research, train-6-id-6), train-5 ')
    assert caught.value.message.count("(RUNNING") == 5
    assert ", and 2 more; write out more of the name, or use an id" in caught.value.message


def test_one_name_in_two_queues_is_refused() -> None:
    with pytest.raises(FailedPrecondition, match="RUNNING in vision"):
        choose("train", [named("train"), named("train", queue="vision")])
