"""Hosts of lowest domains, as far as these are used: the fewest, and the tightest choice of so many."""

from functools import partial
from typing import NamedTuple

import numpy as np

from hanse.shape.levels import CLASS_STRIDE, Ints
from hanse.shape.native import native
from hanse.shape.pick import Picked, pick
from hanse.shape.seen import Apart, Seen
from hanse.shape.take import Cost, Take
from hanse.shape.tightest import fewest, least_sum, tightest

Uses = list[tuple[int, Take]]  # lowest domains by place, ascending, with what is used of them


class Chosen(NamedTuple):
    """Lowest domains that hold the wanted pods, and what that costs: counts from a level on, then fits."""

    counts: tuple[int, ...]
    fits: tuple[int, ...]
    uses: Uses

    @property
    def cost(self) -> Cost:
        """As in `solve`."""
        return (*self.counts, *self.fits)


def evenly(apart: Apart, places: Ints, fits: Ints, n: int) -> Chosen:
    """Among lowest domains of which only the sum of what they hold matters."""
    wanted = tightest(counts_of(fits), n)
    held, short = sum([size * many for size, many in wanted.items()]), min(wanted)
    rest = held - n
    parts: list[Chosen] = []
    some = _of_sizes(fits, wanted)
    for at in some:
        fit = int(fits[at])
        less = rest if fit == short else 0
        rest -= less
        parts.append(filled(apart, places[at : at + 1], fit - less))
    return summed(len(some), held, parts)


def is_even(seen: Seen, step: int) -> bool:
    """Whether hosts are alike and a step fills them to the last pod, so that no choice of hosts is better."""
    return len(seen.sizes) == 1 and step % int(seen.sizes[0]) == 0


def summed(count: int, held: int, parts: list[Chosen]) -> Chosen:
    """What is chosen in several places, which hold so much."""
    counts = [sum(column) for column in zip(*[part.counts for part in parts], strict=True)]
    fits = [sum(column) for column in zip(*[part.fits for part in parts], strict=True)]
    return Chosen((count, *counts), (held, *fits), sorted([use for part in parts for use in part.uses], key=_place))


def _place(use: tuple[int, Take]) -> int:
    return use[0]


def lowest_alike(apart: Apart, places: Ints, fits: Ints, n: int) -> Chosen | None:
    """Among lowest domains whose hosts may be used in any number."""
    sizes = apart.seen.sizes
    count, lightest = _lightest(fits, n)
    if len(sizes) == 1:
        wanted = tightest(counts_of(fits), n)
        sets = [_of_sizes(fits, wanted)]
        picked = Picked(-(-n // int(sizes[0])), lightest, sets, every=True)
    else:
        rows = np.concatenate((fits[None, :], apart.above(len(apart.fits) - 1)[:, places])).T
        found = pick(rows, sizes, n, count, lightest)
        if found is None:
            return None
        picked = found
    best: Chosen | None = None
    for some in picked.sets:
        chosen = filled(apart, places[some], n)
        chosen = Chosen((count, *chosen.counts), (picked.held, *chosen.fits), chosen.uses)
        if best is None or chosen.fits < best.fits:
            best = chosen
        if best.fits[-1] == n:
            return best
    if best is None or not (picked.every or best.fits[-1] <= _least_hosts_sum(sizes, n)):
        return None
    return best


def _least_hosts_sum(sizes: Ints, n: int) -> int:
    return least_sum(tuple([(size, 1) for size in sizes.tolist()]), n)


def _lightest(fits: Ints, n: int) -> tuple[int, int]:
    """The fewest places that hold n, and the least that so many of them hold together."""
    parts = counts_of(fits)
    return fewest(parts, n), sum([size * many for size, many in tightest(parts, n).items()])


def counts_of(fits: Ints) -> tuple[tuple[int, int], ...]:
    total: dict[int, int] = {}
    for fit in fits.tolist():
        if fit:
            total[fit] = total.get(fit, 0) + 1
    return tuple(sorted(total.items(), reverse=True))


def _of_sizes(fits: Ints, wanted: dict[int, int]) -> list[int]:
    """Positions of so many places of each fit."""
    out: list[int] = []
    for at, fit in enumerate(fits.tolist()):
        if wanted.get(fit, 0):
            wanted[fit] -= 1
            out.append(at)
    return out


def filled(apart: Apart, places: Ints, n: int) -> Chosen:
    """The hosts of these lowest domains that hold n: the fewest, and the tightest choice of so many."""
    seen = apart.seen
    starts, whole = seen.levels.bounds[-1], seen.fits[-1]
    if native.fill is not None:
        levels, own_rows = seen.levels, apart.rows[-1][places]
        told = native.fill(own_rows, starts, seen.pods, levels.numbers, levels.hosts, whole, n)
        if told[0] >= 0:
            return _as_told(seen, places, own_rows, told)
    rows = apart.rows[-1][places].tolist()
    hosts: list[list[tuple[int, int, int, int]]] = []  # by domain, (pods, free GPUs, bin, hosts), most first
    total: dict[int, int] = {}
    for row in rows:
        first, end = int(starts[row]), int(starts[row + 1])
        own = list(
            zip(
                seen.pods[first:end].tolist(),
                (seen.levels.numbers[first:end] % CLASS_STRIDE).tolist(),
                range(end - first),
                seen.levels.hosts[first:end].tolist(),
                strict=True,
            )
        )
        hosts.append(own)
        for pods, _, _, many in own:
            if pods:
                total[pods] = total.get(pods, 0) + many
    parts = tightest(tuple(sorted(total.items(), reverse=True)), n)
    used = sum(parts.values())
    held = sum([size * many for size, many in parts.items()])
    rest, short = held - n, min(parts)
    uses: Uses = []
    for place, row, own in zip(places.tolist(), rows, hosts, strict=True):
        take: list[tuple[int, int, int]] = []
        pods_here = 0
        for pods, _, i, many in sorted(own, key=_most_first):
            use = min(many, parts.get(pods, 0))
            if use:
                parts[pods] -= use
                pods_here += pods * use
                if pods == short and rest:
                    if use > 1:
                        take.append((i, use - 1, pods))
                    take.append((i, 1, pods - rest))
                    pods_here, rest = pods_here - rest, 0
                else:
                    take.append((i, use, pods))
        if pods_here == int(whole[row]) and pods_here == sum([pods * many for pods, _, _, many in own]):
            uses.append((place, _everything(seen, row)))
        else:
            uses.append((place, Take(tuple(take))))
    return Chosen((used,), (held,), uses)


def _as_told(seen: Seen, places: Ints, rows: Ints, told: tuple[int, int, Ints, Ints, Ints]) -> Chosen:
    """What a compiled `filled` chose."""
    used, held, taken, ends, whole = told
    hosts = list(zip(*taken.T.tolist(), strict=True))
    uses: Uses = []
    first = 0
    for place, row, end, every in zip(places.tolist(), rows.tolist(), ends.tolist(), whole.tolist(), strict=True):
        uses.append((place, _everything(seen, row) if every else Take(tuple(hosts[first:end]))))
        first = end
    return Chosen((used,), (held,), uses)


def _most_first(entry: tuple[int, int, int, int]) -> tuple[int, int, int]:
    return -entry[0], entry[1], entry[2]


def _everything(seen: Seen, row: int) -> Take:
    return Take(all_of=partial(seen.lowest, row), lens=seen.lens)


def fewest_hosts(sizes: Ints, above: Ints, n: int) -> Ints:
    """For each column of what is held above the sizes, the fewest hosts that hold n."""
    least = np.full(above.shape[1], -(-n // int(sizes[-1])), dtype=np.int64)
    return np.maximum(least, np.max(-((above - n) // sizes[:-1, None]), axis=0)) if len(sizes) > 1 else least
