"""`Apply`: the objects of a file created or updated, each with its own result.

The file is judged as a whole first: objects may name each other in any order, so each is checked against the settings
as they would be afterwards. Objects that cannot stand are taken out, and so are those that rest on them. What is left
is written under the guard of every key that changes, with the record of the request; if something moved meanwhile,
everything is judged anew. More changes than one transaction holds take several, what others rest on first; a call
that breaks off is completed by its repetition, which finds the first ones unchanged.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from hanse.api.v1 import config_service_pb2
from hanse.apiserver.catalog import QUEUES_MAX
from hanse.apiserver.context import CallContext
from hanse.apiserver.kinds import COHORT, FLAVOR, PRIORITY_CLASS
from hanse.apiserver.queues import changed_queue_value, new_queue_value
from hanse.apiserver.requests import Request
from hanse.apiserver.world import Everything, Read, Setting, check_number, read_everything
from hanse.apiserver.writes import PlannedWrite, Writer, gave_up
from hanse.kit.clock import Clock
from hanse.model.errors import HanseError, InvalidArgument
from hanse.model.ids import queue_uid
from hanse.model.names import quoted
from hanse.model.queue import Cohort, Flavor, PriorityClass, Queue
from hanse.store import keys
from hanse.store.contract import TXN_OPS_MAX, Committed, ModRevisionIs, Put, Store, Txn
from hanse.store.schema import encode
from hanse.wire.config import queue_from_wire
from hanse.wire.errors import error_to_wire
from hanse.wire.limits import OBJECTS_PER_APPLY_MAX

CHANGES_PER_TXN_MAX: Final = TXN_OPS_MAX - 1
CHUNKS_MAX: Final = 2 * (OBJECTS_PER_APPLY_MAX // CHANGES_PER_TXN_MAX + 1)

CREATED: Final = config_service_pb2.APPLY_OUTCOME_CREATED
UPDATED: Final = config_service_pb2.APPLY_OUTCOME_UPDATED
UNCHANGED: Final = config_service_pb2.APPLY_OUTCOME_UNCHANGED
Outcome: TypeAlias = config_service_pb2.ApplyOutcome.ValueType


@dataclass(frozen=True, slots=True)
class Wanted:
    """One object of the file that was read; `held` of a queue is None if the file does not say."""

    word: str
    value: Setting
    held: bool | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One key to write, and which object of the file it is."""

    index: int
    key: str
    value: bytes
    revision: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be done for a file: an outcome or an error for each object, and the changes in order."""

    outcomes: dict[int, Outcome]
    errors: dict[int, HanseError]
    changes: tuple[Change, ...]


class Applier:
    """Applies files."""

    def __init__(self, store: Store, writer: Writer, clock: Clock) -> None:
        self._store = store
        self._writer = writer
        self._clock = clock

    async def apply(
        self, ctx: CallContext, request: config_service_pb2.ApplyRequest
    ) -> config_service_pb2.ApplyResponse:
        """Create or update every object; errors of single objects are in the response.

        Raises:
            InvalidArgument: reason TOO_MANY or OBJECTS_MISSING; the file as a whole.
            AlreadyExists: reason REQUEST_ID_REUSED.
        """
        _check_size(request)
        if request.validate_only:
            read = await read_everything(self._store)
            return _answer(request, self._judge(request, read, "", ""))

        async def plan(made: Request) -> PlannedWrite[config_service_pb2.ApplyResponse]:
            return await self._plan(request, made)

        return await self._writer.write(ctx, "Apply", request, plan, config_service_pb2.ApplyResponse)

    async def _plan(
        self, request: config_service_pb2.ApplyRequest, made: Request
    ) -> PlannedWrite[config_service_pb2.ApplyResponse]:
        """The last transaction; those before it are committed here."""
        done: dict[int, Outcome] = {}
        for _ in range(CHUNKS_MAX):
            read = await read_everything(self._store)
            verdict = self._judge(request, read, made.principal, made.id)
            if request.atomic and verdict.errors:
                return PlannedWrite((), (), _answer(request, Verdict({}, verdict.errors, ())))
            some = verdict.changes[:CHANGES_PER_TXN_MAX]
            guards = tuple(ModRevisionIs(change.key, change.revision) for change in some)
            ops = tuple(Put(change.key, change.value) for change in some)
            if len(some) == len(verdict.changes):
                outcomes = {**verdict.outcomes, **done}
                return PlannedWrite(guards, ops, _answer(request, Verdict(outcomes, verdict.errors, ())))
            if isinstance(await self._store.transact(Txn(guards, ops)), Committed):
                done.update({change.index: verdict.outcomes[change.index] for change in some})
        raise gave_up(unknown=False)

    # ---- judging --------------------------------------------------------------------------------------------

    def _judge(
        self, request: config_service_pb2.ApplyRequest, read: Read, principal: str, request_id: str
    ) -> Verdict:
        """What each object comes to, given everything as it is."""
        wanted, errors = _parsed(request)
        _drop_bad(read.everything, wanted, errors)
        outcomes: dict[int, Outcome] = {}
        changes: list[Change] = []
        for index in sorted(wanted, key=lambda i: (_RANK[wanted[i].word], i)):
            one = wanted[index]
            key, old, new, revision = self._stored(one, read, principal, request_id)
            outcomes[index] = UNCHANGED if old == new else UPDATED if revision else CREATED
            if old != new:
                changes.append(Change(index, key, new, revision))
        return Verdict(outcomes, errors, tuple(changes))

    def _stored(self, one: Wanted, read: Read, principal: str, request_id: str) -> tuple[str, bytes, bytes, int]:
        """Key of an object, its bytes now and then, and the revision of the key now."""
        value, all_of_it = one.value, read.everything
        revision = read.revisions.get((one.word, str(value.name)), 0)
        match value:
            case Flavor():
                flavor = all_of_it.flavors.get(value.name)
                return FLAVOR.key(value.name), FLAVOR.store(flavor) if flavor else b"", FLAVOR.store(value), revision
            case PriorityClass():
                priority = all_of_it.priorities.get(value.name)
                old = PRIORITY_CLASS.store(priority) if priority else b""
                return PRIORITY_CLASS.key(value.name), old, PRIORITY_CLASS.store(value), revision
            case Cohort():
                cohort = all_of_it.cohorts.get(value.name)
                return COHORT.key(value.name), COHORT.store(cohort) if cohort else b"", COHORT.store(value), revision
            case Queue():
                old, new = self._stored_queue(value, one.held, read, principal, request_id)
                return keys.queue(value.name), old, new, revision

    def _stored_queue(
        self, queue: Queue, held: bool | None, read: Read, principal: str, request_id: str
    ) -> tuple[bytes, bytes]:
        stored = read.queues.get(queue.name)
        if stored is None:
            uid = queue_uid(principal, request_id, queue.name)
            return b"", encode(new_queue_value(queue, uid, created_ms=self._clock.now_ms()))
        keeps = stored.value.held if held is None else held
        return encode(stored.value), encode(changed_queue_value(stored.value, queue, held=keeps))


_RANK: Final = {"flavor": 0, "priority_class": 1, "cohort": 2, "queue": 3}
_MOST: Final = {
    "flavor": FLAVOR.objects_max,
    "priority_class": PRIORITY_CLASS.objects_max,
    "cohort": COHORT.objects_max,
    "queue": QUEUES_MAX,
}


def _check_size(request: config_service_pb2.ApplyRequest) -> None:
    if not request.objects:
        raise InvalidArgument("there is no object to apply", reason="OBJECTS_MISSING", path="objects")
    if len(request.objects) > OBJECTS_PER_APPLY_MAX:
        raise InvalidArgument(
            f"{len(request.objects)} objects; apply at most {OBJECTS_PER_APPLY_MAX} at once",
            reason="TOO_MANY",
            path="objects",
        )


def _parsed(request: config_service_pb2.ApplyRequest) -> tuple[dict[int, Wanted], dict[int, HanseError]]:
    """The objects that can be read, and why the others cannot."""
    wanted: dict[int, Wanted] = {}
    errors: dict[int, HanseError] = {}
    names: set[tuple[str, str]] = set()
    for index, message in enumerate(request.objects):
        try:
            one = _parse(message, f"objects[{index}]")
            if (one.word, str(one.value.name)) in names:
                raise InvalidArgument(
                    f"{one.word} {quoted(one.value.name)} is in the file twice; remove one",
                    reason="DUPLICATE",
                    path=f"objects[{index}].name",
                )
            names.add((one.word, str(one.value.name)))
            wanted[index] = one
        except HanseError as error:
            errors[index] = error
    return wanted, errors


def _parse(message: config_service_pb2.ConfigObject, path: str) -> Wanted:
    match message.WhichOneof("object"):
        case "flavor":
            return Wanted("flavor", FLAVOR.parse(message.flavor, f"{path}.flavor"))
        case "priority_class":
            value = PRIORITY_CLASS.parse(message.priority_class, f"{path}.priority_class")
            return Wanted("priority_class", value)
        case "cohort":
            return Wanted("cohort", COHORT.parse(message.cohort, f"{path}.cohort"))
        case "queue":
            held = message.queue.held if message.queue.HasField("held") else None
            return Wanted("queue", queue_from_wire(message.queue, path=f"{path}.queue"), held)
        case _:
            raise InvalidArgument("the object is empty; set one of its kinds", reason="OBJECT_EMPTY", path=path)


def _drop_bad(now: Everything, wanted: dict[int, Wanted], errors: dict[int, HanseError]) -> None:
    """Take out of `wanted` what cannot stand in the settings as they would be, until all that is left can.

    Each sweep takes out what the one before pulled the ground from; cohorts are the only objects of a kind that names
    itself, and their depth has a limit.
    """
    good = False
    while not good:
        good = True
        then = now.with_all([one.value for one in wanted.values()])
        for index, one in list(wanted.items()):
            try:
                then.check(one.value, path=f"objects[{index}].{one.word}")
                _check_number(now, then, one)
            except HanseError as error:
                errors[index] = error
                del wanted[index]
                good = False


def _check_number(now: Everything, then: Everything, one: Wanted) -> None:
    if str(one.value.name) not in now.of_kind(one.word):
        check_number(len(then.of_kind(one.word)) - 1, _MOST[one.word], one.word)


def _answer(request: config_service_pb2.ApplyRequest, verdict: Verdict) -> config_service_pb2.ApplyResponse:
    results = []
    for index, message in enumerate(request.objects):
        word = message.WhichOneof("object") or ""
        name = getattr(message, word).name if word else ""
        result = config_service_pb2.AppliedObject(
            kind=word, name=name, outcome=verdict.outcomes.get(index, config_service_pb2.APPLY_OUTCOME_UNSPECIFIED)
        )
        if index in verdict.errors:
            result.error.CopyFrom(error_to_wire(verdict.errors[index]))
        results.append(result)
    return config_service_pb2.ApplyResponse(results=results)
