"""The console's answers over a real socket: what it serves, whom it lets in, and what it does not put up with."""

import asyncio
import socket
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from hanse.apiserver.access.callers import Callers
from hanse.apiserver.access.policy import TRUSTING, Binding, Policy
from hanse.apiserver.access.verbs import Role
from hanse.apiserver.credentials import Credentials, parse_tokens
from hanse.console import http_server, streams
from hanse.console.limits import BODY_BYTES_MAX, HEAD_BYTES_MAX, STREAMS_PER_CALLER_MAX
from hanse.console.serving import console
from hanse.kit.clock import SystemClock
from hanse.model.audit import AuditPage, AuditQuery, AuditRecord
from hanse.model.errors import FailedPrecondition, InvalidArgument, Unavailable
from hanse.model.ids import PoolName
from tests.arch.tree import ROOT
from tests.integration.console.http import PATIENCE_S, served
from tests.unit.apiserver.stage import WrittenDetails, batch, pool, spec, stage
from tests.unit.apiserver.test_pools import join

TOKEN = "0123456789abcdef0123"
TOKENS = parse_tokens(f"ann {TOKEN}\n")
STATIC = ROOT / "api/hanse/console/static"


def known_by(credentials: Credentials) -> Callers:
    """Whoever these know may do everything."""
    return Callers(lambda: credentials, lambda: TRUSTING)


# ---- the page -----------------------------------------------------------------------------------------------


async def test_every_file_of_the_page_comes_from_here_and_says_how_it_may_be_used() -> None:
    async with served() as page:
        for path in ["/", *(f"/static/{file.name}" for file in STATIC.iterdir())]:
            answer = await page.ask(path)
            assert answer.status == 200, path
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "http" not in policy
            assert answer.headers["x-frame-options"] == "DENY"
            assert answer.headers["x-content-type-options"] == "nosniff"
            again = await page.ask(path, headers={"If-None-Match": answer.headers["etag"]})
            assert (again.status, again.body) == (304, b"")


def test_no_file_of_the_page_names_another_place_or_writes_markup() -> None:
    for file in STATIC.iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        for word in (
            "http://",
            "https://",
            "innerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            ' style="',
            'onclick="',
        ):
            assert word not in text, f"{file.name}: {word}"


async def test_what_is_not_there_is_404_and_a_path_leads_nowhere_else() -> None:
    async with served() as page:
        for path in ("/nothing", "/static/x.js", "/static/../app.py", "/static/%2e%2e%2fapp.py", "/static/"):
            assert (await page.ask(path)).status in (404, 405), path


async def test_answers_are_kept_by_nobody_and_compressed_if_they_are_long() -> None:
    async with served(pool("oslo", 2, 2)) as page:
        plain = await page.ask("/api/queues")
        packed = await page.ask("/api/jobs", headers={"Accept-Encoding": "gzip"})
        assert plain.headers["cache-control"] == packed.headers["cache-control"] == "no-store"
        for i in range(30):
            await page.on.submit(batch(spec(f"job-{i:02d}"), request_id=f"r{i}"))
        packed = await page.ask("/api/jobs", headers={"Accept-Encoding": "gzip"})
        assert packed.headers["content-encoding"] == "gzip"
        assert len(packed.json["rows"]) == 30


# ---- who gets in ---------------------------------------------------------------------------------------------


async def test_a_name_that_was_made_to_lead_to_the_loopback_does_not_get_in() -> None:
    async with served() as page:
        for path in ("/", "/api/me", "/api/live"):
            answer = await page.ask(path, headers={"Host": "evil.example"})
            assert (answer.status, answer.reason) == (403, "HOST")
            assert "content-security-policy" in answer.headers


async def test_without_a_token_nothing_is_told_where_tokens_are_asked_for() -> None:
    paths = ("me", "queues", "jobs", "shapes?pools=oslo", "pools/oslo", "events", "find?prefix=a", "jobs/x", "live")
    async with served(pool("oslo", 1, 1), tokens=TOKENS) as page:
        for path in (*paths, "jobs/x/nodes", "jobs/x/explain", "jobs/x/logs"):
            answer = await page.ask(f"/api/{path}")
            assert (answer.status, answer.reason) == (401, "UNAUTHENTICATED"), path
            assert b"oslo" not in answer.body
        refused = await page.order("/api/pools/oslo/cordon", {})
        assert refused.status == 401
        page.cookies["hanse-console"] = TOKEN[::-1]
        assert (await page.ask("/api/me")).status == 401


async def test_a_token_is_shown_once_and_kept_where_scripts_cannot_read_it() -> None:
    async with served(tokens=TOKENS) as page:
        wrong = await page.order("/api/login", {"token": "x" * 20})
        assert (wrong.status, "set-cookie" in wrong.headers) == (401, False)
        right = await page.order("/api/login", {"token": f" {TOKEN} "})
        cookie = right.headers["set-cookie"]
        assert right.json == {"principal": "ann"}
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert "Path=/" in cookie
        assert "Expires" not in cookie
        assert "Max-Age" not in cookie
        page.cookies["hanse-console"] = TOKEN
        assert (await page.ask("/api/me")).json["principal"] == "ann"
        out = await page.order("/api/logout", {})
        assert "Max-Age=0" in out.headers["set-cookie"]


@pytest.mark.parametrize("token", ["", "a b\r\nSet-Cookie: x=y", "ä" * 20, "x" * 5_000, 7])
async def test_a_token_that_can_be_none_is_refused(token: object) -> None:
    async with served(tokens=TOKENS) as page:
        answer = await page.order("/api/login", {"token": token})
        assert (answer.status, "set-cookie" in answer.headers) == (400, False)


async def test_behind_tls_the_cookie_never_travels_in_clear() -> None:
    async with served(tokens=TOKENS) as page:
        headers = {"Origin": "https://console.example", "Host": "console.example"}
        refused = await page.order("/api/login", {"token": TOKEN}, headers)
        assert refused.reason == "HOST"  # it listens on the loopback
        port = page.place[1]
        local = {"Origin": f"https://localhost:{port}", "Host": f"localhost:{port}"}
        assert "Secure" in (await page.order("/api/login", {"token": TOKEN}, local)).headers["set-cookie"]


async def test_beyond_the_loopback_it_does_not_start_without_tokens() -> None:
    async with stage() as on:
        for credentials, listen, error in (
            (Credentials(), "0.0.0.0:0", FailedPrecondition),
            (Credentials(certificates=True), "127.0.0.1:0", FailedPrecondition),
            (Credentials(), "7310", InvalidArgument),
        ):
            start = console(
                on.api,
                listen=listen,
                callers=known_by(credentials),
                tls=None,
                clock=SystemClock(),
                rng=None,  # type: ignore[arg-type]
            )
            with pytest.raises(error):
                async with start:
                    pass


async def test_an_address_that_is_taken_is_named() -> None:
    async with served() as page:
        start = console(
            page.on.api,
            listen=f"127.0.0.1:{page.place[1]}",
            callers=known_by(Credentials()),
            tls=None,
            clock=SystemClock(),
            rng=None,  # type: ignore[arg-type]
        )
        with pytest.raises(Unavailable, match="cannot listen"):
            async with start:
                pass


VIEWER = Binding(Role.VIEWER, frozenset({"ann"}), frozenset(), queues=("vision",))
ADMIN = Binding(Role.ADMIN, frozenset({"ann"}), frozenset(), cluster=True)


async def test_a_tenant_sees_their_own_queue_and_nothing_of_others() -> None:
    async with served(pool("oslo", 2, 2), tokens=TOKENS, policy=Policy((VIEWER,))) as page:
        sent = await page.on.submit(batch(spec("secret-plan")))
        job = sent.jobs[0].id
        page.cookies["hanse-console"] = TOKEN
        me = (await page.ask("/api/me")).json
        assert (me["principal"], me["may"]) == ("ann", {"operate": False, "change": False})
        assert (await page.ask("/api/queues")).json["queues"] == []
        assert (await page.ask("/api/jobs")).json["rows"] == []
        assert (await page.ask("/api/find?prefix=secret")).json["rows"] == []
        for path in (
            f"jobs/{job}",
            f"jobs/{job}/explain",
            f"jobs/{job}/nodes",
            "queues/research",
            "jobs/secret-plan",
        ):
            answer = await page.ask(f"/api/{path}")
            assert answer.status == 404, path
            assert b"secret-plan" not in answer.body or "secret-plan" in path
        assert (await page.ask("/api/pools/oslo/racks")).status == 403
        assert (await page.ask("/api/shapes?pools=oslo&racks=1")).json["racks"] == {}
        assert (await page.order(f"/api/jobs/{job}/cancel", {})).status == 403
        assert (await page.order("/api/pools/oslo/cordon", {})).status == 403


async def test_a_stream_ends_when_its_reader_has_lost_their_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "RIGHTS_LOOK_S", 0.05)
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(streams, "FRAME_INTERVAL_S", 0.01)
    now = [Policy((ADMIN,))]
    async with served(pool("oslo", 1, 1), tokens=TOKENS, policies=lambda: now[0]) as page:
        page.cookies["hanse-console"] = TOKEN
        async with page.stream("/api/live") as events:
            assert (await anext(events))[1] == "frame"
            now[0] = Policy((VIEWER,))
            async with asyncio.timeout(PATIENCE_S):
                told = [(name, value) async for _, name, value in events if name != "beat"]
        assert told[-1][0] == "refused"
        assert told[-1][1]["error"]["reason"] == "RIGHTS_CHANGED"


# ---- changes -------------------------------------------------------------------------------------------------


async def test_a_change_that_another_site_could_send_is_refused() -> None:
    async with served(pool("oslo", 1, 1)) as page:
        await join(page.on)
        host = f"127.0.0.1:{page.place[1]}"
        for headers in (
            {},
            {"X-Hanse-Console": "1", "Origin": "http://evil.example"},
            {"X-Hanse-Console": "1", "Sec-Fetch-Site": "cross-site"},
        ):
            answer = await page.ask("/api/pools/oslo/cordon", method="POST", body={}, headers=headers)
            assert (answer.status, answer.reason) == (403, "CROSS_SITE")
        done = await page.order("/api/pools/oslo/cordon", {"reason": "disk"}, {"Origin": f"http://{host}"})
        assert (done.status, done.json["pool"][3]) == (200, "cordoned")


async def test_an_order_sent_twice_under_one_id_is_carried_out_once() -> None:
    async with served() as page:
        sent = await page.on.submit(batch(spec()))
        order = f"/api/jobs/{sent.jobs[0].id}/cancel"
        first = await page.order(order, {"request_id": "console-1"})
        second = await page.order(order, {"request_id": "console-1"})
        assert first.json == second.json
        assert first.json["job"][3] == "CANCELLED"


class Kept:
    """An audit log that a test reads."""

    def __init__(self) -> None:
        self.records: list[AuditRecord] = []

    def note(self, record: AuditRecord) -> None:
        self.records.append(record)

    async def find(self, query: AuditQuery) -> AuditPage:
        return AuditPage(tuple(self.records))


async def test_who_changed_what_by_the_page_stands_in_the_audit_log() -> None:
    kept = Kept()
    async with served(tokens=TOKENS, audit=kept) as page:
        sent = await page.on.submit(batch(spec()))
        kept.records.clear()
        page.cookies["hanse-console"] = TOKEN
        await page.order(f"/api/jobs/{sent.jobs[0].id}/cancel", {"request_id": "console-7"})
        await page.ask("/api/jobs")
        await page.order("/api/jobs/nobody/cancel", {})
    told = [(one.who, one.verb, one.jobs, one.outcome, one.request_id) for one in kept.records]
    assert told[0] == ("ann", "CancelJob", (sent.jobs[0].id,), "OK", "console-7")
    assert [one[3] for one in told[1:]] == ["NOT_FOUND"]


async def test_orders_that_cannot_be_are_refused_in_one_line() -> None:
    async with served() as page:
        for path, body, status in (
            ("/api/jobs/nobody/cancel", {}, 404),
            ("/api/jobs/nobody/explode", {}, 404),
            ("/api/pools/nowhere/uncordon", {}, 404),
            ("/api/pools/nowhere/cordon", {"reason": 5}, 400),
            ("/api/pools/nowhere/cordon", ["x"], 400),
            ("/api/jobs/nobody/cancel", {"request_id": "x" * 500}, 400),
        ):
            answer = await page.order(path, body)
            assert answer.status == status, (path, answer.body)
            assert "\n" not in answer.json["error"]["message"]


async def test_a_body_that_is_too_long_or_no_json_is_refused() -> None:
    async with served() as page:
        long = await page.order("/api/jobs/x/cancel", {"request_id": "x" * BODY_BYTES_MAX})
        assert (long.status, long.reason) == (400, "BODY_TOO_LONG")
        data = b"POST /api/jobs/x/cancel HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Hanse-Console: 1\r\nConnection: close\r\n"
        answer = await page.raw(data + b"Content-Length: 4\r\n\r\n{{{{")
        assert (answer.status, answer.reason) == (400, "BODY_INVALID")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/jobs?states=SLEEPING", 400),
        ("/api/jobs?size=x", 400),
        ("/api/jobs?page=nonsense", 400),
        ("/api/jobs?queue=nowhere", 404),
        ("/api/jobs?prefix=a/b", 400),
        ("/api/jobs/nobody", 404),
        ("/api/pools/nowhere", 404),
        ("/api/shapes?pools=" + ",".join(f"p{i}" for i in range(60)), 400),
        ("/api/events?job=nobody", 503),
        ("/api/queues/nowhere", 404),
    ],
)
async def test_questions_that_cannot_be_answered_say_why(path: str, status: int) -> None:
    async with served() as page:
        answer = await page.ask(path)
        assert (answer.status, answer.json["error"]["message"] != "") == (status, True)


# ---- streams -------------------------------------------------------------------------------------------------


async def test_a_stream_goes_on_where_it_broke_off() -> None:
    async with served(pool("oslo", 1, 1), pool("iowa", 1, 1)) as page:
        async with page.stream("/api/live") as events:
            mark, name, value = await anext(events)
            assert (name, len(value["pools"]["rows"])) == ("frame", 2)
        page.on.fleet.become(pool("oslo", 1, 1), pool("iowa", 2, 1))
        async with page.stream("/api/live", last=mark) as events:
            _, _, value = await anext(events)
            assert "anew" not in value["pools"]
            assert [row[0] for row in value["pools"]["rows"]] == ["iowa"]
        async with page.stream("/api/live", last="of.1.2.3") as events:
            _, _, value = await anext(events)
            assert value["pools"]["anew"] is True


async def test_a_quiet_stream_says_that_it_is_there_and_ends_to_ask_who_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(streams, "FRAME_INTERVAL_S", 0.01)
    monkeypatch.setattr(streams, "STREAM_LIFE_S", 0.6)
    async with served(pool("oslo", 1, 1)) as page, page.stream("/api/live") as events:
        async with asyncio.timeout(PATIENCE_S):
            names = [name async for _, name, _ in events]
    assert names[0] == "frame"
    assert "beat" in names


async def test_one_caller_cannot_take_every_stream() -> None:
    async with served(pool("oslo", 1, 1)) as page, AsyncExitStack() as stack:
        for _ in range(STREAMS_PER_CALLER_MAX):
            events = await stack.enter_async_context(page.stream("/api/live"))
            assert (await anext(events))[1] == "frame"
        async with page.stream("/api/live") as events:
            _, name, value = await anext(events)
        assert (name, value["error"]["reason"]) == ("refused", "TOO_MANY_STREAMS")


async def test_the_lines_of_a_log_come_as_text() -> None:
    details = WrittenDetails(answer=None, lines={})  # type: ignore[arg-type]
    async with served(pool("oslo", 2, 2), details=details) as page:
        sent = await page.on.submit(batch(spec()))
        async with page.stream(f"/api/jobs/{sent.jobs[0].id}/logs?rank=0") as events:
            told = [(name, value) async for _, name, value in events]
    assert told[0][0] == "refused"  # it has no pods yet
    assert told[0][1]["error"]["reason"] == "NO_PODS"


# ---- what it does not put up with ---------------------------------------------------------------------------


async def hung_up(reader: asyncio.StreamReader) -> bool:
    """Whether the server hangs up, however it does it."""
    try:
        return await asyncio.wait_for(reader.read(1), PATIENCE_S) == b""
    except ConnectionError:
        return True


async def test_who_dribbles_a_head_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_DEADLINE_S", 0.3)
    async with served() as page:
        reader, writer = await asyncio.open_connection(*page.place)
        writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ")
        assert await hung_up(reader)
        writer.close()
        # The second request of a connection has the same deadline.
        reader, writer = await asyncio.open_connection(*page.place)
        writer.write(b"GET /api/me HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await asyncio.wait_for(reader.readuntil(b"replicas"), PATIENCE_S)
        await asyncio.wait_for(reader.readuntil(b"}"), PATIENCE_S)
        writer.write(b"GET / HT")
        assert await hung_up(reader)
        writer.close()


async def test_who_reads_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "WRITE_DEADLINE_S", 0.3)
    monkeypatch.setattr(streams, "FRAME_INTERVAL_S", 0.0)
    lost = asyncio.Event()
    before = http_server.GuardedProtocol.connection_lost

    def connection_lost(self: http_server.GuardedProtocol, exc: Exception | None) -> None:
        before(self, exc)
        lost.set()

    monkeypatch.setattr(http_server.GuardedProtocol, "connection_lost", connection_lost)
    plain = pool("p", 1, 1)
    many = [replace(plain, name=PoolName(f"p{i:03d}"), message="x" * 2_000) for i in range(250)]
    async with served(*many) as page:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            sock.connect(page.place)
            sock.sendall(b"GET /api/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            turn = 0
            async with asyncio.timeout(PATIENCE_S):
                while not lost.is_set():
                    turn += 1
                    page.on.fleet.become(*(replace(one, free_gpus=turn) for one in many))
                    await asyncio.sleep(0.01)


async def test_a_head_that_is_too_long_is_refused() -> None:
    async with served() as page:
        answer = await page.ask("/", headers={"X-Long": "x" * 2 * HEAD_BYTES_MAX})
        assert answer.status in (0, 400, 431)


async def test_connections_beyond_the_limit_are_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 2)
    async with served() as page:
        held = [await asyncio.open_connection(*page.place) for _ in range(2)]
        assert (await page.ask("/api/me")).status == 0
        for _, writer in held:
            writer.close()
            await writer.wait_closed()
        async with asyncio.timeout(PATIENCE_S):
            while (await page.ask("/api/me")).status != 200:  # noqa: ASYNC110 the server hears of it a little later
                await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "data",
    [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
)
async def test_what_is_no_http_is_answered_or_hung_up_on_and_the_next_is_served(data: bytes) -> None:
    async with served() as page:
        assert (await page.raw(data + b"\r\n\r\n")).status in (0, 400, 403)
        assert (await page.ask("/api/me")).status == 200
