"""A stage for the gangs of one pool: four hosts of eight GPUs, and answers of a cluster that a test gives itself."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.gangs import Gangs
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.ledger import NodeLedger
from hanse.agent.core.records import (
    AcceptRevision,
    Claim,
    ClusterState,
    ClusterWrite,
    Done,
    GangChanged,
    GangRecord,
    PodCounts,
    Rejected,
    SetPlace,
    WriteResult,
)
from hanse.model.beside import Need, NeedKind
from hanse.model.desired import Binding, BoundSet, DesiredAction
from hanse.model.errors import InvalidArgument
from hanse.model.fence import Epoch, GangKey
from hanse.model.ids import Attempt, FlavorName, JobId, NodeName, Part, QueueName
from hanse.model.job import JobSpec, PodSet
from hanse.model.placement import Level
from hanse.model.queue import Flavor
from hanse.model.report import GangReport, GangStatus
from hanse.model.resources import CPU, MEMORY, NVIDIA_GPU, PODS, Resources
from hanse.model.selectors import Operator, Requirement

HOST: Final = Resources({CPU: 128_000, MEMORY: 2**40, PODS: 110, NVIDIA_GPU: 8})
POD: Final = Resources({CPU: 8_000, MEMORY: 2**36, NVIDIA_GPU: 8})
H100: Final = FlavorName("h100")
FLAVORS: Final = (Flavor(H100, 0, (Requirement("gpu", Operator.IN, ("h100",)),)),)
LEVELS: Final = (Level("rack", "rack"),)
HOSTS: Final = 4
SETS: Final = ("worker", "driver")
NOW_MS: Final = 1_000_000


def nodes(count: int = HOSTS) -> tuple[NodeFacts, ...]:
    """Hosts n0, n1, … two to a rack."""
    return tuple(NodeFacts(NodeName(f"n{i}"), {"gpu": "h100", "rack": f"r{i // 2}"}, (), HOST) for i in range(count))


def parse(spec: bytes) -> JobSpec:
    """Specs of these tests say how many pods of a whole host each set has, and after a `!` the Secret they need."""
    pods, _, secret = spec.partition(b"!")
    try:
        counts = [int(count) for count in pods.split(b"+")]
    except ValueError:
        raise InvalidArgument("that is no spec", path="spec") from None
    sets = tuple(PodSet(name, count, count, POD) for name, count in zip(SETS, counts, strict=False))
    needs = (Need(NeedKind.SECRET, secret.decode()),) if secret else ()
    return JobSpec("train", QueueName("q"), sets, duration_s=60, needs=needs)


def key(job: str = "j", attempt: int = 1, part: int = 0) -> GangKey:
    return GangKey(JobId(job), Attempt(attempt), Part(part))


def bound(
    gang: GangKey,
    revision: int,
    action: DesiredAction = DesiredAction.START,
    *,
    pods: int = 2,
    drivers: int = 0,
    changed: int = 0,
) -> Binding:
    """A binding created at `revision`, and changed last at `changed`; a set of drivers comes after the workers."""
    counts = (pods, drivers) if drivers else (pods,)
    sets = tuple(BoundSet(name, count, 0, H100) for name, count in zip(SETS, counts, strict=False))
    spec = b"" if action is DesiredAction.STOP else b"+".join(str(count).encode() for count in counts)
    return Binding(gang, revision, changed or revision, action, sets, spec)


def told(binding: Binding, action: DesiredAction, revision: int) -> Binding:
    """The same binding with another wish."""
    return replace(binding, action=action, revision=revision)


def record(
    gang: GangKey, revision: int, *names: str, drivers: tuple[str, ...] = (), started: bool = True
) -> GangRecord:
    """A record as another run of the agent left it."""
    nodes_of = (names, drivers) if drivers else (names,)
    places = [SetPlace(s, 0, tuple(map(NodeName, on)), H100, POD) for s, on in zip(SETS, nodes_of, strict=False)]
    return GangRecord(gang, revision, tuple(places), started)


class Stage:
    """Gangs after a first list of an empty cluster."""

    def __init__(self, *records: GangRecord, pods: tuple[PodCounts, ...] = (), listed: int = HOSTS) -> None:
        self.gangs = Gangs(parse)
        self.records: tuple[GangRecord, ...] = records
        self.now_ms = NOW_MS
        self.relist(*records, pods=pods, listed=listed)

    def relist(
        self, *records: GangRecord, pods: tuple[PodCounts, ...] = (), listed: int = HOSTS, epoch: int = 1
    ) -> int:
        """The cluster is listed anew."""
        self.inventory = Inventory(FLAVORS, (LEVELS,), nodes(listed))
        claim = Claim("c", "f", Epoch(1, epoch), 0)
        state = ClusterState(1, claim, nodes(listed), (), records, pods)
        return self.gangs.relist(state, NodeLedger(self.inventory))

    def accept(self, revision: int, *bindings: Binding) -> None:
        """A complete set is accepted and everything is placed."""
        self.gangs.accept(revision, bindings, now_ms=self.now_ms)
        self.gangs.place(100, now_ms=self.now_ms)

    def change(self, revision: int, *bindings: Binding, removed: tuple[GangKey, ...] = ()) -> None:
        """The set changes and everything is placed."""
        self.gangs.change(revision, bindings, removed, now_ms=self.now_ms)
        self.gangs.place(100, now_ms=self.now_ms)

    def take(self) -> list[ClusterWrite]:
        """The operations of the next write, without the acceptance."""
        return [op for op in self.gangs.take_ops(1_000) if not isinstance(op, AcceptRevision)]

    def write(self, answer: Callable[[ClusterWrite], WriteResult] = lambda op: Done()) -> list[ClusterWrite]:
        """Let the cluster answer everything that is to be written, until nothing is left; what was written."""
        wrote: list[ClusterWrite] = []
        while ops := self.gangs.take_ops(1_000):
            self.gangs.written([answer(op) for op in ops], now_ms=self.now_ms)
            wrote.extend(op for op in ops if not isinstance(op, AcceptRevision))
        return wrote

    def kinds(self, answer: Callable[[ClusterWrite], WriteResult] = lambda op: Done()) -> list[str]:
        """Like `write`, only the kinds of operations."""
        return [type(op).__name__ for op in self.write(answer)]

    def count(self, gang: GangKey, **counts: int | str | bool | tuple[str, ...]) -> None:
        """The watch tells how the pods of a gang are."""
        self.gangs.observe([GangChanged(PodCounts(gang, **counts))], now_ms=self.now_ms)  # type: ignore[arg-type]

    def said(self) -> dict[GangKey, GangReport]:
        """What is to be reported now; it counts as acknowledged."""
        reports = self.gangs.outbox.take(1, limit=1_000, now_s=0.0)
        self.gangs.acknowledge(1)
        return {report.key: report for report in reports}

    def statuses(self) -> dict[GangKey, GangStatus]:
        """Like `said`, only the statuses."""
        return {gang: report.status for gang, report in self.said().items()}

    @property
    def free_hosts(self) -> int:
        """Hosts with nothing on them."""
        return self.inventory.shape().free_gpus() // 8


def rejecting(*kinds: type[ClusterWrite]) -> Callable[[ClusterWrite], WriteResult]:
    """A cluster that refuses operations of these kinds."""
    return lambda op: Rejected("no") if isinstance(op, kinds) else Done()
