"""Fewest parts that together hold n, and of those the choice with the smallest sum.

Parts come as (size, how many): hosts of a rack by capacity, racks of a block by fit. The fewest are found by taking
the largest; the smallest sum with that number is a subset sum, answered by swapping first (nearly always it ends at
no leftover at all, which nothing can beat) and by a bitset over sums where swapping does not prove itself.
"""

from math import gcd

SUMS_WORK_MAX = (
    2_000_000_000  # bits; beyond it the swaps' answer stands: the same number of parts, a sum near the least
)

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
    if total > least and len(parts) * count * n <= SUMS_WORK_MAX:
        return _by_sums(parts, count, n)
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
    return _sums(_bundles(parts), sum([many for _, many in parts]))[-1]


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


def _sums(bundles: list[tuple[int, int]], count: int) -> list[list[int]]:
    """After 0, 1, … bundles: for every number of parts up to `count`, the sums in reach, as bits."""
    reach = [1] + [0] * count
    trail = [reach]
    for size, number in bundles:
        reach = [sums | reach[used - number] << size if used >= number else sums for used, sums in enumerate(reach)]
        trail.append(reach)
    return trail


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


def _by_sums(parts: Parts, count: int, n: int) -> dict[int, int]:
    """The smallest sum exactly: every sum in reach, then back from the first that suffices."""
    bundles = _bundles(parts)
    trail = _sums(bundles, count)
    total = n + _first_bit(trail[-1][count] >> n)
    chosen: dict[int, int] = {}
    for (size, number), before in zip(reversed(bundles), reversed(trail[:-1]), strict=True):
        if not before[count] >> total & 1:
            chosen[size // number] = chosen.get(size // number, 0) + number
            count -= number
            total -= size
    return chosen
