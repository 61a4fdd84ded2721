"""What an agent believes, and what it refuses loudly."""

from dataclasses import replace

import pytest

from hanse.agent.core.fence import Breach, Change, CompleteSet, DesiredGate, check_welcome
from hanse.agent.core.records import Claim
from hanse.model.attach import Welcome
from hanse.model.desired import Desired
from hanse.model.fence import Epoch
from hanse.model.ids import ReplicaId
from tests.unit.agent_core.stage import bound, key

EPOCH = Epoch(2, 100)
CLAIM = Claim("c", "f", Epoch(2, 90), 95)
A, B = bound(key("a"), 3), bound(key("b"), 4)


def welcome(epoch: Epoch, federation: str = "f") -> Welcome:
    return Welcome(epoch, federation, ReplicaId("r0"))


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (welcome(EPOCH), None),
        (welcome(Epoch(3, 1)), None),
        (welcome(Epoch(2, 91)), None),
        (welcome(Epoch(2, 90)), "OLDER_EPOCH"),
        (welcome(Epoch(2, 89)), "OLDER_EPOCH"),
        (welcome(Epoch(1, 500)), "OLDER_INCARNATION"),
        (welcome(EPOCH, "g"), "OTHER_FEDERATION"),
    ],
)
def test_welcome_passes_only_with_a_newer_epoch_of_the_same_federation(said: Welcome, reason: str | None) -> None:
    breach = check_welcome(CLAIM, said)
    assert (breach.reason if breach else None) == reason


def test_cluster_that_nobody_claimed_takes_any_federation() -> None:
    assert check_welcome(Claim("c", "", Epoch(), 0), welcome(Epoch(1, 1), "g")) is None


def whole(revision: int, *bindings: object, epoch: Epoch = EPOCH) -> Desired:
    return Desired(epoch, revision, True, True, bindings)  # type: ignore[arg-type]


def reason_of(outcome: object) -> str:
    assert isinstance(outcome, Breach)
    return outcome.reason


def test_set_in_pieces_counts_with_its_last_piece() -> None:
    gate = DesiredGate(EPOCH, CLAIM)
    assert gate.receive(Desired(EPOCH, 100, complete_begin=True, bindings=(A,))) is None
    assert gate.receive(Desired(EPOCH, 100, complete_end=True, bindings=(B,))) == CompleteSet(100, (A, B))


def test_empty_set_is_obeyed_when_marked_complete() -> None:
    assert DesiredGate(EPOCH, CLAIM).receive(whole(100)) == CompleteSet(100, ())


def test_a_set_that_begins_again_forgets_its_first_pieces() -> None:
    gate = DesiredGate(EPOCH, CLAIM)
    gate.receive(Desired(EPOCH, 100, complete_begin=True, bindings=(A,)))
    assert gate.receive(whole(101, B)) == CompleteSet(101, (B,))


def test_changes_follow_a_complete_set() -> None:
    gate = DesiredGate(EPOCH, CLAIM)
    gate.receive(whole(100))
    assert gate.receive(Desired(EPOCH, 101, bindings=(A,), removed=(key("b"),))) == Change(101, (A,), (key("b"),))
    assert gate.receive(Desired(EPOCH, 101)) == Change(101, (), ())


def test_change_before_the_complete_set_is_refused() -> None:
    assert reason_of(DesiredGate(EPOCH, CLAIM).receive(Desired(EPOCH, 101))) == "INCOMPLETE"


def test_message_of_another_epoch_is_refused() -> None:
    assert reason_of(DesiredGate(EPOCH, CLAIM).receive(whole(100, epoch=Epoch(2, 99)))) == "WRONG_EPOCH"


def test_set_older_than_the_accepted_one_is_refused() -> None:
    assert reason_of(DesiredGate(EPOCH, CLAIM).receive(whole(94))) == "OLDER_REVISION"
    assert isinstance(DesiredGate(EPOCH, CLAIM).receive(whole(95)), CompleteSet)


def test_newer_incarnation_may_count_from_anywhere() -> None:
    epoch = Epoch(3, 1)
    assert isinstance(DesiredGate(epoch, CLAIM).receive(whole(1, epoch=epoch)), CompleteSet)


def test_change_that_goes_back_is_refused() -> None:
    gate = DesiredGate(EPOCH, CLAIM)
    gate.receive(whole(100))
    gate.receive(Desired(EPOCH, 105))
    assert reason_of(gate.receive(Desired(EPOCH, 104))) == "OLDER_REVISION"


def test_a_set_that_is_older_than_the_first_piece_of_a_change_is_refused() -> None:
    """Only the last piece of a change carries its revision: the set from before it comes again between the two."""
    gate = DesiredGate(EPOCH, CLAIM)
    gate.receive(whole(100, A))
    assert isinstance(gate.receive(Desired(EPOCH, 100, bindings=(replace(B, revision=104),))), Change)
    assert reason_of(gate.receive(whole(100, A))) == "OLDER_REVISION"


def test_pieces_of_different_revisions_are_refused() -> None:
    gate = DesiredGate(EPOCH, CLAIM)
    gate.receive(Desired(EPOCH, 100, complete_begin=True))
    assert reason_of(gate.receive(Desired(EPOCH, 101, complete_end=True))) == "MALFORMED"


def test_pieces_that_remove_are_refused() -> None:
    message = Desired(EPOCH, 100, True, True, removed=(key(),))
    assert reason_of(DesiredGate(EPOCH, CLAIM).receive(message)) == "MALFORMED"


def test_a_binding_twice_in_a_set_is_refused() -> None:
    assert reason_of(DesiredGate(EPOCH, CLAIM).receive(whole(100, A, A))) == "MALFORMED"
