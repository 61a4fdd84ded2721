"""What the API server shows of the fleet and of a job's chances, taken from the replica's world."""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hanse.apiserver import ports
from hanse.kit.clock import Clock
from hanse.model.ids import FlavorName, JobId, PoolName, QueueUid, queue_of
from hanse.model.job import JobSpec
from hanse.model.lifecycle import JobState, State
from hanse.model.reasons import Reason
from hanse.model.request import gang_request
from hanse.model.resources import Resources
from hanse.scheduler.core.explain import Explanation, explain, stale_prose
from hanse.scheduler.core.facts import LeaveFacts
from hanse.scheduler.core.snapshot import Limits, PoolView, Snapshot
from hanse.scheduler.core.verdicts import PoolVerdict
from hanse.scheduler.core.world import World
from hanse.scheduler.shell.states import States
from hanse.shape import Shape

GPU_UNIT: Final = "GPUs"


class Fleet:
    """The `FleetView` and the `Explainer` of one replica.

    Args:
        avoided: the pools that refused a request class a moment ago, at a monotonic time.
    """

    def __init__(
        self,
        world: World,
        states: States,
        clock: Clock,
        *,
        nonce: str,
        limits: Limits,
        avoided: Callable[[float], Mapping[tuple[int, PoolName], Reason]],
    ) -> None:
        self._world = world
        self._states = states
        self._clock = clock
        self._nonce = nonce
        self._limits = limits
        self._avoided = avoided
        self._version = 0
        self._changed = asyncio.Event()
        self._figures: dict[PoolName, _Figures] = {}
        self._offers: tuple[ports.PoolOffer, ...] = ()

    # ---- fleet -----------------------------------------------------------------------------------------------

    def touch(self) -> None:
        """Something about the pools changed."""
        self._version += 1
        self._changed.set()

    def version(self) -> int:
        """See ports.FleetView."""
        return self._version

    async def changed(self, since: int) -> int:
        """See ports.FleetView."""
        while self._version <= since:
            self._changed.clear()
            await self._changed.wait()
        return self._version

    def pools(self) -> tuple[ports.PoolView, ...]:
        """See ports.FleetView."""
        return tuple(self._pool(view) for view in self._snapshot().pools)

    def offers(self) -> tuple[ports.PoolOffer, ...]:
        """See ports.FleetView."""
        known = {offer.name: offer for offer in self._offers}
        offers = tuple(self._offer(name, known.get(name)) for name in self._world.pool_names())
        if len(offers) != len(self._offers) or any(a is not b for a, b in zip(offers, self._offers, strict=True)):
            self._offers = offers
        return self._offers

    def _offer(self, name: PoolName, known: ports.PoolOffer | None) -> ports.PoolOffer:
        levels, shape = self._world.levels(name), self._world.empty_shape(name)
        if known is not None and known.empty_shape is shape and known.levels == levels:
            return known
        return ports.PoolOffer(name, levels, shape)

    def used(self, queue: QueueUid) -> Mapping[FlavorName, Resources] | None:
        """See ports.FleetView."""
        return self._world.usage.by_flavor(queue)

    def _snapshot(self) -> Snapshot:
        now_s = self._clock.monotonic()
        return self._world.snapshot(now_s=now_s, nonce=self._nonce, avoided=self._avoided(now_s))

    def _pool(self, view: PoolView) -> ports.PoolView:
        """What is shown of a pool; figures come from its newest summary, not from what is in flight."""
        ledger = self._world.ledger(view.name)
        summary = ledger.summary
        facts = view.facts
        health, message = self._health(view)
        shape = summary.shape if summary is not None else None
        figures = self._figures_of(view.name, shape) if shape is not None else _NO_FIGURES
        return ports.PoolView(
            name=view.name,
            region=facts.region,
            dialect=facts.dialect,
            labels=facts.labels,
            levels=facts.levels,
            flavors=figures.flavors,
            nodes=summary.usable_nodes if summary is not None else 0,
            gpus=sum(f.gpus for f in figures.flavors),
            free_gpus=sum(f.free_gpus for f in figures.flavors),
            free_whole_hosts=sum(f.free_whole_hosts for f in figures.flavors),
            unusable_nodes=summary.nodes - summary.usable_nodes if summary is not None else 0,
            health=health,
            message=message,
            attached=view.attached,
            cordoned=facts.cordoned,
            cordon_reason=facts.cordon_reason,
            drain=ports.PoolDrain(facts.drain.since_ms, facts.drain.deadline_ms) if facts.drain is not None else None,
            leave=_leave(facts.leave) if facts.leave is not None else None,
            summary_age_ms=_milliseconds(view.age_s),
            exact=shape.exact if shape is not None else True,
            gangs=ledger.gangs(),
            held_gangs=summary.held_gangs if summary is not None else 0,
            stopping_gangs=summary.stopping_gangs if summary is not None else 0,
            largest_whole=figures.largest_whole,
            shape=shape,
            empty_shape=view.empty_shape,
            revision=facts.revision,
        )

    def roots(self) -> tuple[ports.RootHolder, ...]:
        """See ports.Standing."""
        alive = {str(name): facts.nonce for name, facts in self._world.replicas.items()}
        return tuple(self._holder(root, alive) for root in self._world.roots())

    def _holder(self, root: str, alive: Mapping[str, str]) -> ports.RootHolder:
        grant, wanted = self._world.grants.get(root), self._world.wanted.get(root, "")
        if grant is None:
            return ports.RootHolder(root, "", alive=False, wanted=wanted)
        return ports.RootHolder(root, grant.replica, alive.get(grant.replica) == grant.nonce, wanted)

    def links(self) -> dict[PoolName, ports.PoolLink]:
        """See ports.Standing."""
        world, missing = self._world, set(self._world.missing())
        return {
            name: ports.PoolLink(world.attached_to(name), world.ledger(name).unacknowledged(), name in missing)
            for name in world.pool_names()
        }

    def _figures_of(self, pool: PoolName, shape: Shape) -> "_Figures":
        """What is counted in a shape; counted once for each, since every submission looks at all pools."""
        known = self._figures.get(pool)
        if known is None or known.shape is not shape:
            known = self._figures[pool] = _Figures(shape, _flavors(shape), _largest_whole(shape))
        return known

    def _health(self, view: PoolView) -> tuple[ports.PoolHealth, str]:
        if view.planned is None:
            return ports.PoolHealth.STARTING, "no summary has come yet"
        if not view.attached:
            return ports.PoolHealth.DETACHED, "its agent is not attached; what runs there runs on"
        if view.age_s > self._limits.summary_age_max_s:
            return ports.PoolHealth.STALE, f"{stale_prose(view.age_s)}; it gets no new work"
        return ports.PoolHealth.HEALTHY, ""

    # ---- explanations ----------------------------------------------------------------------------------------

    async def explain(self, job: JobId, spec: JobSpec, state: JobState) -> ports.Explanation:
        """See ports.Explainer."""
        snapshot = self._snapshot()
        found = explain(snapshot, queue_of(job), gang_request(spec), self._limits)
        chosen = [self._world.slots[slot] for slot in state.pools if slot < len(self._world.slots)]
        ages = {view.name: view.age_s for view in snapshot.pools}
        parts = self._part_words(chosen)
        pools = [_verdict(v, ages[v.pool], chosen=v.pool in chosen, here=parts.get(v.pool, "")) for v in found.pools]
        pools.sort(key=lambda v: not v.chosen)
        position, _ = self._states.pending.queue_positions(job) if job in self._states.pending else (-1, 0)
        reason = _reason(found, state)
        return ports.Explanation(
            answer=_answer(spec, state, found, chosen),
            reason=reason,
            since_ms=state.changed_ms,
            position=position + 1,
            pools=tuple(pools),
            helps=tuple(_suggestion(h) for h in found.helps) if state.state is State.PENDING else (),
        )

    def _part_words(self, chosen: Sequence[PoolName]) -> dict[PoolName, str]:
        """What is said of each pool that has a part of a split gang: what its links to the others cost."""
        known = [facts for pool in chosen if (facts := self._world.pool_facts(pool)) is not None]
        between = self._limits.links.between
        costs = {one.name: sum(between(one, other) for other in known) for one in known} if len(known) > 1 else {}
        return {name: f"links to its other parts cost {cost:,}" for name, cost in costs.items()}


@dataclass(frozen=True, slots=True)
class _Figures:
    """What was counted in a shape."""

    shape: Shape | None
    flavors: tuple[ports.FlavorView, ...]
    largest_whole: ports.WholeDomain | None


_NO_FIGURES: Final = _Figures(None, (), None)


def _flavors(shape: Shape) -> tuple[ports.FlavorView, ...]:
    return tuple(
        ports.FlavorView(f, shape.hosts(f), shape.gpus(f), shape.free_gpus(f), shape.whole_hosts(f))
        for f in shape.flavors
    )


def _largest_whole(shape: Shape) -> ports.WholeDomain | None:
    """The most wholly free hosts inside one of the coarsest domains."""
    if not shape.levels:
        return None
    top = shape.levels[0]
    hosts = shape.largest_whole(top.key)
    return ports.WholeDomain(top.alias or top.key, hosts) if hosts else None


def _milliseconds(age_s: float) -> int | None:
    """The age of a summary, None if there is none that counts."""
    return int(age_s * 1000) if math.isfinite(age_s) else None


def _leave(facts: LeaveFacts) -> ports.PoolLeave:
    return ports.PoolLeave(facts.since_ms, facts.force, facts.vouched)


def _verdict(verdict: PoolVerdict, age_s: float, *, chosen: bool, here: str) -> ports.PoolVerdict:
    return ports.PoolVerdict(
        pool=verdict.pool,
        fits=verdict.fits or chosen,
        reason=Reason.UNSPECIFIED if chosen else verdict.reason,
        constraint="" if chosen else verdict.constraint,
        wanted=0 if chosen else verdict.wanted,
        found=0 if chosen else verdict.found,
        detail=here or (verdict.detail if verdict.fits or not chosen else "runs here"),
        flavor=verdict.flavor,
        summary_age_ms=_milliseconds(age_s),
        chosen=chosen,
    )


_REFUSED: Final = frozenset({Reason.REFUSED, Reason.NEEDS})


def _reason(found: Explanation, state: JobState) -> Reason:
    """The one reason. Only the holder of the queue's root remembers refusals; others see them in the job's state."""
    if state.state is not State.PENDING or (found.reason is Reason.WAITING and state.reason in _REFUSED):
        return state.reason
    return found.reason


def _answer(spec: JobSpec, state: JobState, found: Explanation, chosen: list[PoolName]) -> str:
    """The first line: what a person wants to know."""
    if state.state is not State.PENDING:
        where = " and ".join(chosen)
        return f"{spec.name} is {state.state.name}" + (f" in {where}" if where else f": {state.reason.prose}")
    if found.reason is Reason.QUOTA and found.quota:
        return f"{spec.name} waits: {found.quota[0].detail}"
    nearest = next((v for v in found.pools if not v.fits and v.detail), None)
    if found.reason in (Reason.SHAPE, Reason.RESOURCES) and nearest is not None:
        return f"{spec.name} waits: no pool holds it; nearest is {nearest.pool}: {nearest.detail}"
    return f"{spec.name} waits: {found.reason.prose}"


def _suggestion(text: str) -> ports.Suggestion:
    change, _, effect = text.partition(" → ")
    return ports.Suggestion(change, effect)
