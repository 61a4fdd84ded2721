"""Request ids: what makes a write idempotent for at least a day.

The first write under an id leaves a record: a hash of the method and the body, and the answer. It is written in the
very transaction that does the work, guarded by its absence, so an id is used once or not at all, whatever is lost
on the way. A repetition finds the record and gives the same answer; another body under the same id is refused.

Records end with their lease. There is one lease for each replica and hour, never renewed, so a record lives at least
REQUEST_KEPT_S and costs the store no work of its own. A store ends a lease in one go, and does nothing else meanwhile
(etcd: 7 ms for a thousand records), so a lease has no more than RECORDS_PER_LEASE_MAX.
"""

import asyncio
import base64
import hashlib
import random
import re
from dataclasses import dataclass
from typing import Final, TypeVar

from google.protobuf.message import Message

from hanse.apiserver.context import CallContext
from hanse.kit.clock import Clock
from hanse.model.errors import AlreadyExists, InvalidArgument
from hanse.model.names import quoted
from hanse.store import keys
from hanse.store.contract import KeyValue, ModRevisionIs, Put, Store
from hanse.store.schema import RequestValue, decode, encode
from hanse.wire.limits import REQUEST_ID_CHARS_MAX

M = TypeVar("M", bound=Message)

REQUEST_KEPT_S: Final = 24 * 3_600
LEASE_USED_S: Final = 3_600
LEASE_TTL_S: Final = REQUEST_KEPT_S + LEASE_USED_S + 600
RECORDS_PER_LEASE_MAX: Final = 10_000
CHOSEN_ID_BITS: Final = 128
BODY_HASH_BYTES: Final = 16

_REQUEST_ID: Final = re.compile(rf"[A-Za-z0-9._:~-]{{1,{REQUEST_ID_CHARS_MAX}}}")


@dataclass(frozen=True, slots=True)
class Request:
    """One write as it is known to the store.

    Attributes:
        id: the caller's, or one that the server chose.
        body: hash of method and body.
        repeatable: the caller chose the id, so that this may be a repetition, and may be repeated.
    """

    principal: str
    id: str
    body: str
    repeatable: bool = True

    @property
    def key(self) -> str:
        """Of the record."""
        return keys.request(self.principal, self.id)

    @property
    def unused(self) -> ModRevisionIs:
        """Guard: nothing was done under this id yet."""
        return ModRevisionIs(self.key, 0)


@dataclass(frozen=True, slots=True)
class Record:
    """A record that was found: what it says, and the revision at which it was written last."""

    value: RequestValue
    revision: int


class Requests:
    """Makes requests, reads and writes their records."""

    def __init__(self, store: Store, clock: Clock, rng: random.Random) -> None:
        self._store = store
        self._clock = clock
        self._rng = rng
        self._lease = 0
        self._lease_since_s = 0.0
        self._lease_records = 0
        self._granting = asyncio.Lock()

    def request(self, ctx: CallContext, method: str, message: Message) -> Request:
        """The request that a message with a `request_id` is.

        Raises:
            InvalidArgument: reason REQUEST_ID_INVALID.
        """
        given: str = getattr(message, "request_id")  # noqa: B009 - every write's message has it
        if given and not _REQUEST_ID.fullmatch(given):
            raise InvalidArgument(
                f"{quoted(given)} is not a request id; use at most {REQUEST_ID_CHARS_MAX} letters, digits or ._:~-",
                reason="REQUEST_ID_INVALID",
                path="request_id",
            )
        chosen = given or f"{self._rng.getrandbits(CHOSEN_ID_BITS):032x}"
        return Request(ctx.principal, chosen, body_hash(method, message), repeatable=bool(given))

    async def find(self, request: Request) -> Record | None:
        """The record of an earlier write under the same id; see `record_of` for errors."""
        return record_of(request, (await self._store.read([request.key])).items.get(request.key))

    async def record(self, request: Request, *, answer: str, done: bool = True) -> Put:
        """The operation that leaves a record; it belongs into the transaction that does the work."""
        value = RequestValue(request.body, done, answer)
        return Put(request.key, encode(value), await self._current_lease())

    def forget_lease(self, lease: int) -> None:
        """The store said that this lease is gone; the next record takes a new one."""
        if lease == self._lease:
            self._lease = 0

    async def _current_lease(self) -> int:
        async with self._granting:
            now_s = self._clock.monotonic()
            full = self._lease_records >= RECORDS_PER_LEASE_MAX
            if not self._lease or full or now_s - self._lease_since_s > LEASE_USED_S:
                self._lease = await self._store.lease_grant(LEASE_TTL_S)
                self._lease_since_s, self._lease_records = now_s, 0
            self._lease_records += 1
            return self._lease


def record_of(request: Request, kv: KeyValue | None) -> Record | None:
    """The record under a request's key, None if there is none.

    Raises:
        AlreadyExists: reason REQUEST_ID_REUSED; the id was used for another method or body.
    """
    if kv is None:
        return None
    value = decode(kv.value, RequestValue)
    if value.body != request.body:
        raise reused(request)
    return Record(value, kv.mod_revision)


def reused(request: Request) -> AlreadyExists:
    """The refusal of an id that stands for something else."""
    return AlreadyExists(
        f"request id {quoted(request.id)} was used for another request; choose a new one",
        reason="REQUEST_ID_REUSED",
        path="request_id",
    )


def body_hash(method: str, message: Message) -> str:
    """A hash of everything in a request but its id."""
    body = type(message)()
    body.CopyFrom(message)
    body.ClearField("request_id")
    digest = hashlib.blake2b(digest_size=BODY_HASH_BYTES)
    digest.update(f"{method}\n".encode())
    digest.update(body.SerializeToString(deterministic=True))
    return digest.hexdigest()


def pack_answer(answer: Message) -> str:
    """An answer as a record keeps it."""
    return base64.b64encode(answer.SerializeToString(deterministic=True)).decode()


def unpack_answer(record: Record, kind: type[M]) -> M:
    """The answer of a record. Its revision, if it has one, is that of the transaction that wrote the record."""
    return stamped(kind.FromString(base64.b64decode(record.value.answer)), record.revision)


def stamped(answer: M, revision: int) -> M:
    """The answer with the revision of the transaction that made it true, if it has an empty place for one."""
    if "revision" in answer.DESCRIPTOR.fields_by_name and not answer.revision:  # type: ignore[attr-defined]
        answer.revision = revision  # type: ignore[attr-defined]
    return answer


def unstamped(answer: M) -> M:
    """The answer of a write that changes what it speaks of: its revision is still open."""
    if "revision" in answer.DESCRIPTOR.fields_by_name:
        answer.revision = 0  # type: ignore[attr-defined]
    return answer
