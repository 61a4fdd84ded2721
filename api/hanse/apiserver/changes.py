"""What may be changed of a job while it waits: whether it is on hold, and its priority class.

Each change is one transaction: the state key moves by `lifecycle.transition` under its own guard, and the record of
the request joins it (see `writes`). That holds also for a change that finds nothing to do, because a repetition that
comes a day later must not do what the first call found done already.

The spec stays as it was submitted, so a repeated submission still finds what it stored. The class counts by its value
at the moment of the change, as at submission; the transaction compares the class.
"""

from dataclasses import replace
from typing import Final

from hanse.api.v1 import job_pb2, job_service_pb2
from hanse.apiserver.access.verbs import Verb
from hanse.apiserver.catalog import read_priorities
from hanse.apiserver.context import CallContext
from hanse.apiserver.job_messages import job_message
from hanse.apiserver.queue_terms import check_priority
from hanse.apiserver.requests import Request
from hanse.apiserver.rows import Found, JobReader, JobRow
from hanse.apiserver.sight import Sight, name_of
from hanse.apiserver.vetting import priority_not_found
from hanse.apiserver.writes import PlannedWrite, Writer
from hanse.kit.clock import Clock
from hanse.kit.telemetry import metrics
from hanse.model.errors import FailedPrecondition, InvalidArgument, NotFound
from hanse.model.ids import JobId
from hanse.model.lifecycle import Event, Illegal, SetHold, SetPriority
from hanse.store import keys
from hanse.store.contract import Guard, ModRevisionIs, Op, Put, Store
from hanse.store.moves import Amendment, JobView, PlannedMove, WriteId, plan_move, read_jobs
from hanse.store.schema import PastValue, decode

HOLD_INSTEAD: Final = "cancel it, or hold its queue so that nothing more of it starts"
UPDATE_INSTEAD: Final = "its places are won already; cancel it and submit it anew to change that"


class JobChanger:
    """Holds, releases and updates jobs that wait."""

    def __init__(
        self, store: Store, writer: Writer, reader: JobReader, sight: Sight, *, clock: Clock, write_id: WriteId
    ) -> None:
        self._store = store
        self._writer = writer
        self._reader = reader
        self._sight = sight
        self._clock = clock
        self._write_id = write_id

    async def hold(self, ctx: CallContext, request: job_service_pb2.HoldJobRequest) -> job_pb2.Job:
        """Put a job on hold. Raises FailedPrecondition: reason JOB_NOT_WAITING."""

        async def plan(_: Request) -> PlannedWrite[job_pb2.Job]:
            view = await self._view(ctx, request.job, request.queue)
            return await self._planned(view, SetHold(held=True), Amendment(by=ctx.principal), instead=HOLD_INSTEAD)

        answer = await self._writer.write(ctx, "HoldJob", request, plan, job_pb2.Job)
        metrics.JOB_CHANGES.add(1, "hold")
        return answer

    async def release(self, ctx: CallContext, request: job_service_pb2.ReleaseJobRequest) -> job_pb2.Job:
        """Let a job wait for places again. Raises FailedPrecondition: reason JOB_NOT_WAITING; it has ended."""

        async def plan(_: Request) -> PlannedWrite[job_pb2.Job]:
            view = await self._view(ctx, request.job, request.queue)
            return await self._planned(view, SetHold(held=False), Amendment(), instead="there is nothing to release")

        answer = await self._writer.write(ctx, "ReleaseJob", request, plan, job_pb2.Job)
        metrics.JOB_CHANGES.add(1, "release")
        return answer

    async def update(self, ctx: CallContext, request: job_service_pb2.UpdateJobRequest) -> job_pb2.Job:
        """Change the priority class.

        Raises:
            InvalidArgument: reason PRIORITY_CLASS_MISSING.
            NotFound: reason PRIORITY_CLASS_NOT_FOUND.
            FailedPrecondition: reason JOB_NOT_WAITING.
        """
        name = request.priority_class
        if not name:
            raise InvalidArgument(
                "nothing is to be changed; name a priority class",
                reason="PRIORITY_CLASS_MISSING",
                path="priority_class",
            )

        async def plan(_: Request) -> PlannedWrite[job_pb2.Job]:
            classes = await read_priorities(self._store)
            if name not in classes:
                raise priority_not_found(name, classes)
            view = await self._view(ctx, request.job, request.queue)
            await self._check_terms(ctx, view.job, name)
            guard = ModRevisionIs(keys.priority(name), classes[name].revision)
            event = SetPriority(classes[name].value.value)
            amendment = Amendment(priority_class=name)
            return await self._planned(view, event, amendment, instead=UPDATE_INSTEAD, guards=(guard,))

        answer = await self._writer.write(ctx, "UpdateJob", request, plan, job_pb2.Job)
        metrics.JOB_CHANGES.add(1, "priority")
        return answer

    async def _view(self, ctx: CallContext, job: str, queue: str) -> JobView:
        found = await self._sight.job(ctx.access, job, queue=queue, verb=Verb.CHANGE)
        view = (await read_jobs(self._store, [found.job])).get(found.job)
        if view is None:
            raise NotFound(f"job {found.job} is no longer kept", reason="JOB_NOT_FOUND", path="job")
        return view

    async def _check_terms(self, ctx: CallContext, job: JobId, name: str) -> None:
        """Raises PermissionDenied: the queue may not use the class."""
        if not ctx.access.unbounded:
            queue = name_of(await self._sight.queues(ctx.access), job)
            check_priority(name, queue, ctx.access.terms_in(queue))

    async def _planned(
        self, view: JobView, event: Event, amendment: Amendment, *, instead: str, guards: tuple[Guard, ...] = ()
    ) -> PlannedWrite[job_pb2.Job]:
        """The transaction of a change, and the job as it then is."""
        planned = plan_move(view, event, now_ms=self._clock.now_ms(), write_id=self._write_id(), amendment=amendment)
        if isinstance(planned, Illegal):
            raise FailedPrecondition(f"{planned.why}; {instead}", reason="JOB_NOT_WAITING", path="job")
        if not isinstance(planned, PlannedMove):
            unmoved = (ModRevisionIs(keys.state(view.job), view.state_revision),)
            found = Found(view.job, view.state, view.state_revision)
            return PlannedWrite((*unmoved, *guards), (), await self._message(view, found, ()))
        answer = await self._message(view, Found(view.job, planned.state, 0), planned.ops)
        return PlannedWrite((*planned.guards, *guards), planned.ops, answer)

    async def _message(self, view: JobView, found: Found, ops: tuple[Op, ...]) -> job_pb2.Job:
        """The job with what the operations will have written beside its history."""
        [row] = await self._reader.rows([found], past=True)
        return job_message(_amended(row, view.job, ops), full=False, attempts=True)


def _amended(row: JobRow, job: JobId, ops: tuple[Op, ...]) -> JobRow:
    written = next((op for op in ops if isinstance(op, Put) and op.key == keys.past(job)), None)
    return row if written is None else replace(row, past=decode(written.value, PastValue))
