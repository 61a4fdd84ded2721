import pytest

from hanse.store.contract import (
    Conflict,
    Delete,
    Event,
    EventKind,
    KeyValue,
    LeaseGone,
    ModRevisionIs,
    Put,
    Txn,
)
from hanse.store.judge import Head, judge

HEADS: dict[str, Head] = {"a": (3, 7), "b": (5, 5)}
LEASES = {4}


def ask(txn: Txn) -> tuple[Event, ...] | Conflict | LeaseGone:
    return judge(txn, revision=9, head_of=HEADS.get, lease_lives=LEASES.__contains__)


@pytest.mark.parametrize(
    ("guards", "current"),
    [
        ({"a": 7}, None),
        ({"a": 7, "b": 5, "none": 0}, None),
        ({"a": 3}, {"a": 7}),
        ({"a": 0}, {"a": 7}),
        ({"none": 1}, {"none": 0}),
        ({"b": 5, "a": 8, "none": 0}, {"b": 5, "a": 7, "none": 0}),
    ],
)
def test_guards(guards: dict[str, int], current: dict[str, int] | None) -> None:
    verdict = ask(Txn(tuple(ModRevisionIs(*guard) for guard in guards.items())))
    assert verdict == (() if current is None else Conflict(9, current))


def test_events_carry_the_next_revision_and_keep_the_creation() -> None:
    assert ask(Txn(ops=(Put("a", b"1", 4), Put("new", b"2"), Delete("b"), Delete("none")))) == (
        Event(EventKind.PUT, KeyValue("a", b"1", 3, 10, 4)),
        Event(EventKind.PUT, KeyValue("new", b"2", 10, 10)),
        Event(EventKind.DELETE, KeyValue("b", b"", 0, 10)),
    )


def test_a_lease_that_is_gone_stops_everything() -> None:
    verdict = ask(Txn(ops=(Put("a", b"1"), Put("b", b"1", 5))))
    assert isinstance(verdict, LeaseGone)
    assert verdict.lease == 5


def test_a_conflict_comes_before_a_gone_lease() -> None:
    assert isinstance(ask(Txn((ModRevisionIs("a", 1),), (Put("b", b"1", 5),))), Conflict)
