"""How jobs come in: check everything first, then store it so that nothing is stored twice, or half.

A batch goes through rounds. Each round looks at what the store says of its request id, does what is missing, and ends
the submission if all of it committed; whatever else happened (a conflict, an unknown outcome, a crash and a retry on
another replica) is met by the next round. That is safe because

* job ids derive from principal, request id and index, and a job is stored under the guard that its state key is
  absent: it cannot be stored twice, whoever tries;
* the record of the request is written with the first jobs, guarded by its absence, and says which jobs were refused:
  a repetition gives the same answer although the world has changed meanwhile;
* a batch of which nothing is stored leaves a record too: an earlier try may have found a world that takes it, and
  its transaction may still be on its way. It fails at the record, so what was answered stays true. Whoever sends the
  batch once more, when the world takes it, writes over that record;
* a batch that needs several transactions is marked done by the last of them; all later ones compare the record, so a
  message that arrives late from an earlier round fails;
* every transaction compares the keys of its queues: no job enters a queue that is being deleted.

A batch that breaks off between two transactions is completed by its repetition, which every SDK makes by itself.
Rejected: storing jobs invisibly and publishing them by one last write. It costs each job a second write, for batches
that are too large for one transaction and whose client never comes back.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from hanse.api.v1 import job_service_pb2, job_spec_pb2
from hanse.apiserver.access.rights import Access
from hanse.apiserver.access.verbs import Verb
from hanse.apiserver.batches import Memo, answer, check_batch, id_of, memo_of, named_twice, queue_full
from hanse.apiserver.capacity import EmptyFleet
from hanse.apiserver.catalog import Stored, read_aliases, read_queue_names, read_terms
from hanse.apiserver.commits import GroupCommitter, Unit
from hanse.apiserver.context import CallContext
from hanse.apiserver.drafts import Draft, Origin, draft, units
from hanse.apiserver.pending import PendingCounts
from hanse.apiserver.ports import FleetView
from hanse.apiserver.requests import Record, Request, Requests, reused
from hanse.apiserver.seen import hidden_pools
from hanse.apiserver.settings import ApiSettings
from hanse.apiserver.templates import Templates
from hanse.apiserver.vetting import Accepted, World, vet
from hanse.apiserver.writes import gave_up
from hanse.kit.clock import Clock
from hanse.kit.telemetry import TRACER, Stage, metrics
from hanse.model.errors import HanseError, InvalidArgument
from hanse.model.ids import Attempt, JobId, QueueName, QueueUid
from hanse.model.lifecycle import State
from hanse.model.names import is_subdomain
from hanse.store import keys
from hanse.store.contract import (
    READ_KEYS_MAX,
    Committed,
    Guard,
    KeyValue,
    LeaseGone,
    ModRevisionIs,
    Op,
    Put,
    Store,
    Unknown,
)
from hanse.store.limits import ENTRY_OVERHEAD_BYTES
from hanse.store.schema import QueueValue, decode, decode_spec
from hanse.store.traces import whole_job

METHOD: Final = "SubmitJobs"
ROUNDS_MAX: Final = 8
VETTED_PER_TURN: Final = 32
"""Jobs that are checked before other calls get a turn."""

WRITE_ID_BITS: Final = 63

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Round:
    """What one round found: the memo to keep, the jobs to store, and at which revision the record was seen.

    Attributes:
        record_revision: 0 if there is none.
        resumes: the record says that some of the batch is stored.
    """

    memo: Memo
    drafts: tuple[Draft, ...]
    queues: Mapping[QueueName, Stored[QueueValue]]
    record_revision: int
    resumes: bool

    @property
    def ids(self) -> dict[int, JobId]:
        """Ids that this round has computed, by index."""
        return {one.index: one.job for one in self.drafts}


class Submitter:
    """Stores batches of jobs.

    Attributes:
        on_stored: told of every job that was stored, with its spec, the id of the job that it tries again, and who
            submitted it.
    """

    def __init__(
        self,
        store: Store,
        committer: GroupCommitter,
        requests: Requests,
        fleet: FleetView,
        *,
        settings: ApiSettings,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._store = store
        self._committer = committer
        self._requests = requests
        self._fleet = fleet
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self.on_stored: Callable[[JobId, job_spec_pb2.JobSpec, str, str], None] = lambda job, spec, retry_of, owner: (
            None
        )
        self._empty = EmptyFleet()
        self._templates = Templates()
        self._pending = PendingCounts(store, clock, pending_max=settings.queue_pending_max)

    async def submit(
        self, ctx: CallContext, message: job_service_pb2.SubmitJobsRequest
    ) -> job_service_pb2.SubmitJobsResponse:
        """Check and store one batch.

        Raises:
            InvalidArgument: the batch as a whole cannot be taken; errors of single jobs are in the response.
            AlreadyExists: reason REQUEST_ID_REUSED.
            Unavailable: nobody knows yet whether all is stored; repeat it with the same request id.
        """
        check_batch(message)
        request = self._requests.request(ctx, METHOD, message)
        if message.validate_only:
            memo, _ = await self._vet(message, await self._world(ctx.access, message))
            memo.stored = False
            return answer(request, message, memo)
        return await self.store(
            request, message, Origin(ctx.principal, request.id, ctx.trace, self._clock.now_ms()), ctx.access
        )

    async def store(
        self, request: Request, message: job_service_pb2.SubmitJobsRequest, origin: Origin, access: Access
    ) -> job_service_pb2.SubmitJobsResponse:
        """Check and store the jobs of a message under a request of any method; raises as `submit`."""
        unknown = False
        for number in range(ROUNDS_MAX):
            record = await self._requests.find(request)
            if record is not None and record.value.done and memo_of(record).stored:
                return answer(request, message, memo_of(record), revision=record.revision)
            found = await self._plan(message, request, origin, record, access, again=number > 0)
            none_on_its_way = record is not None or (number == 0 and not request.repeatable)
            if not found.memo.stored and none_on_its_way:
                return self._refused(request, message, found)
            try:
                outcome = await self._write(request, found)
            except LeaseGone as error:
                self._requests.forget_lease(error.lease)
                continue
            if isinstance(outcome, int) and not found.memo.stored:
                return self._refused(request, message, found)
            if isinstance(outcome, int):
                self._stored(message, found, origin, outcome)
                return answer(request, message, found.memo, ids=found.ids, revision=outcome)
            unknown = isinstance(outcome, Unknown)
        raise gave_up(unknown=unknown)

    def _refused(
        self, request: Request, message: job_service_pb2.SubmitJobsRequest, found: _Round
    ) -> job_service_pb2.SubmitJobsResponse:
        """Nothing of the batch is stored, and nothing of it can be any more."""
        metrics.SUBMITTED.add(len(found.memo.refused), "refused")
        return answer(request, message, found.memo)

    def _stored(
        self, message: job_service_pb2.SubmitJobsRequest, found: _Round, origin: Origin, revision: int
    ) -> None:
        """Whatever waits for new jobs hears of them."""
        self._count(found)
        for one in found.drafts:
            self.on_stored(one.job, message.jobs[one.index], origin.retry_of, origin.principal)
        self._tell(found, origin)
        _log_accepted(origin, found, revision)

    # ---- looking --------------------------------------------------------------------------------------------

    async def _world(self, access: Access, message: job_service_pb2.SubmitJobsRequest) -> World:
        """What the jobs of a batch are measured by: of queues that the submitter does not see, nothing."""
        asked = sorted({QueueName(spec.queue) for spec in message.jobs if is_subdomain(spec.queue)})
        names = [name for name in asked if access.may(Verb.VIEW, name)]
        queues, terms = await asyncio.gather(self._queues(names), read_terms(self._store))
        missing = [name for name in asked if name not in queues]
        if not missing:
            return self._measured(World(queues, terms, self._fleet.offers(), self._empty, self._templates), access)
        aliases, known = await asyncio.gather(read_aliases(self._store), read_queue_names(self._store))
        known = [name for name in known if access.may(Verb.VIEW, name)]
        meant = {name: aliases[name] for name in missing if name in aliases and access.may(Verb.VIEW, aliases[name])}
        queues |= await self._queues(sorted(set(meant.values())))
        world = World(queues, terms, self._fleet.offers(), self._empty, self._templates, known, meant)
        return self._measured(world, access)

    def _measured(self, world: World, access: Access) -> World:
        """The world of this submitter."""
        if access.unbounded:
            return world
        return replace(world, access=access, hidden=lambda: hidden_pools(access, self._fleet.pools()))

    async def _queues(self, names: Sequence[QueueName]) -> dict[QueueName, Stored[QueueValue]]:
        read = await self._store.read([keys.queue(name) for name in names])
        return {
            name: Stored(decode(kv.value, QueueValue), kv.mod_revision)
            for name in names
            if (kv := read.items.get(keys.queue(name))) is not None
        }

    async def _vet(
        self, message: job_service_pb2.SubmitJobsRequest, world: World
    ) -> tuple[Memo, dict[int, Accepted]]:
        """Check every job of a batch that is new; the memo says which are refused."""
        memo, accepted = Memo(), dict[int, Accepted]()
        names: set[tuple[str, str]] = set()
        for index, spec in enumerate(message.jobs):
            if index % VETTED_PER_TURN == VETTED_PER_TURN - 1:
                await asyncio.sleep(0)
            result = named_twice(spec, names) or vet(spec, world)
            if isinstance(result, HanseError):
                memo.refuse(index, result)
            else:
                accepted[index] = result
        await self._refuse_overflow(memo, accepted)
        memo.queues.update({message.jobs[index].queue: str(a.queue.uid) for index, a in accepted.items()})
        return memo, accepted

    async def _refuse_overflow(self, memo: Memo, accepted: dict[int, Accepted]) -> None:
        """Jobs beyond what their queue takes are refused, the last ones first."""
        queues = {a.queue.uid: a.queue for a in accepted.values()}
        for uid, queue in queues.items():
            room = await self._pending.room(queue)
            mine = [index for index, a in accepted.items() if a.queue.uid == uid]
            for index in mine[room:] if room is not None else ():
                del accepted[index]
                memo.refuse(index, queue_full(queue.name, self._pending.most(queue)))

    async def _plan(
        self,
        message: job_service_pb2.SubmitJobsRequest,
        request: Request,
        origin: Origin,
        record: Record | None,
        access: Access,
        *,
        again: bool,
    ) -> _Round:
        """What is to be done in this round."""
        world = await self._world(access, message)
        before = memo_of(record) if record is not None else Memo(stored=False)
        if before.stored:
            memo, accepted = _resumed(message, before, world)
        else:
            memo, accepted = await self._vet(message, world)
        drafts = await self._drafts(message, request, origin, memo, accepted)
        if memo.refused and message.atomic and not before.stored:
            drafts.clear()
        memo.stored = before.stored or bool(drafts)
        if again or before.stored:
            drafts = await self._missing(request, message, drafts)
        return _Round(memo, tuple(drafts), world.queues, record.revision if record else 0, before.stored)

    async def _drafts(
        self,
        message: job_service_pb2.SubmitJobsRequest,
        request: Request,
        origin: Origin,
        memo: Memo,
        accepted: Mapping[int, Accepted],
    ) -> list[Draft]:
        drafts: list[Draft] = []
        for turn, (index, one) in enumerate(accepted.items()):
            if turn % VETTED_PER_TURN == VETTED_PER_TURN - 1:
                await asyncio.sleep(0)
            try:
                drafts.append(
                    draft(
                        index,
                        id_of(request, memo, message.jobs[index].queue, index),
                        message.jobs[index],
                        one,
                        origin,
                        write_id=self._rng.getrandbits(WRITE_ID_BITS) | 1,
                        spec_bytes_max=self._settings.spec_bytes_max,
                    )
                )
            except InvalidArgument as error:
                memo.refuse(index, error)
        return drafts

    async def _missing(
        self, request: Request, message: job_service_pb2.SubmitJobsRequest, drafts: Sequence[Draft]
    ) -> list[Draft]:
        """The drafts that are not in the store yet.

        Raises:
            AlreadyExists: a job of that id is there with another spec: the id was used more than a day ago.
        """
        there: dict[str, KeyValue] = {}
        wanted = [keys.spec(one.job) for one in drafts]
        for start in range(0, len(wanted), READ_KEYS_MAX):
            there.update((await self._store.read(wanted[start : start + READ_KEYS_MAX])).items)
        for one in drafts:
            kv = there.get(keys.spec(one.job))
            body = message.jobs[one.index].SerializeToString(deterministic=True)
            if kv is not None and decode_spec(kv.value).spec != body:
                raise reused(request)
        return [one for one in drafts if keys.spec(one.job) not in there]

    # ---- storing --------------------------------------------------------------------------------------------

    async def _write(self, request: Request, found: _Round) -> int | Unknown | None:
        """The revision at which everything is stored, or why it is not known to be: another round is needed."""
        text = msgspec.json.encode(found.memo).decode()
        note = await self._requests.record(request, answer=text, done=True)
        seen = ModRevisionIs(request.key, found.record_revision)
        first, *rest = units(found.drafts, record_bytes=record_bytes(note, seen))
        if found.resumes:
            rest, first, revision = [first, *rest], [], found.record_revision
        else:
            if rest:
                note = await self._requests.record(request, answer=text, done=False)
            outcome = await self._commit(first, found, seen, note)
            if not isinstance(outcome, Committed):
                return outcome if isinstance(outcome, Unknown) else None
            revision = outcome.revision
            if not rest:
                return revision
        return await self._write_rest(request, found, rest, text, revision)

    async def _write_rest(
        self, request: Request, found: _Round, rest: Sequence[Sequence[Draft]], text: str, revision: int
    ) -> int | Unknown | None:
        """Everything after the first transaction; the last one marks the request as done."""
        guard = ModRevisionIs(request.key, revision)
        outcomes = await asyncio.gather(*(self._commit(unit, found, guard, None) for unit in rest[:-1]))
        for outcome in outcomes:
            if not isinstance(outcome, Committed):
                return outcome if isinstance(outcome, Unknown) else None
        note = await self._requests.record(request, answer=text, done=True)
        last = await self._commit(rest[-1], found, guard, note)
        if isinstance(last, Committed):
            return last.revision
        return last if isinstance(last, Unknown) else None

    async def _commit(
        self, drafts: Sequence[Draft], found: _Round, record: Guard, note: Put | None
    ) -> Committed | Unknown | None:
        """One transaction; None for a conflict."""
        queues = sorted({one.queue for one in drafts})
        guards: list[Guard] = [record]
        guards.extend(ModRevisionIs(keys.queue(name), found.queues[name].revision) for name in queues)
        guards.extend(one.guard for one in drafts)
        ops: list[Op] = [op for one in drafts for op in one.ops]
        if note is not None:
            ops.append(note)
        size = sum(one.bytes for one in drafts) + record_bytes(note, record)
        outcome = await self._committer.commit(Unit(tuple(guards), tuple(ops), size))
        return outcome if isinstance(outcome, Committed | Unknown) else None

    def _count(self, found: _Round) -> None:
        for name, jobs in Counter(one.queue for one in found.drafts).items():
            self._pending.accepted(QueueUid(found.queues[name].value.uid), jobs)

    def _tell(self, found: _Round, origin: Origin) -> None:
        """A batch is stored: count it, and tell its traced jobs' first stage."""
        now_ms = self._clock.now_ms()
        begun_ms = origin.arrived_ms
        metrics.SUBMIT_DURATION.record((now_ms - begun_ms) / 1e3)
        metrics.SUBMITTED.add(len(found.drafts), "accepted")
        metrics.SUBMITTED.add(len(found.memo.refused), "refused")
        metrics.JOB_MOVES.add(len(found.drafts), State.PENDING.name)
        for one in found.drafts if TRACER.on else ():
            gang = whole_job(one.job, Attempt(0))
            TRACER.stage(
                one.trace, Stage.SUBMIT, gang, scope="api", start_ms=begun_ms, end_ms=now_ms, queue=one.queue
            )


def _log_accepted(origin: Origin, found: _Round, revision: int) -> None:
    log.info(
        "jobs_accepted",
        extra={
            "principal": origin.principal,
            "request_id": origin.request_id,
            "jobs": len(found.drafts),
            "refused": len(found.memo.refused),
            "revision": revision,
            "trace": origin.trace,
        },
    )


def record_bytes(note: Put | None, guard: Guard) -> int:
    """What the record of a request adds to a transaction: the guard on it, and the note if it is written."""
    written = 0 if note is None else len(note.key) + len(note.value) + ENTRY_OVERHEAD_BYTES
    return written + 2 * (len(guard.key) + ENTRY_OVERHEAD_BYTES)


def _resumed(
    message: job_service_pb2.SubmitJobsRequest, memo: Memo, world: World
) -> tuple[Memo, dict[int, Accepted]]:
    """The jobs that an earlier try accepted; whether they could ever fit was decided then."""
    accepted: dict[int, Accepted] = {}
    for index, spec in enumerate(message.jobs):
        if index in memo.refused:
            continue
        result = vet(spec, world, ever_fits=False)
        if isinstance(result, HanseError):
            memo.refuse(index, result)
        else:
            accepted[index] = result
    return memo, accepted
