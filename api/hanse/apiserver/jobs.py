"""JobService as coroutines on messages: gRPC calls them, and so do the simulator and tests without any transport."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from hanse.api.v1 import explanation_pb2, job_pb2, job_service_pb2
from hanse.apiserver.access.verbs import Verb
from hanse.apiserver.changes import JobChanger
from hanse.apiserver.commands import exec_responses, started
from hanse.apiserver.context import CallContext, agent_deadline_s
from hanse.apiserver.failures import told
from hanse.apiserver.holds import with_holds
from hanse.apiserver.job_messages import add_nodes, explanation_message, job_message
from hanse.apiserver.listing import JobLister
from hanse.apiserver.logs import log_responses, pod_of, tail_lines
from hanse.apiserver.ports import (
    NEAREST_POOLS_MAX,
    AgentDetails,
    EventMemory,
    Explainer,
    Explanation,
    FleetView,
    PartAt,
)
from hanse.apiserver.requests import Requests
from hanse.apiserver.retries import Retrier
from hanse.apiserver.rows import Found, JobReader, JobRow
from hanse.apiserver.seen import hidden_pools, seen_by, sees_all
from hanse.apiserver.sight import Sight
from hanse.apiserver.submissions import Submitter
from hanse.apiserver.watches import JobWatcher
from hanse.apiserver.writes import WRITE_TRIES_MAX, Writer, gave_up
from hanse.kit.clock import Clock
from hanse.model.errors import FailedPrecondition, HanseError, Unavailable
from hanse.model.ids import JobId, PoolName
from hanse.model.job import JobSpec
from hanse.model.lifecycle import Illegal, State, Stop
from hanse.model.reasons import Reason
from hanse.store.contract import LeaseGone, Store
from hanse.store.moves import MoveDone, MoveResult, WriteId, commit_move
from hanse.store.traces import JobTraces
from hanse.wire.errors import error_to_wire
from hanse.wire.job import spec_from_wire

STREAM_BATCHES_IN_FLIGHT_MAX: Final = 8
"""Batches of one stream that are being stored at the same time; the next is read when one is answered."""


_Batch: TypeAlias = asyncio.Task[job_service_pb2.SubmitJobsResponse]


class JobService:
    """The methods of hanse.api.v1.JobService; `reader` joins what the store holds of jobs, `sight` finds them for a
    caller; both also for other services."""

    def __init__(
        self,
        store: Store,
        submitter: Submitter,
        requests: Requests,
        writer: Writer,
        *,
        fleet: FleetView,
        explainer: Explainer | None,
        details: AgentDetails | None,
        clock: Clock,
        write_id: WriteId,
        traces: JobTraces,
        events: EventMemory | None,
    ) -> None:
        self._store = store
        self._submitter = submitter
        self._requests = requests
        self._fleet = fleet
        self._explainer = explainer
        self._details = details
        self._clock = clock
        self._write_id = write_id
        self._traces = traces
        self.reader = self._reader = JobReader(store)
        self.sight = self._sight = Sight(store, self._reader)
        self._lister = JobLister(store, self._reader, self._sight)
        self._watcher = JobWatcher(store, self._reader, self._sight, clock)
        self._changer = JobChanger(store, writer, self._reader, self._sight, clock=clock, write_id=write_id)
        self._retrier = Retrier(store, submitter, requests, self._reader, self._sight, clock, events)

    # ---- submitting -----------------------------------------------------------------------------------------

    async def submit_jobs(
        self, ctx: CallContext, request: job_service_pb2.SubmitJobsRequest
    ) -> job_service_pb2.SubmitJobsResponse:
        """See `Submitter.submit`."""
        return await self._submitter.submit(ctx, request)

    async def stream_jobs(
        self, ctx: CallContext, requests: AsyncIterator[job_service_pb2.SubmitJobsRequest]
    ) -> AsyncIterator[job_service_pb2.SubmitJobsResponse]:
        """Answers in the order of the batches, each as soon as it is there; several are stored at the same time."""
        running: asyncio.Queue[_Batch | None] = asyncio.Queue(maxsize=STREAM_BATCHES_IN_FLIGHT_MAX)
        tasks: set[asyncio.Task[Any]] = set()
        reader = asyncio.create_task(self._read_batches(ctx, requests, running, tasks), name="api-stream-read")
        try:
            while (batch := await running.get()) is not None:
                yield await batch
                tasks.discard(batch)
            await reader
        finally:
            for task in (reader, *tasks):
                task.cancel()
            await asyncio.gather(reader, *tasks, return_exceptions=True)

    async def _read_batches(
        self,
        ctx: CallContext,
        requests: AsyncIterator[job_service_pb2.SubmitJobsRequest],
        running: "asyncio.Queue[_Batch | None]",
        tasks: "set[asyncio.Task[Any]]",
    ) -> None:
        """Start storing each batch as it comes; None marks the end, also after an error, which the reader keeps."""
        try:
            async for request in requests:
                batch = asyncio.create_task(self._answered(ctx, request), name="api-stream-batch")
                tasks.add(batch)
                await running.put(batch)
        except Exception:
            await running.put(None)
            raise
        await running.put(None)

    async def _answered(
        self, ctx: CallContext, request: job_service_pb2.SubmitJobsRequest
    ) -> job_service_pb2.SubmitJobsResponse:
        """One batch of a stream; what refuses it is part of the answer, so that the stream goes on."""
        try:
            return await self._submitter.submit(ctx, request)
        except Exception as error:
            refused = told(error)
            if type(refused) is HanseError:
                raise
            return job_service_pb2.SubmitJobsResponse(request_id=request.request_id, error=error_to_wire(refused))

    # ---- reading --------------------------------------------------------------------------------------------

    async def get_job(self, ctx: CallContext, request: job_service_pb2.GetJobRequest) -> job_pb2.Job:
        """One job, with its history; its nodes if they are asked for."""
        full = request.view != job_service_pb2.JOB_VIEW_BASIC
        row = await self._row(await self._sight.job(ctx.access, request.job, queue=request.queue), specs=full)
        message = job_message(row, full=full, attempts=True)
        if request.nodes:
            await self._add_nodes(ctx, row, message)
        return message

    async def list_jobs(
        self, ctx: CallContext, request: job_service_pb2.ListJobsRequest
    ) -> job_service_pb2.ListJobsResponse:
        """One page of jobs."""
        return await self._lister.page(ctx, request)

    async def watch_jobs(
        self, ctx: CallContext, request: job_service_pb2.WatchJobsRequest
    ) -> AsyncIterator[job_service_pb2.WatchJobsResponse]:
        """News of jobs."""
        async for response in self._watcher.watch(ctx, request):
            yield response

    async def explain_job(
        self, ctx: CallContext, request: job_service_pb2.ExplainJobRequest
    ) -> explanation_pb2.Explanation:
        """Why a job waits, or why it went where it went."""
        row = await self._row(await self._sight.job(ctx.access, request.job, queue=request.queue), specs=True)
        if self._explainer is None or row.spec is None:
            what = "no scheduler runs beside this server" if row.spec else "the job's spec is no longer kept"
            answer = Explanation(f"{row.head.name}: {what}", row.found.state.reason)
            return explanation_message(row, with_holds(row, answer))
        spec = spec_from_wire(row.spec)
        answer = await self._explainer.explain(row.found.job, spec, row.found.state)
        answer = seen_by(answer, hidden_pools(ctx.access, self._fleet.pools()))
        if not request.without_nodes:
            answer = await self._with_lines(ctx, row, spec, answer)
        return explanation_message(row, with_holds(row, answer))

    async def tail_logs(
        self, ctx: CallContext, request: job_service_pb2.TailLogsRequest
    ) -> AsyncIterator[job_service_pb2.TailLogsResponse]:
        """Lines of one pod."""
        lines = tail_lines(request.tail_lines)
        found = await self._sight.job(ctx.access, request.job, queue=request.queue, verb=Verb.LOGS)
        row = await self._row(found, specs=True)
        pod = pod_of(row, request)
        if self._details is None:
            raise Unavailable("no agent is attached to this server; ask another replica", reason="NO_AGENTS")
        async for response in log_responses(self._details, pod, lines=lines, follow=request.follow):
            yield response

    async def exec_job(
        self, ctx: CallContext, requests: AsyncIterator[job_service_pb2.ExecJobRequest]
    ) -> AsyncIterator[job_service_pb2.ExecJobResponse]:
        """A command in one pod."""
        start = await started(requests)
        found = await self._sight.job(ctx.access, start.job, queue=start.queue, verb=Verb.EXEC)
        row = await self._row(found, specs=True)
        pod = pod_of(row, start)
        if self._details is None:
            raise Unavailable("no agent is attached to this server; ask another replica", reason="NO_AGENTS")
        async for response in exec_responses(self._details, pod, start, requests, principal=ctx.principal):
            yield response

    async def _row(self, found: Found, *, specs: bool) -> JobRow:
        rows = await self._reader.rows([found], specs=specs, past=True)
        return rows[0]

    async def _add_nodes(self, ctx: CallContext, row: JobRow, message: job_pb2.Job) -> None:
        parts = [PartAt(part.part, part.pool) for part in row.parts]
        if not parts:
            return
        if self._details is None:
            message.status.pools_silent.extend(sorted({part.pool for part in parts}))
            return
        answer = await self._details.nodes(
            row.found.job, row.found.state.attempt, parts, deadline_s=agent_deadline_s(ctx)
        )
        add_nodes(message, answer)

    async def _with_lines(self, ctx: CallContext, row: JobRow, spec: JobSpec, answer: Explanation) -> Explanation:
        """What agents know: of a job that waits those of the nearest pools, for who sees all of them; of one that is
        placed its own."""
        if self._details is None:
            return answer
        job, state, deadline_s = row.found.job, row.found.state, agent_deadline_s(ctx)
        parts = [PartAt(part.part, part.pool) for part in row.parts]
        nearest = [verdict.pool for verdict in answer.pools if not verdict.fits][:NEAREST_POOLS_MAX]
        lines: Mapping[PoolName, tuple[str, ...]] = {}
        if state.state is State.PENDING and nearest and sees_all(ctx.access):
            lines = await self._details.explain_nodes(job, spec, nearest, deadline_s=deadline_s)
        elif state.state is not State.PENDING and parts:
            lines = await self._details.explain_placed(job, state.attempt, parts, deadline_s=deadline_s)
        pools = tuple(replace(v, nodes=lines[v.pool]) if v.pool in lines else v for v in answer.pools)
        return replace(answer, pools=pools)

    # ---- changing -------------------------------------------------------------------------------------------

    async def hold_job(self, ctx: CallContext, request: job_service_pb2.HoldJobRequest) -> job_pb2.Job:
        """See `JobChanger.hold`."""
        return await self._changer.hold(ctx, request)

    async def release_job(self, ctx: CallContext, request: job_service_pb2.ReleaseJobRequest) -> job_pb2.Job:
        """See `JobChanger.release`."""
        return await self._changer.release(ctx, request)

    async def update_job(self, ctx: CallContext, request: job_service_pb2.UpdateJobRequest) -> job_pb2.Job:
        """See `JobChanger.update`."""
        return await self._changer.update(ctx, request)

    async def retry_job(self, ctx: CallContext, request: job_service_pb2.RetryJobRequest) -> job_pb2.Job:
        """See `Retrier.retry`."""
        return await self._retrier.retry(ctx, request)

    # ---- ending ---------------------------------------------------------------------------------------------

    async def cancel_job(self, ctx: CallContext, request: job_service_pb2.CancelJobRequest) -> job_pb2.Job:
        """End a job; one that is cancelled, or being stopped, already is no error.

        Raises:
            FailedPrecondition: reason JOB_ENDED; it has ended another way.
            Unavailable: it changes too fast, or the outcome is unknown: repeat it.
        """
        wanted = self._requests.request(ctx, "CancelJob", request)
        for _ in range(WRITE_TRIES_MAX):
            record = await self._requests.find(wanted)
            if record is not None:
                return await self._cancelled(ctx, JobId(record.value.answer))
            found = await self._sight.job(ctx.access, request.job, queue=request.queue, verb=Verb.CHANGE)
            note = await self._requests.record(wanted, answer=found.job)
            try:
                moved = await commit_move(
                    self._store,
                    found.job,
                    Stop(State.CANCELLED, Reason.CANCELLED_BY_USER),
                    clock=self._clock,
                    write_id=self._write_id,
                    guards=(wanted.unused,),
                    ops=(note,),
                )
            except LeaseGone:
                self._requests.forget_lease(note.lease)
                continue
            except Unavailable:
                # The guard on the record may be what fails: the same request, on its way twice.
                continue
            return await self._after_cancel(ctx, found.job, moved)
        raise gave_up(unknown=True)

    async def _after_cancel(self, ctx: CallContext, job: JobId, moved: MoveResult) -> job_pb2.Job:
        message = await self._cancelled(ctx, job)
        if isinstance(moved, MoveDone) and moved.state.state.terminal:
            self._traces.ended(job, moved.state, scope="api", now_ms=self._clock.now_ms())
        if isinstance(moved, Illegal) and message.status.state != job_pb2.JOB_STATE_CANCELLED:
            raise FailedPrecondition(f"{moved.why}; nothing to cancel", reason="JOB_ENDED", path="job")
        return message

    async def _cancelled(self, ctx: CallContext, job: JobId) -> job_pb2.Job:
        row = await self._row(await self._sight.job(ctx.access, job), specs=False)
        return job_message(row, full=False, attempts=True)
