"""Which heaps to use: the best of all choices, found without writing down more of them than there is room for."""

from itertools import combinations
from random import Random

import numpy as np

from hanse.shape.pick import CELLS_MAX, CHOICES_MAX, choices, pick


def test_one_of_many_heaps_is_found_without_a_table() -> None:
    rows = np.arange(1, 4_001)[:, None]
    found = pick(rows, np.array([1]), 2_500, 1, 2_500)
    assert found is not None
    assert (found.held, [list(own) for own in found.sets]) == (2_500, [[2_499]])


def test_a_table_that_would_be_large_is_not_made() -> None:
    assert choices(1_000, 999, CHOICES_MAX) is None
    assert choices(60, 2, CHOICES_MAX) is None
    table = choices(50, 2, CHOICES_MAX)
    assert table is not None
    assert table[1].size <= CELLS_MAX
    assert np.array_equal(table[1].sum(axis=1), np.full(1_225, 2.0))


def test_what_is_picked_is_the_best_of_all_choices() -> None:
    rng, sizes = Random(3), np.array([1, 2])
    for _ in range(300):
        rows = np.array([(own := rng.randint(1, 12), rng.randint(0, own // 2)) for _ in range(rng.randint(2, 7))])
        count = rng.randint(1, len(rows))
        n = rng.randint(1, int(np.sort(rows[:, 0])[-count:].sum()))
        found = pick(rows, sizes, n, count, n)
        if found is None:
            continue
        every = [rows[list(some)].sum(axis=0) for some in combinations(range(len(rows)), count)]
        meeting = [int(held) for held, above in every if held >= n and above >= n - found.parts]
        assert found.held == min(meeting)
