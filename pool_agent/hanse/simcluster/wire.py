"""Between `hanse.sim.v1` and a simulated cluster: messages to inputs, and what the engine knows to messages."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from hanse.model.errors import InvalidArgument
from hanse.model.ids import Attempt, JobId, Part
from hanse.sim.v1 import sim_pb2 as pb
from hanse.simcluster.engine import Engine
from hanse.simcluster.facts import Counts, Fact, FactBatch
from hanse.simcluster.gang import Gang
from hanse.simcluster.inputs import (
    Accept,
    AddedTaint,
    AddForeign,
    AgentInput,
    EpochId,
    Forget,
    GangId,
    HeldSet,
    Hold,
    MarkNodes,
    Start,
    Stop,
    pack,
    unpack,
)
from hanse.simcluster.nodes import Indexes
from hanse.simcluster.programs import program

NODES_PER_MESSAGE: Final = 2_000
GANGS_PER_MESSAGE: Final = 500

# Messages to values


def gang_id(key: pb.GangKey) -> GangId:
    """A gang's key. Raises InvalidArgument."""
    if not key.job:
        raise InvalidArgument("a gang needs a job", path="key.job")
    return GangId(JobId(key.job), Attempt(key.attempt), Part(key.part))


def epoch_id(epoch: pb.Epoch) -> EpochId:
    """An epoch."""
    return EpochId(epoch.incarnation, epoch.revision)


def agent_input(op: pb.WriteOp, engine: Engine) -> AgentInput | str:
    """One operation, or why the cluster refuses it. Raises InvalidArgument."""
    match op.WhichOneof("op"):
        case "hold":
            return _hold(op.hold.record, engine)
        case "start":
            return _start(op.start)
        case "stop":
            return Stop(gang_id(op.stop.key), max(0, op.stop.grace_s) * 1000)
        case "forget":
            return Forget(gang_id(op.forget.key))
        case "accept":
            return Accept(op.accept.revision)
        case None:
            raise InvalidArgument("an operation says nothing", path="ops")


def _hold(record: pb.GangRecord, engine: Engine) -> Hold | str:
    try:
        sets = tuple(
            HeldSet(s.name, s.first_rank, s.flavor, pack(engine.nodes.indexes(s.nodes)), amounts(s.resources))
            for s in record.sets
        )
    except KeyError as error:
        return f"no node {error.args[0]!r} in this cluster"
    return Hold(gang_id(record.key), record.revision, sets, record.payload)


def _start(op: pb.StartPods) -> Start:
    programs = tuple(
        program(run.pod_set, run.image, (*run.command, *run.args), {e.name: e.value for e in run.env})
        for run in op.runs
    )
    return Start(gang_id(op.key), op.job_name, programs, max(0, op.duration_s) * 1000)


def mark_nodes(request: pb.MarkNodesRequest, nodes: Indexes) -> MarkNodes:
    """What nodes are told to report."""
    return MarkNodes(
        pack(nodes),
        cordoned=request.cordoned if request.HasField("cordoned") else None,
        ready=request.ready if request.HasField("ready") else None,
        healthy=request.healthy if request.HasField("healthy") else None,
        add_taints=tuple(AddedTaint(t.key, t.value, int(t.effect)) for t in request.add_taints),
        remove_taint_keys=tuple(request.remove_taint_keys),
        allocatable=dict(request.allocatable),
    )


def add_foreign(request: pb.AddForeignRequest, engine: Engine) -> AddForeign:
    """Pods of somebody else. Raises InvalidArgument."""
    if not request.name or not request.nodes:
        raise InvalidArgument("a foreign gang needs a name and nodes")
    try:
        nodes = engine.nodes.indexes(request.nodes)
    except KeyError as error:
        raise InvalidArgument(f"no node {error.args[0]!r} in this cluster", path="nodes") from None
    return AddForeign(request.name, pack(nodes), amounts(request.resources), max(0, request.life_s) * 1000)


def amounts(resources: Mapping[str, int]) -> dict[str, int]:
    """Amounts of one pod. Raises InvalidArgument if one is negative."""
    negative = next((name for name, amount in resources.items() if amount < 0), None)
    if negative is not None:
        raise InvalidArgument(f"{negative}: {resources[negative]}; an amount is not negative", path="resources")
    return dict(resources)


# Values to messages


def gang_key(gang: GangId) -> pb.GangKey:
    """A gang's key as a message."""
    return pb.GangKey(job=gang.job, attempt=gang.attempt, part=gang.part)


def claim_message(engine: Engine) -> pb.ClusterClaim:
    """Who may write."""
    own = engine.claim
    return pb.ClusterClaim(
        cluster_uid=engine.uid,
        federation=own.federation,
        epoch=pb.Epoch(incarnation=own.epoch.incarnation, revision=own.epoch.revision),
        accepted_revision=own.accepted_revision,
    )


def list_messages(engine: Engine, *, nodes_as_kept: bool = False) -> Iterator[pb.ListResponse]:
    """Everything, in pieces, or all but the nodes. The engine must not move before the last one is taken."""
    bases = [pb.LabelBase(labels=dict(group.labels)) for group in engine.nodes.groups]
    claim = claim_message(engine)
    yield pb.ListResponse(version=engine.version, claim=claim, label_bases=bases, nodes_as_kept=nodes_as_kept)
    nodes = [] if nodes_as_kept else list(engine.listed_nodes())
    for start in range(0, len(nodes), NODES_PER_MESSAGE):
        part = [node_message(engine, node, shared=True) for node in nodes[start : start + NODES_PER_MESSAGE]]
        yield pb.ListResponse(version=engine.version, nodes=part)
    gangs = list(engine.gangs.values())
    for start in range(0, len(gangs), GANGS_PER_MESSAGE):
        some = gangs[start : start + GANGS_PER_MESSAGE]
        yield pb.ListResponse(
            version=engine.version,
            records=[_record(engine, gang) for gang in some if gang.recorded],
            pods=[counts_message(gang.hold.gang, gang.counts) for gang in some if gang.start is not None],
        )


def node_message(engine: Engine, node: int, *, shared: bool) -> pb.Node:
    """One node; with `shared`, the labels of its group are left to the list's label bases."""
    table = engine.nodes
    labels = table.labels[node]
    return pb.Node(
        name=table.names[node],
        labels=labels.own() if shared else dict(labels),
        label_base=table.group_of[node] + 1 if shared else 0,
        taints=[pb.Taint(key=t.key, value=t.value, effect=_effect(t.effect)) for t in table.taints(node)],
        allocatable=table.allocatable_of(node),
        ready=bool(table.ready[node]),
        cordoned=bool(table.cordoned[node]),
        healthy=bool(table.healthy[node]),
        foreign=table.foreign_of(node) if table.foreign[node].any() else None,
        devices=[pb.DeviceGroup(numa=d.numa, pcie=d.pcie, gpus=d.gpus, nics=d.nics) for d in table.devices_of(node)],
    )


def _effect(effect: int) -> pb.TaintEffect.ValueType:
    return pb.TaintEffect.ValueType(effect)


def _record(engine: Engine, gang: Gang) -> pb.GangRecord:
    hold = gang.hold
    return pb.GangRecord(
        key=gang_key(hold.gang),
        revision=hold.revision,
        sets=[_set_place(held, engine.nodes.names) for held in hold.sets],
        started=gang.start is not None,
        payload=hold.payload,
    )


def _set_place(held: HeldSet, names: Sequence[str]) -> pb.SetPlace:
    return pb.SetPlace(
        name=held.name,
        first_rank=held.first_rank,
        nodes=[names[node] for node in unpack(held.nodes).tolist()],
        flavor=held.flavor,
        resources=held.resources,
    )


def counts_message(gang: GangId, c: Counts) -> pb.PodCounts:
    """Pods by phase."""
    return pb.PodCounts(
        gang=gang_key(gang),
        pending=c.pending,
        running=c.running,
        succeeded=c.succeeded,
        failed=c.failed,
        stopping=c.stopping,
        missing=c.missing,
        exit_code=c.exit_code,
        reason=c.reason,
        infrastructure=c.infrastructure,
        ended_sets=c.ended_sets,
    )


def pods_message(engine: Engine, key: GangId) -> pb.PodsResponse:
    """The pods of a gang that exist."""
    gang = engine.gangs.get(key)
    if gang is None:
        return pb.PodsResponse()
    return pb.PodsResponse(
        pods=[
            pb.PodStatus(
                pod_set=pod.pod_set,
                rank=pod.rank,
                node=engine.nodes.names[pod.node],
                phase=pb.PodPhase.ValueType(pod.phase),
                exit_code=pod.exit_code,
                reason=pod.reason,
            )
            for pod in gang.existing_pods()
        ]
    )


def watch_message(engine: Engine, version: int, changed: Sequence[GangId | int]) -> pb.WatchResponse:
    """Changed things as they are now."""
    message = pb.WatchResponse(version=version)
    for thing in changed:
        if not isinstance(thing, int):
            message.gangs.append(counts_message(thing, engine.counts(thing)))
        elif engine.nodes.removed[thing]:
            message.gone_nodes.append(engine.nodes.names[thing])
        else:
            message.nodes.append(node_message(engine, thing, shared=False))
    return message


def pod_log_message(batch: FactBatch) -> pb.PodLogResponse:
    """Facts as entries."""
    return pb.PodLogResponse(entries=[_entry(fact, batch.names) for fact in batch.facts])


def _entry(fact: Fact, names: Sequence[str]) -> pb.PodLogEntry:
    entry = pb.PodLogEntry(
        seq=fact.seq, at_ms=fact.at_ms, kind=pb.PodLogKind.ValueType(fact.kind), reason=fact.reason
    )
    if fact.gang is not None:
        entry.gang.CopyFrom(gang_key(fact.gang))
        if fact.counts is not None:
            entry.counts.CopyFrom(counts_message(fact.gang, fact.counts))
    if fact.epoch is not None:
        entry.epoch.incarnation, entry.epoch.revision = fact.epoch
    entry.sets.extend(_set_place(held, names) for held in fact.sets)
    entry.nodes.extend(names[node] for node in unpack(fact.nodes).tolist())
    return entry


def description(engine: Engine, *, pod_log_first_seq: int, state_path: str) -> pb.ClusterDescription:
    """A cluster summed up."""
    table = engine.nodes
    usable = table.ready & ~table.removed
    return pb.ClusterDescription(
        pool=engine.spec.name,
        claim=claim_message(engine),
        version=engine.version,
        pod_log_first_seq=pod_log_first_seq,
        nodes=int((~table.removed).sum()),
        ready_nodes=int(usable.sum()),
        gpus=int(table.gpus_of(table.allocatable)[usable].sum()),
        free_gpus=int(np.maximum(table.gpus_of(table.free)[usable], 0).sum()),
        gangs=sum(gang.recorded for gang in engine.gangs.values()),
        pods=sum(gang.counts.occupying for gang in engine.gangs.values()),
        foreign_gangs=len(engine.foreign),
        state_path=state_path,
    )


def path_message(engine: Engine, nodes: Indexes, gangs: Sequence[GangId]) -> pb.PathResponse:
    """What a path meant."""
    names = engine.nodes.names
    return pb.PathResponse(nodes=[names[node] for node in nodes.tolist()], gangs=[gang_key(g) for g in gangs])
