"""gRPC in front of the services, and nothing else: contexts in, codes and details out.

One handler for each method is made from the protos' descriptors, so a method is registered because it is declared,
and a service that lacks one fails at start. A failed call carries a `google.rpc.Status` with an ErrorInfo: the
reason, and the field path and line as metadata.

What can be is checked here, before a service sees a call: who calls, whether their rights are enough, how many calls
and streams are in progress, and how long a call may take. Whoever holds a stream open is looked at again and again. A
watcher that is too slow to take what is sent to it is cut off and told to resume.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any, Final, TypeAlias, TypeVar

import grpc
from google.protobuf import any_pb2
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from hanse.apiserver.access.callers import AUTHORIZATION, Callers, unauthenticated
from hanse.apiserver.access.rights import Access
from hanse.apiserver.access.rules import RULES
from hanse.apiserver.audit_calls import AuditedCalls
from hanse.apiserver.context import CallContext
from hanse.apiserver.credentials import UNAUTHENTICATED
from hanse.apiserver.failures import told
from hanse.apiserver.settings import ApiSettings
from hanse.kit.clock import Clock
from hanse.kit.telemetry import metrics
from hanse.kit.trust.shown import Barred, nobody_is_barred, shown_by
from hanse.model.errors import HanseError, ResourceExhausted, Unavailable
from hanse.wire.errors import DOMAIN, code_of
from hanse.wire.errors import UNAUTHENTICATED as UNAUTHENTICATED_CODE

M = TypeVar("M", bound=Message)
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

STATUS_DETAILS_KEY: Final = "grpc-status-details-bin"
DETAIL_CHARS_MAX: Final = 2_048
"""Of the message of an error: it travels in a header, and headers have a limit of their own."""

RIGHTS_LOOK_S: Final = 5.0
"""How often whoever holds a stream open is looked at again: a right that was taken away lasts no longer."""

_TRACEPARENT: Final = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_WORD: Final = re.compile(r"(?<!^)(?=[A-Z])")
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}

log = logging.getLogger(__name__)


class Gate:
    """What every call passes: credentials, limits, deadlines."""

    def __init__(
        self,
        settings: ApiSettings,
        callers: Callers,
        clock: Clock,
        calls: AuditedCalls,
        barred: Barred = nobody_is_barred,
    ) -> None:
        self.clock = clock
        self._settings = settings
        self._callers = callers
        self._barred = barred
        self.calls = calls
        self._calls = 0
        self._streams = 0

    @property
    def write_deadline_s(self) -> float:
        """How long a watcher may take for one response."""
        return self._settings.watch_write_deadline_s

    async def enter(self, context: Context) -> CallContext:
        """Who calls, and with which rights. Raises PermissionDenied."""
        access = await self._access(context)
        left_s = context.time_remaining()
        trace = next(iter(_sent(context, "traceparent")), "")
        return CallContext(
            principal=access.principal,
            access=access,
            peer=context.peer(),
            deadline_s=None if left_s is None or left_s > self._settings.call_deadline_s else max(0.0, left_s),
            trace=trace if _TRACEPARENT.fullmatch(trace) else "",
        )

    async def _access(self, context: Context) -> Access:
        shown = shown_by(context.auth_context()) if self._callers.certificates else None
        if shown is not None and self._barred(shown):
            raise unauthenticated("the certificate is revoked; ask whoever runs the federation for another one")
        return await self._callers.caller(_sent(context, AUTHORIZATION), None if shown is None else shown.identity)

    @asynccontextmanager
    async def kept(self, context: Context, ctx: CallContext) -> AsyncIterator[None]:
        """Ends the block once its caller has not the rights any more with which they came."""
        if self._callers.open:
            yield
            return
        task, lost = asyncio.current_task(), list[HanseError]()
        assert task is not None

        async def look() -> None:
            while not lost:
                await asyncio.sleep(RIGHTS_LOOK_S)
                try:
                    if await self._access(context) != ctx.access:
                        what = "your rights have changed meanwhile; call again"
                        lost.append(Unavailable(what, reason="RIGHTS_CHANGED"))
                except HanseError as error:
                    lost.append(error)
            task.cancel()

        looking = asyncio.create_task(look(), name="api-rights")
        try:
            yield
        except asyncio.CancelledError:
            if not lost or task.uncancel():
                raise
            raise lost[0] from None
        finally:
            looking.cancel()

    def timeout_s(self, ctx: CallContext) -> float:
        """How long a unary call may take."""
        return self._settings.call_deadline_s if ctx.deadline_s is None else ctx.deadline_s

    @contextmanager
    def call(self) -> Iterator[None]:
        """A place for a unary call. Raises ResourceExhausted."""
        if self._calls >= self._settings.calls_max:
            raise ResourceExhausted(
                f"{self._settings.calls_max} calls are in progress; try again in a moment", reason="TOO_MANY_CALLS"
            )
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1

    @contextmanager
    def stream(self) -> Iterator[None]:
        """A place for a stream. Raises ResourceExhausted."""
        if self._streams >= self._settings.streams_max:
            raise ResourceExhausted(
                f"{self._settings.streams_max} streams are open; close some, or ask another replica",
                reason="TOO_MANY_STREAMS",
            )
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1


def _sent(context: Context, name: str) -> list[str]:
    """Every value of a metadata key: who sends two of one shall not choose which is looked at."""
    return [value for key, value in context.invocation_metadata() or () if key == name and isinstance(value, str)]


def handlers(descriptor: ServiceDescriptor, service: object, gate: Gate) -> grpc.GenericRpcHandler:
    """Handlers for every method of a service; `service` has a coroutine or an async generator for each."""
    return grpc.method_handlers_generic_handler(
        descriptor.full_name, {method.name: _handler(method, service, gate) for method in descriptor.methods}
    )


def method_name(name: str) -> str:
    """`SubmitJobs` → `submit_jobs`."""
    return _WORD.sub("_", name).lower()


def _handler(method: MethodDescriptor, service: object, gate: Gate) -> "grpc.RpcMethodHandler[Any, Any]":
    call = getattr(service, method_name(method.name))
    name = f"{method.containing_service.full_name}/{method.name}"
    if name not in RULES:
        raise NotImplementedError(f"{name} is in no table of permissions")
    read = GetMessageClass(method.input_type).FromString
    write = GetMessageClass(method.output_type).SerializeToString
    match method.client_streaming, method.server_streaming:
        case False, False:
            return grpc.unary_unary_rpc_method_handler(_unary(call, gate, name), read, write)
        case False, True:
            return grpc.unary_stream_rpc_method_handler(_streaming(call, gate, name), read, write)
        case True, True:
            return grpc.stream_stream_rpc_method_handler(_streaming(call, gate, name), read, write)
        case _:
            raise NotImplementedError(f"{method.full_name} streams requests only; no method does")


def _unary(
    call: Callable[[CallContext, Message], Awaitable[Message]], gate: Gate, name: str
) -> Callable[[Message, Context], Awaitable[Message]]:
    async def handle(request: Message, context: Context) -> Message:
        begun_s, code = gate.clock.monotonic(), grpc.StatusCode.CANCELLED
        try:
            ctx = await gate.enter(context)
            with gate.call():
                async with asyncio.timeout(gate.timeout_s(ctx)):
                    answer = await gate.calls.ask(name, ctx, request, call)
            code = grpc.StatusCode.OK
            return answer
        except Exception as error:
            code = _CODES[status_of(told(error)).code]
            await _refuse(context, error)
            raise
        finally:
            metrics.RPC_DURATION.record(gate.clock.monotonic() - begun_s, "grpc", name, code.name)

    return handle


def _streaming(
    call: Callable[[CallContext, Any], AsyncIterator[Message]], gate: Gate, name: str
) -> Callable[[Any, Context], Awaitable[None]]:
    async def handle(request: Any, context: Context) -> None:
        try:
            ctx = await gate.enter(context)
            with gate.stream():
                async with (
                    gate.kept(context, ctx),
                    aclosing(gate.calls.follow(name, ctx, request, call)) as responses,  # type: ignore[type-var]
                ):
                    async for response in responses:
                        await _send(context, response, gate.write_deadline_s)
        except Exception as error:
            await _refuse(context, error)

    return handle


async def _send(context: Context, response: Message, deadline_s: float) -> None:
    """Send one response. A status cannot overtake a message that is stuck, so a reader that was too slow is told as
    soon as it reads again; until then it costs one message and a place among the streams."""
    writing = asyncio.ensure_future(context.write(response))
    try:
        done, _ = await asyncio.wait({writing}, timeout=deadline_s)
        await writing
    finally:
        writing.cancel()
    if not done:
        raise ResourceExhausted(
            f"nothing was read for {deadline_s:g} s: read faster, and resume after the last revision seen",
            reason="SLOW_READER",
        )


async def _refuse(context: Context, error: Exception) -> None:
    """End a call with what its caller is told; raises grpc's own error."""
    refused = told(error)
    if type(refused) is HanseError:
        log.error("api_call_failed", exc_info=error, extra={"reason": refused.reason, "peer": context.peer()})
    else:
        level = logging.DEBUG if isinstance(refused, ResourceExhausted) else logging.INFO  # a flood is counted
        said = {"reason": refused.reason, "cause": refused.message, "peer": context.peer()}
        log.log(level, "api_call_refused", extra=said)
    status = status_of(refused)
    metadata = ((STATUS_DETAILS_KEY, status.SerializeToString()),)
    await context.abort(_CODES[status.code], status.message, trailing_metadata=metadata)


def status_of(error: HanseError) -> Any:
    """The google.rpc.Status of an error."""
    info = error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN)
    if error.path:
        info.metadata["path"] = error.path[:DETAIL_CHARS_MAX]
    if error.line:
        info.metadata["line"] = str(error.line)
    detail = any_pb2.Any()
    detail.Pack(info)
    code = UNAUTHENTICATED_CODE if error.reason == UNAUTHENTICATED else code_of(error)
    return status_pb2.Status(code=code, message=error.message[:DETAIL_CHARS_MAX], details=[detail])
