"""In-flight capacity: exact, whatever order bindings and summaries arrive in."""

from dataclasses import replace
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from hanse.agent.core.placement import place
from hanse.scheduler.core.ledger import PoolLedger
from hanse.shape import Fit, NoFit, apply, fit
from tests.unit.scheduler.worlds import H100, binding, inventory, request, summary

EMPTY = inventory({"r1": 4, "r2": 4}).shape()


def test_a_binding_newer_than_the_summary_is_taken_out() -> None:
    ledger = PoolLedger(count().__next__)
    ledger.accept(summary(EMPTY, 1, observed=10))
    ledger.put("old", binding(1, "p", request(2), 10))
    ledger.put("new", binding(2, "p", request(3), 11))
    shape = ledger.shape()
    assert shape is not None
    assert shape.free_gpus() == 8 * 8 - 3 * 8
    assert ledger.unacknowledged() == 1


def test_a_summary_that_has_it_is_not_charged_twice() -> None:
    ledger = PoolLedger(count().__next__)
    ledger.put("new", binding(2, "p", request(3), 11))
    ledger.accept(summary(EMPTY, 1, observed=11))
    shape = ledger.shape()
    assert shape is not None
    assert shape.free_gpus() == 64


def test_a_summary_that_confirms_what_was_expected_is_no_growth() -> None:
    pool = inventory({"r1": 4, "r2": 4})
    ledger = PoolLedger(count(1).__next__)
    ledger.accept(summary(pool.shape(), 1, observed=10))
    before = ledger.grown
    ledger.put("new", binding(2, "p", request(1), 11))
    assert ledger.shape() is not None
    placed = place(pool, request(1), (H100,))
    assert not isinstance(placed, NoFit)
    pool.take(placed)
    assert ledger.accept(summary(pool.shape(), 2, observed=11))
    assert ledger.grown == before
    pool.give(placed)
    assert ledger.accept(summary(pool.shape(), 3, observed=11))
    assert ledger.grown > before


def test_what_nobody_asked_for_is_not_worked_out_and_counts_as_growth() -> None:
    ledger = PoolLedger(count(1).__next__)
    ledger.accept(summary(EMPTY, 1, observed=10))
    before = ledger.grown
    ledger.put("new", binding(2, "p", request(1), 11))
    planned = ledger.planned()
    assert planned is not None
    assert ledger.accept(summary(EMPTY, 2, observed=10))
    assert not planned.is_known
    assert ledger.grown > before


def test_a_shape_of_an_earlier_moment_is_not_moved_by_what_comes_later() -> None:
    ledger = PoolLedger(count(1).__next__)
    ledger.accept(summary(EMPTY, 1, observed=10))
    ledger.put("a", binding(1, "p", request(1), 11))
    first = ledger.planned()
    ledger.put("b", binding(2, "p", request(2), 12))
    second = ledger.planned()
    assert first is not None
    assert second is not None
    assert [planned.shape().free_gpus() for planned in (second, first)] == [64 - 24, 64 - 8]
    third = ledger.planned()
    assert third is not None
    assert (third.is_known, third.bound.free_gpus(), second.bound.free_gpus()) == (True, 64 - 24, 64)


def test_an_older_summary_is_not_taken() -> None:
    ledger = PoolLedger(count().__next__)
    assert ledger.accept(summary(EMPTY, 5, observed=20))
    assert not ledger.accept(summary(EMPTY, 4, observed=10))


def test_what_no_longer_fits_is_left_for_the_agent_to_refuse() -> None:
    ledger = PoolLedger(count().__next__)
    ledger.accept(summary(EMPTY, 1, observed=10))
    ledger.put("a", binding(1, "p", request(9), 11))
    shape = ledger.shape()
    assert shape is not None
    assert shape.free_gpus() == 64


@given(st.permutations(range(6)), st.integers(9, 16), st.data())
def test_the_order_of_arrival_does_not_matter(order: list[int], observed: int, data: st.DataObject) -> None:
    sizes = [1, 2, 1, 3, 1, 2]
    straight, shuffled = PoolLedger(count().__next__), PoolLedger(count().__next__)
    straight.accept(summary(EMPTY, 1, observed))
    for n, size in enumerate(sizes):
        straight.put(str(n), binding(n, "p", request(size), 10 + n))
    at = data.draw(st.integers(0, len(order)))
    gone = data.draw(st.sampled_from(order))
    for step, n in enumerate(order):
        if step == at:
            shuffled.accept(summary(EMPTY, 1, observed))
        shuffled.put(str(n), binding(n, "p", request(sizes[n]), 10 + n))
        shuffled.shape()
    shuffled.accept(summary(EMPTY, 1, observed))
    straight.remove(str(gone))
    shuffled.remove(str(gone))
    a, b = straight.shape(), shuffled.shape()
    assert a is not None
    assert b is not None
    assert a.key == b.key


def test_what_a_cycle_has_worked_out_is_found_again_and_changes_no_answer() -> None:
    ledger = PoolLedger(count(1).__next__)
    ledger.accept(summary(EMPTY, 1, observed=10))
    want = request(3)
    found = fit(EMPTY, want, (H100,))
    assert isinstance(found, Fit)
    after = apply(EMPTY, found.decision)
    ledger.takes.put(EMPTY, want, (H100,), after)
    ledger.put("b", binding(1, "p", want, 11))
    assert ledger.shape() is after
    assert ledger.takes.get(inventory({"r1": 4, "r2": 4}).shape(), want, (H100,)) is None, "another table"


def test_bindings_of_one_transaction_are_taken_in_the_order_in_which_they_were_planned() -> None:
    first, second = request(3), request(4, required="rack")
    straight, reverse = PoolLedger(count(1).__next__), PoolLedger(count(1).__next__)
    for ledger, orders in ((straight, (0, 1)), (reverse, (1, 0))):
        ledger.accept(summary(inventory({"r1": 4, "r2": 3}).shape(), 1, observed=10))
        ledger.put("b1", replace(binding(1, "p", first, 11), order=orders[0]))
        ledger.put("b2", replace(binding(2, "p", second, 11), order=orders[1]))
    a, b = straight.shape(), reverse.shape()
    assert a is not None
    assert b is not None
    assert (a.free_gpus(), b.free_gpus()) == (0, 0)
