"""Compiled code and plain Python say the same, to the last number and down to the choice among equals."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from random import Random
from typing import TypeVar

import numpy as np
import pytest

from hanse.kit.native import SWITCH, load, load_in_background
from hanse.shape import deal, exact, heaps, prepare, subsets, tightest
from hanse.shape.native import native
from hanse.shape.seat import views
from hanse.shape.seen import Ranged
from tests.unit.shape.builders import H100, gang, pods, shape

T = TypeVar("T")
ROUNDS = 300


@pytest.fixture(autouse=True)
def _compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(SWITCH, "1")
    assert load()
    yield
    native.clear()


def both(call: Callable[[], T]) -> tuple[T, T]:
    """What compiled code says, and what Python does."""
    load()
    compiled = call()
    native.clear()
    return compiled, call()


def test_the_tightest_choice_by_exchanges() -> None:
    rng = Random(1)
    searched = 0
    for _ in range(ROUNDS):
        most = rng.choice((6, 30, 200, 3_000))
        parts = tuple(
            sorted({rng.randint(1, most): rng.randint(1, 9) for _ in range(rng.randint(1, 12))}.items(), reverse=True)
        )
        n = rng.randint(1, sum(size * many for size, many in parts))
        largest = tightest._largest(parts, tightest.fewest(parts, n))
        least = tightest.least_sum(parts, n)
        if sum(size * many for size, many in largest.items()) > least:
            searched += 1
            compiled, plain = both(lambda: tightest._by_exchanges(parts, dict(largest), n, least))  # noqa: B023
            assert compiled == plain, (parts, n)
    assert searched > ROUNDS // 3


def test_a_search_that_would_take_too_much_memory_is_left_to_python() -> None:
    kernel = native.by_exchanges
    assert kernel is not None
    sizes = np.array([2_000_003, 2_000_001, 1_000_000, 999_983, 7])
    many = np.array([3_000, 3_000, 3_000, 3_000, 3_000])
    largest = np.array([3_000, 1, 0, 0, 0])
    assert not kernel(sizes, many, largest, int(sizes @ largest) - 1_999_999, 0, np.zeros(5, np.int64))


def test_the_cheapest_deal() -> None:
    rng = np.random.default_rng(2)
    for _ in range(ROUNDS):
        places, count = int(rng.integers(1, 12)), 0
        steps = -np.sort(-rng.integers(1, 9, places))
        count = int(rng.integers(1, places + 1))
        spare = int(rng.integers(0, int(steps[count - 1]) + 1))
        costs = rng.integers(0, 50, (places, min(spare, int(steps[0])) + 1))
        costs[steps[:, None] <= np.arange(costs.shape[1])] = deal.FAR
        compiled, plain = both(lambda: deal._cheapest(steps, spare, count, costs))  # noqa: B023
        assert compiled == plain


def test_a_table_with_one_more_child() -> None:
    rng = np.random.default_rng(3)
    for _ in range(ROUNDS):
        words, width, offers = int(rng.integers(1, 4)), int(rng.integers(2, 40)), int(rng.integers(1, 9))
        costs = rng.integers(0, 5, (words, width))
        costs[:, int(rng.integers(1, width)) :] = exact._FAR
        costs[:, 0] = 0
        amounts, prices = np.sort(rng.choice(60, offers, replace=False) + 1), rng.integers(0, 4, (words, offers))
        compiled, plain = both(lambda: exact._added(costs, amounts, prices))  # noqa: B023
        assert np.array_equal(compiled[0], plain[0])
        assert np.array_equal(compiled[1], plain[1])


def test_the_lightest_rows() -> None:
    rng = np.random.default_rng(4)
    for _ in range(ROUNDS):
        rows, count = int(rng.integers(1, 10)), int(rng.integers(1, 6))
        weights, gains = rng.integers(1, 30, rows), rng.integers(0, 20, rows)
        demand = int(rng.integers(-2, 60))
        compiled, plain = both(lambda: subsets._lightest(weights, gains, count, demand))  # noqa: B023
        assert compiled == plain


def test_hosts_of_lowest_domains() -> None:
    rng = Random(5)
    for _ in range(ROUNDS):
        ask = prepare(gang(pods(1, rng.choice((1, 2, 4)))), (H100,)).sets[0]
        racks = [[rng.randint(0, 8) for _ in range(rng.randint(1, 9))] for _ in range(rng.randint(1, 6))]
        seen = views(shape(racks), ask)
        if not seen or not seen[0].cap.fit:
            continue
        assert isinstance(seen[0].cap, Ranged)
        apart = seen[0].cap.seen.apart
        places = np.array(sorted(rng.sample(range(len(apart.rows[-1])), rng.randint(1, len(apart.rows[-1])))))
        held = int(apart.fits[-1][places].sum())
        if held:
            n = rng.randint(1, held)
            compiled, plain = both(lambda: heaps.filled(apart, places, n))  # noqa: B023
            assert told(compiled) == told(plain)


def told(chosen: heaps.Chosen) -> object:
    return chosen.counts, chosen.fits, [(place, take.lens is not None or take.hosts) for place, take in chosen.uses]


def test_the_switch_leaves_everything_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    native.clear()
    monkeypatch.setenv(SWITCH, "0")
    assert not load()
    assert load_in_background() is None
    assert native.fill is None


def test_it_is_loaded_beside_the_process() -> None:
    native.clear()
    thread = load_in_background()
    assert thread is not None
    thread.join(120)
    assert native.fill is not None


def test_a_machine_without_numba_goes_on() -> None:
    code = "import sys; sys.modules['numba'] = None; from hanse.kit.native import load; print(load())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout == "False\n"
