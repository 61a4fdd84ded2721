"""Where small work goes: pods that one host holds together.

The declared score, smaller first: (1) how many kinds of whole things it breaks, from the host up: none if the host
is broken already, one for a whole host in a broken rack, two for a whole rack in a broken block, …; (2) what a host
of its class offers beside each GPU: a pod within the share of every class leaves the richer ones to those that are
not, and pods without GPUs prefer hosts without; (3) free GPUs of the host; (4) GPUs of the host; (5) whole hosts of
the lowest domain, then of the next, …: the emptiest places stay empty. Ties go by canonical order. A thing is whole
while every GPU in it is free, whatever the flavor.

All of this is in the shape, so the choice is the same above and below. Below, `packing` in the agent's core then
chooses among the hosts that the shape holds equal; pods that are not exact it places by itself.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hanse.shape.capacity import Cap
from hanse.shape.levels import CLASS_STRIDE, Ints
from hanse.shape.seen import Ranged
from hanse.shape.take import Found, Take

Score = tuple[int, ...]


class Host(NamedTuple):
    """The best host of a domain.

    Attributes:
        path: indices of children that lead to its lowest domain, and then that of its bin.
        fits: of the domains on the path, and what the host holds.
    """

    score: Score
    path: tuple[int, ...]
    fits: tuple[int, ...]


def on_one_host(cap: Cap, n: int) -> Found:
    """The best single host for n pods; `cap.peak[-1]` must be at least n."""
    host = _best(cap, n)
    take = Take(((host.path[-1], 1, n),))
    for i in reversed(host.path[:-1]):
        take = Take((), ((i, 1, take),))
    return Found(((1,) * len(host.fits)) + host.fits, take)


def score(cap: Cap, n: int) -> Score | None:
    """The score of the best host of a domain, None if no host holds n pods."""
    return _best(cap, n).score if cap.peak[-1] >= n else None


def _best(cap: Cap, n: int) -> Host:
    if n not in cap.single:
        cap.single[n] = _best_seen(cap, n) if isinstance(cap, Ranged) else _best_counted(cap, n)
    return cap.single[n]


def _best_counted(cap: Cap, n: int) -> Host:
    """Domain by domain."""
    if not cap.kids:
        (broken, *rest), i, most = min(
            [((int(0 < full == free), 0, free, full), i, most) for most, _, i, free, full in cap.hist if most >= n]
        )
        return Host((broken, *rest), (i,), (most,))
    options: list[tuple[Score, int, Host]] = []
    for i, (kid, _) in enumerate(cap.kids):
        if kid.peak[-1] >= n:
            own = _best_counted(kid, n)
            options.append(((own.score[0] + kid.whole, *own.score[1:], kid.whole_hosts), i, own))
    best, i, own = min(options)
    return Host(best, (i, *own.path), (cap.kids[i][0].fit, *own.fits))


def _best_seen(cap: Ranged, n: int) -> Host:
    """All hosts at once."""
    seen = cap.seen
    first, end = cap.ends[-1]
    bins: Ints = np.flatnonzero(seen.pods[first:end] >= n) + first
    keys = list(_keys(cap, bins))
    keys[0] = sum([key for key in keys if key.dtype == bool], np.zeros(len(bins), dtype=np.int64))
    parts: list[int] = []
    left = np.arange(len(bins))
    for key in [key for key in keys if key.dtype != bool]:
        own = key[left]
        least = own.min()
        parts.append(int(least))
        left = left[own == least]
    return Host(tuple(parts), *_way(cap, int(bins[left[0]])))


def _keys(cap: Ranged, bins: Ints) -> Iterator[np.typing.NDArray[np.int64 | np.bool_]]:
    """The components of the score of these hosts, whole things as truths."""
    seen, levels = cap.seen, cap.seen.levels
    classes, free = np.divmod(levels.numbers[bins], CLASS_STRIDE)
    full = np.array(seen.lens.full)[classes]
    yield np.zeros(0, dtype=np.int64)
    yield (full == free) & (full > 0)
    yield np.array(seen.lens.rich)[classes] if seen.lens.rich else np.zeros_like(free)
    yield free
    yield full
    rows = bins
    for depth in range(levels.depth - 1, cap.depth, -1):
        rows = np.searchsorted(levels.bounds[depth], rows, side="right") - 1
        yield seen.spots[depth].whole_hosts[rows]
        yield seen.spots[depth].broken[rows] == 0


def _way(cap: Ranged, row: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Indices of children from a domain down to one of its bins, and the fits of what is on the way."""
    bounds = cap.seen.levels.bounds
    path: list[int] = []
    fits = [int(cap.seen.pods[row])]
    for depth in range(len(bounds) - 1, cap.depth, -1):
        parent = int(np.searchsorted(bounds[depth], row, side="right")) - 1
        path.append(row - int(bounds[depth][parent]))
        fits.append(int(cap.seen.fits[depth][parent]))
        row = parent
    path.append(row - cap.ends[0][0])
    return tuple(path[::-1]), tuple(fits[::-1])
