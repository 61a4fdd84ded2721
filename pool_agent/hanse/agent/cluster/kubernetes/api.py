"""Requests to a Kubernetes API server: raw bodies in and out, a deadline on each, and the port's errors.

The one module that knows the client library. It is used for what it is good at, kubeconfigs and credentials of every
kind and the connection pool; its model objects are not (see `objects`).

What a request ends as:

* an answer,
* `Refused`: the server has read it and says no; nothing of it is in effect,
* `ClusterUnavailable`: nobody knows. Deadlines, broken connections and answers that cannot be read are that, and so
  is a server error (5xx), which may come from a proxy in front of a server that has done it.

Whether a repetition is harmless is for the caller to know, so requests are repeated here only if the server has not
looked at them: it did not let us in (401), or we did not trust it, and the credentials were read anew since; or it
was too busy (429), and the pause that it asked for is over before the deadline is.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
from kubernetes.aio import client, config

from hanse.agent.cluster.kubernetes.objects import REFUSAL, Body, Refusal
from hanse.agent.cluster.port import ClusterUnavailable

REQUEST_DEADLINE_S: Final = 5.0
PING_S: Final = 20.0
"""Of sessions: one whose other end is gone is noticed after that."""

CHANNELS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
"""What sessions speak; the first one, since Kubernetes 1.30, can close standard input alone."""

LIST_DEADLINE_S: Final = 8.0
CONNECT_DEADLINE_S: Final = 3.0
LEAST_DEADLINE_S: Final = 0.1
CREDENTIALS_DEADLINE_S: Final = 10.0
CONNECTIONS_MAX: Final = 100
RELOAD_EVERY_S: Final = 5.0
BUSY_S: Final = 1.0
"""Pause before a busy server is asked again, if it does not say how long."""

BUSY_TRIES_MAX: Final = 4
BODY_BYTES_MAX: Final = 512 << 20
USER_AGENT: Final = "hanse-agent"

MERGE: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
_PLAIN: Final = "application/json"
_AS_IT_IS: Final = "identity"
"""Packing lists costs the server more than carrying them to an agent that is near it."""

_BRIEF: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

UNAUTHORIZED: Final = 401
NOT_FOUND: Final = 404
CONFLICT: Final = 409
GONE: Final = 410
TOO_MANY_REQUESTS: Final = 429
REFUSED_FROM: Final = 400
SERVER_ERROR: Final = 500

Query = Mapping[str, str]
NO_QUERY: Final[Query] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """Credentials as `kubectl` uses them; context "" is the file's current one."""

    path: Path
    context: str = ""

    def __str__(self) -> str:
        return f"{self.path}#{self.context}" if self.context else str(self.path)


@dataclass(frozen=True, slots=True)
class InCluster:
    """Credentials of the pod in which this process runs."""

    def __str__(self) -> str:
        return "this pod's own cluster"


Access = Kubeconfig | InCluster


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    query: Query = field(default_factory=lambda: NO_QUERY)
    body: Body | list[Body] | None = None
    form: str = _PLAIN
    brief: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Refused(Exception):
    """The server refuses a request.

    Attributes:
        code: HTTP status.
        reason: the API's word for it (`AlreadyExists`, `Expired`), "" if it gave none.
        retry_after_s: when to come again, 0 if it did not say.
    """

    def __init__(self, code: int, reason: str, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message or reason or f"HTTP {code}")
        self.code = code
        self.reason = reason
        self.retry_after_s = retry_after_s


class Api:
    """Requests to one API server. Connects when it is first used; needs a running event loop from then on."""

    def __init__(
        self,
        access: Access,
        *,
        reload_every_s: float = RELOAD_EVERY_S,
        credentials_deadline_s: float = CREDENTIALS_DEADLINE_S,
    ) -> None:
        self._access = access
        self._reload_every_s = reload_every_s
        self._credentials_deadline_s = credentials_deadline_s
        self._client: client.ApiClient | None = None
        self._connecting = asyncio.Lock()
        self._connected_s = 0.0

    async def close(self) -> None:
        """Let connections go; requests under way end with ClusterUnavailable."""
        found, self._client = self._client, None
        if found is not None:
            await found.close()

    # ---- requests -----------------------------------------------------------------------------------------

    async def get(
        self, path: str, query: Query = NO_QUERY, *, deadline_s: float = REQUEST_DEADLINE_S, brief: bool = False
    ) -> bytes:
        """Read an object or a page of a list. `brief`: the metadata of an object alone."""
        return await self._whole(_Request("GET", path, query, brief=brief), deadline_s)

    async def post(self, path: str, body: Body, *, trial: bool = False) -> bytes:
        """Create an object. `trial`: only say whether that would be done."""
        query: Query = {"dryRun": "All"} if trial else NO_QUERY
        return await self._whole(_Request("POST", path, query, body=body))

    async def patch(self, path: str, body: Body | list[Body], *, form: str = MERGE, brief: bool = False) -> bytes:
        """Change an object; `form` is MERGE or JSON_PATCH. `brief`: answer with its metadata alone."""
        return await self._whole(_Request("PATCH", path, body=body, form=form, brief=brief))

    async def delete(self, path: str, body: Body) -> bytes:
        """Delete an object; the body holds preconditions and the grace."""
        return await self._whole(_Request("DELETE", path, body=body))

    async def stream(self, path: str, query: Query, *, silence_s: float) -> AsyncGenerator[bytes, None]:
        """An answer that goes on, in pieces as they arrive; it ends when the server ends it.

        Raises:
            Refused, ClusterUnavailable: also when nothing came for `silence_s`.
        """
        request = _Request("GET", path, query)
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_DEADLINE_S, sock_read=silence_s)
        with self._transport(request):
            response = await self._send(request, limits)
            try:
                if response.status >= REFUSED_FROM:
                    _refuse(response, await response.read())
                async for piece in response.content.iter_any():
                    yield piece
            finally:
                response.close()

    @asynccontextmanager
    async def socket(self, path: str, query: Sequence[tuple[str, str]]) -> AsyncIterator["Socket"]:
        """A session of one of CHANNELS, which ends with the block.

        Raises:
            Refused, ClusterUnavailable
        """
        request = _Request("GET", path)
        with self._transport(request):
            socket = await self._upgraded(request, query)
            try:
                yield Socket(socket)
            finally:
                await socket.close()

    async def _upgraded(
        self, request: "_Request", query: Sequence[tuple[str, str]]
    ) -> aiohttp.ClientWebSocketResponse:
        try:
            return await self._upgraded_once(request, query)
        except aiohttp.WSServerHandshakeError as error:
            if error.status != UNAUTHORIZED or not await self._reconnect():
                raise _no_socket(error) from None
        try:
            return await self._upgraded_once(request, query)
        except aiohttp.WSServerHandshakeError as error:
            raise _no_socket(error) from None

    async def _upgraded_once(
        self, request: "_Request", query: Sequence[tuple[str, str]]
    ) -> aiohttp.ClientWebSocketResponse:
        api = self._client or await self._connect()
        headers = {"User-Agent": USER_AGENT}
        async with self._credentials():
            await api.update_params_for_auth(headers, [], ["BearerToken"], request.path, request.method, None)
        url = api.configuration.host.replace("http", "ws", 1) + request.path
        async with asyncio.timeout(REQUEST_DEADLINE_S):
            return await _session(api).ws_connect(
                f"{url}?{urlencode(query)}",
                headers=headers,
                protocols=CHANNELS,
                heartbeat=PING_S,
                autoping=True,
                proxy=api.configuration.proxy,
            )

    async def _whole(self, request: "_Request", deadline_s: float = REQUEST_DEADLINE_S) -> bytes:
        now_s = asyncio.get_running_loop().time
        ends_s, busy = now_s() + deadline_s, 0
        while True:
            try:
                return await self._whole_once(request, max(LEAST_DEADLINE_S, ends_s - now_s()))
            except Refused as refused:
                pause_s, busy = refused.retry_after_s or BUSY_S, busy + 1
                if refused.code != TOO_MANY_REQUESTS or busy == BUSY_TRIES_MAX or now_s() + pause_s >= ends_s:
                    raise
            await asyncio.sleep(pause_s)

    async def _whole_once(self, request: "_Request", deadline_s: float) -> bytes:
        limits = aiohttp.ClientTimeout(total=deadline_s, sock_connect=CONNECT_DEADLINE_S)
        with self._transport(request):
            response = await self._send(request, limits)
            try:
                data: bytes = await response.read()
            finally:
                response.release()
            if response.status >= REFUSED_FROM:
                _refuse(response, data)
            return data

    async def _send(self, request: "_Request", limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        try:
            response = await self._send_once(request, limits)
        except aiohttp.ClientSSLError:
            if not await self._reconnect():
                raise
        else:
            if response.status != UNAUTHORIZED or not await self._reconnect():
                return response
            response.close()
        return await self._send_once(request, limits)

    async def _send_once(self, request: "_Request", limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        api = self._client or await self._connect()
        headers = {
            "User-Agent": USER_AGENT,
            "Accept": _BRIEF if request.brief else _PLAIN,
            "Accept-Encoding": _AS_IT_IS,
            "Content-Type": request.form,
        }
        async with self._credentials():
            await api.update_params_for_auth(headers, [], ["BearerToken"], request.path, request.method, request.body)
        url = api.configuration.host + request.path
        try:
            return await _session(api).request(
                request.method,
                f"{url}?{urlencode(request.query)}" if request.query else url,
                headers=headers,
                data=None if request.body is None else msgspec.json.encode(request.body),
                timeout=limits,
                proxy=api.configuration.proxy,
                proxy_headers=api.configuration.proxy_headers,
            )
        except (RuntimeError, AssertionError) as error:  # so it says that `close` came between, or new credentials
            raise aiohttp.ClientConnectionError(str(error) or "the connections were closed") from error

    # ---- credentials --------------------------------------------------------------------------------------

    async def _connect(self) -> client.ApiClient:
        async with self._connecting:
            if self._client is None:
                self._client = await self._open()
                self._connected_s = asyncio.get_running_loop().time()
            return self._client

    async def _reconnect(self) -> bool:
        """Read the credentials anew, as they may have changed; not for every request that is turned away."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._connected_s < self._reload_every_s:
            return False
        async with self._connecting:
            if now_s < self._connected_s:
                return True
            stale, self._client = self._client, await self._open()
            self._connected_s = asyncio.get_running_loop().time()
        if stale is not None:
            await stale.close()
        return True

    async def _open(self) -> client.ApiClient:
        async with self._credentials():
            return client.ApiClient(await _configuration(self._access))

    @asynccontextmanager
    async def _credentials(self) -> AsyncIterator[None]:
        """What reading them ends with, as the port's error. Files that are being rewritten and plugins that break
        fail in as many ways as there are parsers, and none of them may end the agent."""
        try:
            async with asyncio.timeout(self._credentials_deadline_s):
                yield
        except Exception as error:
            said = " ".join(str(error).split()) or type(error).__name__
            raise ClusterUnavailable(f"{self._access}: the credentials cannot be read: {said}") from error

    @contextmanager
    def _transport(self, what: "_Request") -> Iterator[None]:
        """What the transport says, as the port's error."""
        try:
            yield
        except TimeoutError as error:
            raise ClusterUnavailable(f"{self._access}: {what} was not answered in time") from error
        except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
            said = " ".join(str(error).split()) or type(error).__name__
            raise ClusterUnavailable(f"{self._access}: {what}: {said}") from error


def _session(api: client.ApiClient) -> aiohttp.ClientSession:
    """The library's connections, without what it does to each request."""
    rest = api.rest_client
    if rest.pool_manager is None:
        rest.pool_manager = rest._create_pool_manager()
    session: aiohttp.ClientSession = rest.pool_manager
    return session


async def _configuration(access: Access) -> client.Configuration:
    made = client.Configuration()
    made.connection_pool_maxsize = CONNECTIONS_MAX
    match access:
        case InCluster():
            config.load_incluster_config(client_configuration=made)
        case Kubeconfig(path, context):
            loader = await config.load_kube_config(
                config_file=str(path), context=context or None, client_configuration=made, persist_config=False
            )
            made.refresh_api_key_hook = _exec_refresher(loader)
    # Else the environment and ~/.netrc are looked through in a thread of their own, twice for every request.
    made.client_session_kwargs = {"trust_env": False}
    made.proxy = made.proxy or _proxy_to(made.host)
    return made


def _proxy_to(url: str) -> str | None:
    """The proxy that the environment has for a server; None if it is reached without."""
    server = urlsplit(url)
    if not server.hostname or proxy_bypass(server.hostname):
        return None
    return getproxies().get(server.scheme)


def _exec_refresher(loader: Any) -> Any:
    """Asks an exec plugin for a new token once the old one is about to expire; the library does that only once."""
    asking = asyncio.Lock()

    async def refresh(made: client.Configuration) -> None:
        if hasattr(loader, "exec_plugin_expiry"):
            async with asking:
                await loader.load_from_exec_plugin()
            made.api_key["BearerToken"] = loader.token

    return refresh


def _no_socket(error: aiohttp.WSServerHandshakeError) -> Exception:
    """What an answer means that is no session; a server error here is that of the kubelet or its proxy."""
    if error.status < REFUSED_FROM:
        return ClusterUnavailable(f"the API server answered {error.status}, and opened no session")
    return Refused(error.status, "", f"the API server answered {error.status}: {error.message}")


class Socket:
    """Frames of one session, each with the number of its channel in front."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    @property
    def closes_channels(self) -> bool:
        """Whether one channel can be closed, and the others stay open."""
        return self._socket.protocol == CHANNELS[0]

    async def receive(self) -> bytes | None:
        """The next frame; None when the session is over. Nothing is read from the network that nobody takes."""
        while True:
            message = await self._socket.receive()
            if message.type is aiohttp.WSMsgType.BINARY:
                return bytes(message.data)
            if message.type is aiohttp.WSMsgType.TEXT:
                return str(message.data).encode()
            if message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.CLOSED):
                return None
            if message.type is aiohttp.WSMsgType.ERROR:
                raise aiohttp.ClientConnectionError(str(message.data) or "the session broke")

    async def send(self, frame: bytes) -> None:
        """Send one; waits while the other end does not read."""
        await self._socket.send_bytes(frame)


def _refuse(response: aiohttp.ClientResponse, data: bytes) -> None:
    """Raise what a status of 400 and above means."""
    try:
        said = REFUSAL.decode(data)
    except (msgspec.DecodeError, ValueError):
        said = Refusal(message=data[:200].decode(errors="replace"))
    message = " ".join(said.message.split())
    if response.status >= SERVER_ERROR:
        raise ClusterUnavailable(f"the API server answered {response.status}: {message or response.reason}")
    after = response.headers.get("Retry-After", "")
    raise Refused(response.status, said.reason, message, float(after) if after.isdecimal() else 0.0)
