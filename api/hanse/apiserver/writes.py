"""One idempotent write of settings: read, plan, commit under guards; again when something moved.

The record of the request is part of the transaction and guarded by its absence (see `requests`), so a transaction
whose outcome is unknown is settled by going round once more: either the record is there, or the next transaction and
the lost one exclude each other (P3).
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from google.protobuf.message import Message

from hanse.apiserver.context import CallContext
from hanse.apiserver.requests import Request, Requests, pack_answer, stamped, unpack_answer, unstamped
from hanse.model.errors import HanseError, Unavailable
from hanse.store.contract import Committed, Conflict, Guard, LeaseGone, Op, Store, Txn, Unknown

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)

WRITE_TRIES_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class PlannedWrite(Generic[M]):
    """Guards and operations of a write, and its answer. One without operations answers with the revision as it is."""

    guards: tuple[Guard, ...]
    ops: tuple[Op, ...]
    answer: M


class Writer:
    """Writes settings."""

    def __init__(self, store: Store, requests: Requests) -> None:
        self._store = store
        self._requests = requests

    async def write(
        self,
        ctx: CallContext,
        method: str,
        message: Message,
        plan: Callable[[Request], Awaitable[PlannedWrite[M]]],
        answer: type[M],
    ) -> M:
        """Do what `plan` says, once for each request id.

        Args:
            plan: reads what it needs and says what to write; called again after a conflict. What it raises, it
                raises because of what it has read: nothing was done then.

        Raises:
            AlreadyExists: reason REQUEST_ID_REUSED.
            Unavailable: reason OUTCOME_UNKNOWN or CONFLICT; it may be repeated with the same request id.
        """
        request = self._requests.request(ctx, method, message)
        unknown = False
        for _ in range(WRITE_TRIES_MAX):
            record = await self._requests.find(request)
            if record is not None:
                return unpack_answer(record, answer)
            try:
                planned = await plan(request)
            except HanseError:
                # The same request may have been on its way twice, and what refuses it now may have come after it.
                record = await self._requests.find(request)
                if record is None:
                    raise
                return unpack_answer(record, answer)
            said = unstamped(planned.answer) if planned.ops else planned.answer
            note = await self._requests.record(request, answer=pack_answer(said))
            txn = Txn((request.unused, *planned.guards), (*planned.ops, note))
            try:
                outcome = await self._store.transact(txn)
            except LeaseGone:
                self._requests.forget_lease(note.lease)
                continue
            match outcome:
                case Committed(revision):
                    return stamped(said, revision)
                case Conflict():
                    log.info("write_tried_again", extra={"method": method, "outcome": "Conflict"})
                case Unknown():
                    log.info("write_tried_again", extra={"method": method, "outcome": "Unknown"})
                    unknown = True
        raise gave_up(unknown=unknown)


def gave_up(*, unknown: bool) -> Unavailable:
    """The end of patience, in words that say what the caller may do."""
    if unknown:
        return Unavailable(
            "the store did not say whether the write took effect; repeat it with the same request id",
            reason="OUTCOME_UNKNOWN",
        )
    return Unavailable("others changed the same thing each time; try again", reason="CONFLICT")
