"""A batch of jobs apart from storing it: its limits, what is remembered of it, and what its caller is told. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from hanse.api.v1 import job_pb2, job_service_pb2, job_spec_pb2
from hanse.apiserver.requests import Record, Request
from hanse.model.errors import HanseError, InvalidArgument, ResourceExhausted
from hanse.model.ids import JobId, QueueUid, job_id
from hanse.model.names import quoted
from hanse.model.reasons import Reason
from hanse.wire.errors import code_of, error_of, error_to_wire
from hanse.wire.limits import BATCH_BYTES_MAX, JOBS_PER_BATCH_MAX

REFUSAL_CHARS_MAX: Final = 300
NO_IDS: Final[Mapping[int, JobId]] = MappingProxyType({})


class Memo(msgspec.Struct):
    """What the record of a submission remembers: uids of its queues, why jobs were refused, whether any is stored."""

    queues: dict[str, str] = {}
    refused: dict[int, tuple[int, str, str, str]] = {}
    stored: bool = True

    def refuse(self, index: int, error: HanseError) -> None:
        text = error.message[:REFUSAL_CHARS_MAX]
        self.refused[index] = (code_of(error), error.reason, error.path, text)

    def error(self, index: int) -> HanseError | None:
        if index not in self.refused:
            return None
        code, reason, path, message = self.refused[index]
        return error_of(code, message, reason=reason, path=path)


def check_batch(message: job_service_pb2.SubmitJobsRequest) -> None:
    """Refuse a batch that is too large or empty.

    Raises:
        InvalidArgument: reason BATCH_TOO_LARGE or BATCH_EMPTY.
    """
    if not message.jobs:
        raise InvalidArgument("the batch holds no job; send at least one", reason="BATCH_EMPTY", path="jobs")
    if len(message.jobs) > JOBS_PER_BATCH_MAX:
        raise InvalidArgument(
            f"{len(message.jobs)} jobs in one batch; send at most {JOBS_PER_BATCH_MAX}, or use StreamJobs",
            reason="BATCH_TOO_LARGE",
            path="jobs",
        )
    if (size := message.ByteSize()) > BATCH_BYTES_MAX:
        raise InvalidArgument(
            f"the batch has {size} bytes; send at most {BATCH_BYTES_MAX}, in several batches",
            reason="BATCH_TOO_LARGE",
            path="jobs",
        )


def answer(
    request: Request,
    message: job_service_pb2.SubmitJobsRequest,
    memo: Memo,
    *,
    ids: Mapping[int, JobId] = NO_IDS,
    revision: int = 0,
) -> job_service_pb2.SubmitJobsResponse:
    """What the caller is told; the same for the first call and for every repetition. `ids` need not hold all."""
    return job_service_pb2.SubmitJobsResponse(
        request_id=request.id,
        jobs=[_submitted(request, spec, memo, index, ids.get(index)) for index, spec in enumerate(message.jobs)],
        aborted=not memo.stored and message.atomic and bool(memo.refused),
        revision=revision if memo.stored else 0,
    )


def _submitted(
    request: Request, spec: job_spec_pb2.JobSpec, memo: Memo, index: int, known: JobId | None
) -> job_service_pb2.SubmittedJob:
    result = job_service_pb2.SubmittedJob(name=spec.name, queue=spec.queue)
    error = memo.error(index)
    if error is not None:
        result.reason = error.reason
        result.error.CopyFrom(error_to_wire(error))
    elif memo.stored:
        result.id = known or id_of(request, memo, spec.queue, index)
        result.state = job_pb2.JOB_STATE_PENDING
        result.reason = Reason.WAITING.name
    return result


def id_of(request: Request, memo: Memo, queue: str, index: int) -> JobId:
    """The id of the `index`-th job; its queue must be in the memo."""
    return job_id(QueueUid(memo.queues[queue]), request.principal, request.id, index)


def memo_of(record: Record) -> Memo:
    """What the record of a submission remembers."""
    return msgspec.json.decode(record.value.answer, type=Memo)


def named_twice(spec: job_spec_pb2.JobSpec, names: set[tuple[str, str]]) -> InvalidArgument | None:
    """The refusal of a second job of one name in one queue; `names` collects what was seen."""
    key = (spec.queue, spec.name)
    if key in names:
        return InvalidArgument(
            f"job {quoted(spec.name)} is in this submission twice; give each a name of its own",
            reason="DUPLICATE",
            path="name",
        )
    names.add(key)
    return None


def queue_full(name: str, pending_max: int) -> ResourceExhausted:
    """The refusal of a job for which its queue has no room."""
    return ResourceExhausted(
        f"queue {quoted(name)} holds {pending_max} waiting jobs, which is its limit; wait until some have started",
        reason="QUEUE_FULL",
        path="queue",
    )
