"""One connection to one server: deadlines, bounded retries with jitter, errors in our own words.

Everything is repeated on the same terms: a read because it is harmless, a write because it carries a request id. Only
`Unavailable` is repeated; every other error is an answer. A caller that gave up its time gets the last error.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

import grpc

from hanse.client.failures import error_from_call
from hanse.client.tokens import check_secret
from hanse.kit.tls import TlsFiles
from hanse.kit.tls import channel as opened
from hanse.model.errors import HanseError, Unavailable

Request = TypeVar("Request")
Response = TypeVar("Response")

DEADLINE_S: Final = 30.0
CONNECT_DEADLINE_S: Final = 5.0
TRIES_MAX: Final = 4
BACKOFF_FIRST_S: Final = 0.1
BACKOFF_MAX_S: Final = 2.0
MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
KEEPALIVE_S: Final = 30
KEEPALIVE_TIMEOUT_S: Final = 10
REQUEST_ID_BITS: Final = 128

UnaryCall: TypeAlias = grpc.aio.UnaryUnaryMultiCallable[Request, Response]
StreamCall: TypeAlias = grpc.aio.UnaryStreamMultiCallable[Request, Response]

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", int(CONNECT_DEADLINE_S * 1000)),
    ("grpc.max_reconnect_backoff_ms", int(BACKOFF_MAX_S * 1000)),
    ("grpc.keepalive_time_ms", KEEPALIVE_S * 1000),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_S * 1000),
    ("grpc.enable_retries", 0),
)


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms calls are made.

    Attributes:
        deadline_s: of a whole call with all its repetitions, unless the call says otherwise.
        tries_max: how often a call that found nobody is made in all.
    """

    deadline_s: float = DEADLINE_S
    tries_max: int = TRIES_MAX


class Connection:
    """A channel to one server, opened by the first call."""

    def __init__(
        self, server: str, *, token: Callable[[], str], terms: Terms, rng: random.Random, tls: TlsFiles | None = None
    ) -> None:
        self.server = server
        self._tls = tls
        self.terms = terms
        self._rng = rng
        self._token = token
        self._channel: grpc.aio.Channel | None = None

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Of every call: the token as it is now. Raises InvalidArgument: it cannot be read, or may not be sent."""
        token = self._token()
        check_secret(self.server, token, self._tls)
        return (("authorization", f"Bearer {token}"),) if token else ()

    @property
    def channel(self) -> grpc.aio.Channel:
        if self._channel is None:
            self._channel = opened(self.server, self._tls, _OPTIONS)
        return self._channel

    async def close(self) -> None:
        """Close the channel; the next call opens a new one."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    def request_id(self, given: str) -> str:
        """The id that was given, or a new one: every write can then be repeated."""
        return given or f"{self._rng.getrandbits(REQUEST_ID_BITS):032x}"

    async def unary(
        self, method: UnaryCall[Request, Response], request: Request, *, deadline_s: float | None = None
    ) -> Response:
        """Call, and repeat while nobody answers.

        Raises:
            HanseError: the server's refusal, or Unavailable.
        """
        return await self.repeated(lambda left_s: self._once(method, request, left_s), deadline_s=deadline_s)

    async def repeated(
        self, call: Callable[[float], Awaitable[Response]], *, deadline_s: float | None = None
    ) -> Response:
        """Make a call that is given the seconds that are left; repeat it on Unavailable."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + (self.terms.deadline_s if deadline_s is None else deadline_s)
        for tried in range(1, self.terms.tries_max + 1):
            try:
                return await call(max(0.0, ends - loop.time()))
            except Unavailable:
                pause_s = self.pause_s(tried)
                if tried == self.terms.tries_max or loop.time() + pause_s >= ends:
                    raise
                await asyncio.sleep(pause_s)
        raise AssertionError("tries_max is at least 1")

    def pause_s(self, tried: int) -> float:
        """How long to wait after that many tries: doubling, bounded, with jitter so that clients spread out."""
        longest = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * float(2 ** min(tried, 16)))
        return longest * self._rng.uniform(0.5, 1.0)

    async def stream(self, method: StreamCall[Request, Response], request: Request) -> AsyncIterator[Response]:
        """One stream of answers, without a deadline of its own and never repeated: the caller knows how to resume."""
        try:
            async for response in method(request, timeout=None, metadata=self.metadata):
                yield response
        except grpc.aio.AioRpcError as error:
            raise self.error(error) from None

    async def _once(self, method: UnaryCall[Request, Response], request: Request, left_s: float) -> Response:
        try:
            return await method(request, timeout=left_s, metadata=self.metadata)
        except grpc.aio.AioRpcError as error:
            raise self.error(error) from None

    def error(self, error: grpc.aio.AioRpcError) -> HanseError:
        """What a failed call means."""
        connected = self.channel.get_state() is grpc.ChannelConnectivity.READY
        return error_from_call(error, server=self.server, connected=connected)
