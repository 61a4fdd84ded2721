"""Inner loops of placement as compiled code. Importing this needs numba; `native` does it where there is one.

Each is one function of `hanse.shape`, loop by loop: same choice among equals, same result to the
last number. A scheduler with compiled kernels and an agent without them agree on every place. They stand alone, take
arrays of 64-bit integers, and tell by a flag where a question is too large for them.
"""

from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hanse.shape.levels import CLASS_STRIDE

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

CELLS_MAX: Final = 8_000_000  # words of the tables of one subset sum: 64 MB
FAR: Final = 1 << 61  # more than any cost


@njit("void(uint64[:, :, ::1], int64, int64, int64, int64, int64)", cache=True)
def _gap(reach: Words, step: int, at_once: int, words: int, gap: int, excess: int) -> None:
    """Step `step` from the one before: what is saved grows by the gap for each part that waits."""
    last = excess // 64
    for open_ in range(at_once + 1):
        by = gap * open_
        if by > excess:
            for w in range(words):
                reach[step, open_, w] = np.uint64(0)
            continue
        whole, bits = by // 64, by % 64
        for w in range(words - 1, -1, -1):
            value = np.uint64(0)
            if w - whole >= 0:
                value = reach[step - 1, open_, w - whole] << np.uint64(bits)
                if bits and w - whole - 1 >= 0:
                    value |= reach[step - 1, open_, w - whole - 1] >> np.uint64(64 - bits)
            reach[step, open_, w] = value
        over = excess % 64
        if over < 63:
            reach[step, open_, last] &= (np.uint64(1) << np.uint64(over + 1)) - np.uint64(1)


@njit("int64(int64[::1], int64[::1], int64[::1], int64, int64, int64[::1])", cache=True)
def by_exchanges(sizes: Ints, many: Ints, largest: Ints, n: int, least: int, chosen: Ints) -> int:
    """See `tightest._by_exchanges`: the choice goes to `chosen`. 0 if the tables would be too large."""
    kinds = len(sizes)
    total = 0
    used = 0
    spares = 0
    for i in range(kinds):
        total += sizes[i] * largest[i]
        used += largest[i]
        spares += many[i] - largest[i]
    excess = total - n
    most = min(excess, min(used, spares))
    at_once = min(most, 2)
    words = excess // 64 + 1
    while True:
        steps = 1
        for i in range(kinds):
            steps += 1 + min(largest[i], at_once) + min(many[i] - largest[i], at_once)
        if steps * (at_once + 1) * words > CELLS_MAX:
            return 0
        reach = np.zeros((steps, at_once + 1, words), np.uint64)
        size_of = np.empty(steps, np.int64)
        way = np.zeros(steps, np.int64)
        reach[0, 0, 0] = np.uint64(1)
        size_of[0] = sizes[0]
        step = 0
        for i in range(kinds):
            gap = size_of[step] - sizes[i]
            step += 1
            size_of[step] = sizes[i]
            _gap(reach, step, at_once, words, gap, excess)
            for _ in range(min(largest[i], at_once)):
                step += 1
                size_of[step], way[step] = sizes[i], 1
                for w in range(words):
                    reach[step, 0, w] = reach[step - 1, 0, w]
                    for open_ in range(1, at_once + 1):
                        reach[step, open_, w] = reach[step - 1, open_, w] | reach[step - 1, open_ - 1, w]
            for _ in range(min(many[i] - largest[i], at_once)):
                step += 1
                size_of[step], way[step] = sizes[i], -1
                for w in range(words):
                    for open_ in range(at_once):
                        reach[step, open_, w] = reach[step - 1, open_, w] | reach[step - 1, open_ + 1, w]
                    reach[step, at_once, w] = reach[step - 1, at_once, w]
        saved = -1
        for at in range(excess, -1, -1):
            if reach[step, 0, at // 64] >> np.uint64(at % 64) & np.uint64(1):
                saved = at
                break
        if at_once >= most or excess - saved <= least - n:
            break
        at_once = min(most, 4 * at_once)
    for i in range(kinds):
        chosen[i] = largest[i]
    open_ = 0
    i = kinds - 1
    for at in range(step, 0, -1):
        while sizes[i] != size_of[at]:
            i -= 1
        if way[at] == 0:
            saved -= (size_of[at - 1] - size_of[at]) * open_
        elif not (reach[at - 1, open_, saved // 64] >> np.uint64(saved % 64) & np.uint64(1)):
            open_ -= way[at]
            chosen[i] -= way[at]
    return 1


@njit("int64(int64[::1], int64[::1], int64, int64[::1])", cache=True)
def tightest(sizes: Ints, many: Ints, n: int, chosen: Ints) -> int:
    """See `tightest.tightest`: how many of each size goes to `chosen`. 0 if that is too large a question.

    Args:
        sizes: largest first, distinct.
    """
    kinds = len(sizes)
    count = 0
    rest = n
    for i in range(kinds):
        if sizes[i] * many[i] >= rest:
            count += -(-rest // sizes[i])
            rest = 0
            break
        count += many[i]
        rest -= sizes[i] * many[i]
    divisor = 0
    for i in range(kinds):
        a, b = divisor, sizes[i]
        while b:
            a, b = b, a % b
        divisor = a
    least = -(-n // divisor) * divisor
    total = 0
    last = 0
    left = count
    for i in range(kinds):
        chosen[i] = min(many[i], left)
        left -= chosen[i]
        total += sizes[i] * chosen[i]
        if chosen[i]:
            last = i
    if total <= least:
        return 1
    largest = chosen.copy()
    for i in range(kinds - 1, last, -1):
        if sizes[i] >= sizes[last] - (total - n) and many[i] > chosen[i]:
            chosen[last] -= 1
            chosen[i] += 1
            total += sizes[i] - sizes[last]
            break
    if total <= least:
        return 1
    excess = total - n
    saved, old, new = 0, -1, -1
    for a in range(kinds):  # the largest of equals first, as a comparison of (saved, old, new) would
        if not chosen[a]:
            continue
        for b in range(a + 1, kinds):
            gain = sizes[a] - sizes[b]
            if gain > excess:
                break
            if gain > saved and many[b] > chosen[b]:
                saved, old, new = gain, a, b
    if saved:
        chosen[old] -= 1
        chosen[new] += 1
        total -= saved
    if total <= least:
        return 1
    return by_exchanges(sizes, many, largest, n, least, chosen)


@njit(
    "Tuple((int64, int64, int64[:, ::1], int64[::1], boolean[::1]))"
    "(int64[:], int64[:], int64[:], int64[:], int64[:], int64[:], int64)",
    cache=True,
)
def fill(
    rows: Ints, starts: Ints, pods: Ints, numbers: Ints, hosts: Ints, fits: Ints, n: int
) -> tuple[int, int, Ints, Ints, NDArray[np.bool_]]:
    """See `heaps.filled`: hosts that are used (-1 if the question is too large) and what they hold together; then
    (bin of its domain, hosts, pods) for each use of hosts, where those of each domain end, and whether it is used as
    far as it can be.

    Args:
        rows: lowest domains by number.
        starts: by lowest domain, its first bin.
        pods, numbers, hosts: by bin.
        fits: by lowest domain.
    """
    most = 0
    bins = 0
    for row in rows:
        for at in range(starts[row], starts[row + 1]):
            bins += 1
            most = max(most, pods[at])
    many_of = np.zeros(most + 1, np.int64)
    for row in rows:
        for at in range(starts[row], starts[row + 1]):
            many_of[pods[at]] += hosts[at]
    kinds = 0
    for size in range(1, most + 1):
        kinds += many_of[size] > 0
    sizes = np.empty(kinds, np.int64)
    many = np.empty(kinds, np.int64)
    chosen = np.zeros(kinds, np.int64)
    kind = 0
    for size in range(most, 0, -1):
        if many_of[size]:
            sizes[kind], many[kind] = size, many_of[size]
            kind += 1
    out = np.empty((bins + 1, 3), np.int64)
    ends = np.zeros(len(rows), np.int64)
    whole = np.zeros(len(rows), np.bool_)
    if not tightest(sizes, many, n, chosen):
        return -1, 0, out, ends, whole
    left = np.zeros(most + 1, np.int64)
    used = 0
    held = 0
    short = 0
    for kind in range(kinds):
        left[sizes[kind]] = chosen[kind]
        used += chosen[kind]
        held += sizes[kind] * chosen[kind]
        if chosen[kind]:
            short = sizes[kind]
    rest = held - n
    at_out = 0
    order = np.empty(bins, np.int64)
    for r in range(len(rows)):
        row = rows[r]
        first, end = starts[row], starts[row + 1]
        width = 0
        every = 0
        for at in range(first, end):  # by most pods, then fewest free GPUs, then number
            every += pods[at] * hosts[at]
            put = width
            while put > 0:
                before = order[put - 1]
                if pods[before] > pods[at]:
                    break
                if pods[before] == pods[at] and numbers[before] % CLASS_STRIDE <= numbers[at] % CLASS_STRIDE:
                    break
                order[put] = before
                put -= 1
            order[put] = at
            width += 1
        here = 0
        for o in range(width):
            at = order[o]
            size = pods[at]
            use = min(hosts[at], left[size])
            if size == 0 or use == 0:
                continue
            left[size] -= use
            here += size * use
            if size == short and rest:
                if use > 1:
                    out[at_out, 0], out[at_out, 1], out[at_out, 2] = at - first, use - 1, size
                    at_out += 1
                out[at_out, 0], out[at_out, 1], out[at_out, 2] = at - first, 1, size - rest
                here, rest = here - rest, 0
            else:
                out[at_out, 0], out[at_out, 1], out[at_out, 2] = at - first, use, size
            at_out += 1
        ends[r] = at_out
        whole[r] = here == fits[row] and here == every
    return used, held, out[:at_out], ends, whole


@njit("int64[:, ::1](int64[:], int64, int64, int64[:, :])", cache=True)
def cheapest(steps: Ints, spare: int, count: int, costs: Ints) -> Ints:
    """See `deal._cheapest`: (place, steps left out) a line."""
    places, width = len(steps), costs.shape[1]
    tables = np.full((places + 1, count + 1, spare + 1), FAR, np.int64)
    tables[0, 0, 0] = 0
    for at in range(places):
        before, table = tables[at], tables[at + 1]
        table[:] = before
        first, end = max(0, count - (places - at)), min(at + 1, count)
        while first < end and steps[first] - steps[at] > spare:
            first += 1
        for used in range(first, end):
            lost = steps[used] - steps[at]
            for had in range(spare + 1 - lost):
                base = before[used, had]
                if base >= FAR:
                    continue
                for less in range(min(width, spare + 1 - lost - had)):
                    cost = base + costs[at, less]
                    if cost < table[used + 1, had + lost + less]:
                        table[used + 1, had + lost + less] = cost
    used, lost = count, spare
    cost = tables[places, used, lost]
    out = np.empty((count, 2), np.int64)
    at_out = count
    for at in range(places - 1, -1, -1):
        before = tables[at]
        if before[used, lost] == cost:
            continue
        used -= 1
        lost -= steps[used] - steps[at]
        for less in range(min(width, lost + 1)):
            if before[used, lost - less] + costs[at, less] == cost:
                lost -= less
                cost -= costs[at, less]
                at_out -= 1
                out[at_out, 0], out[at_out, 1] = at, less
                break
    return out[at_out:].copy()


@njit("void(int64[:, :], int64[:], int64[:, :], int64[:, ::1], int32[::1])", cache=True)
def added(costs: Ints, amounts: Ints, prices: Ints, best: Ints, choice: NDArray[np.int32]) -> None:
    """See `exact._added`: the new table goes to `best`, and which amount was best to `choice`.

    Args:
        costs, best: by word and number of steps.
        prices: by word and amount.
    """
    words, width = costs.shape
    for total in range(width):
        for w in range(words):
            best[w, total] = costs[w, total]
        for a in range(len(amounts)):
            rest = max(0, total - amounts[a])
            if costs[0, rest] >= FAR:
                continue
            for w in range(words):
                cost = costs[w, rest] + prices[w, a]
                if cost != best[w, total]:
                    if cost < best[w, total]:
                        for later in range(w, words):
                            best[later, total] = costs[later, rest] + prices[later, a]
                        choice[total] = a + 1
                    break


@njit("int64(int64[:], int64[:], int64, int64, boolean[:, :, ::1])", cache=True)
def lightest(weights: Ints, gains: Ints, count: int, demand: int, took: NDArray[np.bool_]) -> int:
    """See `subsets._lightest`: which rows were better goes to `took`. 0 if no rows meet the demand."""
    best = np.full((count + 1, demand + 1), FAR, np.int64)
    best[0, 0] = 0
    for row in range(len(weights)):
        shift = min(gains[row], demand)
        for used in range(min(row + 1, count), 0, -1):
            for have in range(demand, -1, -1):
                cost = best[used - 1, max(0, have - shift)] + weights[row]
                if cost < best[used, have]:
                    best[used, have] = cost
                    took[row, used, have] = True
    return int(best[count, demand] < FAR)
