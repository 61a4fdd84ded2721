"""Calls on their way to a service: may the caller, and if it changes something, who did what with which outcome.

Everything that calls a service for somebody comes through here, whatever it came by. Of a request names are kept.
What is refused is kept too, but of one caller no more than so many in a while: whoever is refused again and again
shall not push out of the log what others did. Who they are has been found out before: of strangers nothing is kept.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from hanse.api.v1 import config_service_pb2, job_pb2, job_service_pb2, pool_service_pb2
from hanse.apiserver.access.rules import RULES
from hanse.apiserver.context import CallContext
from hanse.apiserver.failures import told
from hanse.apiserver.ports import AuditLog
from hanse.kit.clock import Clock
from hanse.kit.telemetry import metrics
from hanse.model.audit import TEXT_CHARS_MAX, AuditKind, AuditRecord
from hanse.model.errors import HanseError

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)

OK: Final = "OK"
NAMES_MAX: Final = 64
REFUSALS_MAX: Final = 100
REFUSALS_PER_S: Final = 1.0
CALLERS_KEPT_MAX: Final = 1_000


class AuditedCalls:
    """Makes calls.

    Args:
        log: None: nothing is written down.
    """

    def __init__(self, log: AuditLog | None, clock: Clock) -> None:
        self._log = log
        self._refusals = _Refusals(clock)

    async def ask(self, name: str, ctx: CallContext, request: Q, call: Callable[[CallContext, Q], Awaitable[A]]) -> A:
        """One answer of the method of that name. Raises PermissionDenied, and what the method raises."""
        rule = RULES[name]
        try:
            rule.check(ctx.access)
            answer = await call(ctx, request)
        except Exception as error:
            if rule.writes:
                self._note(name, ctx, request, None, told(error))
            raise
        if rule.writes and not getattr(request, "validate_only", False):
            self._note(name, ctx, request, answer, None)
        return answer

    async def follow(
        self, name: str, ctx: CallContext, request: Any, call: Callable[[CallContext, Any], AsyncIterator[A]]
    ) -> AsyncIterator[A]:
        """Answers as they come. Raises PermissionDenied, and while iterated what the method raises."""
        rule = RULES[name]
        rule.check(ctx.access)
        if not rule.writes:
            async for answer in call(ctx, request):
                yield answer
            return
        first: list[Message] = []
        try:
            async with aclosing(call(ctx, _noticed(request, first))) as answers:  # type: ignore[type-var]
                async for answer in answers:
                    if isinstance(answer, job_service_pb2.SubmitJobsResponse):
                        self._note(name, ctx, answer, answer, None)
                    yield answer
        except Exception as error:
            self._note(name, ctx, first[0] if first else request, None, told(error))
            raise
        if first and isinstance(first[0], job_service_pb2.ExecJobRequest):
            self._note(name, ctx, first[0], None, None)

    def _note(self, name: str, ctx: CallContext, request: Any, answer: object, error: HanseError | None) -> None:
        if self._log is None:
            return
        outcome = OK if error is None else error.default_reason
        if error is not None and not self._refusals.room(ctx.principal):
            metrics.AUDIT_LOST.add(1)
            return
        subject = _subject(request, answer)
        self._log.note(
            AuditRecord(
                AuditKind.CALL,
                ctx.principal,
                name.rpartition("/")[2],
                queue=",".join(_short(subject.queues)),
                jobs=tuple(_short(subject.jobs, most=len(subject.jobs))),
                pool=_cut(subject.pool),
                outcome=outcome,
                reason=error.reason if error is not None else "",
                message=_cut(error.message if error is not None else subject.message),
                request_id=_cut(getattr(request, "request_id", "")),
                address=ctx.peer,
            )
        )


class _Refusals:
    """How many refusals of each caller are still kept: a bucket that fills again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def room(self, principal: str) -> bool:
        """Whether one more is kept."""
        now_s = self._clock.monotonic()
        left, since_s = self._left.get(principal, (float(REFUSALS_MAX), now_s))
        left = min(float(REFUSALS_MAX), left + (now_s - since_s) * REFUSALS_PER_S)
        self._left[principal] = (max(0.0, left - 1.0), now_s)
        self._left.move_to_end(principal)
        while len(self._left) > CALLERS_KEPT_MAX:
            self._left.popitem(last=False)
        return left >= 1.0


class _Subject:
    """What a call is about."""

    def __init__(self) -> None:
        self.queues: list[str] = []
        self.jobs: list[str] = []
        self.pool = ""
        self.message = ""


def _subject(request: Any, answer: object) -> _Subject:
    found = _Subject()
    if isinstance(request, job_service_pb2.SubmitJobsRequest | job_service_pb2.SubmitJobsResponse):
        _submitted(found, request, answer)
    elif isinstance(answer, job_pb2.Job):
        found.queues, found.jobs = [answer.queue], [answer.id]
        found.message = f"again {answer.retry_of}" if answer.retry_of else ""
    elif isinstance(request, job_service_pb2.ExecJobRequest):
        start = request.start
        found.queues, found.jobs = [start.queue] if start.queue else [], [start.job]
        found.message = f"ran {start.command[0]}" if start.command else ""
    elif type(request).DESCRIPTOR.file.name == pool_service_pb2.DESCRIPTOR.name:
        found.pool, found.message = request.name, getattr(request, "reason", "")
    elif isinstance(request, config_service_pb2.ApplyRequest):
        _applied(found, request)
    else:
        _named(found, request)
    return found


def _submitted(found: _Subject, request: Any, answer: object) -> None:
    jobs = answer.jobs if isinstance(answer, job_service_pb2.SubmitJobsResponse) else request.jobs
    found.queues = list(dict.fromkeys(job.queue for job in jobs))
    if isinstance(answer, job_service_pb2.SubmitJobsResponse):
        found.jobs = [job.id for job in answer.jobs if job.id]
        refused = [job for job in answer.jobs if not job.id]
        why = f": {refused[0].error.message}" if refused else answer.error.message
        found.message = f"{len(refused)} of {len(answer.jobs)} jobs refused{why}" if refused else why


def _applied(found: _Subject, request: config_service_pb2.ApplyRequest) -> None:
    named = [(one.WhichOneof("object") or "", one) for one in request.objects]
    names = [f"{word} {getattr(one, word).name}" for word, one in named if word]
    found.queues = [one.queue.name for word, one in named if word == "queue"]
    found.message = ", ".join(_short(names))


def _named(found: _Subject, request: Any) -> None:
    """What is left has a name, or an object that has one."""
    fields = type(request).DESCRIPTOR.fields_by_name
    if "job" in fields:
        found.jobs, found.queues = [request.job], [request.queue] if request.queue else []
        return
    word = next((name for name in ("queue", "flavor", "priority_class", "cohort") if name in fields), "")
    name = getattr(request, word).name if word else getattr(request, "name", "")
    if "Queue" in type(request).__name__:
        found.queues = [name]
        return
    found.pool = getattr(request, "pool", "")
    said = (getattr(request, word, "") for word in ("identity", "serial", "id", "reason"))
    found.message = " ".join(text for text in (name, *said) if text)


def _short(names: Iterable[str], *, most: int = NAMES_MAX) -> list[str]:
    """Names, cut and on one line; so many at most."""
    return [_cut(name) for name in list(names)[:most] if name]


def _cut(text: str) -> str:
    return "".join(c if c.isprintable() else "�" for c in text[:TEXT_CHARS_MAX])


def _noticed(requests: Any, first: list[Message]) -> Any:
    """The requests of a stream, of which the first is noticed; a single request is itself."""
    if isinstance(requests, Message):
        first.append(requests)
        return requests

    async def passed() -> AsyncIterator[Message]:
        async for request in requests:
            if not first:
                first.append(request)
            yield request

    return passed()
