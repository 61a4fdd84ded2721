"""What the page asks for: each a call of the API's services, in the page's form."""

import asyncio
from collections.abc import Sequence
from typing import Final

from starlette.requests import Request

from hanse.api.v1 import event_service_pb2, job_pb2, job_service_pb2, pool_service_pb2
from hanse.api.v1 import server_service_pb2 as server_pb2
from hanse.apiserver.access.verbs import Verb
from hanse.apiserver.context import ANONYMOUS, CallContext
from hanse.console.census import Census
from hanse.console.desk import Desk
from hanse.console.forms import (
    EVENT_COLUMNS,
    JOB_COLUMNS,
    POOL_COLUMNS,
    STATES,
    Form,
    event_row,
    explanation_form,
    gangs_form,
    job_form,
    job_row,
    placement_form,
    pool_row,
    racks_form,
    shape_form,
)
from hanse.console.limits import FOUND_MAX, JOBS_PAGE_MAX, SHAPES_PER_CALL_MAX, WAITING_SHOWN_MAX
from hanse.console.streams import number
from hanse.kit.clock import Clock
from hanse.model.errors import InvalidArgument, NotFound, PermissionDenied, Unavailable
from hanse.model.lifecycle import State
from hanse.wire.json import Json

EVENTS_OF_ONE_MAX: Final = 500
WAITING_PAGES_MAX: Final = 3
RACKS_AGE_S: Final = 2.0
RACKS_KEPT_MAX: Final = 256


class Reads:
    """Answers what is asked."""

    def __init__(self, desk: Desk, census: Census, clock: Clock) -> None:
        self._desk = desk
        self._census = census
        self._clock = clock
        self._known: dict[str, tuple[float, Form]] = {}

    async def me(self, ctx: CallContext, request: Request) -> Form:
        """Who looks, and at what."""
        info = await self._desk.ask(ctx, self._desk.server.get_server_info, server_pb2.GetServerInfoRequest())
        return {
            "principal": ctx.principal,
            "anonymous": ctx.principal == ANONYMOUS,
            "may": {"operate": ctx.access.may(Verb.OPERATE), "change": ctx.access.somewhere(Verb.CHANGE)},
            "federation": info.federation,
            "version": info.version,
            "store": info.store,
            "replica": info.replica,
            "replicas": len(info.replicas),
        }

    # ---- pools ----------------------------------------------------------------------------------------------

    async def shapes(self, ctx: CallContext, request: Request) -> Form:
        """The pictures of some pools; one that has none, or is gone, is left out."""
        names = [name for name in request.query_params.get("pools", "").split(",") if name]
        if len(names) > SHAPES_PER_CALL_MAX:
            raise InvalidArgument(
                f"{len(names)} pools; ask for at most {SHAPES_PER_CALL_MAX}", reason="TOO_MANY", path="pools"
            )
        found: Form = {}
        racks = await self._all_racks(ctx, names) if request.query_params.get("racks") == "1" else {}
        for name in names:
            if name in racks:
                continue
            asked = pool_service_pb2.GetPoolRequest(name=name, shape=True, rows_only=True)
            try:
                pool = await self._desk.ask(ctx, self._desk.pools.get_pool, asked)
            except NotFound:
                continue
            if pool.HasField("shape"):
                found[name] = shape_form(pool.shape)
        return {"shapes": found, "racks": racks}

    async def _all_racks(self, ctx: CallContext, names: Sequence[str]) -> Form:
        """The racks of those pools whose agents answer; none for somebody who may not see them."""
        answers = await asyncio.gather(*(self._racks(ctx, name) for name in names))
        return {name: form for name, form in zip(names, answers, strict=True) if form is not None}

    async def _racks(self, ctx: CallContext, name: str) -> Form | None:
        """One pool's racks as they were a moment ago: whoever looks at a map shares one question to the agent."""
        try:
            self._desk.check(ctx, self._desk.pools.get_pool_racks)
            known, now_s = self._known.get(name), self._clock.monotonic()
            if known is None or now_s - known[0] > RACKS_AGE_S:
                asked = pool_service_pb2.GetPoolRacksRequest(name=name)
                form = racks_form(await self._desk.ask(ctx, self._desk.pools.get_pool_racks, asked))
                known = self._known[name] = (now_s, form)
                if len(self._known) > RACKS_KEPT_MAX:
                    self._known.pop(next(iter(self._known)))
            return known[1]
        except (NotFound, PermissionDenied, Unavailable):
            return None

    async def pool(self, ctx: CallContext, request: Request) -> Form:
        """One pool: its figures, its picture, and what still fits."""
        asked = pool_service_pb2.GetPoolRequest(name=request.path_params["pool"], shape=True)
        pool = await self._desk.ask(ctx, self._desk.pools.get_pool, asked)
        return {
            "columns": list(POOL_COLUMNS),
            "row": pool_row(pool, 0),
            "labels": dict(pool.labels),
            "cordoned": pool.cordoned,
            "drain": [pool.drain.since_ms, pool.drain.deadline_ms] if pool.HasField("drain") else None,
            "age": pool.summary_age_ms,
            "exact": pool.summary_exact,
            "shape": shape_form(pool.shape) if pool.HasField("shape") else None,
            "fits": gangs_form(pool.shape),
        }

    async def racks(self, ctx: CallContext, request: Request) -> Form:
        """How each rack of a pool is used, asked of its agent."""
        asked = pool_service_pb2.GetPoolRacksRequest(name=request.path_params["pool"])
        return racks_form(await self._desk.ask(ctx, self._desk.pools.get_pool_racks, asked))

    # ---- queues ---------------------------------------------------------------------------------------------

    async def queues(self, ctx: CallContext, request: Request) -> Form:
        """All queues, with what is in them."""
        return await self._census.queues(ctx)

    async def queue(self, ctx: CallContext, request: Request) -> Form:
        """One queue, and the first of the gangs that wait in it."""
        name = request.path_params["queue"]
        asked = job_service_pb2.ListJobsRequest(
            queue=name,
            states=[job_pb2.JOB_STATE_PENDING],
            page_size=WAITING_SHOWN_MAX,
            view=job_service_pb2.JOB_VIEW_FULL,
        )
        waiting: list[Json] = []
        for _ in range(WAITING_PAGES_MAX):  # a page comes back short where few of many jobs wait
            asked.page_size = WAITING_SHOWN_MAX - len(waiting)
            jobs, asked.page_token = await self._jobs(ctx, asked)
            waiting.extend(jobs)
            if not asked.page_token or len(waiting) == WAITING_SHOWN_MAX:
                break
        queue = await self._census.queue(ctx, name)
        return {"queue": queue, "columns": list(JOB_COLUMNS), "waiting": waiting}

    # ---- jobs -----------------------------------------------------------------------------------------------

    async def jobs(self, ctx: CallContext, request: Request) -> Form:
        """One page of jobs."""
        query = request.query_params
        rows, token = await self._jobs(
            ctx,
            job_service_pb2.ListJobsRequest(
                queue=query.get("queue", ""),
                states=states_of(query.get("states", "")),
                name_prefix=query.get("prefix", ""),
                page_size=min(number(query.get("size", "100"), "size"), JOBS_PAGE_MAX) or JOBS_PAGE_MAX,
                page_token=query.get("page", ""),
                view=job_service_pb2.JOB_VIEW_FULL,
            ),
        )
        return {"columns": list(JOB_COLUMNS), "rows": rows, "next": token}

    async def find(self, ctx: CallContext, request: Request) -> Form:
        """Jobs whose names begin so."""
        prefix = request.query_params.get("prefix", "")
        if not prefix:
            return {"columns": list(JOB_COLUMNS), "rows": []}
        asked = job_service_pb2.ListJobsRequest(name_prefix=prefix, page_size=FOUND_MAX)
        rows, _ = await self._jobs(ctx, asked)
        return {"columns": list(JOB_COLUMNS), "rows": rows}

    async def _jobs(self, ctx: CallContext, asked: job_service_pb2.ListJobsRequest) -> tuple[list[Json], str]:
        page = await self._desk.ask(ctx, self._desk.jobs.list_jobs, asked)
        return [job_row(job) for job in page.jobs], page.next_page_token

    async def job(self, ctx: CallContext, request: Request) -> Form:
        """One job, without its nodes."""
        return job_form(await self._desk.ask(ctx, self._desk.jobs.get_job, _job(request)))

    async def nodes(self, ctx: CallContext, request: Request) -> Form:
        """Where a job is, asked of the agents."""
        asked = _job(request)
        asked.nodes, asked.view = True, job_service_pb2.JOB_VIEW_BASIC
        return placement_form(await self._desk.ask(ctx, self._desk.jobs.get_job, asked))

    async def explain(self, ctx: CallContext, request: Request) -> Form:
        """Why a job waits, or is where it is."""
        asked = job_service_pb2.ExplainJobRequest(job=request.path_params["job"])
        return explanation_form(await self._desk.ask(ctx, self._desk.jobs.explain_job, asked))

    # ---- events ---------------------------------------------------------------------------------------------

    async def events(self, ctx: CallContext, request: Request) -> Form:
        """What is remembered of a job or a pool, the newest of it."""
        query = request.query_params
        asked = event_service_pb2.TailEventsRequest(
            job=query.get("job", ""), pool=query.get("pool", ""), tail_events=EVENTS_OF_ONE_MAX
        )
        rows: list[Json] = []
        since_ms, silent, left_out = 0, list[str](), False
        async for response in self._desk.follow(ctx, self._desk.events.tail_events, asked):
            rows.extend(event_row(event, 0) for event in response.events)
            since_ms, silent = response.remembered_since_ms, list(response.replicas_silent)
            left_out = response.older_left_out
        return {
            "columns": list(EVENT_COLUMNS),
            "rows": rows,
            "since": since_ms,
            "silent": [*silent],
            "left_out": left_out,
        }


def _job(request: Request) -> job_service_pb2.GetJobRequest:
    return job_service_pb2.GetJobRequest(job=request.path_params["job"])


def states_of(text: str) -> Sequence[job_pb2.JobState.ValueType]:
    """The states of a filter, as in `PENDING,RUNNING`. Raises InvalidArgument."""
    words = [word for word in text.split(",") if word]
    for word in words:
        if word not in STATES:
            raise InvalidArgument(f"no state of this name; there are {', '.join(STATES)}", path="states")
    return [job_pb2.JobState.ValueType(State[word]) for word in words]
