"""What the store's values look like: JSON by msgspec, small, readable in `etcdctl get`, tolerant of new
fields.

A job's spec is the compressed wire form (`hanse.api.v1.JobSpec`), a job's state the 64-byte record of
`model.lifecycle`; everything else is one of the structs below. Fields are only ever added, with a
default, so a replica of the next version and one of this version can share a store.
"""

import zlib
from enum import IntEnum, unique
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from hanse.model import lifecycle
from hanse.model.ids import FlavorName, QueueName, QueueUid
from hanse.model.job import Devices, Group, Slice, Spread, Topology
from hanse.model.placement import LevelUse
from hanse.model.queue import Cohort, Flavor, FlavorQuota, PriorityClass, Queue, QueueLimits
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import Resources
from hanse.model.selectors import Effect, Operator, Requirement, Selector, Toleration

T = TypeVar("T")

SPEC_INFLATED_BYTES_MAX: Final = 16 * 1024 * 1024


class _Struct(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Base of all values: unknown fields are ignored, defaults are left out. Values are trees: no garbage collector
    need look at them."""


# ---- settings of operators ----------------------------------------------------------------------------------


class Amounts(_Struct, frozen=True):
    """What one flavor offers or is charged: resource name → integer amount."""

    flavor: str
    amounts: dict[str, int] = {}


class QueueLimitsValue(_Struct, frozen=True):
    """Jobs that a queue may have; 0 is no limit."""

    pending_jobs_max: int = 0
    running_jobs_max: int = 0


class QueueValue(_Struct, frozen=True):
    uid: str
    cohort: str = ""
    quotas: list[Amounts] = []
    held: bool = False
    labels: dict[str, str] = {}
    created_ms: int = 0
    closing: bool = False  # being deleted: takes no job, while its deletion looks whether it is empty
    limits: QueueLimitsValue = QueueLimitsValue()
    apart: bool = False
    aliases: list[str] = []

    @classmethod
    def of(cls, queue: Queue, *, created_ms: int) -> "QueueValue":
        quotas = [Amounts(q.flavor, dict(q.nominal.items())) for q in queue.quotas]
        limits = QueueLimitsValue(queue.limits.pending_jobs_max, queue.limits.running_jobs_max)
        labels, aliases = dict(queue.labels), list(queue.aliases)
        return cls(
            queue.uid, queue.cohort, quotas, queue.held, labels, created_ms, False, limits, queue.apart, aliases
        )

    def queue(self, name: QueueName) -> Queue:
        quotas = tuple(FlavorQuota(FlavorName(q.flavor), Resources(q.amounts)) for q in self.quotas)
        limits = QueueLimits(self.limits.pending_jobs_max, self.limits.running_jobs_max)
        uid, aliases = QueueUid(self.uid), tuple(self.aliases)
        return Queue(uid, name, self.cohort, quotas, self.held, self.labels, limits, self.apart, aliases)


class CohortValue(_Struct, frozen=True):
    parent: str = ""
    quotas: list[Amounts] = []

    @classmethod
    def of(cls, cohort: Cohort) -> "CohortValue":
        return cls(cohort.parent, [Amounts(q.flavor, dict(q.nominal.items())) for q in cohort.quotas])

    def cohort(self, name: str) -> Cohort:
        quotas = tuple(FlavorQuota(FlavorName(q.flavor), Resources(q.amounts)) for q in self.quotas)
        return Cohort(name, self.parent, quotas)


class RequirementValue(_Struct, frozen=True, array_like=True):
    key: str
    operator: int
    values: list[str] = []

    def requirement(self) -> Requirement:
        return Requirement(self.key, Operator(self.operator), tuple(self.values))


def _requirement(req: Requirement) -> RequirementValue:
    return RequirementValue(req.key, int(req.operator), list(req.values))


class FlavorValue(_Struct, frozen=True):
    order: int = 0
    requirements: list[RequirementValue] = []
    description: str = ""

    @classmethod
    def of(cls, flavor: Flavor) -> "FlavorValue":
        return cls(flavor.order, [_requirement(r) for r in flavor.requirements], flavor.description)

    def flavor(self, name: FlavorName) -> Flavor:
        return Flavor(name, self.order, tuple(r.requirement() for r in self.requirements), self.description)


class PriorityValue(_Struct, frozen=True):
    value: int
    default: bool = False
    description: str = ""

    def priority_class(self, name: str) -> PriorityClass:
        return PriorityClass(name, self.value, self.default, self.description)


# ---- pools --------------------------------------------------------------------------------------------------


class LevelValue(_Struct, frozen=True, array_like=True):
    key: str
    alias: str


class DrainValue(_Struct, frozen=True):
    """A pool's jobs are moved elsewhere; what is left at the deadline (Unix time, 0: none) is stopped."""

    since_ms: int
    deadline_ms: int = 0


class LeaveValue(_Struct, frozen=True):
    """A pool leaves: once nothing is bound there, its keys go. `force`: its jobs become LOST. `vouched`: an operator
    vouches that its machines are dead, so its jobs start again elsewhere. Either is said of one life of the store: an
    order that a backup brings back may not be true any more."""

    since_ms: int
    force: bool = False
    vouched: bool = False
    incarnation: int = 0


class LeftValue(_Struct, frozen=True):
    """A pool has left; its cluster may attach only to stop what it still runs."""

    cluster_uid: str
    left_ms: int
    since_ms: int
    force: bool = False
    vouched: bool = False


class BarredValue(_Struct, frozen=True):
    """Certificates that are believed no more: one, or all of somebody that began until `until_ms`."""

    until_ms: int
    at_ms: int
    by: str = ""
    reason: str = ""
    left: bool = False  # the pool has left: forgotten when it may join again


class JoinTokenValue(_Struct, frozen=True):
    """A token with which the agent of a pool gets its first certificate; `spent_key`: the digest of the public key
    that it was spent for."""

    digest: str
    pool: str
    created_ms: int
    expires_ms: int
    by: str = ""
    spent_ms: int = 0
    spent_key: str = ""


class PoolConfigValue(_Struct, frozen=True):
    """Settings of a pool; `slot` is its number in the 64-byte state records and never changes. A pool that is
    drained is also cordoned; one that leaves is too, and is drained unless it leaves by force."""

    slot: int
    cluster_uid: str = ""
    region: str = ""
    labels: dict[str, str] = {}
    cordoned: bool = False
    cordon_reason: str = ""
    cost: int = 0
    dialect: str = ""
    levels: list[LevelValue] = []
    joined_ms: int = 0
    drain: DrainValue | None = None
    leave: LeaveValue | None = None


class PoolAgentValue(_Struct, frozen=True):
    """Written by every attachment and by nothing else: its modification revision is the epoch's second
    half."""

    instance: str
    replica: str
    incarnation: int
    attached_ms: int


class AttachedValue(_Struct, frozen=True):
    """Leased: this pool has a live stream to that replica."""

    instance: str
    replica: str


class GrantValue(_Struct, frozen=True):
    """Which replica admits for a root; `nonce` differs for every start of a replica (P4)."""

    replica: str
    nonce: str
    since_ms: int = 0


class HolderValue(_Struct, frozen=True):
    """Which replica an operator wants to admit for a root, while it lives."""

    replica: str
    since_ms: int = 0


class ReplicaValue(_Struct, frozen=True):
    """Leased: a replica that is alive; `schedules` is false for one that only serves the API."""

    nonce: str
    address: str = ""
    schedules: bool = True
    started_ms: int = 0


class RequestValue(_Struct, frozen=True):
    """An idempotency record: a hash of the body, whether all of it is in effect, and the answer that was
    given."""

    body: str
    done: bool = False
    answer: str = ""


class SlotsValue(_Struct, frozen=True):
    """Pool names by slot number; append-only."""

    pools: list[str] = []


class HistoryMark(_Struct, frozen=True, array_like=True):
    """The store was at that revision at that time."""

    at_ms: int
    revision: int


class HistoryValue(_Struct, frozen=True):
    """How old revisions are, oldest first; for replicas that have not run long enough to know."""

    marks: list[HistoryMark] = []


# ---- bindings -----------------------------------------------------------------------------------------------


@unique
class Desired(IntEnum):
    """What a binding asks of its agent."""

    UNSPECIFIED = 0
    HOLD = 1
    START = 2
    STOP = 3


@unique
class Progress(IntEnum):
    """The furthest that the agent has reported for a part. FINISHED: all its pods succeeded."""

    NONE = 0
    HELD = 1
    STARTED = 2
    RUNNING = 3
    BROKEN = 4
    FINISHED = 5


class SetRequestValue(_Struct, frozen=True, array_like=True):
    count: int
    min_count: int
    resources: dict[str, int]
    flavors: list[str]
    selector: list[list[RequirementValue]]
    tolerations: list[tuple[str, bool, str, int]]
    required: str
    preferred: str
    slices: list[tuple[int, str, bool]]
    slice_marks: list[tuple[bool, bool]] = []
    balanced: str = ""
    spread: tuple[str, int] | None = None
    same: list[str] = []
    group: tuple[str, str] | None = None
    devices: tuple[str, bool] | None = None

    @classmethod
    def of(cls, s: SetRequest) -> "SetRequestValue":
        return cls(
            s.count,
            s.min_count,
            dict(s.resources.items()),
            list(s.flavors),
            [[_requirement(r) for r in term] for term in s.selector.terms],
            [(t.key, t.exists, t.value, int(t.effect)) for t in s.tolerations],
            s.topology.required,
            s.topology.preferred,
            [(x.size, x.level, x.exclusive) for x in s.topology.slices],
            [(x.ragged, x.preferred) for x in s.topology.slices],
            s.topology.balanced,
            (s.topology.spread.level, s.topology.spread.max_pods) if s.topology.spread else None,
            list(s.topology.same),
            (s.topology.group.name, s.topology.group.level) if s.topology.group else None,
            (s.topology.devices.kind, s.topology.devices.nic) if s.topology.devices else None,
        )

    def set_request(self) -> SetRequest:
        return SetRequest(
            self.count,
            self.min_count,
            Resources(self.resources),
            tuple(FlavorName(f) for f in self.flavors),
            Selector(tuple(tuple(r.requirement() for r in term) for term in self.selector)),
            tuple(Toleration(k, x, v, Effect(e)) for k, x, v, e in self.tolerations),
            self._topology(),
        )

    def _topology(self) -> Topology:
        marks = self.slice_marks or [(False, False)] * len(self.slices)
        slices = tuple(Slice(*x, *mark) for x, mark in zip(self.slices, marks, strict=True))
        spread = Spread(*self.spread) if self.spread else None
        group = Group(*self.group) if self.group else None
        devices = Devices(*self.devices) if self.devices else None
        return Topology(
            self.required, self.preferred, slices, self.balanced, spread, tuple(self.same), group, devices
        )


class BoundSet(_Struct, frozen=True, array_like=True):
    """One pod set's share of a part: `count` pods of set `index` from rank `first_rank` on, charged to `flavor`."""

    index: int
    count: int
    first_rank: int
    flavor: str


class LevelUseValue(_Struct, frozen=True, array_like=True):
    level: str
    count: int
    names: list[str] = []

    def level_use(self) -> LevelUse:
        return LevelUse(self.level, self.count, tuple(self.names))


class StandingValue(_Struct, frozen=True, array_like=True):
    """A pool that held the gang when one was chosen; see `scheduler.core.choice`."""

    pool: str
    score: tuple[int, int, int, int]
    cost: int
    levels: tuple[str, str]
    tight: list[int] = []


class ChoiceValue(_Struct, frozen=True, array_like=True):
    """Why a part is where it is: the pool that won, the next one, how many held it of how many asked."""

    won: StandingValue
    second: StandingValue | None
    fitting: int
    asked: int


class BindingValue(_Struct, frozen=True):
    """One part of one attempt in one pool.

    Attributes: sets: what is bound, by pod set. request: placement's view of exactly this part, so that
    any planner can apply it to the pool's shape. charges: what the part takes of each flavor, for quota.
    parts: parts of the whole attempt. order: place among the bindings of one transaction; agents and
    planners take them in this order. choice: why this pool. progress, *_ms, domains, message: what the
    agent reported; written by the link only. write_id: identity of the transaction that wrote this value.
    trace: W3C traceparent of the job.
    """

    desired: int
    sets: list[BoundSet]
    request: list[SetRequestValue]
    charges: list[Amounts]
    parts: int = 1
    bound_ms: int = 0
    progress: int = 0
    held_ms: int = 0
    started_ms: int = 0
    running_ms: int = 0
    domains: list[LevelUseValue] = []
    message: str = ""
    write_id: int = 0
    trace: str = ""
    order: int = 0
    choice: ChoiceValue | None = None

    def gang_request(self) -> GangRequest:
        return GangRequest(tuple(s.set_request() for s in self.request))

    @property
    def flavors(self) -> tuple[FlavorName, ...]:
        return tuple(FlavorName(s.flavor) for s in self.sets)

    @property
    def pods(self) -> int:
        return sum(s.count for s in self.sets)


class TakingValue(_Struct, frozen=True):
    """Of a BindingValue, what it takes, as it is written."""

    sets: msgspec.Raw
    request: msgspec.Raw
    charges: msgspec.Raw
    order: int = 0


# ---- history ------------------------------------------------------------------------------------------------


class PastPart(_Struct, frozen=True):
    """How one part of an attempt went. `milli_gpus`: thousandths of accelerators that it had, by flavor; None was
    written before they were kept. `price`: of a GPU-hour there when it was bound, in thousandths of the site's unit;
    None if nobody chose. `gone_ms`: when its places were free again, if that was before the end of the attempt."""

    pool: str
    flavors: list[str] = []
    pods: int = 0
    domains: list[LevelUseValue] = []
    held_ms: int = 0
    started_ms: int = 0
    running_ms: int = 0
    message: str = ""
    milli_gpus: dict[str, int] | None = None
    price: int | None = None
    gone_ms: int = 0


class PastAttempt(_Struct, frozen=True):
    """How one attempt went."""

    attempt: int
    bound_ms: int
    ended_ms: int
    reason: int
    outcome: int
    parts: list[PastPart] = []


class SpentValue(_Struct, frozen=True, array_like=True):
    """What attempts that are not kept used: one month, flavor and pool."""

    month: str
    flavor: str
    pool: str
    gpu_ms: int = 0
    cost_micros: int = 0
    attempts: int = 0


class PastValue(_Struct, frozen=True):
    """The newest PAST_ATTEMPTS_MAX attempts that have ended, oldest first; `dropped` older ones are not
    kept, but for what they used: `spent`. `gone`: by number, parts of the present attempt whose bindings
    are gone before its end. `priority_class`: that it was given last, if it is not its spec's. `held_by`,
    `held_ms`: who put it on hold, and when, while it is."""

    attempts: list[PastAttempt] = []
    dropped: int = 0
    gone: dict[int, PastPart] = {}
    priority_class: str = ""
    held_by: str = ""
    held_ms: int = 0
    spent: list[SpentValue] = []


PAST_ATTEMPTS_MAX: Final = 16


class SpecEnvelope(_Struct, frozen=True):
    """What lies under a spec key beside the spec itself. `retry_of`: id of the job that it tries again."""

    principal: str
    request_id: str
    trace: str
    spec: bytes
    retry_of: str = ""


# ---- usage --------------------------------------------------------------------------------------------------


class UsageRow(_Struct, frozen=True, array_like=True):
    """What one user used of one flavor in one pool: GPU-milliseconds, millionths of the site's unit of money, and
    how many attempts began."""

    user: str
    flavor: str
    pool: str
    gpu_ms: int = 0
    cost_micros: int = 0
    attempts: int = 0


class UsageValue(_Struct, frozen=True):
    """What jobs of one queue that have left the store used in one month. `queue`: its name, as they knew it.
    `jobs`: how many of them. `lost_ms`: when it was seen last that something is missing: a value that could not be
    read was put aside, or jobs left a store that had no room for sums."""

    queue: str
    rows: list[UsageRow] = []
    jobs: int = 0
    lost_ms: int = 0


# ---- codecs -------------------------------------------------------------------------------------------------

_encoder: Final = msgspec.json.Encoder()
_msgpack: Final = msgspec.msgpack.Encoder()
_decoders: dict[type, msgspec.json.Decoder[object]] = {}


def encode(value: _Struct) -> bytes:
    """The JSON of a value."""
    return _encoder.encode(value)


def decode(data: bytes, kind: type[T]) -> T:
    """A value of that kind.

    Raises:
        msgspec.DecodeError: the bytes are not one; a bug or a foreign writer.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    return decoder.decode(data)  # type: ignore[return-value]


DECODED_MAX: Final = 512
"""Values of a kind that are remembered as decoded: a change is looked at by several readers within moments."""


@lru_cache(DECODED_MAX)
def decode_binding(data: bytes) -> BindingValue:
    """A binding's value; equal bytes give one object, which nobody changes. Raises msgspec.DecodeError."""
    return decode(data, BindingValue)


@lru_cache(DECODED_MAX)
def decode_state(data: bytes) -> lifecycle.JobState:
    """A job's state; equal bytes give one object. Raises ValueError."""
    return lifecycle.decode_state(data)


_envelope_decoder: Final = msgspec.msgpack.Decoder(SpecEnvelope)


def encode_spec(envelope: SpecEnvelope) -> bytes:
    """The compressed bytes under a spec key."""
    return zlib.compress(_msgpack.encode(envelope), 1)


SPECS_DECODED_MAX: Final = 512
SPEC_DECODED_BYTES_MAX: Final = 4_096


def decode_spec(data: bytes) -> SpecEnvelope:
    """The inverse of `encode_spec`; inflates at most SPEC_INFLATED_BYTES_MAX. Small ones are remembered."""
    return _small_envelope(data) or _inflated(data)


def _inflated(data: bytes) -> SpecEnvelope:
    inflater = zlib.decompressobj()
    return _envelope_decoder.decode(inflater.decompress(data, SPEC_INFLATED_BYTES_MAX))


@lru_cache(SPECS_DECODED_MAX)
def _small_envelope(data: bytes) -> SpecEnvelope | None:
    """None if it is larger than what is remembered: a few compressed bytes may be a long text."""
    envelope = _inflated(data)
    return envelope if len(envelope.spec) <= SPEC_DECODED_BYTES_MAX else None
