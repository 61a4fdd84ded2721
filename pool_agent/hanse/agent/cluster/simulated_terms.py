"""Between the port's words and a simulated cluster's: names and indexes, mappings and Resources, texts and results.

Pure, and shared by whoever needs to see a simulated cluster as the port would show it.
"""

from collections.abc import Iterator

import numpy as np

from hanse.agent.cluster.port import (
    AcceptRevision,
    Claim,
    ClusterEvent,
    ClusterState,
    ClusterWrite,
    Epoch,
    ForgetGang,
    GangChanged,
    GangKey,
    GangRecord,
    HoldGang,
    NodeChanged,
    NodeGone,
    PodCounts,
    PodPhase,
    PodStatus,
    Rejected,
    SetPlace,
    StartPods,
    StopPods,
)
from hanse.agent.core.facts import NodeFacts
from hanse.model.ids import FlavorName, NodeName
from hanse.model.resources import Resources
from hanse.simcluster.changes import Changed
from hanse.simcluster.cluster import SimCluster
from hanse.simcluster.engine import Engine
from hanse.simcluster.gang import Gang
from hanse.simcluster.inputs import (
    Accept,
    AgentInput,
    EpochId,
    Forget,
    GangId,
    HeldSet,
    Hold,
    Start,
    Stop,
    pack,
    unpack,
)
from hanse.simcluster.programs import program


def gang_id(key: GangKey) -> GangId:
    """The port's key as the cluster's."""
    return GangId(key.job, key.attempt, key.part)


def gang_key(gang: GangId) -> GangKey:
    """The cluster's key as the port's."""
    return GangKey(gang.job, gang.attempt, gang.part)


def epoch_id(epoch: Epoch) -> EpochId:
    """The port's epoch as the cluster's."""
    return EpochId(epoch.incarnation, epoch.revision)


def claim_of(cluster: SimCluster) -> Claim:
    """Who may write."""
    own = cluster.engine.claim
    return Claim(cluster.engine.uid, own.federation, Epoch(*own.epoch), own.accepted_revision)


# Writing


def prepare(cluster: SimCluster, op: ClusterWrite) -> AgentInput | Rejected:
    """An operation as an input; rejected if it names a node that does not exist."""
    match op:
        case HoldGang():
            return _hold(cluster.engine, op.record)
        case StartPods():
            return start_input(op)
        case StopPods():
            return Stop(gang_id(op.key), max(0, op.grace_s) * 1000)
        case ForgetGang():
            return Forget(gang_id(op.key))
        case AcceptRevision():
            return Accept(op.revision)


def _hold(engine: Engine, record: GangRecord) -> Hold | Rejected:
    try:
        sets = tuple(
            HeldSet(s.name, s.first_rank, s.flavor, pack(engine.nodes.indexes(s.nodes)), dict(s.resources))
            for s in record.sets
        )
    except KeyError as error:
        return Rejected(f"no node {error.args[0]!r} in this cluster")
    return Hold(gang_id(record.key), record.revision, sets, record.payload)


def start_input(op: StartPods, *, pods_max: int = 0) -> Start:
    """A StartPods as an input, of which only the first `pods_max` pods are created unless it is 0."""
    programs = tuple(program(run.pod_set, run.image, (*run.command, *run.args), dict(run.env)) for run in op.runs)
    return Start(gang_id(op.key), op.job_name, programs, op.duration_s * 1000, pods_max)


# Reading


def state_of(cluster: SimCluster, kept: ClusterState | None = None) -> ClusterState:
    """Everything, at the engine's version; with the nodes of an earlier list, if that is given."""
    engine = cluster.engine
    gangs = engine.gangs.values()
    return ClusterState(
        version=engine.version,
        claim=claim_of(cluster),
        nodes=tuple(node_facts(engine, node) for node in engine.listed_nodes()) if kept is None else kept.nodes,
        foreign=tuple(_foreign(engine)) if kept is None else kept.foreign,
        records=tuple(_record(engine, gang) for gang in gangs if gang.recorded),
        pods=tuple(_counts(gang) for gang in gangs if gang.start is not None),
    )


def node_facts(engine: Engine, node: int) -> NodeFacts:
    """What the cluster reports about a node."""
    table = engine.nodes
    return NodeFacts(
        table.names[node],
        table.labels[node],
        table.taints(node),
        table.allocatable_of(node),
        ready=bool(table.ready[node]),
        cordoned=bool(table.cordoned[node]),
        healthy=bool(table.healthy[node]),
        devices=table.devices_of(node),
    )


def _foreign(engine: Engine) -> Iterator[tuple[NodeName, Resources]]:
    table = engine.nodes
    seen: dict[tuple[int, ...], Resources] = {}
    for node in np.flatnonzero(table.foreign.any(axis=1) & ~table.removed).tolist():
        amounts = tuple(table.foreign[node].tolist())
        if amounts not in seen:
            seen[amounts] = table.foreign_of(node)
        yield table.names[node], seen[amounts]


def _record(engine: Engine, gang: Gang) -> GangRecord:
    hold = gang.hold
    return GangRecord(
        gang_key(hold.gang),
        hold.revision,
        tuple(_set_place(engine, held) for held in hold.sets),
        gang.start is not None,
        hold.payload,
    )


def _set_place(engine: Engine, held: HeldSet) -> SetPlace:
    names = engine.nodes.names
    nodes = tuple(names[node] for node in unpack(held.nodes).tolist())
    return SetPlace(held.name, held.first_rank, nodes, FlavorName(held.flavor), Resources(held.resources))


def _counts(gang: Gang) -> PodCounts:
    c = gang.counts
    return PodCounts(
        gang_key(gang.hold.gang),
        c.pending,
        c.running,
        c.succeeded,
        c.failed,
        c.stopping,
        c.missing,
        c.exit_code,
        c.reason,
        c.infrastructure,
        c.ended_sets,
    )


def event_of(cluster: SimCluster, changed: Changed) -> ClusterEvent:
    """A changed thing as it is now."""
    engine = cluster.engine
    if isinstance(changed, int):
        if engine.nodes.removed[changed]:
            return NodeGone(engine.nodes.names[changed])
        return NodeChanged(node_facts(engine, changed), engine.nodes.foreign_of(changed))
    gang = engine.gangs.get(changed)
    return GangChanged(PodCounts(gang_key(changed)) if gang is None else _counts(gang))


def pod_statuses(engine: Engine, key: GangKey, gang: Gang) -> tuple[PodStatus, ...]:
    """The pods of a gang that exist, by set and rank."""
    return tuple(
        PodStatus(
            key,
            pod.pod_set,
            pod.rank,
            engine.nodes.names[pod.node],
            PodPhase(pod.phase),
            pod.exit_code,
            pod.reason,
        )
        for pod in gang.existing_pods()
    )
