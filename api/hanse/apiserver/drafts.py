"""A job that is accepted, as the keys and values that will store it, and how many of those share a transaction. Pure.

Three keys for each job: its spec (immutable, compressed), its state (64 bytes), and its name in the index. They are
written together or not at all, guarded by the absence of the state key: a job is stored once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hanse.api.v1 import job_spec_pb2
from hanse.apiserver.vetting import Accepted
from hanse.kit.telemetry import TRACER
from hanse.kit.telemetry.trace_context import is_sampled
from hanse.model.errors import InvalidArgument
from hanse.model.ids import Attempt, JobId, QueueName
from hanse.model.job import OnInfrastructure
from hanse.model.lifecycle import RETRIES_MAX, JobState, State, encode_state
from hanse.model.reasons import Reason
from hanse.store import keys
from hanse.store.contract import TXN_BYTES_MAX, TXN_OPS_MAX, Guard, ModRevisionIs, Put
from hanse.store.limits import ENTRY_OVERHEAD_BYTES
from hanse.store.schema import SpecEnvelope, encode_spec
from hanse.wire.specs import keep_spec

OPS_PER_JOB: Final = 3
JOBS_PER_UNIT_MAX: Final = (TXN_OPS_MAX - 1) // OPS_PER_JOB
"""One operation is left for the record of the request."""

GUARDS_BESIDE_JOBS_MAX: Final = TXN_OPS_MAX - JOBS_PER_UNIT_MAX - 1
"""Queues that the jobs of one transaction may be in."""

INDEX_VALUE: Final = b""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a submission comes from, and when.

    Attributes:
        trace: the caller's traceparent, "" if there is none.
        retry_of: the job that is tried again, "" if it is none.
    """

    principal: str
    request_id: str
    trace: str
    arrived_ms: int
    retry_of: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """One job, ready to be stored."""

    index: int
    job: JobId
    queue: QueueName
    ops: tuple[Put, ...]
    bytes: int
    trace: str

    @property
    def guard(self) -> Guard:
        """The job is not stored yet."""
        return ModRevisionIs(keys.state(self.job), 0)


def draft(
    index: int,
    job: JobId,
    message: job_spec_pb2.JobSpec,
    accepted: Accepted,
    origin: Origin,
    *,
    write_id: int,
    spec_bytes_max: int,
) -> Draft:
    """The keys and values of one accepted job.

    Raises:
        InvalidArgument: reason SPEC_TOO_LARGE.
    """
    body = _named(message, accepted.spec.queue).SerializeToString(deterministic=True)
    keep_spec(body, accepted.spec)
    trace = origin.trace or TRACER.own(job)
    stored = encode_spec(SpecEnvelope(origin.principal, origin.request_id, trace, body, origin.retry_of))
    if len(stored) > spec_bytes_max:
        raise InvalidArgument(
            f"the spec has {len(stored)} bytes compressed, the limit is {spec_bytes_max}; "
            "move large texts into ConfigMaps or files",
            reason="SPEC_TOO_LARGE",
        )
    state = _state(accepted, now_ms=origin.arrived_ms, write_id=write_id, traced=is_sampled(trace))
    ops = (
        Put(keys.spec(job), stored),
        Put(keys.state(job), encode_state(state)),
        Put(keys.name(accepted.spec.name, job), INDEX_VALUE),
    )
    return Draft(index, job, accepted.spec.queue, ops, _bytes(ops, accepted.spec.queue), trace)


def _named(message: job_spec_pb2.JobSpec, queue: QueueName) -> job_spec_pb2.JobSpec:
    """The spec under its queue's own name, whatever alias it gave."""
    if message.queue == queue:
        return message
    named = job_spec_pb2.JobSpec()
    named.CopyFrom(message)
    named.queue = queue
    return named


def _bytes(ops: tuple[Put, ...], queue: QueueName) -> int:
    """What a job adds to a transaction, guards included, as `store.limits.txn_bytes` counts. Its keys are ASCII."""
    puts = sum([len(op.key) + len(op.value) + ENTRY_OVERHEAD_BYTES for op in ops])
    guarded = len(ops[1].key) + len(keys.QUEUES) + len(queue)
    return puts + 2 * (guarded + 2 * ENTRY_OVERHEAD_BYTES)


def _state(accepted: Accepted, *, now_ms: int, write_id: int, traced: bool) -> JobState:
    restart = accepted.spec.restart
    return JobState(
        state=State.PENDING,
        attempt=Attempt(0),
        priority=accepted.priority,
        submit_ms=now_ms,
        changed_ms=now_ms,
        class_hash=accepted.class_hash,
        reason=Reason.WAITING,
        max_retries=min(restart.max_retries, RETRIES_MAX),
        requeue_infrastructure=restart.on_infrastructure is OnInfrastructure.REQUEUE,
        write_id=write_id,
        traced=traced,
    )


def units(drafts: Sequence[Draft], *, record_bytes: int) -> list[list[Draft]]:
    """The drafts in groups that each fit one transaction beside a record of that size; at least one group."""
    groups: list[list[Draft]] = [[]]
    taken = record_bytes
    queues: set[QueueName] = set()
    for one in drafts:
        full = len(groups[-1]) == JOBS_PER_UNIT_MAX or taken + one.bytes > TXN_BYTES_MAX
        scattered = one.queue not in queues and len(queues) == GUARDS_BESIDE_JOBS_MAX
        if groups[-1] and (full or scattered):
            groups.append([])
            taken, queues = record_bytes, set()
        groups[-1].append(one)
        taken += one.bytes
        queues.add(one.queue)
    return groups
