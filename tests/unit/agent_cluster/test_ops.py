"""What operations do to a record, and which are done together."""

from dataclasses import replace
from typing import Any

import pytest

from hanse.agent.cluster.kubernetes.ops import Act, decide, rounds
from hanse.agent.cluster.kubernetes.stored import Stored
from hanse.agent.cluster.port import (
    PAYLOAD_BYTES_MAX,
    AcceptRevision,
    ClusterWrite,
    Done,
    ForgetGang,
    HoldGang,
    PodRun,
    Rejected,
    StartPods,
    StopPods,
)
from hanse.model.ids import JobId, Part
from tests.unit.agent_cluster.objects import GANG, SET, record, seen
from tests.unit.agent_cluster.test_chores import (
    BOUND,
    CUT_OFF,
    DONE,
    GATED,
    HELD,
    LAUNCHED,
    RUNNING,
    RUNS,
    STARTED,
    STOPPED,
)

OTHER = GANG._replace(job=JobId("aaaaaaaa-0000000000000002"))
HOLD = HoldGang(record("n0", "n1", started=False))
START = StartPods(GANG, "train", "", (PodRun(SET, "image:1", (), (), ()),))
STOP = StopPods(GANG, 5)
FORGET = ForgetGang(GANG)


@pytest.mark.parametrize(
    ("ops", "together"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([HOLD, START], [[0, 1]], id="hold and start"),
        pytest.param([AcceptRevision(1), HOLD, START], [[0], [1, 2]], id="an acceptance goes first"),
        pytest.param([HOLD, AcceptRevision(1), STOP], [[0], [1], [2]], id="or last"),
        pytest.param([STOP, FORGET], [[0], [1]], id="forgetting looks at what stopping did"),
        pytest.param([STOP, ForgetGang(OTHER)], [[0, 1]], id="of another gang it does not"),
        pytest.param([FORGET, HOLD], [[0], [1]], id="a gang that is forgotten is a new one after that"),
        pytest.param([STOP, STOP], [[0, 1]], id="the same twice"),
    ],
)
def test_rounds(ops: list[ClusterWrite], together: list[list[int]]) -> None:
    assert list(rounds(ops)) == together


def test_a_hold_is_written_once() -> None:
    decision = decide(HOLD, None, (), "jobs")
    assert (decision.stored, decision.result, decision.act) == (HELD, Done(), Act.NOTHING)
    assert decide(HOLD, STARTED, (), "jobs").result == Done()
    other = HoldGang(replace(HOLD.record, revision=8))
    assert isinstance(decide(other, STARTED, (), "jobs").result, Rejected)
    assert decide(other, STARTED, (), "jobs").stored == STARTED


def test_a_hold_over_running_pods_is_refused_and_one_over_leftovers_is_not() -> None:
    assert isinstance(decide(HOLD, None, [seen(**RUNNING)], "jobs").result, Rejected)
    assert decide(HOLD, None, [seen(**GATED)], "jobs").result == Done()


def test_a_payload_has_a_limit() -> None:
    big = HoldGang(replace(HOLD.record, payload=bytes(PAYLOAD_BYTES_MAX + 1)))
    assert isinstance(decide(big, None, (), "jobs").result, Rejected)


@pytest.mark.parametrize(
    ("stored", "act", "refused"),
    [
        pytest.param(None, Act.NOTHING, True, id="without a record"),
        pytest.param(HELD, Act.START, False, id="held"),
        pytest.param(STARTED, Act.START, False, id="cut off"),
        pytest.param(LAUNCHED, Act.NOTHING, False, id="its objects are there"),
        pytest.param(STOPPED, Act.NOTHING, False, id="stopped when they were"),
        pytest.param(CUT_OFF, Act.NOTHING, True, id="stopped before they were"),
    ],
)
def test_starts(stored: Stored | None, act: Act, refused: bool) -> None:
    decision = decide(START, stored, (), "jobs")
    assert (decision.act, isinstance(decision.result, Rejected)) == (act, refused)
    if act is Act.START:
        assert decision.stored == STARTED


def test_a_start_without_an_image_is_refused() -> None:
    bare = replace(START, runs=(PodRun(SET, "", (), (), ()),))
    refused = decide(bare, HELD, (), "jobs").result
    assert isinstance(refused, Rejected)
    assert "image" in refused.reason


def test_a_stop_is_kept() -> None:
    decision = decide(STOP, RUNS, (), "jobs")
    assert decision.stored == replace(RUNS, stopped=True, grace_s=5)
    assert (decision.result, decision.act) == (Done(), Act.STOP)
    assert decide(STOP, None, (), "jobs").result == Done()


@pytest.mark.parametrize(
    ("stored", "facts", "refused"),
    [
        pytest.param(RUNS, DONE, False, id="finished"),
        pytest.param(RUNS, RUNNING, True, id="running"),
        pytest.param(RUNS, BOUND, True, id="bound"),
        pytest.param(RUNS, GATED, True, id="gated as far as we know, and about to run"),
        pytest.param(STARTED, GATED, False, id="none was let go"),
        pytest.param(LAUNCHED, GATED, True, id="all are about to run"),
        pytest.param(replace(LAUNCHED, stopped=True), GATED, False, id="none will ever run"),
        pytest.param(HELD, GATED, False, id="held, with a leftover"),
        pytest.param(None, RUNNING, True, id="running without a record"),
        pytest.param(None, GATED, False, id="a leftover without a record"),
    ],
)
def test_a_gang_is_forgotten_once_it_occupies_nothing(
    stored: Stored | None, facts: dict[str, Any], refused: bool
) -> None:
    decision = decide(FORGET, stored, [seen(**facts)], "jobs")
    assert isinstance(decision.result, Rejected) is refused
    assert decision.stored == (stored if refused else None)


def test_an_object_of_its_own_is_not_split() -> None:
    own = replace(START, runs=(), manifest="{}")
    assert decide(own, HELD, (), "jobs").act is Act.START
    for split in (replace(own, world_size=9), replace(own, key=GANG._replace(part=Part(1)))):
        refused = decide(split, HELD, (), "jobs").result
        assert isinstance(refused, Rejected)
        assert "one pool" in refused.reason
