"""What the API server asks of the rest of a replica, as values and protocols; `hanse.up` injects what answers.

The server itself knows the store and nothing else: it runs without a scheduler beside it (then nobody is asked, and
answers say so). Everything here is a view that may be late or absent. Nothing that is promised to a user rests on
it but explanations, figures and refusals at submit, each of which says how old its source is.

Answers that need an agent end within their `deadline_s` or come back partly; a missing agent is a name in `silent`,
never an exception.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, unique
from types import MappingProxyType
from typing import Final, Protocol

from hanse.model.audit import AuditPage, AuditQuery, AuditRecord
from hanse.model.detail import ExecInput, RackUse
from hanse.model.ids import Attempt, FlavorName, JobId, Part, PoolName, QueueUid, ReplicaId
from hanse.model.job import JobSpec
from hanse.model.lifecycle import JobState
from hanse.model.occurrence import Occurrence, OccurrenceQuery, RingCursor
from hanse.model.placement import Level, NodePlace
from hanse.model.reasons import Reason
from hanse.model.resources import Resources
from hanse.model.vitals import Vitals
from hanse.shape import Shape

NEAREST_POOLS_MAX: Final = 8
"""Pools of which node detail is fetched to explain one pending job."""

_NOTHING: Mapping[str, str] = MappingProxyType({})


# ---- pools --------------------------------------------------------------------------------------------------


@unique
class PoolHealth(IntEnum):
    """Whether a pool can be planned with. The numbers are those of hanse.api.v1.PoolHealth."""

    UNSPECIFIED = 0
    HEALTHY = 1
    STALE = 2
    DETACHED = 3
    STARTING = 4


@dataclass(frozen=True, slots=True)
class FlavorView:
    """What a pool has of one flavor, from its summary."""

    name: FlavorName
    nodes: int
    gpus: int
    free_gpus: int
    free_whole_hosts: int


@dataclass(frozen=True, slots=True)
class WholeDomain:
    """The largest domain of a pool of which every host is free."""

    level: str
    hosts: int


@dataclass(frozen=True, slots=True)
class PoolDrain:
    """Its jobs are moved elsewhere since then; what is left is stopped at the deadline (0: never). Unix time."""

    since_ms: int
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class PoolLeave:
    """It leaves since then: by force, or vouched to be dead; see hanse.api.v1.PoolLeave. Unix time."""

    since_ms: int
    force: bool = False
    vouched: bool = False
    left_ms: int = 0


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool as this replica sees it now.

    Attributes:
        levels: coarse to fine; a request's level matches a key first, then an alias.
        nodes, gpus, free_gpus, free_whole_hosts: usable ones, summed over the flavors.
        unusable_nodes: match no flavor, or are not ready.
        message: the worst thing about it as one line, "" if it is healthy.
        summary_age_ms: None if no summary has come yet.
        exact: the summary says exactly what fits; else it left capacity out.
        gangs: live gangs that are bound here.
        held_gangs, stopping_gangs: those that its agent holds places for and has not started, and those that end.
        shape: free capacity as the agent published it, None before the first summary.
        empty_shape: capacity of the empty pool: decides what can never fit; counts also while detached.
        revision: modification revision of the pool's settings.
    """

    name: PoolName
    region: str = ""
    dialect: str = ""
    labels: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    levels: tuple[Level, ...] = ()
    flavors: tuple[FlavorView, ...] = ()
    nodes: int = 0
    gpus: int = 0
    free_gpus: int = 0
    free_whole_hosts: int = 0
    unusable_nodes: int = 0
    health: PoolHealth = PoolHealth.STARTING
    message: str = ""
    attached: bool = False
    cordoned: bool = False
    cordon_reason: str = ""
    drain: PoolDrain | None = None
    leave: PoolLeave | None = None
    summary_age_ms: int | None = None
    exact: bool = True
    gangs: int = 0
    held_gangs: int = 0
    stopping_gangs: int = 0
    largest_whole: WholeDomain | None = None
    shape: Shape | None = None
    empty_shape: Shape | None = None
    revision: int = 0

    @property
    def offer(self) -> "PoolOffer":
        """The part of it that a submission is measured by."""
        return PoolOffer(self.name, self.levels, self.empty_shape)


@dataclass(frozen=True, slots=True)
class PoolOffer:
    """What a job may be refused by when it is submitted: nothing of it changes while gangs come and go.

    Attributes: see PoolView.
    """

    name: PoolName
    levels: tuple[Level, ...] = ()
    empty_shape: Shape | None = None


class FleetView(Protocol):
    """The pools, and what is used of them, as this replica sees them."""

    def offers(self) -> tuple[PoolOffer, ...]:
        """Every pool that has joined, by name; the very same object as before while they are the same."""
        ...

    def pools(self) -> tuple[PoolView, ...]:
        """Every pool that has joined, by name; cheap, from memory."""
        ...

    def version(self) -> int:
        """Grows whenever `pools()` may answer differently, apart from ages."""
        ...

    async def changed(self, since: int) -> int:
        """Waits until `version()` is above `since` and returns it; a caller may be cancelled."""
        ...

    def used(self, queue: QueueUid) -> Mapping[FlavorName, Resources] | None:
        """What live bindings of the queue's jobs take, by flavor; None if this replica does not follow them."""
        ...


@dataclass(frozen=True, slots=True)
class RootHolder:
    """Who admits for a cohort root, "" for nobody; `alive`: the very start of the replica to which it is granted;
    `wanted`: whom an operator named, "" for nobody."""

    root: str
    replica: str
    alive: bool
    wanted: str = ""


@dataclass(frozen=True, slots=True)
class PoolLink:
    """How a pool is joined to the federation.

    Attributes:
        replica: that has its stream, "" for none.
        unacknowledged: bindings that the agent has not answered.
        awaited: the store was restored, and the pool has not come back since; nothing is bound before it has.
    """

    replica: str
    unacknowledged: int
    awaited: bool = False


class Standing(Protocol):
    """How the federation is."""

    async def vitals(self, *, deadline_s: float) -> Mapping[ReplicaId, Vitals]:
        """Of each replica that answers in time."""
        ...

    def roots(self) -> tuple[RootHolder, ...]:
        """Of every root, by name."""
        ...

    def links(self) -> Mapping[PoolName, PoolLink]:
        """Of every pool."""
        ...


# ---- explanations -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PoolVerdict:
    """What one pool means for one job; see hanse.api.v1.PoolExplanation.

    Attributes:
        reason: UNSPECIFIED if it fits.
        constraint, wanted, found, unit: which constraint decides, how much it asks for, how much there is.
        detail: one line for people.
        summary_age_ms: None if there is no summary.
        chosen: the job is bound here.
        nodes: lines about domains and nodes; filled in by the API server from `AgentDetails`.
    """

    pool: PoolName
    fits: bool
    reason: Reason = Reason.UNSPECIFIED
    constraint: str = ""
    wanted: int = 0
    found: int = 0
    unit: str = ""
    detail: str = ""
    flavor: FlavorName = FlavorName("")
    summary_age_ms: int | None = None
    chosen: bool = False
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One change that would help, and what it would lead to."""

    change: str
    effect: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job waits, or why it went where it went.

    Attributes:
        answer: the first line that a person should read.
        since_ms: since when it waits, or when it was bound; Unix time, 0 if not known.
        position: 1-based among the pending jobs of its queue, 0 if not known.
        pools: every pool; chosen ones first, then the nearest misses first.
        helps: the smallest change first.
    """

    answer: str
    reason: Reason = Reason.UNSPECIFIED
    since_ms: int = 0
    position: int = 0
    pools: tuple[PoolVerdict, ...] = ()
    helps: tuple[Suggestion, ...] = ()


class Explainer(Protocol):
    """The scheduler's side of `ExplainJob`."""

    async def explain(self, job: JobId, spec: JobSpec, state: JobState) -> Explanation:
        """Never raises for a job that cannot be explained: the answer says so."""
        ...


# ---- events -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EventPage:
    """What all replicas remember beyond some cursors, in order.

    Attributes:
        cursors: by replica, where to read on.
        since_ms: nothing that happened since then is missing, but for what the silent ones alone remember; Unix time.
        silent: replicas that did not answer in time.
        more: there is more beyond the cursors; of a first page, older ones were left out.
    """

    events: tuple[Occurrence, ...]
    cursors: Mapping[str, RingCursor]
    since_ms: int
    silent: tuple[str, ...] = ()
    more: bool = False


class EventMemory(Protocol):
    """What replicas remember of what happened. It is no truth, and ends with them."""

    async def events(
        self, query: OccurrenceQuery, cursors: Mapping[str, RingCursor], *, deadline_s: float
    ) -> EventPage:
        """What lies beyond the cursors; without any, the newest that match."""
        ...

    async def news(self) -> None:
        """Waits until something may have happened, not longer than about a second; a caller may be cancelled."""
        ...

    def retried(self, old: JobId, new: JobId, revision: int) -> None:
        """This server has submitted a job once more."""
        ...


# ---- audit ---------------------------------------------------------------------------------------------------


class AuditLog(Protocol):
    """Where one process writes down who did what."""

    def note(self, record: AuditRecord) -> None:
        """Keep a record; returns at once, and never raises."""
        ...

    async def find(self, query: AuditQuery) -> AuditPage:
        """The newest records that match."""
        ...


class AuditTrail(Protocol):
    """What every replica has written down."""

    async def audited(self, query: AuditQuery, *, deadline_s: float) -> AuditPage:
        """The newest records that match, of every replica that answers in time."""
        ...


# ---- agents -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartAt:
    """One part of an attempt and the pool that has it."""

    part: Part
    pool: PoolName


@dataclass(frozen=True, slots=True)
class NodesAnswer:
    """The nodes of an attempt, in order of part, pod set and first rank; `silent` pools did not answer in time."""

    places: tuple[tuple[PoolName, NodePlace], ...]
    silent: tuple[PoolName, ...] = ()


@dataclass(frozen=True, slots=True)
class PodRef:
    """One pod of an attempt."""

    job: JobId
    attempt: Attempt
    part: Part
    pool: PoolName
    pod_set: str
    rank: int


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One line that a pod wrote, without its end; `time_ms` 0 if unknown."""

    text: str
    time_ms: int = 0


@dataclass(frozen=True, slots=True)
class ExecPiece:
    """What a command wrote, or, in the last piece, how it ended."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int | None = None


class AgentDetails(Protocol):
    """What only agents know. It is fetched when asked for, and never stored."""

    async def nodes(self, job: JobId, attempt: Attempt, parts: Sequence[PartAt], *, deadline_s: float) -> NodesAnswer:
        """The nodes of an attempt."""
        ...

    async def explain_nodes(
        self, job: JobId, spec: JobSpec, pools: Sequence[PoolName], *, deadline_s: float
    ) -> Mapping[PoolName, tuple[str, ...]]:
        """Lines about the nodes that are in the way, for each of at most NEAREST_POOLS_MAX pools that answered."""
        ...

    async def explain_placed(
        self, job: JobId, attempt: Attempt, parts: Sequence[PartAt], *, deadline_s: float
    ) -> Mapping[PoolName, tuple[str, ...]]:
        """Lines about the domains and nodes that a gang has, for each pool whose agent answered."""
        ...

    async def racks(self, pool: PoolName, *, deadline_s: float) -> tuple[RackUse, ...] | None:
        """How the lowest domains of a pool are used; None if its agent does not answer, or cannot."""
        ...

    def logs(self, pod: PodRef, *, tail_lines: int, follow: bool) -> AsyncIterator[tuple[LogEntry, ...]]:
        """Lines in batches, oldest first.

        Raises (while iterated):
            NotFound: the agent knows no such pod.
            Unavailable: the pool's agent is not attached, or did not answer.
        """
        ...

    def exec(
        self, pod: PodRef, *, command: Sequence[str], tty: bool, inputs: AsyncIterator[ExecInput] | None
    ) -> AsyncIterator[ExecPiece]:
        """Run a command in a pod; what it writes, and its exit code last.

        Args:
            inputs: what it reads, taken as fast as it does; None for nothing.

        Raises (while iterated):
            FailedPrecondition: reason EXEC_REFUSED; the pod does not run, or its cluster's owner does not allow it.
            Unavailable: the pool's agent is not attached, or left; the command may have run.
        """
        ...
