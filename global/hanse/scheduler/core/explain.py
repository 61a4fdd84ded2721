"""Why a job waits, pool by pool, and what would help: the planner's own questions, asked of every pool.

The same `fit` that decides explains, so an explanation can never disagree with the decision. Every pool is asked
once per choice of flavors, and the answer that is nearest to a fit stands for it. The one reason of it all follows
the planner's rule (see `plan`), so a list, which shows what the planner wrote, says the same as an explanation.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hanse.model.beside import Need
from hanse.model.ids import FlavorName, PoolName, QueueUid
from hanse.model.job import Topology
from hanse.model.reasons import Reason
from hanse.model.request import GangRequest, SetRequest, class_hash
from hanse.scheduler.core.facts import QueueFacts
from hanse.scheduler.core.plan import flavor_choices
from hanse.scheduler.core.quota import QuotaOverlay, charges_for, jobs_full, shortfall
from hanse.scheduler.core.snapshot import Limits, PoolView, Snapshot
from hanse.scheduler.core.verdicts import (
    PoolVerdict,
    at_pool,
    dominant_reason,
    jobs_verdict,
    quota_verdict,
    unusable_verdict,
    verdict_of,
)
from hanse.shape import Fit, fit

NEEDS_NAMED_MAX: Final = 4

Allows = Callable[[GangRequest, tuple[FlavorName, ...]], bool]
"""Whether the queue's quota has room for a request with these flavors."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole answer for one job.

    Attributes:
        reason: the one reason to show.
        quota: why the queue's quota stands in the way, one verdict for each choice of flavors that it excludes.
        pools: every pool, nearest first.
        helps: what would let it start, smallest change first, one line each.
    """

    reason: Reason
    quota: tuple[PoolVerdict, ...]
    pools: tuple[PoolVerdict, ...]
    helps: tuple[str, ...]


def explain(snapshot: Snapshot, queue: QueueUid, request: GangRequest, limits: Limits) -> Explanation:
    """Explain a request of a queue on a snapshot."""
    facts = snapshot.queues.get(queue)
    number = class_hash(queue, request)
    request = request.at_least  # what waits for its minimum is told what that lacks
    quotas = tuple(q.flavor for q in facts.queue.quotas) if facts is not None else ()
    choices = list(flavor_choices(request, quotas, snapshot.flavors))
    quota = _quota(snapshot, facts, request, choices)
    refused = {pool: why for (waiting, pool), why in snapshot.avoided.items() if waiting == number}
    standings = {p.name: _standing(p, limits, refused.get(p.name), request.needs) for p in snapshot.pools}
    verdicts = (_pool(p, request, choices, quota, standings[p.name]) for p in snapshot.pools)
    pools = tuple(sorted(verdicts, key=_nearest_first))
    shorts = tuple(quota[c] for c in choices if c in quota) or (() if choices else (_no_quota(request, facts),))
    reason = _reason(facts, shorts, pools, snapshot, excluded=len(shorts) >= len(choices))
    usable = [p for p in snapshot.pools if standings[p.name] is None]
    helps = _helps(snapshot, request, choices, usable, _allows(snapshot, facts))
    return Explanation(reason, shorts, pools, () if any(p.fits for p in pools) else tuple(helps))


def _nearest_first(verdict: PoolVerdict) -> tuple[bool, float, str]:
    return (not verdict.fits, -verdict.nearness, verdict.pool)


def _reason(
    facts: QueueFacts | None,
    shorts: Sequence[PoolVerdict],
    pools: Sequence[PoolVerdict],
    snapshot: Snapshot,
    *,
    excluded: bool,
) -> Reason:
    """`excluded`: quota stands in the way of every choice of flavors."""
    if facts is not None and facts.queue.held:
        return Reason.QUEUE_HELD
    if excluded:
        return shorts[0].reason
    if any(p.fits for p in pools):
        return Reason.WAITING
    return dominant_reason(pools, snapshot)


def _quota(
    snapshot: Snapshot,
    facts: QueueFacts | None,
    request: GangRequest,
    choices: Sequence[tuple[FlavorName, ...]],
) -> dict[tuple[FlavorName, ...], PoolVerdict]:
    """The choices of flavors for which the queue's quota has no room, and by how much."""
    found: dict[tuple[FlavorName, ...], PoolVerdict] = {}
    if facts is None:
        return found
    overlay = QuotaOverlay(snapshot.usage)
    if jobs_full(facts.queue, overlay):
        return dict.fromkeys(choices, jobs_verdict(facts.queue))
    for flavors in choices:
        short = shortfall(facts.queue, charges_for(request, flavors), overlay)
        if short is not None:
            found[flavors] = quota_verdict(facts.queue.name, short)
    return found


def _allows(snapshot: Snapshot, facts: QueueFacts | None) -> Allows:
    overlay = QuotaOverlay(snapshot.usage)
    if facts is not None and jobs_full(facts.queue, overlay):
        return lambda request, flavors: False
    return lambda request, flavors: (
        facts is None or shortfall(facts.queue, charges_for(request, flavors), overlay) is None
    )


def _no_quota(request: GangRequest, facts: QueueFacts | None) -> PoolVerdict:
    """The queue may use none of the flavors that the job accepts."""
    name = facts.queue.name if facts is not None else "of this job"
    wanted = sorted({f for s in request.sets for f in s.flavors})
    flavors = ", ".join(wanted) or "any flavor"
    return PoolVerdict(
        PoolName(""),
        False,
        Reason.QUOTA,
        FlavorName(wanted[0] if wanted else ""),
        f"quota of {flavors}",
        request.gpus,
        0,
        f"queue {name} has no quota of {flavors}, the job needs {request.gpus:,} GPUs",
    )


def _pool(
    pool: PoolView,
    request: GangRequest,
    choices: Sequence[tuple[FlavorName, ...]],
    quota: Mapping[tuple[FlavorName, ...], PoolVerdict],
    standing: tuple[Reason, str] | None,
) -> PoolVerdict:
    """One pool's verdict over all choices of flavors: the one that is nearest to a fit."""
    if choices:
        best = max((_choice(pool, request, c, quota.get(c)) for c in choices), key=lambda v: (v.fits, v.nearness))
    else:
        best = replace(_no_quota(request, None), pool=pool.name)
    return best if standing is None else unusable_verdict(best, *standing)


def _choice(
    pool: PoolView, request: GangRequest, flavors: tuple[FlavorName, ...], short: PoolVerdict | None
) -> PoolVerdict:
    """What one choice of flavors means here: first whether the shape holds it, then whether quota allows it."""
    if pool.shape is None:
        return PoolVerdict(pool.name, False, Reason.STALE, flavors[0])
    outcome = fit(pool.shape, request, flavors)
    if not isinstance(outcome, Fit):
        return verdict_of(pool.name, flavors, outcome)
    if short is not None:
        return at_pool(short, pool.name)
    return PoolVerdict(pool.name, True, Reason.UNSPECIFIED, flavors[0], detail=fit_prose(outcome), nearness=1.0)


def _standing(
    pool: PoolView, limits: Limits, refused: Reason | None, needs: Sequence[Need]
) -> tuple[Reason, str] | None:
    """Why the job may not go to the pool now, whatever its shape says; `refused` is why the pool left it out."""
    if pool.facts.cordoned:
        word = "cordoned" if pool.facts.drain is None else "being drained"
        word = word if pool.facts.leave is None else "leaving"
        return Reason.CORDONED, f"{word}{': ' + pool.facts.cordon_reason if pool.facts.cordon_reason else ''}"
    if not pool.attached:
        return Reason.DETACHED, "its agent is not attached; it gets no new work"
    if pool.planned is None:
        return Reason.STALE, "no summary has come yet"
    if pool.age_s > limits.summary_age_max_s:
        return Reason.STALE, f"{stale_prose(pool.age_s)} (limit {limits.summary_age_max_s:.0f} s)"
    if pool.unacknowledged >= limits.unacknowledged_max:
        return Reason.LAGGING, f"{pool.unacknowledged:,} decisions wait for its agent"
    if refused is Reason.NEEDS:
        return Reason.NEEDS, f"lacks {needs_prose(needs)}; it is asked again within a minute"
    if refused is not None:
        return Reason.REFUSED, "its agent refused such a job a moment ago; it is asked again later"
    return None


def needs_prose(needs: Sequence[Need]) -> str:
    """What may be missing, in words."""
    named = [str(need) for need in needs[:NEEDS_NAMED_MAX]]
    more = len(needs) - len(named)
    listed = ", ".join(named) + (f" and {more} more" if more else "")
    return listed if len(needs) == 1 else f"one of {listed}" if needs else "something that its pods name"


def stale_prose(age_s: float) -> str:
    """How old a summary is that is not planned with."""
    return f"last summary {age_s:.0f} s old" if math.isfinite(age_s) else "no summary of its present agent yet"


def fit_prose(found: Fit) -> str:
    """Where a gang would go, in words: `fits in 1 block, 32 racks, 512 hosts`."""
    used = ", ".join(f"{use.count:,} {use.level}{'' if use.count == 1 else 's'}" for use in found.levels_used)
    return f"fits in {used}" if used else "fits"


# ---- what would help ----------------------------------------------------------------------------------------


def _helps(
    snapshot: Snapshot,
    request: GangRequest,
    choices: Sequence[tuple[FlavorName, ...]],
    usable: Sequence[PoolView],
    allows: Allows,
) -> Iterator[str]:
    """Changes that were tried on shapes and quota and found to work; at most one line of each kind."""
    fewer = _most_pods(usable, request, choices, allows)
    if fewer is not None:
        yield fewer
    looser = _with_topology(request)
    if looser is not None:
        where = _first_fit(usable, looser, choices, allows)
        if where:
            yield f"preferred instead of required level → starts now in {where}"
    for pool in snapshot.pools:
        if pool.facts.cordoned and pool.attached and _first_fit([pool], request, choices, allows):
            yield f"uncordon {pool.name} → starts there"
            return


def _first_fit(
    pools: Sequence[PoolView], request: GangRequest, choices: Sequence[tuple[FlavorName, ...]], allows: Allows
) -> PoolName | None:
    open_choices = [flavors for flavors in choices if allows(request, flavors)]
    for pool in pools:
        if pool.shape is not None and any(isinstance(fit(pool.shape, request, f), Fit) for f in open_choices):
            return pool.name
    return None


def _most_pods(
    pools: Sequence[PoolView], request: GangRequest, choices: Sequence[tuple[FlavorName, ...]], allows: Allows
) -> str | None:
    """The largest smaller gang that starts now, for gangs of one pod set."""
    if len(request.sets) != 1:
        return None
    want = request.sets[0]
    step = want.topology.slices[0].size if want.topology.slices else 1
    low, high = 0, max(0, (want.count - 1) // step)
    while low < high:
        middle = (low + high + 1) // 2
        if _first_fit(pools, _smaller(want, middle * step), choices, allows):
            low = middle
        else:
            high = middle - 1
    if low == 0:
        return None
    where = _first_fit(pools, _smaller(want, low * step), choices, allows)
    pods = f"{low * step:,} pod{'' if low * step == 1 else 's'}"
    return f"{pods} instead of {want.count:,} → starts now in {where}"


def _smaller(want: SetRequest, count: int) -> GangRequest:
    return GangRequest((replace(want, count=count, min_count=min(count, want.min_count)),))


def _with_topology(request: GangRequest) -> GangRequest | None:
    """The request with every required level, also of groups, turned into a preferred one; None if there is none."""
    if not any(s.topology.required or s.topology.group for s in request.sets):
        return None
    return replace(request, sets=tuple(replace(s, topology=_looser(s.topology)) for s in request.sets))


def _looser(topology: Topology) -> Topology:
    level = topology.required or (topology.group.level if topology.group else topology.preferred)
    return replace(topology, required="", group=None, preferred=level)


__all__ = ["Explanation", "explain"]
