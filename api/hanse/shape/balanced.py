"""Sharing pods out evenly over the domains of one level: 16 + 16 rather than 18 + 14.

Which number of domains is used does not change: fewest at every level from the top down to the balanced one, as for
any gang. Among all such choices the largest share is made as small as possible, then the smallest share as large as
possible, both by bisection: domains are treated as if none held more than the first bound, and as if those that hold
less than the second held nothing, and `solve`, on the tree above them, says whether their number stays what it was.
Pods are then shared out over the domains that it found, one step (slice) more to the roomiest where they do not
divide, and each share is placed as `solve` places it. Slices of a coarser level keep their sizes: pods are shared out
inside each.
"""

from collections.abc import Iterator
from typing import NamedTuple

from hanse.shape.capacity import Cap, joined, lowest
from hanse.shape.lens import Lens
from hanse.shape.solve import solve, together
from hanse.shape.take import Found, Take, pods_of


class Bounds(NamedTuple):
    """What one domain of a depth may be given if it is given anything."""

    depth: int
    least: int
    most: int


def balance(cap: Cap, lens: Lens, depth: int, n: int) -> Found:
    """n pods below a group's root, shared out evenly over the fewest domains of a depth (that of hosts included)."""
    found = solve(cap, n)
    parts = found.cost[depth]
    if parts < 2:
        return found
    step = lens.steps[depth]
    prefix = found.cost[: depth + 1]

    def holds(least: int, most: int) -> bool:
        short = trimmed(cap, lens, Bounds(depth, least, most), -1)
        return short.fit >= n and solve(short, n).cost[: depth + 1] == prefix

    low, high = -(-n // (parts * step)), cap.peak[depth + 1] // step
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(0, middle * step) else (middle + 1, high)
    most = low * step
    low, high = 0, n // (parts * step)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle * step, most) else (low, middle - 1)
    bounds = Bounds(depth, low * step, most)
    return _shared(cap, lens, solve(trimmed(cap, lens, bounds, -1), n).take, bounds, -1)


def deal(cap: Cap, lens: Lens, depth: int, n: int) -> Found:
    """n pods over the fewest domains from the top down to a depth of which each may be given a bounded number.

    What `solve` finds on a large tree after a long search, but for what is below that depth: how many places are used
    there is the least for each share, and not for the sum of them.
    """
    take = solve(trimmed(cap, lens, Bounds(depth, 0, n), -1), n).take
    shares = iter([pods for many, pods in _dealt(take) for _ in range(many)])
    return _given(cap, take, Bounds(depth, 0, n), -1, shares)


def _dealt(take: Take) -> Iterator[tuple[int, int]]:
    """(how many, pods of each) of what stands for hosts in a trimmed tree, in the order of the take."""
    for _, many, pods in take.hosts:
        yield many, pods
    for _, copies, below in take.kids:
        for _ in range(copies):
            yield from _dealt(below)


def trimmed(cap: Cap, lens: Lens, bounds: Bounds, at: int) -> Cap:
    """The tree down to the bounds' depth, whose domains stand as if they were hosts: with no more than the most, and
    not at all if they hold less than the least. `at` is the depth of `cap` itself."""
    if at + 1 < bounds.depth:
        kids = tuple([(trimmed(kid, lens, bounds, at + 1), copies) for kid, copies in cap.kids])
        return joined(kids, lens, at)
    most = bounds.most // lens.steps[bounds.depth] * lens.steps[bounds.depth]
    parts = [(min(fit, most), many, i, 0, 0) for i, (fit, many) in _parts(cap) if fit and fit >= bounds.least]
    return lowest(parts, lens, at, free=0, whole=cap.whole, whole_hosts=0)


def _parts(cap: Cap) -> Iterator[tuple[int, tuple[int, int]]]:
    """(index, (fit, how many)) of the children, or of the bins of a lowest domain."""
    if cap.kids:
        return ((i, (kid.fit, copies)) for i, (kid, copies) in enumerate(cap.kids))
    return ((i, (most, hosts)) for most, hosts, i, _, _ in cap.hist)


def _shared(cap: Cap, lens: Lens, take: Take, bounds: Bounds, at: int) -> Found:
    """The pods of a take, shared out anew over the domains of the depth that it uses."""
    if any(lens.floors[at + 1 : bounds.depth]):
        return together(
            cap,
            [
                (i, 1, _shared(cap.kids[i][0], lens, below, bounds, at + 1))
                for i, copies, below in take.kids
                for _ in range(copies)
            ],
        )
    rooms = list(_rooms(cap, take, bounds, at))
    shares = iter(_even(rooms, pods_of(take), lens.steps[bounds.depth]))
    return _given(cap, take, bounds, at, shares)


def _rooms(cap: Cap, take: Take, bounds: Bounds, at: int) -> Iterator[int]:
    """What each used domain of the depth may hold, in the order of the take."""
    if at + 1 == bounds.depth:
        fits = dict(_parts(cap))
        yield from (min(fits[i][0], bounds.most) for i, many, _ in take.hosts for _ in range(many))
        return
    for i, copies, below in take.kids:
        for _ in range(copies):
            yield from _rooms(cap.kids[i][0], below, bounds, at + 1)


def _given(cap: Cap, take: Take, bounds: Bounds, at: int, shares: Iterator[int]) -> Found:
    """The same domains with these shares."""
    if at + 1 < bounds.depth:
        kids = [(i, below) for i, copies, below in take.kids for _ in range(copies)]
        return together(cap, [(i, 1, _given(cap.kids[i][0], below, bounds, at + 1, shares)) for i, below in kids])
    used = [(i, next(shares)) for i, many, _ in take.hosts for _ in range(many)]
    if cap.kids:
        return together(cap, [(i, 1, solve(cap.kids[i][0], share)) for i, share in used])
    fits = dict(_parts(cap))
    hosts = tuple([(i, 1, share) for i, share in used])
    return Found((len(hosts), sum([fits[i][0] for i, _ in used])), Take(hosts))


def _even(rooms: list[int], n: int, step: int) -> list[int]:
    """n in multiples of a step over these rooms, as evenly as they allow; what is left goes to the roomiest."""
    level, left = 0, n
    open_ = sorted(set(rooms))
    for room in open_:
        wider = sum([1 for other in rooms if other > level])
        rise = min(room - level, left // wider // step * step)
        level, left = level + rise, left - rise * wider
        if level < room:
            break
    shares = [min(room, level) for room in rooms]
    for i in sorted(range(len(rooms)), key=lambda i: (-rooms[i], i)):
        more = min(step, left, rooms[i] - shares[i])
        shares[i], left = shares[i] + more, left - more
    return shares
