"""Between the port's words and the messages of `hanse.sim.v1`."""

from collections.abc import Iterable, Mapping, Sequence
from sys import intern

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
    SetPlace,
    StartPods,
    StopPods,
)
from hanse.agent.core.facts import NodeFacts
from hanse.model.devices import DeviceGroup
from hanse.model.ids import Attempt, FlavorName, JobId, NodeName, Part
from hanse.model.resources import Resources
from hanse.model.selectors import Effect, Taint
from hanse.sim.v1 import sim_pb2 as pb


def epoch_to_wire(epoch: Epoch) -> pb.Epoch:
    """An epoch as a message."""
    return pb.Epoch(incarnation=epoch.incarnation, revision=epoch.revision)


def key_to_wire(key: GangKey) -> pb.GangKey:
    """A gang's key as a message."""
    return pb.GangKey(job=key.job, attempt=key.attempt, part=key.part)


def op_to_wire(op: ClusterWrite) -> pb.WriteOp:
    """One operation as a message. What a simulated cluster does not use (the manifest) does not travel."""
    match op:
        case HoldGang():
            return pb.WriteOp(hold=pb.HoldGang(record=_record_to_wire(op.record)))
        case StartPods():
            return pb.WriteOp(start=_start_to_wire(op))
        case StopPods():
            return pb.WriteOp(stop=pb.StopPods(key=key_to_wire(op.key), grace_s=op.grace_s))
        case ForgetGang():
            return pb.WriteOp(forget=pb.ForgetGang(key=key_to_wire(op.key)))
        case AcceptRevision():
            return pb.WriteOp(accept=pb.AcceptRevision(revision=op.revision))


def _record_to_wire(record: GangRecord) -> pb.GangRecord:
    sets = [
        pb.SetPlace(name=s.name, first_rank=s.first_rank, nodes=s.nodes, flavor=s.flavor, resources=dict(s.resources))
        for s in record.sets
    ]
    return pb.GangRecord(
        key=key_to_wire(record.key),
        revision=record.revision,
        sets=sets,
        started=record.started,
        payload=record.payload,
    )


def _start_to_wire(op: StartPods) -> pb.StartPods:
    runs = [
        pb.PodRun(
            pod_set=run.pod_set,
            image=run.image,
            command=run.command,
            args=run.args,
            env=[pb.EnvVar(name=name, value=value) for name, value in run.env],
        )
        for run in op.runs
    ]
    return pb.StartPods(
        key=key_to_wire(op.key),
        job_name=op.job_name,
        namespace=op.namespace,
        runs=runs,
        duration_s=op.duration_s,
    )


def claim_from_wire(message: pb.ClusterClaim) -> Claim:
    """Who may write."""
    epoch = Epoch(message.epoch.incarnation, message.epoch.revision)
    return Claim(message.cluster_uid, message.federation, epoch, message.accepted_revision)


def key_from_wire(message: pb.GangKey) -> GangKey:
    """A gang's key."""
    return GangKey(JobId(message.job), Attempt(message.attempt), Part(message.part))


def counts_from_wire(message: pb.PodCounts) -> PodCounts:
    """Pods by phase."""
    return PodCounts(
        key_from_wire(message.gang),
        message.pending,
        message.running,
        message.succeeded,
        message.failed,
        message.stopping,
        message.missing,
        message.exit_code,
        message.reason,
        message.infrastructure,
        tuple(message.ended_sets),
    )


def events_from_wire(message: pb.WatchResponse) -> tuple[ClusterEvent, ...]:
    """Changes: nodes, then gangs."""
    nodes = (NodeChanged(_node(node, ()), Resources(node.foreign)) for node in message.nodes)
    gone = (NodeGone(NodeName(name)) for name in message.gone_nodes)
    gangs = (GangChanged(counts_from_wire(counts)) for counts in message.gangs)
    return (*nodes, *gone, *gangs)


def pods_from_wire(key: GangKey, message: pb.PodsResponse) -> tuple[PodStatus, ...]:
    """The pods of a gang."""
    return tuple(
        PodStatus(
            key,
            pod.pod_set,
            pod.rank,
            NodeName(pod.node),
            PodPhase(pod.phase),
            pod.exit_code,
            pod.reason,
            pod.infrastructure,
        )
        for pod in message.pods
    )


class Listing:
    """Puts the pieces of a list together.

    Args:
        kept: an earlier list, whose nodes the answer may leave out.
    """

    def __init__(self, kept: ClusterState | None = None) -> None:
        self._kept = kept
        self._as_kept = False
        self._version = 0
        self._claim = Claim("", "", Epoch(), 0)
        self._bases: list[dict[str, str]] = []
        self._nodes: list[NodeFacts] = []
        self._foreign: list[tuple[NodeName, Resources]] = []
        self._records: list[GangRecord] = []
        self._pods: list[PodCounts] = []
        self._seen: dict[tuple[tuple[str, int], ...], Resources] = {}

    def add(self, piece: pb.ListResponse) -> None:
        """The next piece."""
        if piece.HasField("claim"):
            self._version, self._claim = piece.version, claim_from_wire(piece.claim)
            self._bases = [{intern(key): value for key, value in b.labels.items()} for b in piece.label_bases]
            self._as_kept = piece.nodes_as_kept
        for node in piece.nodes:
            self._nodes.append(_node(node, self._bases, self._resources(node.allocatable)))
            if node.foreign:
                self._foreign.append((NodeName(node.name), self._resources(node.foreign)))
        self._records += map(_record, piece.records)
        self._pods += map(counts_from_wire, piece.pods)

    def _resources(self, amounts: Mapping[str, int]) -> Resources:
        """Equal amounts are one object: thousands of nodes offer the same."""
        key = tuple(sorted(amounts.items()))
        return self._seen.setdefault(key, Resources(key))

    def state(self) -> ClusterState:
        """Everything; nodes that were left out are the very tuple that was kept."""
        kept = self._kept if self._as_kept else None
        return ClusterState(
            self._version,
            self._claim,
            tuple(self._nodes) if kept is None else kept.nodes,
            tuple(self._foreign) if kept is None else kept.foreign,
            tuple(self._records),
            tuple(self._pods),
        )


def _node(node: pb.Node, bases: Sequence[dict[str, str]], allocatable: Resources | None = None) -> NodeFacts:
    # A dictionary of its own for each node costs no more memory than a view on two, and is read much faster.
    labels = dict(bases[node.label_base - 1]) if node.label_base else {}
    labels.update((intern(key), value) for key, value in node.labels.items())
    return NodeFacts(
        NodeName(node.name),
        labels,
        _taints(node.taints),
        Resources(node.allocatable) if allocatable is None else allocatable,
        ready=node.ready,
        cordoned=node.cordoned,
        healthy=node.healthy,
        devices=tuple(DeviceGroup(d.numa, d.pcie, d.gpus, d.nics) for d in node.devices),
    )


def _taints(taints: Iterable[pb.Taint]) -> tuple[Taint, ...]:
    return tuple(Taint(t.key, t.value, Effect(t.effect)) for t in taints)


def _record(message: pb.GangRecord) -> GangRecord:
    sets = tuple(
        SetPlace(
            s.name,
            s.first_rank,
            tuple(NodeName(node) for node in s.nodes),
            FlavorName(s.flavor),
            Resources(s.resources),
        )
        for s in message.sets
    )
    return GangRecord(key_from_wire(message.key), message.revision, sets, message.started, message.payload)
