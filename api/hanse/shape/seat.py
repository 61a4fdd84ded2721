"""The best place for one pod set in a shape."""

from typing import Final, NamedTuple

from hanse.shape.ask import SetAsk
from hanse.shape.balanced import balance, deal
from hanse.shape.capacity import Cap, joined
from hanse.shape.fill import filled
from hanse.shape.lens import Ladder, Lens, Refused
from hanse.shape.ragged import solve_ragged
from hanse.shape.seen import capacity
from hanse.shape.shape import Shape
from hanse.shape.single import on_one_host, score
from hanse.shape.solve import solve
from hanse.shape.take import Cost, Found, Take

SEARCH_CELLS_MAX: Final = 20_000  # domains times pods of a spread gang up to which all choices are searched


class View(NamedTuple):
    """One group as a set sees it.

    Attributes:
        depth: of the required level, -1 if none is required.
    """

    group: int
    rungs: Ladder
    lens: Lens
    cap: Cap
    depth: int


class Seat(NamedTuple):
    """Where a set goes.

    Attributes:
        takes: (index of the group, take below its root).
        exclusive: by group, see SetTake.
        counts: (alias of the level, domains used), coarse to fine, the host last.
        score: domains of the coarsest and of the finest level, hosts, GPUs left in the smallest enclosing domain.
        cost: domains used at each level and hosts, then what the used ones can hold (see `solve`).
        tight: between places in several pools with equal numbers of domains and hosts, smaller is better: what
            placement would minimise in one tree whose coarsest level is the pool. Of a gang, the pods that its pool
            can hold, then those that the used domains can; of what one host holds, the score of `single` as far as
            hosts of two pools compare, the pool being one more thing that is broken or whole.
    """

    takes: tuple[tuple[int, Take], ...]
    exclusive: tuple[int, ...]
    counts: tuple[tuple[str, int], ...]
    score: tuple[int, int, int, int]
    certain: bool
    cost: Cost
    tight: tuple[int, ...]


def views(shape: Shape, s: SetAsk) -> list[View]:
    """The groups that know every level the set names and have a host that can hold one of its pods."""
    out: list[View] = []
    for g, group in enumerate(shape.groups):
        rungs = group.rungs
        depth = rungs.find(s.required) if s.required else -1
        if depth is None or not group.root.kids:
            continue
        lens = shape.table.lens(s, rungs)
        if not isinstance(lens, Refused):
            out.append(View(g, rungs, lens, capacity(group.root, lens), depth))
    if s.preferred and not any(group.rungs.find(s.preferred) is not None for group in shape.groups):
        return []
    return out


def seat(shape: Shape, s: SetAsk) -> Seat | None:
    """The best place for the set, None if it does not fit."""
    return seat_among(views(shape, s), s, exclusive_depths([group.rungs for group in shape.groups], s))


def seat_among(seen: list[View], s: SetAsk, exclusive: tuple[int, ...]) -> Seat | None:
    """The best place for the set in these views of groups, None if it does not fit."""
    if s.ragged:
        return _ragged(s, seen, exclusive)
    if s.slices and any(s.count % x.size for x in s.slices):
        return None
    small = [v for v in seen if v.lens.exclusive < 0 and v.cap.peak[-1] >= s.count]
    if small:
        return _small(s, small, exclusive)
    if not s.gpus and not s.slices and s.spread is None and not s.balanced:
        return _fill(s, seen, exclusive)
    if s.required or s.balanced or len(seen) == 1:
        fitting = [v for v in seen if v.cap.peak[v.depth + 1] >= s.count]
        if fitting or s.required or len(seen) == 1:
            return _best_of(s, fitting, exclusive) if fitting else None
    if sum([v.cap.fit for v in seen]) < s.count:
        return None
    return _across(s, seen, exclusive)


def _ragged(s: SetAsk, seen: list[View], exclusive: tuple[int, ...]) -> Seat | None:
    """Inside one group: the last slice is smaller, and which group would hold it is not searched for."""
    options: list[tuple[Cost, int, Found, View]] = []
    deepest = max([v.rungs.depth for v in seen], default=0)
    for v in seen:
        layers = v.lens.ragged
        found = solve_ragged(v.cap, layers, s.count) if layers is not None and v.cap.fit >= s.count else None
        if found is not None and (v.depth < 0 or found.cost[v.depth] == 1):
            options.append((stretched(found.cost, deepest), v.group, found, v))
    if not options:
        return None
    _, _, found, view = min(options, key=lambda o: o[:2])
    return _seated(s, view, found, exclusive)


def _small(s: SetAsk, seen: list[View], exclusive: tuple[int, ...]) -> Seat:
    best = min(seen, key=lambda v: (score(v.cap, s.count) or (), v.group))
    found = on_one_host(best.cap, s.count)
    return _seated(s, best, found, exclusive)._replace(tight=_tight_on_one_host(best.cap, s.count))


def _tight_on_one_host(cap: Cap, n: int) -> tuple[int, ...]:
    """The score without how rich the host is, which is a rank among the classes of one pool."""
    broken, _, *rest = score(cap, n) or (0, 0)
    return (broken + cap.whole, *rest, cap.whole_hosts)


def _fill(s: SetAsk, seen: list[View], exclusive: tuple[int, ...]) -> Seat | None:
    """Inside the finest wished domain that holds it, in the group with the fewest whole hosts; else over groups."""
    options: list[tuple[int, int, int, View]] = []
    for v in seen:
        wished = v.rungs.find(s.preferred) if s.preferred else None
        for depth in range(max(v.depth, -1 if wished is None else wished), v.depth - 1, -1):
            if v.cap.peak[depth + 1] >= s.count:
                options.append((-depth, v.cap.whole_hosts, v.group, v))
                break
    if options:
        minus_depth, _, _, view = min(options, key=lambda o: o[:3])
        return _seated(s, view, filled(view.cap, s.count, -minus_depth), exclusive)
    if s.required or sum([v.cap.fit for v in seen]) < s.count:
        return None
    return _across(s, seen, exclusive)


def _best_of(s: SetAsk, seen: list[View], exclusive: tuple[int, ...]) -> Seat:
    deepest = max([v.rungs.depth for v in seen])
    options = [(_solved(v, s), v) for v in seen]
    found, view = min(options, key=lambda o: (stretched(o[0].cost, deepest), o[1].group))
    return _seated(s, view, found, exclusive)


def _solved(v: View, s: SetAsk) -> Found:
    over = v.rungs.find(s.balanced) if s.balanced else None
    if over is not None:
        return balance(v.cap, v.lens, over, s.count)
    level = v.rungs.find(s.spread.level) if s.spread is not None and v.lens.caps else None
    if level is not None and v.cap.full[level] * s.count > SEARCH_CELLS_MAX:
        return deal(v.cap, v.lens, level, s.count)
    return solve(v.cap, s.count)


def stretched(cost: Cost, depth: int) -> Cost:
    """The cost as if the group had `depth` levels: a missing finer level coincides with its lowest domains."""
    half = len(cost) // 2
    extra = depth + 1 - half
    counts, fits = cost[:half], cost[half:]
    return (*counts[:-1], *counts[-2:-1] * extra, counts[-1], *fits[:-1], *fits[-2:-1] * extra, fits[-1])


def _across(s: SetAsk, seen: list[View], exclusive: tuple[int, ...]) -> Seat:
    """Over the coarsest domains of all groups together."""
    deepest = max([v.rungs.depth for v in seen])
    kids: list[tuple[Cap, int]] = []
    origin: list[tuple[View, int]] = []
    for v in seen:
        for i, (kid, copies) in enumerate(v.cap.kids):
            kids.append((_deepened(kid, deepest), copies))
            origin.append((v, i))
    whole = joined(tuple(kids), seen[0].lens, -1)
    found = solve(whole, s.count)
    takes: dict[int, list[tuple[int, int, Take]]] = {}
    for at, copies, below in found.take.kids:
        v, i = origin[at]
        takes.setdefault(v.group, []).append((i, copies, _stripped(kids[at][0], below)))
    by_group = [(g, Take((), tuple(takes[g]))) for g in sorted(takes)]
    return _over_groups(s, {v.group: v for v in seen}, by_group, found.cost, exclusive)


def _over_groups(
    s: SetAsk, seen: dict[int, View], takes: list[tuple[int, Take]], cost: Cost, exclusive: tuple[int, ...]
) -> Seat:
    counts: dict[str, int] = {}
    for g, take in takes:
        for level, n in zip(seen[g].rungs.aliases, usage(take, seen[g].rungs.depth), strict=True):
            counts[level] = counts.get(level, 0) + n
    half = len(cost) // 2
    fit = sum([v.cap.fit for v in seen.values()])
    return Seat(
        takes=tuple(takes),
        exclusive=exclusive,
        counts=tuple(counts.items()),
        score=(cost[0], cost[half - 2], cost[half - 1], _left(s, cost, fit)),
        certain=all(v.lens.certain for v in seen.values()),
        cost=cost,
        tight=(fit, *cost[half:]),
    )


def seat_of(
    s: SetAsk, seen: dict[int, View], takes: list[tuple[int, Take]], costs: list[Cost], exclusive: tuple[int, ...]
) -> Seat:
    """The seat of a set that takes this, at this cost in each group."""
    if len(takes) == 1:
        ((group, take),) = takes
        return _seated(s, seen[group], Found(costs[0], take), exclusive)
    deepest = max([v.rungs.depth for v in seen.values()])
    alike = [stretched(cost, deepest) for cost in costs]
    return _over_groups(s, seen, takes, tuple([sum(column) for column in zip(*alike, strict=True)]), exclusive)


def _deepened(cap: Cap, height: int) -> Cap:
    """The same capacity with more levels at the bottom: each lowest domain inside another that is equal to it."""
    if cap.height == height:
        return cap
    if not cap.kids:
        while cap.height < height:
            cap = Cap(
                cap.fit, ((cap, 1),), (), step=cap.step, peak=(cap.fit, *cap.peak), facts=cap.facts,
                capped=cap.capped, doubled=True,
            )  # fmt: skip
        return cap
    kids = tuple([(_deepened(kid, height - 1), copies) for kid, copies in cap.kids])
    peak = (*cap.peak[:-1], *(cap.peak[-2:-1] * (height - cap.height)), cap.peak[-1])
    return Cap(cap.fit, kids, (), step=cap.step, peak=peak, facts=cap.facts, capped=cap.capped)


def _stripped(cap: Cap, take: Take) -> Take:
    """Undoes `_deepened` in a take."""
    if not cap.kids:
        return take
    if cap.doubled:
        return _stripped(cap.kids[0][0], take.kids[0][2])
    return Take((), tuple([(i, n, _stripped(cap.kids[i][0], below)) for i, n, below in take.kids]))


def usage(take: Take, depth: int) -> list[int]:
    """Domains used at 0, 1, … depth-1, then hosts."""
    counts = [0] * (depth + 1)
    _count(take, 0, 1, counts)
    return counts


def _count(take: Take, at: int, times: int, counts: list[int]) -> None:
    for _, hosts, _ in take.hosts:
        counts[at] += hosts * times
    for _, copies, below in take.kids:
        counts[at] += copies * times
        _count(below, at + 1, copies * times, counts)


def _seated(s: SetAsk, view: View, found: Found, exclusive: tuple[int, ...]) -> Seat:
    cost = found.cost
    half = len(cost) // 2
    named = bool(view.rungs.levels)
    counts = tuple(zip(view.rungs.aliases, cost[:half], strict=True))
    return Seat(
        takes=((view.group, found.take),),
        exclusive=exclusive,
        counts=counts if named else counts[1:],
        score=(
            cost[0],
            cost[half - 2] if named else cost[half - 1],
            cost[half - 1],
            _left(s, cost, view.cap.fit),
        ),
        certain=view.lens.certain,
        cost=cost,
        tight=(view.cap.fit, *cost[half:]),
    )


def _left(s: SetAsk, cost: Cost, total: int) -> int:
    """GPUs (pods, if it asks for none) left free in the smallest domain that holds the whole set."""
    half = len(cost) // 2
    around = total
    for count, held in zip(cost[:half], cost[half:], strict=True):
        if count == 1:
            around = held
    return (around - s.count) * max(1, s.gpus)


def exclusive_depths(ladders: list[Ladder], s: SetAsk) -> tuple[int, ...]:
    """By group, the coarsest depth at which a layer of the set is exclusive, -1 for none."""
    if not s.exclusive:
        return (-1,) * len(ladders)
    out: list[int] = []
    for rungs in ladders:
        depths = [rungs.find(x.level) for x in s.slices if x.exclusive]
        out.append(min([d for d in depths if d is not None], default=-1))
    return tuple(out)
