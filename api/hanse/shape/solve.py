"""The best place for n identical pods that need more than one host.

Best is the smallest *cost*: domains used at each level from the top down, hosts, then the summed fits of the used
domains from the top down, hosts last. (n is fixed, so the smallest summed fit is the smallest leftover.) A required
or preferred level needs no rule of its own: if one domain of that level holds the gang, the cheapest choice uses one
domain there; if none does, `peak` says so beforehand.

If some child holds everything, the answer lies in one child and the children are searched in the order of a lower
bound on their cost. Otherwise a greedy choice is tried (fewest children, tightest sum, leftover in one of them) and
kept if it meets the bound; else `exact` decides by dynamic programming.

Which domain is chosen depends on capacities and on canonical order alone, never on names.
"""

from enum import IntEnum, unique
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from hanse.shape.capacity import Cap
from hanse.shape.exact import Search
from hanse.shape.subsets import best_children, is_heap, least_parts
from hanse.shape.tightest import fewest, least_sum, tightest

Cost = tuple[int, ...]  # counts at 1, 2, … levels below and hosts, then summed fits of the same


class Take(NamedTuple):
    """What is used of one domain: hosts of a lowest domain, children of any other.

    Attributes:
        hosts: (index of the bin, hosts, pods on each of them).
        kids: (index of the child, copies, what each of them gives).
    """

    hosts: tuple[tuple[int, int, int], ...] = ()
    kids: "tuple[tuple[int, int, Take], ...]" = ()


@unique
class Proof(IntEnum):
    """What was needed to know that a placement is the cheapest; the largest of all that it is made of."""

    CERTIFICATE = 0
    CLOSED_FORM = 1
    SEARCH = 2


class Found(NamedTuple):
    """A placement of the wanted pods in one domain, and its cost."""

    cost: Cost
    take: Take
    proof: Proof = Proof.CERTIFICATE


def solve(cap: Cap, n: int) -> Found:
    """The cheapest way to put n pods, 0 < n <= cap.fit, into a domain; n in whole slices of the levels below."""
    found = cap.solved.get(n)
    if found is None:
        found = cap.solved[n] = _solved(cap, n)
    return found


def _solved(cap: Cap, n: int) -> Found:
    if not cap.kids:
        return _on_hosts(cap, n)
    if cap.peak[1] >= n:
        return _in_one(cap, n)
    return _over_many(cap, n)


def bound(cap: Cap, n: int) -> Cost:
    """No placement of n pods in the domain costs less, component by component."""
    counts = tuple([max(0, fewest(level, n)) for level in cap.census])
    return counts + (n,) * len(counts)


def _on_hosts(cap: Cap, n: int) -> Found:
    chosen = tightest(cap.census[0], n)
    hosts = sum(chosen.values())
    total = sum([size * many for size, many in chosen.items()])
    rest = total - n
    short = min(chosen) if rest else 0  # the host that is not filled
    take: list[tuple[int, int, int]] = []
    for most, there, i, _, _ in cap.hist:
        use = min(there, chosen.get(most, 0))
        if use:
            chosen[most] -= use
            part = most == short and not chosen[most]
            if part:
                take.extend([(i, use - 1, most), (i, 1, most - rest)] if use > 1 else [(i, 1, most - rest)])
            else:
                take.append((i, use, most))
    return Found((hosts, total), Take(tuple(take)))


def _in_one(cap: Cap, n: int) -> Found:
    order = [(inside_one(bound(kid, n), kid.fit), i, False) for i, (kid, _) in enumerate(cap.kids) if kid.fit >= n]
    heapify(order)
    best: Found | None = None
    while order:
        least, i, sharp = heappop(order)
        if best is not None and least >= best.cost:
            break
        kid = cap.kids[i][0]
        if not sharp and order and kid.kids and kid.peak[1] < n:
            heappush(order, (_sharpened(least, least_parts(kid, n)), i, True))
            continue
        found = solve(kid, n)
        cost = inside_one(found.cost, kid.fit)
        if best is None or cost < best.cost:
            best = Found(cost, Take((), ((i, 1, found.take),)), found.proof)
    assert best is not None
    return best


def _sharpened(least: Cost, parts: int) -> Cost:
    """A bound seen from the parent, with what is known of the places two levels below."""
    return (*least[:2], max(least[2], parts), *least[3:])


def inside_one(cost: Cost, fit: int) -> Cost:
    """The cost seen from the parent, if all is inside one child with that fit."""
    half = len(cost) // 2
    return (1, *cost[:half], fit, *cost[half:])


def _over_many(cap: Cap, n: int) -> Found:
    found = _greedy(cap, n)
    if _proven(cap, n, found.cost):
        return found
    chosen = _by_children(cap, n) if is_heap(cap) else None
    if chosen is not None:
        return chosen._replace(proof=max(chosen.proof, Proof.CLOSED_FORM))
    for last in (False, True):
        better = _searched(Search(cap, n, last=last), cap, 0, n)
        if better.cost < found.cost:
            found = better
        if not last and found.cost[-1] <= least_sum(cap.census[-1], n):
            break
    return found._replace(proof=Proof.SEARCH)


def _by_children(cap: Cap, n: int) -> Found | None:
    """The best set of children by closed form, their parts used as one heap; None if that proves nothing."""
    kids = best_children(cap, n)
    if kids is None:
        return None
    heap: dict[int, int] = {}
    for i, copies in kids.items():
        for size, many in cap.kids[i][0].census[0]:
            heap[size] = heap.get(size, 0) + many * copies
    parts = tightest(tuple(sorted(heap.items(), reverse=True)), n)
    total = sum([size * many for size, many in parts.items()])
    if total > least_sum(cap.census[1], n):
        return None  # another choice of equal cost so far might leave less
    return _together(cap, _shared_out(cap, kids, parts, total - n))


def _shared_out(cap: Cap, kids: dict[int, int], parts: dict[int, int], rest: int) -> list[tuple[int, int, Found]]:
    """Each child holds what its parts among the chosen ones hold; the smallest of these holds `rest` less."""
    short = min(parts)
    out: list[tuple[int, int, Found]] = []
    for i, copies in kids.items():
        kid = cap.kids[i][0]
        for _ in range(copies):
            pods = 0
            for size, many in kid.census[0]:
                use = min(many, parts.get(size, 0))
                if use:
                    parts[size] -= use
                    pods += size * use
                    if size == short and rest:
                        pods, rest = pods - rest, 0
            if pods:
                out.append((i, 1, solve(kid, pods)))
    return out


def _proven(cap: Cap, n: int, cost: Cost) -> bool:
    """Whether no placement can cost less: every component meets a bound that the ones before it allow."""
    half = cap.height
    if cost[:half] != bound(cap, n)[:half]:
        return False
    return all(
        fits <= least_sum(level, n) or fits <= sum([size * many for size, many in tightest(level, n).items()])
        for level, fits in zip(cap.census, cost[half:], strict=True)
    )


def _searched(search: Search, cap: Cap, level: int, n: int) -> Found:
    """What the search says, as a placement."""
    if not cap.kids:
        return _on_hosts(cap, n)
    split = search.split(cap, level, n)
    return _together(cap, [(i, 1, _searched(search, cap.kids[i][0], level + 1, pods)) for i, pods in split])


def _greedy(cap: Cap, n: int) -> Found:
    """Fewest children with the tightest sum, all full but one; which one is tried for each of the chosen kinds."""
    wanted = tightest(cap.census[0], n)
    chosen: list[tuple[int, int]] = []  # index of the child, copies
    for i in sorted(range(len(cap.kids)), key=lambda i: (cap.kids[i][0].full, i)):
        kid, copies = cap.kids[i]
        use = min(copies, wanted.get(kid.fit, 0))
        if use:
            wanted[kid.fit] -= use
            chosen.append((i, use))
    rest = sum([cap.kids[i][0].fit * use for i, use in chosen]) - n
    if not rest:
        return _together(cap, [(i, use, _everything(cap.kids[i][0])) for i, use in chosen])
    best: Found | None = None
    for short in chosen:
        found = _one_short(cap, chosen, short[0], rest)
        if best is None or found.cost < best.cost:
            best = found
    assert best is not None
    return best


def _one_short(cap: Cap, chosen: list[tuple[int, int]], short: int, rest: int) -> Found:
    parts: list[tuple[int, int, Found]] = []
    for i, use in chosen:
        kid = cap.kids[i][0]
        if i == short:
            parts.append((i, 1, solve(kid, kid.fit - rest)))
            use -= 1
        if use:
            parts.append((i, use, _everything(kid)))
    return _together(cap, parts)


def _together(cap: Cap, parts: list[tuple[int, int, Found]]) -> Found:
    """The sum of what several children take."""
    half = cap.height - 1
    counts = [0] * (half + 1)
    fits = [0] * (half + 1)
    for i, copies, found in parts:
        counts[0] += copies
        fits[0] += cap.kids[i][0].fit * copies
        for level in range(half):
            counts[level + 1] += found.cost[level] * copies
            fits[level + 1] += found.cost[half + level] * copies
    take = Take((), tuple([(i, copies, found.take) for i, copies, found in parts]))
    return Found((*counts, *fits), take, max([found.proof for _, _, found in parts]))


def _everything(cap: Cap) -> Found:
    """All that fits, which need not be all hosts: rounding to slices may leave some unused."""
    if not cap.kids:
        return _on_hosts(cap, cap.fit)
    loose = sum([kid.fit * copies for kid, copies in cap.kids]) - cap.fit
    if loose:
        return solve(cap, cap.fit)
    return _together(cap, [(i, copies, _everything(kid)) for i, (kid, copies) in enumerate(cap.kids) if kid.fit])
