"""An immutable view of the world at one revision: all that a decision may look at."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from hanse.model.ids import FlavorName, PoolName, QueueUid, ReplicaId
from hanse.model.reasons import Reason
from hanse.scheduler.core.facts import PoolFacts, QueueFacts
from hanse.scheduler.core.ledger import Planned, Takes
from hanse.scheduler.core.links import Links
from hanse.scheduler.core.quota import Usage
from hanse.shape import Shape
from hanse.shape.fleet import Fleet

NOTHING_AVOIDED: Final[Mapping[tuple[int, PoolName], Reason]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a cycle, each with its unit.

    Attributes:
        decisions_max: jobs that one cycle may bind.
        classes_max: request classes that one cycle may look at.
        candidates_max: in a fleet of at most so many pools, every pool is asked for every job.
        comparisons_max: in a larger one whose pools are few all the same (`sieve.POOLS_MIN`), the first jobs of a
            cycle ask all pools that are this replica's own, until so many comparisons are spent: a quiet federation
            has a job or two in a cycle, for which a look over all pools costs more than it saves.
        ranked_max: else a look over all pools says in which order they are asked: at most so many for one job, once
            one was found that holds it.
        candidates_sampled: where replicas have no pools of their own, the best of so many pools that hold it is taken
            instead: worse than the best of all, and not the same for all replicas.
        summary_age_max_s: an older summary is not planned with.
        uncertain_max: bindings a pool may have in flight that its agent may refuse for what a shape cannot see.
        unacknowledged_max: bindings a pool may have that its agent has not answered, before it gets no more.
        prefer_pools: pools are dealt out among the replicas, so that these seldom meet; off, all have the same order
            and a share of everything, which is slower and just as right.
        links: what it costs parts of one gang to be in two pools.
    """

    decisions_max: int = 256
    classes_max: int = 2_000
    candidates_max: int = 8
    comparisons_max: int = 64
    candidates_sampled: int = 2
    ranked_max: int = 4
    summary_age_max_s: float = 30.0
    uncertain_max: int = 8
    unacknowledged_max: int = 2_500
    prefer_pools: bool = True
    links: Links = Links()


@dataclass(frozen=True, slots=True)
class PoolView:
    """One pool as a planner sees it.

    Attributes:
        planned: free capacity with everything in flight applied; None while no summary is known.
        empty_shape: the pool as if nothing ran; None while none is known that sorts hosts into today's flavors.
        age_s: of the summary; infinite while none is known.
        grown: stamp of the last time when its capacity may have grown.
        unacknowledged: bindings that the agent has not answered.
        takes: where the pool's ledger finds again what a cycle has worked out; it changes no answer.
    """

    facts: PoolFacts
    attached: bool
    planned: Planned | None
    empty_shape: Shape | None
    age_s: float
    grown: int
    unacknowledged: int
    takes: Takes = field(default_factory=Takes, compare=False, repr=False)

    @property
    def name(self) -> PoolName:
        return self.facts.name

    @property
    def shape(self) -> Shape | None:
        """`planned`, worked out."""
        return self.planned.shape() if self.planned is not None else None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The world at `revision`.

    Attributes:
        replica: who plans; only a preference among pools depends on it.
        growth: the newest of the pools' stamps of growth.
        pools: in order of name.
        queues: of all roots, also those that others hold.
        grants: revision of the grant of each root that this replica holds.
        usage: live bindings of every queue, with this replica's unsettled transactions. Read-only here.
        flavors: in order.
        schedulers: the replicas that schedule at this moment.
        avoided: pools that refused a request class a moment ago, by (class hash, pool): NEEDS or REFUSED.
        fleet: where a cycle asks many pools at once; it is brought up to date there, and changes no answer.
    """

    replica: ReplicaId
    revision: int
    growth: int
    pools: tuple[PoolView, ...]
    queues: Mapping[QueueUid, QueueFacts]
    grants: Mapping[str, int]
    usage: Usage
    flavors: tuple[FlavorName, ...]
    schedulers: frozenset[ReplicaId] = frozenset()
    avoided: Mapping[tuple[int, PoolName], Reason] = field(default_factory=lambda: NOTHING_AVOIDED)
    fleet: Fleet | None = field(default=None, compare=False, repr=False)
