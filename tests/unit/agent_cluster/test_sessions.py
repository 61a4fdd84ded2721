"""Sessions with commands, as API servers hold them: channels, exit codes, and how they break."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from hanse.agent.cluster.kubernetes.api import CHANNELS, Api, Kubeconfig
from hanse.agent.cluster.kubernetes.objects import Meta
from hanse.agent.cluster.kubernetes.sessions import run
from hanse.agent.cluster.port import ClusterUnavailable, ExecInput, ExecOutput
from hanse.model.errors import FailedPrecondition, NotFound

POD = Meta(name="p0", namespace="jobs")
DONE = b"\x03" + json.dumps({"status": "Success"}).encode()
FAILED = {
    "status": "Failure",
    "reason": "NonZeroExitCode",
    "message": "command terminated with non-zero exit code",
    "details": {"causes": [{"reason": "ExitCode", "message": "42"}]},
}
Play = Callable[[web.WebSocketResponse], Awaitable[object]]


@asynccontextmanager
async def serving(
    folder: Path, play: Play, *, protocol: str = CHANNELS[0], status: int = 0
) -> AsyncIterator[tuple[Api, list[web.Request]]]:
    """A client of a server that plays one session, or refuses it with a status."""
    asked: list[web.Request] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        asked.append(request)
        if status:
            return web.Response(status=status, text="no")
        socket = web.WebSocketResponse(protocols=(protocol,))
        await socket.prepare(request)
        await play(socket)
        await socket.close()
        return socket

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    config = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (folder / "kubeconfig").write_text(json.dumps(config))
    api = Api(Kubeconfig(folder / "kubeconfig"))
    try:
        yield api, asked
    finally:
        await api.close()
        await runner.cleanup()


async def outputs(api: Api, *command: str, stdin: AsyncIterator[ExecInput] | None = None) -> list[ExecOutput]:
    async with asyncio.timeout(10):
        return [out async for out in run(api, POD, "main", command, stdin=stdin, tty=False)]


async def typed(*values: ExecInput) -> AsyncIterator[ExecInput]:
    for value in values:
        yield value


async def test_what_a_command_writes_and_how_it_ends(tmp_path: Path) -> None:
    async def play(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\x01out")
        await socket.send_bytes(b"\x02err")
        await socket.send_bytes(b"\x03" + json.dumps(FAILED).encode())

    async with serving(tmp_path, play) as (api, asked):
        found = await outputs(api, "ls", "-l")
    assert found == [ExecOutput(), ExecOutput(stdout=b"out"), ExecOutput(stderr=b"err"), ExecOutput(exit_code=42)]
    (request,) = asked
    assert request.path == "/api/v1/namespaces/jobs/pods/p0/exec"
    assert request.query.getall("command") == ["ls", "-l"]
    assert (request.query["container"], request.headers["Authorization"]) == ("main", "Bearer secret")
    assert "stdin" not in request.query


@pytest.mark.parametrize("protocol", CHANNELS)
async def test_what_it_reads_and_the_end_of_that_where_it_can_be_told(tmp_path: Path, protocol: str) -> None:
    heard: list[bytes] = []

    async def play(socket: web.WebSocketResponse) -> None:
        wanted = 3 if protocol == CHANNELS[0] else 2
        while len(heard) < wanted:
            heard.append(await socket.receive_bytes())
        await socket.send_bytes(DONE)

    stdin = typed(ExecInput(b"abc", rows=24, columns=80), ExecInput(end=True))
    async with serving(tmp_path, play, protocol=protocol) as (api, _):
        assert (await outputs(api, "cat", stdin=stdin))[-1] == ExecOutput(exit_code=0)
    assert heard[:2] == [b'\x04{"Width": 80, "Height": 24}', b"\x00abc"]
    assert heard[2:] == ([b"\xff\x00"] if protocol == CHANNELS[0] else [])


async def test_a_session_that_breaks_off_is_no_exit(tmp_path: Path) -> None:
    async with serving(tmp_path, lambda socket: socket.send_bytes(b"\x01half")) as (api, _):
        with pytest.raises(ClusterUnavailable, match="may run on"):
            await outputs(api, "ls")


async def test_a_command_that_cannot_be_run_says_why(tmp_path: Path) -> None:
    said = {"status": "Failure", "message": 'exec: "ls": executable file not found'}
    async with serving(tmp_path, lambda s: s.send_bytes(b"\x03" + json.dumps(said).encode())) as (api, _):
        with pytest.raises(FailedPrecondition, match="executable file not found"):
            await outputs(api, "ls")


@pytest.mark.parametrize(
    ("status", "kind"),
    [(404, NotFound), (403, FailedPrecondition), (400, FailedPrecondition), (502, ClusterUnavailable)],
)
async def test_a_session_that_is_refused(tmp_path: Path, status: int, kind: type[Exception]) -> None:
    async with serving(tmp_path, lambda s: s.close(), status=status) as (api, _):
        with pytest.raises(kind):
            await outputs(api, "ls")
