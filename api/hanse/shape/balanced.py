"""Sharing pods out evenly over the domains of one level: 16 + 16 rather than 18 + 14.

Which number of domains is used does not change: fewest at every level from the top down to the balanced one, as for
any gang. Among all such choices the largest share is made as small as possible, then the smallest share as large as
possible, both by bisection: domains are treated as if none held more than the first bound, and as if those that hold
less than the second held nothing, and `solve` says whether the number of domains stays what it was. In the domains
that are found the pods are then shared out, one step (slice) more to the roomiest where they do not divide, and each
share is placed as `solve` places it. Slices of a coarser level keep their sizes: pods are shared out inside each.
"""

from collections.abc import Iterator
from typing import NamedTuple

from hanse.shape.capacity import Cap, joined, lowest
from hanse.shape.lens import Lens
from hanse.shape.solve import Found, Take, pods_of, solve, together


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
        clipped = bounded(cap, lens, Bounds(depth, least, most), -1)
        return clipped.fit >= n and solve(clipped, n).cost[: depth + 1] == prefix

    low, high = -(-n // (parts * step)), cap.peak[depth + 1] // step
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(0, middle * step) else (middle + 1, high)
    most = low * step
    low, high = 0, n // (parts * step)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle * step, most) else (low, middle - 1)
    even = solve(bounded(cap, lens, Bounds(depth, low * step, most), -1), n)
    return _shared(cap, lens, even.take, Bounds(depth, low * step, most), -1)


def bounded(cap: Cap, lens: Lens, bounds: Bounds, at: int) -> Cap:
    """The capacity if every domain of the bounds' depth holds their most, or nothing if it holds less than their
    least. `at` is the depth of `cap` itself."""
    if at == bounds.depth:
        fit = min(cap.fit, bounds.most) if cap.fit >= bounds.least else 0
        peak = tuple([min(fit, below) for below in cap.peak])
        return Cap(
            cap.node, fit, cap.kids, cap.hist, step=cap.step, peak=peak, free=cap.free, whole=cap.whole,
            whole_hosts=cap.whole_hosts, capped=True,
        )  # fmt: skip
    if not cap.kids:
        step = lens.steps[-1]
        room = bounds.most // step * step
        hist = [
            (min(most, room), hosts, i, free, full) for most, hosts, i, free, full in cap.hist if most >= bounds.least
        ]
        low = lowest(cap.node, hist, lens, at, free=cap.free, whole=cap.whole, whole_hosts=cap.whole_hosts)
        return _capped(low)
    kids = tuple([(bounded(kid, lens, bounds, at + 1), copies) for kid, copies in cap.kids])
    return _capped(joined(cap.node, kids, lens, at))


def _capped(cap: Cap) -> Cap:
    cap.capped = True
    cap.peak = tuple([min(cap.fit, below) for below in cap.peak])
    return cap


def _shared(cap: Cap, lens: Lens, take: Take, bounds: Bounds, at: int) -> Found:
    """The pods of a take, shared out anew over the domains of the depth that it uses."""
    if any(lens.floors[max(at, 0) + 1 : bounds.depth]):
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
    if not cap.kids:
        caps = {i: most for most, _, i, _, _ in cap.hist}
        yield from (min(caps[i], bounds.most) for i, hosts, _ in take.hosts for _ in range(hosts))
        return
    for i, copies, below in take.kids:
        kid = cap.kids[i][0]
        for _ in range(copies):
            if at + 1 == bounds.depth:
                yield min(kid.fit, bounds.most)
            else:
                yield from _rooms(kid, below, bounds, at + 1)


def _given(cap: Cap, take: Take, bounds: Bounds, at: int, shares: Iterator[int]) -> Found:
    """The same domains with these shares."""
    if not cap.kids:
        caps = {i: most for most, _, i, _, _ in cap.hist}
        hosts = tuple([(i, 1, next(shares)) for i, many, _ in take.hosts for _ in range(many)])
        return Found((len(hosts), sum([caps[i] for i, _, _ in hosts])), Take(hosts))
    parts: list[tuple[int, int, Found]] = []
    for i, copies, below in take.kids:
        kid = cap.kids[i][0]
        for _ in range(copies):
            last = at + 1 == bounds.depth
            parts.append((i, 1, solve(kid, next(shares)) if last else _given(kid, below, bounds, at + 1, shares)))
    return together(cap, parts)


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
