"""What a seed draws before anything runs: the size of the federation, which faults exist, and how likely they are.

A run in which every fault happens at once finds less than many runs in which few do: one fault hides another (an
agent that is always down meets no stale summary). So each family of faults is in or out by a coin, and what is in
gets a rate over two orders of magnitude. Some seeds draw calm weather, and show that the product works at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from random import Random
from types import MappingProxyType
from typing import Final

NEVER: Final = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Swarm:
    """Sizes, rates and probabilities of one run. `*_every_s`: mean time between two, 0 for never; `*_p`: of each.

    Attributes:
        small_limits_p: whatever it is above 0: some of the product's limits are small (see `limits`).
        restore_every_s: a backup of the store is made, and the store set back to it a while later.
        faults_s: how long faults last, virtual seconds.
        store_lag_s, link_lag_s, bus_lag_s, cluster_lag_s: mean time of one message.
        store_reply_lost_p: a transaction is applied, its answer lost.
        store_request_lost_p: a transaction is not applied in time, and its answer lost too.
        store_late_p: of the lost requests, those that are applied later, up to `late_max_s` after they were sent.
        late_max_s: how long a message may be on its way.
        bus_absent: there never is a bus; replicas fetch summaries from each other (P14).
        retain_age_s: how long jobs that have ended stay in the store; 0: for ever.
        prefer_pools: replicas prefer different pools.
        link_stray_p: with a message of a link comes one that belongs to another time, or another stream of the pool.
        stranger_agent_every_s, stranger_replica_p: somebody who is not of this federation (see `strangers`).
        link_linger_s: how long the other end of a broken connection keeps hearing what was on its way.
    """

    replicas: int = 2
    pools: int = 2
    nodes_max: int = 8
    jobs: int = 10
    split: bool = False
    faults_s: float = 60.0

    store_lag_s: float = 0.005
    store_reply_lost_p: float = NEVER
    store_request_lost_p: float = NEVER
    store_late_p: float = 0.5
    store_down_every_s: float = NEVER
    restore_every_s: float = NEVER
    small_limits_p: float = NEVER
    store_cut_every_s: float = NEVER
    watch_lag_s: float = 0.01
    watch_cut_every_s: float = NEVER
    compact_every_s: float = NEVER
    lease_loss_every_s: float = NEVER
    late_max_s: float = 20.0

    link_lag_s: float = 0.005
    link_break_every_s: float = NEVER
    link_stall_every_s: float = NEVER
    link_linger_s: float = 2.0
    link_stray_p: float = NEVER
    stranger_agent_every_s: float = NEVER
    stranger_replica_p: float = NEVER

    bus_lag_s: float = 0.01
    bus_loss_p: float = NEVER
    bus_repeat_p: float = NEVER
    bus_down_every_s: float = NEVER
    bus_absent: bool = False
    retain_age_s: float = NEVER
    prefer_pools: bool = True

    cluster_lag_s: float = 0.01
    cluster_error_p: float = NEVER
    cluster_late_p: float = NEVER
    cluster_watch_lost_every_s: float = NEVER
    node_fail_every_s: float = NEVER
    node_mark_every_s: float = NEVER
    foreign_every_s: float = NEVER
    pod_fail_p: float = NEVER

    agent_crash_every_s: float = NEVER
    agent_pause_every_s: float = NEVER
    agent_twin_every_s: float = NEVER
    replica_crash_every_s: float = NEVER
    replica_pause_every_s: float = NEVER
    clock_step_every_s: float = NEVER

    cordon_every_s: float = NEVER
    hold_every_s: float = NEVER
    quota_every_s: float = NEVER
    cancel_every_s: float = NEVER
    user_repeat_p: float = NEVER
    user_crash_p: float = NEVER
    job_hold_every_s: float = NEVER
    priority_every_s: float = NEVER
    retry_every_s: float = NEVER
    drain_every_s: float = NEVER
    limit_every_s: float = NEVER
    leave_every_s: float = NEVER
    give_every_s: float = NEVER
    regroup_every_s: float = NEVER

    def calmed(self) -> "Swarm":
        """The same federation once faults have stopped."""
        calm = Swarm()
        sizes = {"replicas", "pools", "nodes_max", "jobs", "split", "faults_s", "late_max_s", "bus_absent"}
        sizes.add("prefer_pools")
        return replace(self, **{f.name: getattr(calm, f.name) for f in fields(self) if f.name not in sizes})

    def told(self) -> str:
        """What differs from calm weather, in one line."""
        calm = Swarm()
        drawn = ((f.name, getattr(self, f.name), getattr(calm, f.name)) for f in fields(self))
        return " ".join(f"{name}={value:.3g}" for name, value, usual in drawn if value != usual)


FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    "slow store": ("store_lag_s", "watch_lag_s"),
    "unknown outcomes": ("store_reply_lost_p", "store_request_lost_p"),
    "store away": ("store_down_every_s", "store_cut_every_s"),
    "broken watches": ("watch_cut_every_s", "compact_every_s"),
    "lost leases": ("lease_loss_every_s",),
    "slow links": ("link_lag_s",),
    "broken links": ("link_break_every_s", "link_stall_every_s"),
    "bad bus": ("bus_lag_s", "bus_loss_p", "bus_repeat_p", "bus_down_every_s"),
    "slow clusters": ("cluster_lag_s", "cluster_watch_lost_every_s"),
    "failing cluster calls": ("cluster_error_p", "cluster_late_p"),
    "failing nodes": ("node_fail_every_s", "node_mark_every_s"),
    "foreign pods": ("foreign_every_s",),
    "failing pods": ("pod_fail_p",),
    "crashing agents": ("agent_crash_every_s",),
    "pausing agents": ("agent_pause_every_s",),
    "twin agents": ("agent_twin_every_s",),
    "crashing replicas": ("replica_crash_every_s",),
    "pausing replicas": ("replica_pause_every_s",),
    "wrong clocks": ("clock_step_every_s",),
    "operators": ("cordon_every_s", "hold_every_s", "quota_every_s"),
    "cancels": ("cancel_every_s",),
    "hasty users": ("user_repeat_p", "user_crash_p"),
}

LATER_FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    "users who change their minds": ("job_hold_every_s", "priority_every_s", "retry_every_s"),
}
"""Drawn after everything else, so that a seed draws of the rest what it drew before these existed."""

LATEST_FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    "drains": ("drain_every_s",),
    "limited queues": ("limit_every_s",),
    "stray messages": ("link_stray_p",),
    "restores": ("restore_every_s",),
    "strangers": ("stranger_agent_every_s", "stranger_replica_p"),
    "leaves": ("leave_every_s",),
    "given queues": ("give_every_s", "regroup_every_s"),
    "small limits": ("small_limits_p",),
}
"""Drawn after those, for the same reason."""

NOTHING_FIXED: Final[Mapping[str, float]] = MappingProxyType({})

IN_P: Final = 0.4
"""How likely each family is to exist in a run."""

PREFERENCE_OFF_P: Final = 0.6
"""How often replicas prefer the same pools: then their commits meet, which is what most bugs need."""

BOUNDS: Final[dict[str, tuple[float, float]]] = {
    "lost_p": (0.03, 0.4),
    "every_s": (4.0, 60.0),
    "p": (0.01, 0.25),
    "lag_s": (0.005, 1.0),
    "age_s": (1.0, 20.0),
}


def draw(rng: Random, fixed: Mapping[str, float] = NOTHING_FIXED) -> Swarm:
    """The swarm of a seed: a function of `rng`, but for the fields whose values are fixed."""
    drawn = _draw_families(rng, FAMILIES)
    replicas = rng.choice((1, 2, 2, 2, 3))
    swarm = Swarm(
        replicas=replicas,
        pools=rng.choice((2, 2, 3)),
        nodes_max=rng.randint(4, 12),
        jobs=rng.randint(10, 24),
        split=rng.random() < 0.3,
        faults_s=rng.choice((30.0, 45.0, 60.0)),
        late_max_s=rng.choice((8.0, 20.0)),
        link_linger_s=rng.choice((0.1, 2.0, 10.0)),
        store_late_p=rng.choice((0.2, 0.5, 0.9)),
        bus_absent=rng.random() < 0.1,
    )
    drawn |= _draw_families(rng, LATER_FAMILIES)
    if rng.random() < IN_P:
        drawn["retain_age_s"] = _draw_rate(rng, "retain_age_s")
    drawn |= _draw_families(rng, LATEST_FAMILIES)
    swarm = replace(swarm, prefer_pools=rng.random() >= PREFERENCE_OFF_P)
    return replace(swarm, **{name: type(getattr(swarm, name))(value) for name, value in {**drawn, **fixed}.items()})


def _draw_families(rng: Random, families: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
    """Rates of the families that are in, by field."""
    drawn: dict[str, float] = {}
    for names in families.values():
        if rng.random() < IN_P:
            for name in names:
                drawn[name] = _draw_rate(rng, name)
    return drawn


def _draw_rate(rng: Random, name: str) -> float:
    """Log-uniform between the bounds of the field's kind."""
    low, high = next(bounds for suffix, bounds in BOUNDS.items() if name.endswith(suffix))
    return float(low * (high / low) ** rng.random())
