"""QueueService as coroutines on messages.

Deleting a queue must not race with a submission to it, and submissions only compare the queue's key. So deletion has
three steps: mark the queue as closing (which fails every submission on its way and refuses new ones), look whether it
holds a pending or live job, then delete the key under the guard of the mark, or take the mark away again. A deletion
that breaks off in between leaves a closing queue: repeat it, or update the queue, which opens it.
"""

from dataclasses import replace
from typing import Final

import msgspec

from hanse.api.v1 import queue_pb2, queue_service_pb2
from hanse.apiserver.access.verbs import Verb
from hanse.apiserver.catalog import (
    Stored,
    queue_not_found,
    read_cohorts,
    read_flavors,
    read_queue,
    read_queue_names,
    read_queues,
)
from hanse.apiserver.context import CallContext
from hanse.apiserver.giving import forgotten, gift, named_holder
from hanse.apiserver.pages import PageToken, page_size, read_token, write_token
from hanse.apiserver.pending import count
from hanse.apiserver.ports import FleetView
from hanse.apiserver.references import check_aliases, check_cohort, check_flavors, check_revision
from hanse.apiserver.requests import Request
from hanse.apiserver.sight import Sight
from hanse.apiserver.writes import WRITE_TRIES_MAX, PlannedWrite, Writer, gave_up
from hanse.kit.clock import Clock
from hanse.model.errors import AlreadyExists, FailedPrecondition
from hanse.model.ids import QueueName, QueueUid, queue_uid
from hanse.model.names import is_subdomain, quoted
from hanse.model.queue import Queue
from hanse.store import keys
from hanse.store.contract import Committed, Delete, ModRevisionIs, Put, Store, Txn
from hanse.store.schema import QueueValue, encode
from hanse.wire.config import queue_from_wire, queue_to_wire
from hanse.wire.limits import PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX

JOBS_COUNTED_MAX: Final = 200_000
"""Records that are looked at to say what is in one queue."""


class QueueService:
    """The methods of hanse.api.v1.QueueService."""

    def __init__(self, store: Store, writer: Writer, sight: Sight, fleet: FleetView, clock: Clock) -> None:
        self._store = store
        self._writer = writer
        self._sight = sight
        self._fleet = fleet
        self._clock = clock

    async def get_queue(self, ctx: CallContext, request: queue_service_pb2.GetQueueRequest) -> queue_pb2.Queue:
        """One queue, with what is in it. Raises NotFound."""
        stored = await self._sight.queue(ctx.access, request.name, path="name")
        message = stored_to_wire(request.name, stored)
        message.holder = await named_holder(self._store, stored.value.queue(QueueName(request.name)))
        return await self._with_status(message)

    async def list_queues(
        self, ctx: CallContext, request: queue_service_pb2.ListQueuesRequest
    ) -> queue_service_pb2.ListQueuesResponse:
        """Queues by name."""
        token = read_token(request.page_token, request)
        size = page_size(request.page_size, default=PAGE_SIZE_DEFAULT, most=PAGE_SIZE_MAX)
        queues = await self._sight.queues(ctx.access)
        names = sorted(name for name in queues if name > token.after)
        messages = [stored_to_wire(name, queues[name]) for name in names[:size]]
        if request.status:
            messages = [await self._with_status(message) for message in messages]
        more = len(names) > size
        return queue_service_pb2.ListQueuesResponse(
            queues=messages,
            next_page_token=write_token(PageToken(token.filter, 0, names[size - 1])) if more else "",
        )

    async def create_queue(self, ctx: CallContext, request: queue_service_pb2.CreateQueueRequest) -> queue_pb2.Queue:
        """Create a queue.

        Raises:
            AlreadyExists: reason QUEUE_EXISTS.
            InvalidArgument, NotFound: a field is wrong, or names what does not exist.
        """
        queue = queue_from_wire(request.queue)

        async def plan(made: Request) -> PlannedWrite[queue_pb2.Queue]:
            key = keys.queue(queue.name)
            if key in (await self._store.read([key])).items:
                raise AlreadyExists(
                    f"queue {quoted(queue.name)} exists; update it, or choose another name",
                    reason="QUEUE_EXISTS",
                    path="queue.name",
                )
            await self._check(queue)
            uid = queue_uid(made.principal, made.id, queue.name)
            value = new_queue_value(queue, uid, created_ms=self._clock.now_ms())
            answer = stored_to_wire(queue.name, Stored(value, 0))
            return PlannedWrite((ModRevisionIs(key, 0),), (Put(key, encode(value)),), answer)

        return await self._writer.write(ctx, "CreateQueue", request, plan, queue_pb2.Queue)

    async def update_queue(self, ctx: CallContext, request: queue_service_pb2.UpdateQueueRequest) -> queue_pb2.Queue:
        """Replace cohort, quotas and labels; also opens a queue that is closing.

        Raises:
            NotFound, InvalidArgument: as create.
            FailedPrecondition: reason REVISION_MISMATCH; it has changed since the caller read it.
        """
        queue = queue_from_wire(request.queue)

        async def plan(_: Request) -> PlannedWrite[queue_pb2.Queue]:
            stored = await self._queue(queue.name)
            check_revision(request.queue.revision, stored.revision, "queue")
            await self._check(queue)
            held = queue.held if request.queue.HasField("held") else stored.value.held
            return _rewritten(queue.name, stored, changed_queue_value(stored.value, queue, held=held))

        return await self._writer.write(ctx, "UpdateQueue", request, plan, queue_pb2.Queue)

    async def hold_queue(self, ctx: CallContext, request: queue_service_pb2.HoldQueueRequest) -> queue_pb2.Queue:
        """Bind nothing more of a queue. Raises NotFound."""

        async def plan(_: Request) -> PlannedWrite[queue_pb2.Queue]:
            stored = await self._holdable(ctx, request.name)
            return _rewritten(request.name, stored, msgspec.structs.replace(stored.value, held=True))

        return await self._writer.write(ctx, "HoldQueue", request, plan, queue_pb2.Queue)

    async def release_queue(
        self, ctx: CallContext, request: queue_service_pb2.ReleaseQueueRequest
    ) -> queue_pb2.Queue:
        """Bind jobs of a queue again. Raises NotFound."""

        async def plan(_: Request) -> PlannedWrite[queue_pb2.Queue]:
            stored = await self._holdable(ctx, request.name)
            return _rewritten(request.name, stored, msgspec.structs.replace(stored.value, held=False))

        return await self._writer.write(ctx, "ReleaseQueue", request, plan, queue_pb2.Queue)

    async def give_queue(self, ctx: CallContext, request: queue_service_pb2.GiveQueueRequest) -> queue_pb2.Queue:
        """Name the replica that admits for a queue, or for all under its root.

        Raises:
            NotFound: reason QUEUE_NOT_FOUND.
            FailedPrecondition: reason HOLDER_UNKNOWN; no such replica schedules now.
        """

        async def plan(_: Request) -> PlannedWrite[queue_pb2.Queue]:
            given = await gift(self._store, request, await self._queue(request.name), now_ms=self._clock.now_ms())
            write = _rewritten(request.name, given.queue, given.value)
            write.answer.holder = request.holder
            return PlannedWrite((*write.guards, *given.guards), (*write.ops, *given.ops), write.answer)

        return await self._writer.write(ctx, "GiveQueue", request, plan, queue_pb2.Queue)

    # ---- deleting -------------------------------------------------------------------------------------------

    async def delete_queue(
        self, ctx: CallContext, request: queue_service_pb2.DeleteQueueRequest
    ) -> queue_service_pb2.DeleteQueueResponse:
        """Remove a queue that holds no pending or live job.

        Raises:
            NotFound: reason QUEUE_NOT_FOUND.
            FailedPrecondition: reason QUEUE_NOT_EMPTY.
        """

        async def plan(_: Request) -> PlannedWrite[queue_service_pb2.DeleteQueueResponse]:
            closing = await self._closing(request.name)
            await self._check_empty(request.name, closing)
            key = keys.queue(QueueName(request.name))
            guard = ModRevisionIs(key, closing.revision)
            guards, ops = await forgotten(self._store, keys.holder(f"queue.{closing.value.uid}"))
            return PlannedWrite((guard, *guards), (Delete(key), *ops), queue_service_pb2.DeleteQueueResponse())

        answer = queue_service_pb2.DeleteQueueResponse
        return await self._writer.write(ctx, "DeleteQueue", request, plan, answer)

    async def _closing(self, name: str) -> Stored[QueueValue]:
        """The queue, marked as closing."""
        for _ in range(WRITE_TRIES_MAX):
            stored = await self._queue(name)
            if stored.value.closing:
                return stored
            value = msgspec.structs.replace(stored.value, closing=True)
            outcome = await self._rewrite(name, stored, value)
            if outcome is not None:
                return Stored(value, outcome)
        raise gave_up(unknown=False)

    async def _check_empty(self, name: str, closing: Stored[QueueValue]) -> None:
        census = await count(self._store, QueueUid(closing.value.uid))
        if not census.pending and not census.live:
            return
        await self._rewrite(name, closing, msgspec.structs.replace(closing.value, closing=False))
        raise FailedPrecondition(
            f"queue {quoted(name)} holds {census.pending} waiting and {census.live} live jobs; "
            "cancel them or wait until they have ended",
            reason="QUEUE_NOT_EMPTY",
            path="name",
        )

    async def _rewrite(self, name: str, stored: Stored[QueueValue], value: QueueValue) -> int | None:
        """The revision at which the queue is `value`, None if that is not certain."""
        key = keys.queue(QueueName(name))
        txn = Txn((ModRevisionIs(key, stored.revision),), (Put(key, encode(value)),))
        outcome = await self._store.transact(txn)
        return outcome.revision if isinstance(outcome, Committed) else None

    # ---- reading --------------------------------------------------------------------------------------------

    async def _queue(self, name: str) -> Stored[QueueValue]:
        if not is_subdomain(name):
            raise queue_not_found(name, await read_queue_names(self._store), path="name")
        return await read_queue(self._store, name)

    async def _holdable(self, ctx: CallContext, name: str) -> Stored[QueueValue]:
        """A queue that the caller may hold. Raises NotFound if they do not see it, PermissionDenied."""
        stored = await self._sight.queue(ctx.access, name, path="name")
        ctx.access.require(Verb.HOLD_QUEUE, name)
        return stored

    async def _check(self, queue: Queue) -> None:
        check_flavors(queue.quotas, await read_flavors(self._store), path="queue.quotas")
        if queue.cohort:
            check_cohort(queue.cohort, await read_cohorts(self._store), path="queue.cohort")
        others = await read_queues(self._store)
        check_aliases(queue, [others[name].value.queue(name) for name in others], path="queue.aliases")

    async def _with_status(self, message: queue_pb2.Queue) -> queue_pb2.Queue:
        uid = QueueUid(message.uid)
        census = await count(self._store, uid, jobs_max=JOBS_COUNTED_MAX)
        used = self._fleet.used(uid) or {}
        message.status.CopyFrom(
            queue_pb2.QueueStatus(
                pending_jobs=census.pending,
                live_jobs=census.live,
                ended_jobs=census.ended,
                exact=census.exact,
                used=[queue_pb2.FlavorUse(flavor=f, used=dict(amount)) for f, amount in sorted(used.items())],
            )
        )
        return message


def stored_to_wire(name: str, stored: Stored[QueueValue]) -> queue_pb2.Queue:
    """A queue as users see it, without its status."""
    value = stored.value
    return queue_to_wire(value.queue(QueueName(name)), created_ms=value.created_ms, revision=stored.revision)


def new_queue_value(queue: Queue, uid: QueueUid, *, created_ms: int) -> QueueValue:
    """What is stored for a queue that is created."""
    return QueueValue.of(replace(queue, uid=uid), created_ms=created_ms)


def changed_queue_value(old: QueueValue, queue: Queue, *, held: bool) -> QueueValue:
    """What is stored for a queue that is updated: it keeps its uid, its age and its holder, and is open."""
    changed = replace(queue, uid=QueueUid(old.uid), held=held, apart=old.apart and bool(queue.cohort))
    return QueueValue.of(changed, created_ms=old.created_ms)


def _rewritten(name: str, stored: Stored[QueueValue], value: QueueValue) -> PlannedWrite[queue_pb2.Queue]:
    key = keys.queue(QueueName(name))
    answer = stored_to_wire(name, Stored(value, 0))
    return PlannedWrite((ModRevisionIs(key, stored.revision),), (Put(key, encode(value)),), answer)
