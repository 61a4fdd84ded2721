"""The routes, and what every request passes: the host's name, who calls, how much at once, until when."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import orjson
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hanse.apiserver.context import CallContext
from hanse.apiserver.failures import told
from hanse.console.access import COOKIE, TOKEN_CHARS_MAX, Entry
from hanse.console.answers import json_answer, refusal
from hanse.console.assets import PAGE, asset_answer, read_assets
from hanse.console.census import Census
from hanse.console.desk import Desk
from hanse.console.forms import Form
from hanse.console.hub import Hubs
from hanse.console.limits import BODY_BYTES_MAX, BODY_DEADLINE_S, CALL_DEADLINE_S, CALLS_MAX
from hanse.console.reads import Reads
from hanse.console.streams import Watcher, live_answer, log_answer
from hanse.console.writes import Writes, text
from hanse.kit.clock import Clock
from hanse.model.errors import HanseError, InvalidArgument, NotFound, PermissionDenied, ResourceExhausted

log = logging.getLogger(__name__)

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

Read = Callable[[CallContext, Request], Awaitable[Form]]
Write = Callable[[CallContext, Request, Mapping[str, object]], Awaitable[Form]]


class Console:
    """The application; `hubs` are closed by who made it."""

    def __init__(self, desk: Desk, entry: Entry, clock: Clock, nonce: Callable[[], str]) -> None:
        self.hubs = Hubs(desk, nonce)
        self._desk = desk
        self._entry = entry
        self._clock = clock
        self._calls = 0
        self._assets = read_assets()
        reads, writes = Reads(desk, Census(desk, clock), clock), Writes(desk)
        self.app: ASGIApp = _Shell(
            Starlette(
                routes=[
                    Route("/", self._page),
                    Route("/static/{name}", self._asset),
                    Route("/api/login", self._login, methods=["POST"]),
                    Route("/api/logout", self._logout, methods=["POST"]),
                    Route("/api/live", self._live),
                    Route("/api/me", self._reading(reads.me)),
                    Route("/api/shapes", self._reading(reads.shapes)),
                    Route("/api/pools/{pool}", self._reading(reads.pool)),
                    Route("/api/pools/{pool}/racks", self._reading(reads.racks)),
                    Route("/api/pools/{pool}/{order}", self._writing(writes.pool), methods=["POST"]),
                    Route("/api/queues", self._reading(reads.queues)),
                    Route("/api/queues/{queue}", self._reading(reads.queue)),
                    Route("/api/jobs", self._reading(reads.jobs)),
                    Route("/api/find", self._reading(reads.find)),
                    Route("/api/events", self._reading(reads.events)),
                    Route("/api/jobs/{job}", self._reading(reads.job)),
                    Route("/api/jobs/{job}/nodes", self._reading(reads.nodes)),
                    Route("/api/jobs/{job}/explain", self._reading(reads.explain)),
                    Route("/api/jobs/{job}/logs", self._logs),
                    Route("/api/jobs/{job}/{order}", self._writing(writes.job), methods=["POST"]),
                ]
            ),
            entry,
        )

    # ---- files ----------------------------------------------------------------------------------------------

    async def _page(self, request: Request) -> Response:
        return asset_answer(request, self._assets[PAGE])

    async def _asset(self, request: Request) -> Response:
        asset = self._assets.get(request.path_params["name"])
        if asset is None:
            return refusal(NotFound("the console has no such file", reason="FILE_NOT_FOUND"))
        return asset_answer(request, asset)

    # ---- who looks ------------------------------------------------------------------------------------------

    async def _login(self, request: Request) -> Response:
        try:
            self._entry.check_write(request.headers)
            token = text(await _body(request), "token").strip()
            if not token or len(token) > TOKEN_CHARS_MAX or not token.isascii() or not token.isprintable():
                raise InvalidArgument("paste the token that you were given", reason="TOKEN_INVALID", path="token")
            ctx = await self._entry.caller(f"Bearer {token}")
        except Exception as error:
            return refusal(error)
        answer = json_answer(request, {"principal": ctx.principal})
        answer.set_cookie(
            COOKIE,
            token,
            path="/",
            httponly=True,
            samesite="strict",
            secure=self._entry.secure or _over_tls(request),
        )
        return answer

    async def _logout(self, request: Request) -> Response:
        try:
            self._entry.check_write(request.headers)
        except Exception as error:
            return refusal(error)
        answer = json_answer(request, {})
        answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return answer

    # ---- what is asked --------------------------------------------------------------------------------------

    def _reading(self, read: Read) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            async def call(ctx: CallContext) -> Form:
                return await read(ctx, request)

            return await self._answered(request, call)

        return answer

    def _writing(self, write: Write) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            async def call(ctx: CallContext) -> Form:
                self._entry.check_write(request.headers)
                body = await _body(request)
                return await write(ctx, request, body)

            return await self._answered(request, call)

        return answer

    async def _answered(self, request: Request, call: Callable[[CallContext], Awaitable[Form]]) -> Response:
        try:
            ctx = await self._entry.context(request)
            if self._calls >= CALLS_MAX:
                raise ResourceExhausted(f"{CALLS_MAX} requests are in progress; try again", reason="TOO_MANY_CALLS")
            self._calls += 1
            try:
                async with asyncio.timeout(CALL_DEADLINE_S):
                    return json_answer(request, await call(ctx))
            finally:
                self._calls -= 1
        except Exception as error:
            if type(told(error)) is HanseError:
                log.exception("console_call_failed", extra={"path": request.url.path[:200]})
            return refusal(error)

    async def _live(self, request: Request) -> Response:
        try:
            ctx = await self._entry.context(request)
            last = request.headers.get("last-event-id", "") or request.query_params.get("after", "")
            return live_answer(Watcher(self._entry, request, ctx, self._clock), self.hubs, last)
        except Exception as error:
            return refusal(error)

    async def _logs(self, request: Request) -> Response:
        try:
            ctx = await self._entry.context(request)
            return log_answer(Watcher(self._entry, request, ctx, self._clock), request, self._desk, self.hubs)
        except Exception as error:
            return refusal(error)


class _Shell:
    """Around the routes: refuses strange hosts, and puts the headers that keep a browser safe on every answer."""

    def __init__(self, app: ASGIApp, entry: Entry) -> None:
        self._app = app
        self._entry = entry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if self._entry.secure:
                    headers["Strict-Transport-Security"] = "max-age=31536000"
            await send(message)

        app = self._app
        try:
            self._entry.check_host(Headers(scope=scope))
        except PermissionDenied as error:
            app = refusal(error)
        await app(scope, receive, with_headers)


def _over_tls(request: Request) -> bool:
    """Whether the browser speaks TLS, to us or to a proxy before us; a proxy can only make the cookie safer."""
    return request.headers.get("origin", "").startswith("https://")


async def _body(request: Request) -> Mapping[str, object]:
    """The JSON object of a request, {} for none. Raises InvalidArgument."""
    taken = bytearray()
    try:
        async with asyncio.timeout(BODY_DEADLINE_S):
            async for piece in request.stream():
                taken += piece
                if len(taken) > BODY_BYTES_MAX:
                    raise InvalidArgument(f"more than {BODY_BYTES_MAX:,} bytes", reason="BODY_TOO_LONG")
        value = orjson.loads(bytes(taken) or b"{}")
    except (TimeoutError, ClientDisconnect):
        raise InvalidArgument("the request did not come whole", reason="BODY_CUT") from None
    except orjson.JSONDecodeError:
        raise InvalidArgument("the request is no JSON", reason="BODY_INVALID") from None
    if not isinstance(value, dict):
        raise InvalidArgument("the request is no JSON object", reason="BODY_INVALID")
    return value
