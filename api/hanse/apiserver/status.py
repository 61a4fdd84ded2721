"""The whole federation at a glance: what every replica tells of itself, who holds what, and what is degraded."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hanse.api.v1 import server_service_pb2 as pb
from hanse.apiserver.ports import FleetView, PoolHealth, PoolLink, PoolView, RootHolder, Standing
from hanse.model.ids import PoolName, ReplicaId
from hanse.model.vitals import (
    COMMITTED,
    CONFLICTED,
    CONFLICTS,
    PASSED,
    REFUSED,
    SUPERSEDED,
    TAKEN,
    Vitals,
    by_kind,
)

VITALS_DEADLINE_S: Final = 1.0
CONFLICTS_TOO_MANY: Final = 0.3
REFUSALS_TOO_MANY: Final = 0.1
JUDGED_FROM: Final = 20
"""Transactions, or jobs, of which a part is worth a warning."""

UNACKNOWLEDGED_TOO_MANY: Final = 500
_HEALTH: Final = {
    PoolHealth.HEALTHY: "healthy",
    PoolHealth.STALE: "stale",
    PoolHealth.DETACHED: "detached",
    PoolHealth.STARTING: "starting",
}


async def federation_status(server: pb.ServerInfo, fleet: FleetView, standing: Standing) -> pb.FederationStatus:
    """The answer of GetStatus. Replicas that do not answer within VITALS_DEADLINE_S are named."""
    vitals = await standing.vitals(deadline_s=VITALS_DEADLINE_S)
    links, roots, pools = standing.links(), standing.roots(), fleet.pools()
    replicas = [_replica(one, vitals.get(ReplicaId(one.id)), server.time_ms) for one in server.replicas]
    return pb.FederationStatus(
        server=server,
        replicas=replicas,
        roots=[
            pb.RootStatus(root=one.root, replica=one.replica, alive=one.alive, wanted=one.wanted) for one in roots
        ],
        pools=[_pool(one, links.get(one.name)) for one in pools],
        degraded=[*_degraded_replicas(replicas), *_degraded_roots(roots), *_degraded_pools(pools, links)],
    )


def _replica(one: pb.Replica, vitals: Vitals | None, now_ms: int) -> pb.ReplicaStatus:
    if vitals is None:
        return pb.ReplicaStatus(id=one.id, address=one.address)
    window_s = max(vitals.window_s, 1e-9)
    lately = vitals.lately
    bound = lately.get(COMMITTED, 0)
    refused = sum(by_kind(lately, REFUSED).values())
    conflicted = lately.get(CONFLICTED, 0)
    return pb.ReplicaStatus(
        id=one.id,
        address=one.address,
        answers=True,
        ready=vitals.ready,
        uptime_ms=round(vitals.uptime_s * 1_000),
        agents=vitals.agents,
        roots=vitals.roots,
        pending_jobs=vitals.pending_jobs,
        unsettled=vitals.unsettled,
        window_ms=round(vitals.window_s * 1_000),
        bound_per_s=bound / window_s,
        conflict_fraction=conflicted / max(1, conflicted + lately.get(PASSED, 0)),
        refusal_fraction=refused / max(1, bound),
        conflicts=by_kind(vitals.counts, CONFLICTS),
        refusals=by_kind(vitals.counts, REFUSED),
        takeovers=vitals.counts.get(TAKEN, 0),
        fenced=vitals.counts.get(SUPERSEDED, 0),
        facts=vitals.facts,
        version=vitals.version,
        clock_ahead_ms=vitals.time_ms - now_ms if vitals.time_ms else 0,
    )


def _pool(view: PoolView, link: PoolLink | None) -> pb.PoolStatus:
    return pb.PoolStatus(
        name=view.name,
        state=_state(view),
        replica=link.replica if link is not None else "",
        summary_age_ms=-1 if view.summary_age_ms is None else view.summary_age_ms,
        gangs=view.gangs,
        unacknowledged=link.unacknowledged if link is not None else 0,
    )


def _state(view: PoolView) -> str:
    """The one word that matters most."""
    if view.leave is not None:
        return "leaving"
    if view.health is PoolHealth.HEALTHY and view.cordoned:
        return "cordoned" if view.drain is None else "draining"
    return _HEALTH.get(view.health, "unknown")


def _degraded_replicas(replicas: Sequence[pb.ReplicaStatus]) -> Iterator[str]:
    if not replicas:
        yield "no replica is a member; the store may be away"
    for one in replicas:
        if not one.answers:
            yield f"replica {one.id} is a member and does not answer"
        elif not one.ready:
            yield f"replica {one.id} is not ready: its lease or its view of the store is out of date"
        enough = one.bound_per_s * one.window_ms >= JUDGED_FROM * 1_000
        if enough and one.conflict_fraction > CONFLICTS_TOO_MANY:
            yield f"replica {one.id}: {one.conflict_fraction:.0%} of its transactions were overtaken by others"
        if enough and one.refusal_fraction > REFUSALS_TOO_MANY:
            yield f"replica {one.id}: agents refused {one.refusal_fraction:.0%} of the jobs that it bound"
        if one.unsettled:
            yield f"replica {one.id}: the outcome of {one.unsettled:,} transactions is not known yet"


def _degraded_roots(roots: Sequence[RootHolder]) -> Iterator[str]:
    for one in roots:
        if not one.replica:
            yield f"root {one.root} is held by nobody; its jobs wait"
        elif not one.alive:
            yield f"root {one.root} is held by {one.replica}, which is gone; another replica takes it soon"
        elif one.wanted and one.wanted != one.replica:
            yield f"root {one.root} was given to {one.wanted}, and {one.replica} holds it meanwhile"


def _degraded_pools(pools: Sequence[PoolView], links: Mapping[PoolName, PoolLink]) -> Iterator[str]:
    for view in pools:
        if view.health is not PoolHealth.HEALTHY:
            yield f"pool {view.name} is {_HEALTH.get(view.health, 'unknown')}: {view.message or 'gets no new work'}"
        if view.name in links and links[view.name].awaited:
            yield (
                f"nothing is bound before pool {view.name} has come back after the restore of the store; if its "
                f"machines are dead: hanse leave {view.name} --force --vouch-dead"
            )
        waiting = links[view.name].unacknowledged if view.name in links else 0
        if waiting > UNACKNOWLEDGED_TOO_MANY:
            yield f"pool {view.name}: its agent has not answered {waiting:,} decisions"
