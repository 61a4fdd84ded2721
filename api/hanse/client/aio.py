"""The SDK for asyncio: one method for each thing that a user does.

A job is named by its id or by a prefix of its name that leads to one name only; `queue` narrows the search. The file
is long because it is the whole surface, one short method each; what they share is in `calls`, `watching`,
`submission` and `waiting`.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import grpc

from hanse.api.v1 import (
    access_service_pb2,
    access_service_pb2_grpc,
    audit_service_pb2,
    audit_service_pb2_grpc,
    config_pb2,
    config_service_pb2,
    config_service_pb2_grpc,
    event_service_pb2,
    event_service_pb2_grpc,
    explanation_pb2,
    job_pb2,
    job_service_pb2,
    job_service_pb2_grpc,
    pool_pb2,
    pool_service_pb2,
    pool_service_pb2_grpc,
    queue_pb2,
    queue_service_pb2,
    queue_service_pb2_grpc,
    server_service_pb2,
    server_service_pb2_grpc,
)
from hanse.client.address import server_address, tls_files
from hanse.client.calls import DEADLINE_S, TRIES_MAX, Connection, Terms
from hanse.client.commands import Input, run_command
from hanse.client.files import read_jobs
from hanse.client.objects import ConfigSource, objects_of
from hanse.client.submission import JobSource, Submission, batches, order_of
from hanse.client.tokens import token_source
from hanse.client.trust import Trust
from hanse.client.usage import Usage, read_usage
from hanse.client.waiting import Until, far_enough, parse_until
from hanse.client.watching import follow_events, watch_jobs
from hanse.kit.tls import TlsFiles
from hanse.model.errors import Unavailable
from hanse.model.lifecycle import State

if TYPE_CHECKING:
    from hanse.manifests.converted import Converted

WATCH_FAILURES_MAX = 8
"""Connections in a row that may fail before a watch gives up: about ten seconds."""


class AsyncClient:
    """A client of one Hanse server. Use it as `async with AsyncClient() as hanse:`, or close it.

    Args:
        server: HOST:PORT; None for HANSE_SERVER, or 127.0.0.1:7311.
        token: bearer token; None for `token_file`, HANSE_TOKEN, HANSE_TOKEN_FILE, or none. It is sent to another
            machine only over an encrypted connection.
        token_file: file of the token, read again when it changes.
        tls: files of an encrypted connection; None for HANSE_CA_FILE, HANSE_CERT_FILE and HANSE_KEY_FILE, or in clear
            if none of these is set, nor HANSE_TLS=1 for the authorities that this machine trusts.
        deadline_s: of a call with all its repetitions.
        tries_max: how often a call that found nobody is made in all.
        rng: source of request ids and of jitter.
        environment: in which variables are looked for; None for that of the process.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        token_file: Path | None = None,
        tls: TlsFiles | None = None,
        deadline_s: float = DEADLINE_S,
        tries_max: int = TRIES_MAX,
        rng: random.Random | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        variables = os.environ if environment is None else environment
        self._connection = Connection(
            server_address(server, variables),
            token=token_source(token, token_file, variables),
            terms=Terms(deadline_s, tries_max),
            rng=rng or random.SystemRandom(),
            tls=tls_files(variables) if tls is None else tls,
        )

    @property
    def server(self) -> str:
        """HOST:PORT of the server."""
        return self._connection.server

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def _jobs(self) -> "job_service_pb2_grpc.JobServiceAsyncStub":
        return job_service_pb2_grpc.JobServiceStub(self._connection.channel)

    @property
    def _pools(self) -> "pool_service_pb2_grpc.PoolServiceAsyncStub":
        return pool_service_pb2_grpc.PoolServiceStub(self._connection.channel)

    @property
    def _queues(self) -> "queue_service_pb2_grpc.QueueServiceAsyncStub":
        return queue_service_pb2_grpc.QueueServiceStub(self._connection.channel)

    @property
    def _access(self) -> "access_service_pb2_grpc.AccessServiceAsyncStub":
        return access_service_pb2_grpc.AccessServiceStub(self._connection.channel)

    @property
    def _audit(self) -> "audit_service_pb2_grpc.AuditServiceAsyncStub":
        return audit_service_pb2_grpc.AuditServiceStub(self._connection.channel)

    @property
    def _config(self) -> "config_service_pb2_grpc.ConfigServiceAsyncStub":
        return config_service_pb2_grpc.ConfigServiceStub(self._connection.channel)

    @property
    def trust(self) -> Trust:
        """Who is let in: tokens to join with, and revoked certificates."""
        return Trust(self._connection)

    # ---- submitting -----------------------------------------------------------------------------------------

    async def submit(
        self,
        source: JobSource,
        *,
        queue: str = "",
        priority_class: str = "",
        filename: str = "",
        atomic: bool = True,
        validate_only: bool = False,
        request_id: str = "",
        deadline_s: float | None = None,
    ) -> Submission:
        """Submit a manifest, or specs. Jobs that the server refuses are in `Submission.refusals`.

        Args:
            source: text of a manifest in any kind that Hanse reads, or one or several specs.
            queue, priority_class: for every job, whatever it names itself.
            filename: where the text comes from, for messages.
            atomic: all jobs are accepted, or none.
            validate_only: only check.
            request_id: of an earlier submission, to repeat it.

        Raises:
            InvalidArgument: the source cannot be read, with path and line.
            HanseError: the submission as a whole is refused.
        """
        order = order_of(source, queue=queue, priority_class=priority_class, filename=filename)
        request_id = self._connection.request_id(request_id)
        responses = []
        for index, batch in enumerate(batches(order.specs, atomic=atomic)):
            request = job_service_pb2.SubmitJobsRequest(
                request_id=f"{request_id}.{index}" if index else request_id,
                jobs=batch,
                atomic=atomic,
                validate_only=validate_only,
            )
            method = self._jobs.SubmitJobs
            responses.append(await self._connection.unary(method, request, deadline_s=deadline_s))
        return order.answered(responses, request_id)

    async def submit_batches(
        self, requests: AsyncIterator[job_service_pb2.SubmitJobsRequest]
    ) -> AsyncIterator[job_service_pb2.SubmitJobsResponse]:
        """Submit many batches over one stream, for bulk; answers come in order, one for each.

        A request without an id gets one. If the stream breaks, batches that were not answered may be sent again with
        their request ids: what was stored already is not stored twice.
        """
        metadata = self._connection.metadata
        try:
            async for response in self._jobs.StreamJobs(self._with_ids(requests), metadata=metadata):
                yield response
        except grpc.aio.AioRpcError as error:
            raise self._connection.error(error) from None

    async def _with_ids(
        self, requests: AsyncIterator[job_service_pb2.SubmitJobsRequest]
    ) -> AsyncIterator[job_service_pb2.SubmitJobsRequest]:
        async for request in requests:
            request.request_id = self._connection.request_id(request.request_id)
            yield request

    @staticmethod
    def convert(source: str | bytes, *, queue: str = "", priority_class: str = "", filename: str = "") -> "Converted":
        """What a manifest means to Hanse, without asking a server.

        Raises:
            InvalidArgument: it cannot be read, with path and line.
        """
        return read_jobs(source, queue=queue, priority_class=priority_class, filename=filename)

    # ---- jobs -----------------------------------------------------------------------------------------------

    async def job(self, job: str, *, queue: str = "", nodes: bool = False) -> job_pb2.Job:
        """One job; `nodes` also fetches the nodes of its newest attempt from the pools' agents."""
        request = job_service_pb2.GetJobRequest(job=job, queue=queue, nodes=nodes)
        return await self._connection.unary(self._jobs.GetJob, request)

    async def jobs(
        self,
        *,
        queue: str = "",
        states: Iterable[State] = (),
        labels: Mapping[str, str] | None = None,
        name_prefix: str = "",
        page_size: int = 0,
        specs: bool = False,
    ) -> AsyncIterator[job_pb2.Job]:
        """All jobs that match, page by page, in no particular order."""
        token = ""
        while True:
            page = await self.jobs_page(
                queue=queue,
                states=states,
                labels=labels,
                name_prefix=name_prefix,
                page_size=page_size,
                page_token=token,
                specs=specs,
            )
            for job in page.jobs:
                yield job
            token = page.next_page_token
            if not token:
                return

    async def jobs_page(
        self,
        *,
        queue: str = "",
        states: Iterable[State] = (),
        labels: Mapping[str, str] | None = None,
        name_prefix: str = "",
        page_size: int = 0,
        page_token: str = "",
        specs: bool = False,
    ) -> job_service_pb2.ListJobsResponse:
        """One page of jobs; it may be short or empty and still not be the last."""
        request = job_service_pb2.ListJobsRequest(
            queue=queue,
            states=[job_pb2.JobState.ValueType(state) for state in states],
            labels=dict(labels or {}),
            name_prefix=name_prefix,
            page_size=page_size,
            page_token=page_token,
            view=_view(specs=specs),
        )
        return await self._connection.unary(self._jobs.ListJobs, request)

    def watch_jobs(
        self,
        *,
        queue: str = "",
        job_ids: Sequence[str] = (),
        after_revision: int = 0,
        snapshot: bool = False,
        specs: bool = False,
    ) -> AsyncIterator[job_service_pb2.WatchJobsResponse]:
        """Follow jobs; reconnects by itself. `snapshot` begins with every matching job as it is."""
        request = job_service_pb2.WatchJobsRequest(
            queue=queue,
            job_ids=job_ids,
            after_revision=after_revision,
            snapshot=snapshot,
            view=_view(specs=specs),
        )
        method = self._jobs.WatchJobs
        return watch_jobs(self._connection, method, request, failures_max=WATCH_FAILURES_MAX)

    async def wait(
        self,
        job: str,
        *,
        until: "str | Until" = Until.DONE,
        queue: str = "",
        timeout_s: float | None = None,
    ) -> job_pb2.Job:
        """Wait until a job is placed, running or done, or has ended another way; None waits for ever.

        Raises:
            Unavailable: reason WAIT_TIMEOUT; the job is not so far yet.
        """
        wanted = parse_until(until)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._wait(job, wanted, queue)
        except TimeoutError:
            raise Unavailable(
                f"job {job} is not {wanted.value} after {timeout_s:g} s; it goes on, see `hanse explain {job}`",
                reason="WAIT_TIMEOUT",
            ) from None

    async def _wait(self, job: str, until: Until, queue: str) -> job_pb2.Job:
        found = await self.job(job, queue=queue)
        if far_enough(found.status.state, until):
            return found
        watch = self.watch_jobs(job_ids=[found.id], after_revision=found.revision)
        async for response in watch:
            for event in response.events:
                if event.kind == job_service_pb2.JOB_EVENT_KIND_REMOVED:
                    return found
                found = event.job
                if far_enough(found.status.state, until):
                    return await self.job(found.id)
        return found

    async def cancel(self, job: str, *, queue: str = "", request_id: str = "") -> job_pb2.Job:
        """End a job: a pending one at once, a live one as soon as its pods are gone."""
        request = job_service_pb2.CancelJobRequest(
            job=job, queue=queue, request_id=self._connection.request_id(request_id)
        )
        return await self._connection.unary(self._jobs.CancelJob, request)

    async def hold(self, job: str, *, queue: str = "", request_id: str = "") -> job_pb2.Job:
        """Put a job that waits on hold: no place is sought for it until it is released."""
        request = job_service_pb2.HoldJobRequest(
            job=job, queue=queue, request_id=self._connection.request_id(request_id)
        )
        return await self._connection.unary(self._jobs.HoldJob, request)

    async def release(self, job: str, *, queue: str = "", request_id: str = "") -> job_pb2.Job:
        """Let a job that is on hold wait for places again."""
        request = job_service_pb2.ReleaseJobRequest(
            job=job, queue=queue, request_id=self._connection.request_id(request_id)
        )
        return await self._connection.unary(self._jobs.ReleaseJob, request)

    async def update(self, job: str, *, priority_class: str, queue: str = "", request_id: str = "") -> job_pb2.Job:
        """Change the priority class of a job that waits; its order in the queue follows at once."""
        request = job_service_pb2.UpdateJobRequest(
            job=job,
            queue=queue,
            request_id=self._connection.request_id(request_id),
            priority_class=priority_class,
        )
        return await self._connection.unary(self._jobs.UpdateJob, request)

    async def retry(self, job: str, *, queue: str = "", request_id: str = "") -> job_pb2.Job:
        """Submit a job that has ended without success once more; the new job, which names the old in `retry_of`."""
        request = job_service_pb2.RetryJobRequest(
            job=job, queue=queue, request_id=self._connection.request_id(request_id)
        )
        return await self._connection.unary(self._jobs.RetryJob, request)

    async def explain(self, job: str, *, queue: str = "", nodes: bool = True) -> explanation_pb2.Explanation:
        """Why a job waits, or why it went where it went."""
        request = job_service_pb2.ExplainJobRequest(job=job, queue=queue, without_nodes=not nodes)
        return await self._connection.unary(self._jobs.ExplainJob, request)

    async def logs(
        self,
        job: str,
        *,
        queue: str = "",
        pod_set: str = "",
        rank: int = 0,
        tail_lines: int = 0,
        follow: bool = False,
    ) -> AsyncIterator[job_service_pb2.LogLine]:
        """Lines of one pod, oldest first; `follow` goes on until the pod has ended."""
        request = job_service_pb2.TailLogsRequest(
            job=job, queue=queue, pod_set=pod_set, rank=rank, tail_lines=tail_lines, follow=follow
        )
        async for response in self._connection.stream(self._jobs.TailLogs, request):
            for line in response.lines:
                yield line

    def exec(
        self,
        job: str,
        command: Sequence[str],
        *,
        queue: str = "",
        pod_set: str = "",
        rank: int = 0,
        stdin: AsyncIterable[Input] | bytes | None = None,
        tty: bool = False,
    ) -> AsyncIterator[job_service_pb2.ExecJobResponse]:
        """Run a command in one pod; what it writes, and in the last response its exit code.

        Args:
            stdin: what it reads, and with `tty` the sizes of the caller's terminal; None for nothing.

        Raises (while iterated):
            FailedPrecondition: reason NO_PODS or EXEC_REFUSED.
            Unavailable: reason EXEC_UNKNOWN; nobody knows whether it ran. Nothing is repeated.
        """
        start = job_service_pb2.ExecStart(
            job=job, queue=queue, pod_set=pod_set, rank=rank, command=command, stdin=stdin is not None, tty=tty
        )
        return run_command(self._connection, self._jobs.ExecJob, start, stdin)

    # ---- events ---------------------------------------------------------------------------------------------

    def events(
        self,
        job: str = "",
        *,
        queue: str = "",
        pool: str = "",
        since_ms: int = 0,
        tail_events: int = 0,
        follow: bool = False,
    ) -> AsyncIterator[event_service_pb2.TailEventsResponse]:
        """What happened, of one job, of one pool, or all: the past in the first response.

        Args:
            since_ms: Unix time; 0 for as far back as the servers remember.
            tail_events: how many of the past, the newest; 0 for the server's default.
            follow: go on with what happens, of one job until it has ended; reconnects by itself.

        Raises (while iterated):
            OutOfRange: reason EVENTS_GONE; `since_ms` is older than what is remembered.
        """
        request = event_service_pb2.TailEventsRequest(
            job=job, queue=queue, pool=pool, since_ms=since_ms, tail_events=tail_events, follow=follow
        )
        method = event_service_pb2_grpc.EventServiceStub(self._connection.channel).TailEvents
        return follow_events(self._connection, method, request, failures_max=WATCH_FAILURES_MAX)

    # ---- pools ----------------------------------------------------------------------------------------------

    async def pools(self) -> list[pool_pb2.Pool]:
        """All pools, by name."""
        found: list[pool_pb2.Pool] = []
        token = ""
        while True:
            request = pool_service_pb2.ListPoolsRequest(page_token=token)
            page = await self._connection.unary(self._pools.ListPools, request)
            found.extend(page.pools)
            token = page.next_page_token
            if not token:
                return found

    async def pool(self, name: str, *, shape: bool = False) -> pool_pb2.Pool:
        """One pool; `shape` also draws its free capacity."""
        request = pool_service_pb2.GetPoolRequest(name=name, shape=shape)
        return await self._connection.unary(self._pools.GetPool, request)

    async def watch_pools(self) -> AsyncIterator[pool_service_pb2.WatchPoolsResponse]:
        """Follow all pools: first every one, then those that change; ends with the connection."""
        request = pool_service_pb2.WatchPoolsRequest()
        async for response in self._connection.stream(self._pools.WatchPools, request):
            yield response

    async def cordon(self, pool: str, *, reason: str = "", request_id: str = "") -> pool_pb2.Pool:
        """Take no new work in a pool."""
        request = pool_service_pb2.CordonPoolRequest(
            name=pool, reason=reason, request_id=self._connection.request_id(request_id)
        )
        return await self._connection.unary(self._pools.CordonPool, request)

    async def drain(self, pool: str, *, deadline_s: int = 0, reason: str = "", request_id: str = "") -> pool_pb2.Pool:
        """Take no new work in a pool, and move its jobs elsewhere; `uncordon` takes it back.

        Args:
            deadline_s: after so long what is left is stopped, whether or not there is room elsewhere; 0 for never.
        """
        request = pool_service_pb2.DrainPoolRequest(
            name=pool, reason=reason, deadline_s=deadline_s, request_id=self._connection.request_id(request_id)
        )
        return await self._connection.unary(self._pools.DrainPool, request)

    async def uncordon(self, pool: str, *, request_id: str = "") -> pool_pb2.Pool:
        """Take new work in a pool again, and move no more jobs away."""
        request = pool_service_pb2.UncordonPoolRequest(name=pool, request_id=self._connection.request_id(request_id))
        return await self._connection.unary(self._pools.UncordonPool, request)

    async def leave(
        self,
        pool: str,
        *,
        deadline_s: int = 0,
        force: bool = False,
        vouch_dead: bool = False,
        reason: str = "",
        request_id: str = "",
    ) -> pool_pb2.Pool:
        """Let a pool leave: drained first, then gone; `uncordon` takes it back as long as the pool is there.

        Args:
            deadline_s: see `drain`.
            force: the pool is unreachable: its jobs become LOST.
            vouch_dead: with `force`: its machines are dead, its jobs start again elsewhere.
        """
        request = pool_service_pb2.LeavePoolRequest(
            name=pool, reason=reason, deadline_s=deadline_s, force=force, vouch_dead=vouch_dead
        )
        request.request_id = self._connection.request_id(request_id)
        return await self._connection.unary(self._pools.LeavePool, request)

    async def readmit(self, pool: str, *, request_id: str = "") -> None:
        """Let a pool join again that has left."""
        request = pool_service_pb2.ReadmitPoolRequest(name=pool, request_id=self._connection.request_id(request_id))
        await self._connection.unary(self._pools.ReadmitPool, request)

    # ---- queues ---------------------------------------------------------------------------------------------

    async def queues(self, *, status: bool = False) -> list[queue_pb2.Queue]:
        """All queues by name; `status` also counts what is in each."""
        found: list[queue_pb2.Queue] = []
        token = ""
        while True:
            request = queue_service_pb2.ListQueuesRequest(page_token=token, status=status)
            page = await self._connection.unary(self._queues.ListQueues, request)
            found.extend(page.queues)
            token = page.next_page_token
            if not token:
                return found

    async def queue(self, name: str) -> queue_pb2.Queue:
        """One queue, with what is in it."""
        request = queue_service_pb2.GetQueueRequest(name=name)
        return await self._connection.unary(self._queues.GetQueue, request)

    async def create_queue(self, queue: queue_pb2.Queue, *, request_id: str = "") -> queue_pb2.Queue:
        """Create a queue."""
        request = queue_service_pb2.CreateQueueRequest(
            queue=queue, request_id=self._connection.request_id(request_id)
        )
        return await self._connection.unary(self._queues.CreateQueue, request)

    async def update_queue(self, queue: queue_pb2.Queue, *, request_id: str = "") -> queue_pb2.Queue:
        """Replace cohort, quotas and labels of a queue."""
        request = queue_service_pb2.UpdateQueueRequest(
            queue=queue, request_id=self._connection.request_id(request_id)
        )
        return await self._connection.unary(self._queues.UpdateQueue, request)

    async def delete_queue(self, name: str, *, request_id: str = "") -> None:
        """Remove a queue that holds no pending or live job."""
        request = queue_service_pb2.DeleteQueueRequest(name=name, request_id=self._connection.request_id(request_id))
        await self._connection.unary(self._queues.DeleteQueue, request)

    async def hold_queue(self, name: str, *, request_id: str = "") -> queue_pb2.Queue:
        """Bind nothing more of a queue."""
        request = queue_service_pb2.HoldQueueRequest(name=name, request_id=self._connection.request_id(request_id))
        return await self._connection.unary(self._queues.HoldQueue, request)

    async def give_queue(
        self, name: str, holder: str, *, apart: bool = False, request_id: str = ""
    ) -> queue_pb2.Queue:
        """Name the replica that admits for a queue, and for all under its root; "" takes the name back.

        Args:
            apart: the queue alone, with its nominal quota.
        """
        request = queue_service_pb2.GiveQueueRequest(name=name, holder=holder, apart=apart)
        request.request_id = self._connection.request_id(request_id)
        return await self._connection.unary(self._queues.GiveQueue, request)

    async def release_queue(self, name: str, *, request_id: str = "") -> queue_pb2.Queue:
        """Bind jobs of a queue again."""
        request = queue_service_pb2.ReleaseQueueRequest(name=name, request_id=self._connection.request_id(request_id))
        return await self._connection.unary(self._queues.ReleaseQueue, request)

    # ---- settings and server --------------------------------------------------------------------------------

    async def apply(
        self,
        source: ConfigSource,
        *,
        filename: str = "",
        atomic: bool = True,
        validate_only: bool = False,
        request_id: str = "",
    ) -> list[config_service_pb2.AppliedObject]:
        """Create or update queues, cohorts, flavors and priority classes: text of a file, or objects.

        Raises:
            InvalidArgument: the text cannot be read, with path and line.
        """
        request = config_service_pb2.ApplyRequest(
            objects=objects_of(source, filename=filename),
            request_id=self._connection.request_id(request_id),
            validate_only=validate_only,
            atomic=atomic,
        )
        return list((await self._connection.unary(self._config.Apply, request)).results)

    async def flavors(self) -> list[config_pb2.Flavor]:
        """All flavors, in the order in which hosts are matched."""
        request = config_service_pb2.ListFlavorsRequest()
        return list((await self._connection.unary(self._config.ListFlavors, request)).flavors)

    async def priority_classes(self) -> list[config_pb2.PriorityClass]:
        """All priority classes, highest first."""
        request = config_service_pb2.ListPriorityClassesRequest()
        answer = await self._connection.unary(self._config.ListPriorityClasses, request)
        return list(answer.priority_classes)

    async def cohorts(self) -> list[config_pb2.Cohort]:
        """All cohorts by name."""
        request = config_service_pb2.ListCohortsRequest()
        return list((await self._connection.unary(self._config.ListCohorts, request)).cohorts)

    async def status(self) -> server_service_pb2.FederationStatus:
        """How the whole federation is: replicas, holders, pools, and what is degraded."""
        method = server_service_pb2_grpc.ServerServiceStub(self._connection.channel).GetStatus
        return await self._connection.unary(method, server_service_pb2.GetStatusRequest())

    async def usage(self, start_ms: int, end_ms: int = 0, *, by: Iterable[str] = (), queue: str = "") -> Usage:
        """What attempts used of accelerators from one Unix time to before another, 0 for now, and at what cost.

        Whole months (of UTC) are exact; of others, jobs that have left the store are in `gaps` and not in the rows.

        Args:
            by: any of `queue`, `user`, `flavor`, `pool`; none for one sum.
        """
        return await read_usage(self._connection, start_ms, end_ms, by=by, queue=queue)

    async def who_am_i(self) -> access_service_pb2.WhoAmIResponse:
        """The caller, as the server knows them."""
        return await self._connection.unary(self._access.WhoAmI, access_service_pb2.WhoAmIRequest())

    async def can(self, verb: str, queue: str = "") -> access_service_pb2.CheckAccessResponse:
        """Whether the caller may do something, in a queue or in the whole federation; a refusal is an answer."""
        request = access_service_pb2.CheckAccessRequest(verb=verb, queue=queue)
        return await self._connection.unary(self._access.CheckAccess, request)

    async def audit_page(
        self,
        *,
        since_ms: int = 0,
        before_ms: int = 0,
        who: str = "",
        job: str = "",
        queue: str = "",
        verb: str = "",
        page_size: int = 0,
        page_token: str = "",
    ) -> audit_service_pb2.ListAuditRecordsResponse:
        """One page of the audit log, newest first; it may be short or empty and still have a token for the next."""
        request = audit_service_pb2.ListAuditRecordsRequest(
            since_ms=since_ms,
            before_ms=before_ms,
            who=who,
            job=job,
            queue=queue,
            verb=verb,
            page_size=page_size,
            page_token=page_token,
        )
        return await self._connection.unary(self._audit.ListAuditRecords, request)

    async def server_info(self) -> server_service_pb2.ServerInfo:
        """The server and its federation."""
        method = server_service_pb2_grpc.ServerServiceStub(self._connection.channel).GetServerInfo
        return await self._connection.unary(method, server_service_pb2.GetServerInfoRequest())


def _view(*, specs: bool) -> job_service_pb2.JobView.ValueType:
    return job_service_pb2.JOB_VIEW_FULL if specs else job_service_pb2.JOB_VIEW_BASIC
