"""Fewest parts that together hold n, and of those the choice with the smallest sum.

Parts come as (size, how many): hosts of a rack by capacity, racks of a block by fit. The fewest are found by taking
the largest; the smallest sum with that number is a subset sum, answered by swapping first (nearly always it ends at
no leftover at all, which nothing can beat) and by all exchanges at once where swapping does not prove itself.

Any other choice of as many parts is, part by part in the order of size, no larger than that of the largest. So it
comes from that one by exchanges that each save something, and together they may save no more than what is left over:
less than one part. That bounds the search, whatever n and the number of parts (`_by_exchanges`).
"""

from itertools import pairwise
from math import gcd

import numpy as np

from hanse.shape.native import native

Parts = tuple[tuple[int, int], ...]  # (size > 0, how many), largest size first, sizes distinct


def fewest(parts: Parts, n: int) -> int:
    """The least number of parts that hold n; -1 if all together do not."""
    used = 0
    for size, many in parts:
        if size * many >= n:
            return used - (-n // size)
        used += many
        n -= size * many
    return used if n <= 0 else -1


def tightest(parts: Parts, n: int) -> dict[int, int]:
    """How many parts of each size: the fewest that hold n > 0 and, of those, the smallest sum. All must fit."""
    count = fewest(parts, n)
    chosen = _largest(parts, count)
    total = sum([size * many for size, many in chosen.items()])
    least = least_sum(parts, n)
    if total > least:
        total = _swap_last(parts, chosen, total, n)
    if total > least:
        total = _swap_once(parts, chosen, total, n)
    if total > least:
        return _by_exchanges(parts, _largest(parts, count), n, least)
    return chosen


def least_sums(parts: Parts, most: int, *, exact: bool) -> tuple[list[int], list[int]]:
    """For every n from 0 to `most`, the fewest parts that hold n and, of those, the smallest sum.

    `most` must not be over the sum of all parts. Without `exact` the sums are those of the largest parts.
    """
    counts, sums = [0], [0]
    reach = _reach(parts) if exact else []
    total = 0
    for size, many in parts:
        for _ in range(many):
            total += size
            count = counts[-1] + 1
            while len(counts) <= min(total, most):
                n = len(counts)
                counts.append(count)
                sums.append(n + _first_bit(reach[count] >> n) if exact else total)
            if len(counts) > most:
                return counts, sums
    return counts, sums


def _reach(parts: Parts) -> list[int]:
    """For every number of parts, the sums that so many can reach, as bits of an integer."""
    count = sum([many for _, many in parts])
    reach = [1] + [0] * count
    for size, number in _bundles(parts):
        reach = [sums | reach[used - number] << size if used >= number else sums for used, sums in enumerate(reach)]
    return reach


def _bundles(parts: Parts) -> list[tuple[int, int]]:
    """(size, number) of bundles of equal parts, from which every number of them can be put together."""
    out: list[tuple[int, int]] = []
    for size, many in parts:
        number = 1
        while many > 0:
            number = min(number, many)
            out.append((size * number, number))
            many -= number
            number *= 2
    return out


def _first_bit(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def least_sum(parts: Parts, n: int) -> int:
    """No choice sums to n..this-1: sums are multiples of the sizes' common divisor."""
    divisor = gcd(*[size for size, _ in parts])
    return -(-n // divisor) * divisor


def _largest(parts: Parts, count: int) -> dict[int, int]:
    chosen: dict[int, int] = {}
    for size, many in parts:
        chosen[size] = min(many, count)
        count -= chosen[size]
        if count == 0:
            break
    return chosen


def _exchange(chosen: dict[int, int], old: int, new: int) -> None:
    chosen[old] -= 1
    if not chosen[old]:
        del chosen[old]
    chosen[new] = chosen.get(new, 0) + 1


def _swap_last(parts: Parts, chosen: dict[int, int], total: int, n: int) -> int:
    """Replaces the smallest chosen part by the smallest spare one that still suffices."""
    last = min(chosen)
    for size, many in reversed(parts):
        if size >= last:
            return total
        if size >= last - (total - n) and many > chosen.get(size, 0):
            _exchange(chosen, last, size)
            return total - last + size
    return total


def _swap_once(parts: Parts, chosen: dict[int, int], total: int, n: int) -> int:
    """The one exchange of a chosen part for a spare one that leaves least."""
    excess = total - n
    spare = {size for size, many in parts if many > chosen.get(size, 0)}
    saved, old, new = max(
        [(a - b, a, b) for a in sorted(chosen) for b in sorted(spare) if 0 < a - b <= excess], default=(0, 0, 0)
    )
    if saved:
        _exchange(chosen, old, new)
    return total - saved


def _by_exchanges(parts: Parts, largest: dict[int, int], n: int, least: int) -> dict[int, int]:
    """The smallest sum exactly: the exchanges of chosen parts for smaller spare ones that save most.

    Tried with few exchanges first, since few mostly do; as many as could matter at the last.
    """
    spare = {size: many - largest.get(size, 0) for size, many in parts}
    if native.by_exchanges is not None:
        sizes, there = np.array(parts, dtype=np.int64).T.copy()
        chosen = np.empty_like(sizes)
        had = np.array([largest.get(size, 0) for size, _ in parts], dtype=np.int64)
        if native.by_exchanges(sizes, there, had, n, least, chosen):
            return {size: many for (size, _), many in zip(parts, chosen.tolist(), strict=True) if many}
    excess = sum([size * many for size, many in largest.items()]) - n
    most = min(excess, sum(largest.values()), sum(spare.values()))
    at_once = min(most, 2)
    while True:
        steps = _steps(parts, largest, spare, at_once, excess)
        saved = steps[-1][2][0].bit_length() - 1
        if at_once >= most or excess - saved <= least - n:
            return _exchanged(largest, steps, saved)
        at_once = min(most, 4 * at_once)


Step = tuple[int, int, list[int]]  # size, 1 if one is given up or -1 if one is taken instead, what is in reach then


def _steps(parts: Parts, largest: dict[int, int], spare: dict[int, int], at_once: int, excess: int) -> list[Step]:
    """Size by size from the largest: what may be saved (bits) while 0, 1, … parts are given up and not replaced yet.

    Going down by a gap between sizes saves that gap once for each part that waits for its replacement.
    """
    mask = (1 << excess + 1) - 1
    reach = [1] + [0] * at_once
    steps: list[Step] = [(parts[0][0], 0, reach)]
    for size, _ in parts:
        gap = steps[-1][0] - size
        reach = [(bits << gap * open_) & mask if gap * open_ <= excess else 0 for open_, bits in enumerate(reach)]
        steps.append((size, 0, reach))
        for _ in range(min(largest.get(size, 0), at_once)):
            reach = [reach[0], *[bits | fewer for fewer, bits in pairwise(reach)]]
            steps.append((size, 1, reach))
        for _ in range(min(spare[size], at_once)):
            reach = [*[bits | more for bits, more in pairwise(reach)], reach[-1]]
            steps.append((size, -1, reach))
    return steps


def _exchanged(largest: dict[int, int], steps: list[Step], saved: int) -> dict[int, int]:
    """The choice that saves so much: back through the steps."""
    chosen = dict(largest)
    open_ = 0
    for (size, way, _), (before, _, reach) in zip(reversed(steps[1:]), reversed(steps[:-1]), strict=True):
        if way == 0:
            saved -= (before - size) * open_
        elif not reach[open_] >> saved & 1:
            open_ -= way
            chosen[size] = chosen.get(size, 0) - way
    return {size: many for size, many in chosen.items() if many}
