"""The SDK for everybody else: `AsyncClient` with the waiting done inside.

A private event loop on a thread of its own runs the asynchronous client. That works from any thread, and also where
a loop runs already, as in a notebook. Ctrl-C in a call cancels that call and leaves the client usable.

Rejected: a second implementation over synchronous stubs. Retries, resumption and errors would exist twice.
"""

import asyncio
import random
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from hanse.api.v1 import (
    access_service_pb2,
    audit_service_pb2,
    config_pb2,
    config_service_pb2,
    event_service_pb2,
    explanation_pb2,
    job_pb2,
    job_service_pb2,
    pool_pb2,
    pool_service_pb2,
    queue_pb2,
    server_service_pb2,
)
from hanse.client.aio import AsyncClient
from hanse.client.calls import DEADLINE_S, TRIES_MAX
from hanse.client.objects import ConfigSource
from hanse.client.submission import JobSource, Submission
from hanse.client.usage import Usage
from hanse.client.waiting import Until
from hanse.kit.tls import TlsFiles
from hanse.model.lifecycle import State

if TYPE_CHECKING:
    from hanse.manifests.converted import Converted

T = TypeVar("T")


class Client:
    """A client of one Hanse server; every method is that of `AsyncClient`, and returns when it is done.

    Use it as `with Client() as hanse:`, or close it.
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
    ) -> None:
        self._client = AsyncClient(
            server,
            token=token,
            token_file=token_file,
            tls=tls,
            deadline_s=deadline_s,
            tries_max=tries_max,
            rng=rng,
        )
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._thread = threading.Thread(target=self._serve, name="hanse-client", daemon=True)
        self._thread.start()

    @property
    def server(self) -> str:
        """HOST:PORT of the server."""
        return self._client.server

    def close(self) -> None:
        """Close the connection and end the thread. Closing twice is no error."""
        if self._loop.is_closed():
            return
        self._run(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _serve(self) -> None:
        # gRPC ends its tasks a turn of the loop after the channel is closed; the runner waits for them.
        with self._runner:
            self._loop.run_forever()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, work: Coroutine[None, None, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """The items one by one; leaving the loop early ends the stream."""
        try:
            while True:
                try:
                    yield self._run(_next(items))
                except StopAsyncIteration:
                    return
        finally:
            self._run(_end(items))

    # ---- submitting -----------------------------------------------------------------------------------------

    def submit(
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
        return self._run(
            self._client.submit(
                source,
                queue=queue,
                priority_class=priority_class,
                filename=filename,
                atomic=atomic,
                validate_only=validate_only,
                request_id=request_id,
                deadline_s=deadline_s,
            )
        )

    def submit_batches(
        self, requests: Iterable[job_service_pb2.SubmitJobsRequest]
    ) -> Iterator[job_service_pb2.SubmitJobsResponse]:
        return self._iterate(self._client.submit_batches(_asynchronous(requests)))

    @staticmethod
    def convert(source: str | bytes, *, queue: str = "", priority_class: str = "", filename: str = "") -> "Converted":
        return AsyncClient.convert(source, queue=queue, priority_class=priority_class, filename=filename)

    # ---- jobs -----------------------------------------------------------------------------------------------

    def job(self, job: str, *, queue: str = "", nodes: bool = False) -> job_pb2.Job:
        return self._run(self._client.job(job, queue=queue, nodes=nodes))

    def jobs(
        self,
        *,
        queue: str = "",
        states: Iterable[State] = (),
        labels: Mapping[str, str] | None = None,
        name_prefix: str = "",
        page_size: int = 0,
        specs: bool = False,
    ) -> Iterator[job_pb2.Job]:
        return self._iterate(
            self._client.jobs(
                queue=queue,
                states=states,
                labels=labels,
                name_prefix=name_prefix,
                page_size=page_size,
                specs=specs,
            )
        )

    def jobs_page(
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
        return self._run(
            self._client.jobs_page(
                queue=queue,
                states=states,
                labels=labels,
                name_prefix=name_prefix,
                page_size=page_size,
                page_token=page_token,
                specs=specs,
            )
        )

    def watch_jobs(
        self,
        *,
        queue: str = "",
        job_ids: Sequence[str] = (),
        after_revision: int = 0,
        snapshot: bool = False,
        specs: bool = False,
    ) -> Iterator[job_service_pb2.WatchJobsResponse]:
        return self._iterate(
            self._client.watch_jobs(
                queue=queue,
                job_ids=job_ids,
                after_revision=after_revision,
                snapshot=snapshot,
                specs=specs,
            )
        )

    def wait(
        self,
        job: str,
        *,
        until: "str | Until" = Until.DONE,
        queue: str = "",
        timeout_s: float | None = None,
    ) -> job_pb2.Job:
        return self._run(self._client.wait(job, until=until, queue=queue, timeout_s=timeout_s))

    def cancel(self, job: str, *, queue: str = "", request_id: str = "") -> job_pb2.Job:
        return self._run(self._client.cancel(job, queue=queue, request_id=request_id))

    def hold(self, job: str, *, queue: str = "", request_id: str = "") -> job_pb2.Job:
        return self._run(self._client.hold(job, queue=queue, request_id=request_id))

    def release(self, job: str, *, queue: str = "", request_id: str = "") -> job_pb2.Job:
        return self._run(self._client.release(job, queue=queue, request_id=request_id))

    def update(self, job: str, *, priority_class: str, queue: str = "", request_id: str = "") -> job_pb2.Job:
        return self._run(self._client.update(job, priority_class=priority_class, queue=queue, request_id=request_id))

    def retry(self, job: str, *, queue: str = "", request_id: str = "") -> job_pb2.Job:
        return self._run(self._client.retry(job, queue=queue, request_id=request_id))

    def explain(self, job: str, *, queue: str = "", nodes: bool = True) -> explanation_pb2.Explanation:
        return self._run(self._client.explain(job, queue=queue, nodes=nodes))

    def logs(
        self,
        job: str,
        *,
        queue: str = "",
        pod_set: str = "",
        rank: int = 0,
        tail_lines: int = 0,
        follow: bool = False,
    ) -> Iterator[job_service_pb2.LogLine]:
        return self._iterate(
            self._client.logs(job, queue=queue, pod_set=pod_set, rank=rank, tail_lines=tail_lines, follow=follow)
        )

    def exec(
        self,
        job: str,
        command: Sequence[str],
        *,
        queue: str = "",
        pod_set: str = "",
        rank: int = 0,
        stdin: bytes | None = None,
        tty: bool = False,
    ) -> Iterator[job_service_pb2.ExecJobResponse]:
        return self._iterate(
            self._client.exec(job, command, queue=queue, pod_set=pod_set, rank=rank, stdin=stdin, tty=tty)
        )

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
    ) -> Iterator[event_service_pb2.TailEventsResponse]:
        return self._iterate(
            self._client.events(
                job, queue=queue, pool=pool, since_ms=since_ms, tail_events=tail_events, follow=follow
            )
        )

    # ---- pools ----------------------------------------------------------------------------------------------

    def pools(self) -> list[pool_pb2.Pool]:
        return self._run(self._client.pools())

    def pool(self, name: str, *, shape: bool = False) -> pool_pb2.Pool:
        return self._run(self._client.pool(name, shape=shape))

    def watch_pools(self) -> Iterator[pool_service_pb2.WatchPoolsResponse]:
        return self._iterate(self._client.watch_pools())

    def cordon(self, pool: str, *, reason: str = "", request_id: str = "") -> pool_pb2.Pool:
        return self._run(self._client.cordon(pool, reason=reason, request_id=request_id))

    def drain(self, pool: str, *, deadline_s: int = 0, reason: str = "", request_id: str = "") -> pool_pb2.Pool:
        return self._run(self._client.drain(pool, deadline_s=deadline_s, reason=reason, request_id=request_id))

    def uncordon(self, pool: str, *, request_id: str = "") -> pool_pb2.Pool:
        return self._run(self._client.uncordon(pool, request_id=request_id))

    def leave(
        self,
        pool: str,
        *,
        deadline_s: int = 0,
        force: bool = False,
        vouch_dead: bool = False,
        reason: str = "",
        request_id: str = "",
    ) -> pool_pb2.Pool:
        order = self._client.leave(
            pool, deadline_s=deadline_s, force=force, vouch_dead=vouch_dead, reason=reason, request_id=request_id
        )
        return self._run(order)

    def readmit(self, pool: str, *, request_id: str = "") -> None:
        self._run(self._client.readmit(pool, request_id=request_id))

    # ---- queues ---------------------------------------------------------------------------------------------

    def queues(self, *, status: bool = False) -> list[queue_pb2.Queue]:
        return self._run(self._client.queues(status=status))

    def queue(self, name: str) -> queue_pb2.Queue:
        return self._run(self._client.queue(name))

    def create_queue(self, queue: queue_pb2.Queue, *, request_id: str = "") -> queue_pb2.Queue:
        return self._run(self._client.create_queue(queue, request_id=request_id))

    def update_queue(self, queue: queue_pb2.Queue, *, request_id: str = "") -> queue_pb2.Queue:
        return self._run(self._client.update_queue(queue, request_id=request_id))

    def delete_queue(self, name: str, *, request_id: str = "") -> None:
        self._run(self._client.delete_queue(name, request_id=request_id))

    def hold_queue(self, name: str, *, request_id: str = "") -> queue_pb2.Queue:
        return self._run(self._client.hold_queue(name, request_id=request_id))

    def give_queue(self, name: str, holder: str, *, apart: bool = False, request_id: str = "") -> queue_pb2.Queue:
        return self._run(self._client.give_queue(name, holder, apart=apart, request_id=request_id))

    def release_queue(self, name: str, *, request_id: str = "") -> queue_pb2.Queue:
        return self._run(self._client.release_queue(name, request_id=request_id))

    # ---- settings and server --------------------------------------------------------------------------------

    def apply(
        self,
        source: ConfigSource,
        *,
        filename: str = "",
        atomic: bool = True,
        validate_only: bool = False,
        request_id: str = "",
    ) -> list[config_service_pb2.AppliedObject]:
        return self._run(
            self._client.apply(
                source, filename=filename, atomic=atomic, validate_only=validate_only, request_id=request_id
            )
        )

    def flavors(self) -> list[config_pb2.Flavor]:
        return self._run(self._client.flavors())

    def priority_classes(self) -> list[config_pb2.PriorityClass]:
        return self._run(self._client.priority_classes())

    def cohorts(self) -> list[config_pb2.Cohort]:
        return self._run(self._client.cohorts())

    def status(self) -> server_service_pb2.FederationStatus:
        return self._run(self._client.status())

    def usage(self, start_ms: int, end_ms: int = 0, *, by: Iterable[str] = (), queue: str = "") -> Usage:
        return self._run(self._client.usage(start_ms, end_ms, by=by, queue=queue))

    def who_am_i(self) -> access_service_pb2.WhoAmIResponse:
        return self._run(self._client.who_am_i())

    def can(self, verb: str, queue: str = "") -> access_service_pb2.CheckAccessResponse:
        return self._run(self._client.can(verb, queue))

    def audit_page(
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
        return self._run(
            self._client.audit_page(
                since_ms=since_ms,
                before_ms=before_ms,
                who=who,
                job=job,
                queue=queue,
                verb=verb,
                page_size=page_size,
                page_token=page_token,
            )
        )

    def server_info(self) -> server_service_pb2.ServerInfo:
        return self._run(self._client.server_info())


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


async def _end(items: AsyncIterator[T]) -> None:
    if isinstance(items, AsyncGenerator):
        await items.aclose()


async def _asynchronous(items: Iterable[T]) -> AsyncIterator[T]:
    for item in items:
        yield item
