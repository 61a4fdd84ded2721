"""Submitting a job that has ended once more.

A terminal state stays terminal, so a retry is a new job: the stored spec of the old one, submitted as its owner
submitted it, with a pointer to the job that it tries again. Everything that a submission promises holds: its id
derives from the request id, it is stored once, and it is refused for whatever a submission is refused for.

The name in the request may mean another job by the time that the call is repeated, or none: the record of the request
answers then, before anybody looks what the name means.
"""

from hanse.api.v1 import job_pb2, job_service_pb2, job_spec_pb2
from hanse.apiserver.access.verbs import Verb
from hanse.apiserver.batches import Memo, id_of, memo_of
from hanse.apiserver.context import CallContext
from hanse.apiserver.drafts import Origin
from hanse.apiserver.job_messages import job_message
from hanse.apiserver.lookup import read_found
from hanse.apiserver.ports import EventMemory
from hanse.apiserver.requests import Request, Requests
from hanse.apiserver.rows import Found, JobReader
from hanse.apiserver.sight import Sight
from hanse.apiserver.submissions import Submitter
from hanse.kit.clock import Clock
from hanse.kit.telemetry import metrics
from hanse.model.errors import FailedPrecondition, NotFound
from hanse.model.ids import JobId
from hanse.model.lifecycle import State
from hanse.store.contract import Store
from hanse.wire.errors import error_from_wire

METHOD = "RetryJob"


class Retrier:
    """Answers RetryJob."""

    def __init__(
        self,
        store: Store,
        submitter: Submitter,
        requests: Requests,
        reader: JobReader,
        sight: Sight,
        clock: Clock,
        events: EventMemory | None,
    ) -> None:
        self._store = store
        self._submitter = submitter
        self._requests = requests
        self._reader = reader
        self._sight = sight
        self._clock = clock
        self._events = events

    async def retry(self, ctx: CallContext, message: job_service_pb2.RetryJobRequest) -> job_pb2.Job:
        """The new job.

        Raises:
            NotFound, FailedPrecondition: as `find_job`; reason SPEC_NOT_KEPT.
            FailedPrecondition: reason JOB_NOT_ENDED or JOB_SUCCEEDED.
            HanseError: the new job is refused.
            Unavailable: nobody knows yet whether it is stored; repeat it with the same request id.
        """
        request = self._requests.request(ctx, METHOD, message)
        record = await self._requests.find(request)
        if record is not None and memo_of(record).stored:
            return await self._stored(_id(request, memo_of(record)))
        old = await self._ended(ctx, message)
        spec = await self._spec(old)
        origin = Origin(ctx.principal, request.id, ctx.trace, self._clock.now_ms(), retry_of=old)
        batch = job_service_pb2.SubmitJobsRequest(jobs=[spec])
        answer = (await self._submitter.store(request, batch, origin, ctx.access)).jobs[0]
        if answer.HasField("error"):
            raise error_from_wire(answer.error)
        metrics.JOB_CHANGES.add(1, "retry")
        new = await self._stored(JobId(answer.id))
        if self._events is not None:
            self._events.retried(old, JobId(new.id), new.revision)
        return new

    async def _ended(self, ctx: CallContext, message: job_service_pb2.RetryJobRequest) -> JobId:
        """The job that is meant, if it may be tried again."""
        found = await self._sight.job(ctx.access, message.job, queue=message.queue, verb=Verb.CHANGE)
        state = found.state.state
        if not state.terminal:
            raise FailedPrecondition(
                f"only a job that has ended can be tried again, this one is {state.name}; cancel it first, or submit "
                "its file once more",
                reason="JOB_NOT_ENDED",
                path="job",
            )
        if state is State.SUCCEEDED:
            raise FailedPrecondition(
                "the job has succeeded, there is nothing to try again; submit its file once more to run it anew",
                reason="JOB_SUCCEEDED",
                path="job",
            )
        return found.job

    async def _spec(self, job: JobId) -> job_spec_pb2.JobSpec:
        """What was asked for, with the priority class that the job was given last."""
        found = await read_found(self._store, [job])
        [row] = await self._reader.rows(found, specs=True) if found else [None]
        if row is None or row.spec is None:
            raise NotFound(
                f"the spec of job {job} is no longer kept; submit its file once more",
                reason="SPEC_NOT_KEPT",
                path="job",
            )
        spec = job_spec_pb2.JobSpec()
        spec.CopyFrom(row.spec)
        if row.past is not None and row.past.priority_class:
            spec.priority_class = row.past.priority_class
        return spec

    async def _stored(self, job: JobId) -> job_pb2.Job:
        found: list[Found] = await read_found(self._store, [job])
        if not found:
            raise NotFound(f"job {job} is no longer kept", reason="JOB_NOT_FOUND", path="job")
        [row] = await self._reader.rows(found, past=True)
        return job_message(row, full=False, attempts=True)


def _id(request: Request, memo: Memo) -> JobId:
    """The job that an earlier call made, whatever has become of the one that it tries again."""
    [queue] = memo.queues
    return id_of(request, memo, queue, 0)
