"""What the core knows of the world, in model terms: no key, no encoding, no connection.

Every fact carries the store revision at which it was true, because a plan's guards are made of these revisions
(P1: compared by revision, never by value).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hanse.model.ids import Attempt, FlavorName, JobId, Part, PoolName, QueueUid
from hanse.model.placement import Level
from hanse.model.queue import Charge, Queue
from hanse.model.request import GangRequest
from hanse.shape import Shape


@dataclass(frozen=True, slots=True)
class DrainFacts:
    """Since when a pool is drained, and when what is left is stopped (0: never); Unix time."""

    since_ms: int
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class LeaveFacts:
    """A pool leaves. By force: its jobs are LOST; vouched that its machines are dead: they start elsewhere. Both hold
    only in the life of the store in which they were ordered."""

    since_ms: int
    force: bool
    vouched: bool
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """Settings of a pool and the heads that every commit to it compares.

    Attributes:
        revision: of the settings.
        heads: revision of each flavor's head; a flavor without one has never been taken from (0).
        drain: its jobs are moved elsewhere; None if they are not.
        leave: it goes once nothing is bound there; None if it stays.
    """

    name: PoolName
    slot: int
    revision: int
    cordoned: bool = False
    cordon_reason: str = ""
    region: str = ""
    cost: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    levels: tuple[Level, ...] = ()
    dialect: str = ""
    heads: Mapping[FlavorName, int] = field(default_factory=dict)
    drain: DrainFacts | None = None
    leave: LeaveFacts | None = None


@dataclass(frozen=True, slots=True, order=True)
class SummaryOrder:
    """Which of two summaries of one pool is newer: incarnation, then epoch, then sequence."""

    incarnation: int
    epoch_revision: int
    sequence: int


@dataclass(frozen=True, slots=True)
class SummaryFacts:
    """A pool's own word on its free capacity, as of one instant of its agent's ledger.

    Attributes:
        observed_revision: every binding created up to here is in `shape`, every later one is not.
        received_s: monotonic time at which it arrived here.
        empty_shape: the pool as if nothing ran and every node worked; None until one was seen.
        settings_revision: of the flavors into which the shapes sort the hosts.
    """

    order: SummaryOrder
    observed_revision: int
    received_s: float
    published_ms: int
    shape: Shape
    empty_shape: Shape | None
    nodes: int = 0
    usable_nodes: int = 0
    gpus: int = 0
    free_gpus: int = 0
    held_gangs: int = 0
    started_gangs: int = 0
    stopping_gangs: int = 0
    settings_revision: int = 0


@dataclass(frozen=True, slots=True)
class BindingFacts:
    """One live binding: what it takes of its pool, and what it is charged to its queue.

    Attributes:
        order: place among the bindings of one transaction.
    """

    pool: PoolName
    job: JobId
    attempt: Attempt
    part: Part
    create_revision: int
    queue: QueueUid
    request: GangRequest
    flavors: tuple[FlavorName, ...]
    charges: tuple[Charge, ...]
    order: int = 0


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A queue, the revision of its settings, and the root under which its quota is granted.

    Attributes:
        cohorts: the cohorts that decide which root that is, with their revisions; 0 for one that is missing.
    """

    queue: Queue
    revision: int
    root: str
    cohorts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GrantFacts:
    """Who admits for a root, as of `revision`."""

    root: str
    replica: str
    nonce: str
    revision: int
