"""Columns say of a record what decoding it says."""

from dataclasses import replace
from random import Random

import pytest

from hanse.model.ids import Attempt
from hanse.model.lifecycle import TERMINAL, JobState, State, decode_state, encode_state
from hanse.model.reasons import Reason
from hanse.model.state_columns import STATE_RECORD, ended, held, in_state, is_split, readable, records

PLAIN = JobState(State.PENDING, Attempt(0), 0, 1_000, 1_000, 7)


def drawn(rng: Random) -> JobState:
    state = rng.choice(list(State))
    submit_ms = rng.randrange(2**42)
    return JobState(
        state=state,
        attempt=Attempt(rng.randrange(2**31)),
        priority=rng.randrange(-(2**31), 2**31),
        submit_ms=submit_ms,
        changed_ms=submit_ms + rng.randrange(10**9),
        class_hash=rng.getrandbits(63),
        reason=rng.choice(list(Reason)),
        target=rng.choice(list(State)),
        failures=rng.randrange(2**16),
        max_retries=rng.randrange(2**16),
        requeue_infrastructure=rng.random() < 0.5,
        held=rng.random() < 0.5,
        pools=tuple(rng.randrange(100) for _ in range(rng.randrange(9))),
        write_id=rng.getrandbits(62),
        traced=rng.random() < 0.5,
        amended=rng.random() < 0.5,
    )


def test_columns_and_decoding_agree() -> None:
    rng = Random(1)
    states = [drawn(rng) for _ in range(500)]
    found = records([encode_state(state) for state in states])
    assert readable(found).all()
    for mask, of in (
        (held(found), lambda s: s.held),
        (ended(found), lambda s: s.state in TERMINAL),
        (is_split(found), lambda s: len(s.pools) > 1),
        (in_state(found, State.STARTING), lambda s: s.state is State.STARTING),
    ):
        assert mask.tolist() == [of(state) for state in states]
    for name in ("priority", "submit_ms", "class_hash"):
        assert found[name].tolist() == [getattr(state, name) for state in states]
    assert [decode_state(row.tobytes()) for row in found] == states


@pytest.mark.parametrize(
    ("at", "byte"), [(0, 9), (1, 200), (2, 200), (5, 255)], ids=["version", "state", "target", "reason"]
)
def test_what_decoding_refuses_is_not_readable(at: int, byte: int) -> None:
    whole = encode_state(PLAIN)
    damaged = whole[:at] + bytes([byte]) + whole[at + 1 :]
    with pytest.raises(ValueError, match=r"version|valid"):
        decode_state(damaged)
    assert readable(records([whole, damaged, b"short", whole])).tolist() == [True, False, False, True]


def test_nothing_is_no_record() -> None:
    assert records([]).dtype == STATE_RECORD
    assert not len(records([]))


def test_sizes_that_add_up_by_chance_are_seen() -> None:
    whole = encode_state(replace(PLAIN, priority=3))
    assert readable(records([whole[:60], whole + whole[60:]])).tolist() == [False, False]
