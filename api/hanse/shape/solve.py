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

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

import numpy as np

from hanse.shape.bounds import cannot_do_with, heap, least_below
from hanse.shape.capacity import Cap, Counts, Pooled
from hanse.shape.exact import Search
from hanse.shape.quick import quick
from hanse.shape.seen import Ranged
from hanse.shape.sets import Bound, frugal_sets, in_order, least_parts, sets_of
from hanse.shape.subsets import best_children, is_heap
from hanse.shape.take import Cost, Found, Proof, Take
from hanse.shape.tightest import fewest, least_sum, tightest

TRIES_MAX: Final = 48  # sets of children that are worked out before the search takes over
ROUNDS_MAX: Final = 3  # numbers of parts that are tried, from the bound up
FEW_CHILDREN_MAX: Final = 64  # that are put in order one by one
LOW_HEIGHT: Final = 2  # of a domain whose children are lowest domains
SHORTS_MAX: Final = 12  # children that the greedy choice leaves room in, one after the other
SPARE_STEPS_MAX: Final = 12  # steps that a set of children may hold beyond what is wanted, for it to be worked out


def solve(cap: Cap, n: int) -> Found:
    """The cheapest way to put n pods, 0 < n <= cap.fit, into a domain; n in whole slices of the levels below."""
    found = cap.solved.get(n)
    if found is None:
        found = cap.solved[n] = _solved(cap, n)
    return found


def _solved(cap: Cap, n: int) -> Found:
    if not cap.kids:
        return _on_hosts(cap, n)
    found = quick(cap, n) if isinstance(cap, Ranged) and not cap.capped else None
    return found or (_in_one(cap, n) if cap.peak[1] >= n else _over_many(cap, n))


def _on_hosts(cap: Cap, n: int) -> Found:
    chosen = tightest(cap.counts(1), n)
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
    """In the domain that costs least, of the lowest level at which one domain holds everything.

    Anything else uses more domains of that level. The domains are looked at in the order of a bound on their cost.
    """
    down = max([below for below in range(1, cap.height) if cap.peak[below] >= n])
    around = list(_holding(cap, n, down - 1, ()))
    few = sum([parent.branches for _, parent in around]) <= FEW_CHILDREN_MAX
    best: Found | None = None
    for least, at, i in _few_in_order(around, n) if few else _many_in_order(around, n):
        path, parent = around[at]
        if best is not None and least >= best.cost:
            break
        kid = parent.kids[i][0]
        found = solve(kid, n)
        cost = inside_one(found.cost, kid.fit)
        take = Take((), ((i, 1, found.take),))
        for index, domain in reversed(path):
            cost = inside_one(cost, domain.fit)
            take = Take((), ((index, 1, take),))
        if best is None or cost < best.cost:
            best = Found(cost, take, found.proof)
    assert best is not None
    return best


Path = tuple[tuple[int, Cap], ...]  # (index of the child, the child) from a domain down


def _holding(cap: Cap, n: int, down: int, path: Path) -> Iterator[tuple[Path, Cap]]:
    """The domains so many levels down that have a child which holds n."""
    if down == 0:
        yield path, cap
        return
    for i, (kid, _) in enumerate(cap.kids):
        if kid.peak[down] >= n:
            yield from _holding(kid, n, down - 1, (*path, (i, kid)))


def _few_in_order(around: list[tuple[Path, Cap]], n: int) -> list[tuple[Cost, int, int]]:
    """As `_many_in_order`, where arrays cost more than they save: what is known of a child serves every time."""
    out: list[tuple[Cost, int, int]] = []
    for at, (path, parent) in enumerate(around):
        held = tuple([domain.fit for _, domain in path])
        ahead = (1,) * (len(held) + 1)
        for i, (kid, _) in enumerate(parent.kids):
            if kid.fit >= n:
                lows = tuple([fewest(level, n) for level in kid.census])
                out.append(((*ahead, *lows, *held, kid.fit, *((n,) * len(lows))), at, i))
    out.sort()
    return out


def _many_in_order(around: list[tuple[Path, Cap]], n: int) -> Iterator[tuple[Cost, int, int]]:
    """Children that hold n, from the least bound on: the bound, the number of the parent, the index below it."""
    pool = Pooled([parent for _, parent in around]) if len(around) > 1 else around[0][1]
    fits = pool.parts(1)[0]
    ones = np.flatnonzero(fits >= n)
    many = [len(parent.parts(1)[0]) for _, parent in around]
    parents = np.repeat(np.arange(len(around)), many)[ones]
    above = np.array([[domain.fit for _, domain in path] for path, _ in around], dtype=np.int64)[parents]
    lows = [least_parts(pool, below, ones[:, None], n) for below in range(1, pool.height)]
    held = [*above.T, fits[ones]]
    ahead = (1,) * (len(held))
    rest = (n,) * len(lows)
    firsts = np.cumsum([0, *many])
    for at in np.lexsort((*reversed(held), *reversed(lows))).tolist():
        parent = int(parents[at])
        counts = (*ahead, *[int(low[at]) for low in lows])
        yield (*counts, *[int(h[at]) for h in held], *rest), parent, int(ones[at] - firsts[parent])


def inside_one(cost: Cost, fit: int) -> Cost:
    """The cost seen from the parent, if all is inside one child with that fit."""
    half = len(cost) // 2
    return (1, *cost[:half], fit, *cost[half:])


def _over_many(cap: Cap, n: int) -> Found:
    count = fewest(cap.counts(1), n)
    if cap.capped:  # what follows takes children for the sum of their parts, but for the bounds of the proof
        quick = _greedy(cap, n, count)
        return quick if _proven(cap, n, quick.cost) else _by_search(cap, n, quick)
    sets = sets_of(cap, count, n)
    best: Found | None = None
    if cap.height > LOW_HEIGHT:
        best = _frugally(cap, n, count) if sets is None else _of_sets(cap, in_order(cap, sets, n), n)
        if best is not None:
            return best
    found = _greedy(cap, n, count)
    if _proven(cap, n, found.cost):
        return found
    if cap.height == LOW_HEIGHT and sets is not None:
        best = _of_sets(cap, in_order(cap, sets, n), n)
        if best is not None:
            return best
    chosen = _by_children(cap, n) if is_heap(cap) else None
    if chosen is not None:
        return chosen._replace(proof=max(chosen.proof, Proof.CLOSED_FORM))
    return _by_search(cap, n, found)


def _by_search(cap: Cap, n: int, found: Found) -> Found:
    """The answer of the search that always ends; `found` is any placement."""
    for last in (False, True):
        better = _searched(Search(cap, n, last=last), cap, 0, n)
        if better.cost < found.cost:
            found = better
        if not last and found.cost[-1] <= least_sum(cap.counts(cap.height), n):
            break
    return found._replace(proof=Proof.SEARCH)


def _frugally(cap: Cap, n: int, count: int) -> Found | None:
    """The best set of many, if few can do with the fewest parts further down; None if that is too much work."""
    least = least_below(cap, 1, count, n)
    for parts in range(least, least + ROUNDS_MAX):
        sets = frugal_sets(cap, count, n, parts)
        if sets is None:
            return None
        found = _of_sets(cap, in_order(cap, sets, n), n) if len(sets) else None
        if len(sets) and (found is None or found.cost[1] <= parts):
            return found
    return None


def _of_sets(cap: Cap, sets: Iterable[tuple[Bound, list[int]]], n: int) -> Found | None:
    """The best of these sets of children, given in the order of their bounds; None if that is too much work."""
    best: Found | None = None
    tried = 0
    for tried, (least, kids) in enumerate(sets):
        if best is not None and least >= best.cost:
            break
        found = _with_children(cap, kids, n) if tried < TRIES_MAX else None
        if found is None:
            return None
        if best is None or found.cost < best.cost:
            best = found
    assert best is not None
    return best if tried <= 1 else best._replace(proof=max(best.proof, Proof.CLOSED_FORM))


def _with_children(cap: Cap, kids: list[int], n: int) -> Found | None:
    """The best place in exactly these children, given with repeats for copies; None if that is too much work."""
    rest = sum([cap.kids[i][0].fit for i in kids]) - n
    if not rest:
        return together(cap, [(i, kids.count(i), _everything(cap, i)) for i in dict.fromkeys(kids)])
    if cap.step != cap.kids[kids[0]][0].step:
        return _less_here_and_there(cap, kids, rest)
    if cap.height == LOW_HEIGHT:
        return _as_one_heap(cap, {i: kids.count(i) for i in kids}, n)
    pool = Pooled([cap.kids[i][0] for i in kids])
    return _dealt(cap, kids, solve(pool, n))


def _dealt(cap: Cap, kids: list[int], found: Found) -> Found:
    """What was found in the pooled children of `kids`, child by child."""
    half = cap.height - 1
    parts: list[tuple[int, int, Take]] = []
    first = 0
    for i in kids:
        end = first + len(cap.kids[i][0].parts(1)[0])
        inside = tuple([(at - first, copies, below) for at, copies, below in found.take.kids if first <= at < end])
        parts.append((i, 1, Take((), inside)))
        first = end
    held = sum([cap.kids[i][0].fit for i in kids])
    cost = (len(kids), *found.cost[:half], held, *found.cost[half:])
    return Found(cost, Take((), tuple(parts)), found.proof)


def _less_here_and_there(cap: Cap, kids: list[int], rest: int) -> Found | None:
    """All of these children but `rest` pods, which they leave out in whole steps: the cheapest way to share that."""
    steps = rest // cap.step
    if steps > SPARE_STEPS_MAX:
        return None
    best: list[tuple[Cost, tuple[tuple[int, int, Found], ...]] | None] = [((), ())] + [None] * steps
    for i in kids:
        kid = cap.kids[i][0]
        options = [solve(kid, kid.fit - less * cap.step) for less in range(min(steps, kid.fit // cap.step - 1) + 1)]
        best = [_cheapest_sum(best, options, i, kid.fit, total) for total in range(steps + 1)]
    last = best[steps]
    return None if last is None else together(cap, list(last[1]))


def _cheapest_sum(
    before: "list[tuple[Cost, tuple[tuple[int, int, Found], ...]] | None]",
    options: list[Found],
    i: int,
    fit: int,
    total: int,
) -> "tuple[Cost, tuple[tuple[int, int, Found], ...]] | None":
    """The best way to leave out `total` steps with one more child, which leaves out 0, 1, … of them by `options`."""
    best: tuple[Cost, tuple[tuple[int, int, Found], ...]] | None = None
    for less, found in enumerate(options[: total + 1]):
        had = before[total - less]
        if had is not None:
            own = inside_one(found.cost, fit)
            cost = tuple([a + b for a, b in zip(had[0], own, strict=True)]) if had[0] else own
            if best is None or cost < best[0]:
                best = cost, (*had[1], (i, 1, found))
    return best


def _by_children(cap: Cap, n: int) -> Found | None:
    """The best set of children by closed form, their parts used as one heap; None if that proves nothing."""
    kids = best_children(cap, n)
    if kids is None:
        return None
    found = _as_one_heap(cap, kids, n)
    # if more is used than must be, another choice of equal cost so far might leave less
    return None if found.cost[cap.height + 1] > least_sum(cap.counts(2), n) else found


def _as_one_heap(cap: Cap, kids: dict[int, int], n: int) -> Found:
    """The best place in exactly these children (copies of each), if their parts may be used in any number."""
    heap_of: dict[int, int] = {}
    for i, copies in kids.items():
        for size, many in cap.kids[i][0].counts(1):
            heap_of[size] = heap_of.get(size, 0) + many * copies
    parts = tightest(tuple(sorted(heap_of.items(), reverse=True)), n)
    total = sum([size * many for size, many in parts.items()])
    return together(cap, _shared_out(cap, kids, parts, total - n))


def _shared_out(cap: Cap, kids: dict[int, int], parts: dict[int, int], rest: int) -> list[tuple[int, int, Found]]:
    """Each child holds what its parts among the chosen ones hold; the smallest of these holds `rest` less."""
    short = min(parts)
    out: list[tuple[int, int, Found]] = []
    for i, copies in kids.items():
        kid = cap.kids[i][0]
        for _ in range(copies):
            pods = 0
            for size, many in kid.counts(1):
                use = min(many, parts.get(size, 0))
                if use:
                    parts[size] -= use
                    pods += size * use
                    if size == short and rest:
                        pods, rest = pods - rest, 0
            if pods:
                out.append((i, 1, _everything(cap, i) if pods == kid.fit else solve(kid, pods)))
    return out


def _proven(cap: Cap, n: int, cost: Cost) -> bool:
    """Whether no placement can cost less than a greedy one: what follows the children's tightest sum meets bounds."""
    half = cap.height
    if any(_could_do_with_less(cap, below, cost, n) for below in range(1, half)):
        return False
    return all(
        fits <= n or fits <= least_sum(level, n) or (used == fewest(level, n) and fits <= _tightest_sum(level, n))
        for level, used, fits in zip(cap.census[1:], cost[1:], cost[half + 1 :], strict=False)
    )


def _could_do_with_less(cap: Cap, below: int, cost: Cost, n: int) -> bool:
    """Whether as many children might hold n in fewer parts, as far as bounds tell."""
    if cost[below] <= least_below(cap, below, cost[0], n):
        return False
    return cap.height > LOW_HEIGHT or not cannot_do_with(cap, below, cost[0], n, cost[below] - 1)


def _tightest_sum(parts: Counts, n: int) -> int:
    return sum([size * many for size, many in tightest(parts, n).items()])


def _searched(search: Search, cap: Cap, level: int, n: int) -> Found:
    """What the search says, as a placement."""
    if not cap.kids:
        return _on_hosts(cap, n)
    split = search.split(cap, level, n)
    return together(cap, [(i, 1, _searched(search, cap.kids[i][0], level + 1, pods)) for i, pods in split])


def _greedy(cap: Cap, n: int, count: int) -> Found:
    """Fewest children with the tightest sum, all full but one; some of the chosen are tried for that."""
    chosen = _chosen(cap, n)
    full = [(i, use, _everything(cap, i)) for i, use in chosen]
    total = together(cap, full)
    rest = total.cost[cap.height] - n
    if not rest:
        return total
    best: tuple[Cost, int, Found] | None = None
    hosts = least_below(cap, cap.height - 1, count, n)
    for i, found in _emptiest_first(cap, full):
        kid = cap.kids[i][0]
        less = solve(kid, kid.fit - rest)
        half = kid.height
        changed = [a - b for a, b in zip(less.cost, found.cost, strict=True)]
        delta = (0, *changed[:half], 0, *changed[half:])
        cost = tuple([a + b for a, b in zip(total.cost, delta, strict=True)])
        if best is None or cost < best[0]:
            best = cost, i, less
        if best[0][cap.height - 1] <= hosts and best[0][-1] == n:
            break
    assert best is not None
    return together(cap, _one_short(full, best[1], best[2]))


def _chosen(cap: Cap, n: int) -> list[tuple[int, int]]:
    """(child, copies) of the tightest sum; of children that hold the same, those with the fewest hosts."""
    wanted = tightest(cap.counts(1), n)
    fits, copies = cap.parts(1)
    every = zip(fits.tolist(), heap(cap, cap.height - 1).held, range(len(fits)), copies.tolist(), strict=True)
    chosen: list[tuple[int, int]] = []
    for fit, _, i, there in sorted([entry for entry in every if entry[0] in wanted]):
        use = min(there, wanted[fit])
        if use:
            wanted[fit] -= use
            chosen.append((i, use))
    return chosen


def _emptiest_first(cap: Cap, full: "list[tuple[int, int, Found]]") -> "list[tuple[int, Found]]":
    """Some of the chosen children, those first whose hosts hold least: leaving room there frees the most hosts."""
    parts = heap(cap, cap.height - 1)
    order = sorted([(parts.total[i] / parts.held[i], at) for at, (i, _, _) in enumerate(full)])
    return [(full[at][0], full[at][2]) for _, at in order[:SHORTS_MAX]]


def _one_short(full: "list[tuple[int, int, Found]]", short: int, less: Found) -> "list[tuple[int, int, Found]]":
    out = [(i, use - (i == short), found) for i, use, found in full if use > (i == short)]
    return [(short, 1, less), *out]


def together(cap: Cap, parts: list[tuple[int, int, Found]]) -> Found:
    """The sum of what several children take: (index of the child, copies, what each gives)."""
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


def _everything(cap: Cap, i: int) -> Found:
    """All that fits into a child, which need not be all hosts: rounding to slices may leave some unused."""
    fit = int(cap.parts(1)[0][i])
    below = [heap(cap, level) for level in range(1, cap.height)]
    totals = [parts.total[i] for parts in below]
    if totals.count(fit) != len(totals):
        return solve(cap.kids[i][0], fit)
    return Found((*[parts.held[i] for parts in below], *totals), _all_of(cap, i))


def _all_of(cap: Cap, i: int) -> Take:
    """Every pod that a child holds, if none of its parts are rounded away."""
    return Take(all_of=partial(_child, cap, i), lens=cap.lens if cap.height == LOW_HEIGHT else None)


def _child(cap: Cap, i: int) -> Cap:
    return cap.kids[i][0]
