"""Fewest parts, then the smallest sum, against trying everything."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.shape.tightest import fewest, least_sums, tightest

sizes = st.lists(st.integers(1, 12), min_size=1, max_size=9)


def as_parts(parts: list[int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(((size, parts.count(size)) for size in set(parts)), reverse=True))


def by_trying(parts: list[int], n: int) -> tuple[int, int]:
    for many in range(1, len(parts) + 1):
        sums = [sum(some) for some in combinations(parts, many) if sum(some) >= n]
        if sums:
            return many, min(sums)
    raise AssertionError


@settings(max_examples=400, deadline=None)
@given(sizes, st.data())
def test_fewest_and_tightest(parts: list[int], data: st.DataObject) -> None:
    n = data.draw(st.integers(1, sum(parts)))
    chosen = tightest(as_parts(parts), n)
    assert all(many <= parts.count(size) for size, many in chosen.items())
    total = sum(size * many for size, many in chosen.items())
    assert (sum(chosen.values()), total) == by_trying(parts, n)
    assert fewest(as_parts(parts), n) == sum(chosen.values())


@settings(max_examples=200, deadline=None)
@given(sizes)
def test_the_table_of_all_sums(parts: list[int]) -> None:
    counts, sums = least_sums(as_parts(parts), sum(parts), exact=True)
    rough, _ = least_sums(as_parts(parts), sum(parts), exact=False)
    assert counts == rough
    assert [(counts[n], sums[n]) for n in range(1, sum(parts) + 1)] == [
        by_trying(parts, n) for n in range(1, sum(parts) + 1)
    ]


def test_many_parts_are_no_excuse() -> None:
    chosen = tightest(((10, 30_000), (7, 30_000), (4, 30_000)), 250_001)
    assert sum(chosen.values()) == 25_001
    assert sum(size * many for size, many in chosen.items()) == 250_001  # three exchanges save three pods each


def test_too_much_is_refused() -> None:
    assert fewest(((8, 2), (1, 1)), 18) == -1
