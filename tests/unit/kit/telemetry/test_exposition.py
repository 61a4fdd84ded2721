"""The page that Prometheus reads."""

import asyncio

import pytest

from hanse.kit.health import HEALTH
from hanse.kit.telemetry import endpoint
from hanse.kit.telemetry.endpoint import ASKING_MAX, SCRAPES_MAX, prometheus_endpoint
from hanse.kit.telemetry.exposition import exposition, metric_name
from hanse.kit.telemetry.instruments import Counter, Gauge, Histogram, Label, Registry
from hanse.model.errors import InvalidArgument

NAME = Label("hanse.pool", "of the pool")

PAGE = r"""# HELP target_info What this process is.
# TYPE target_info gauge
target_info{service_name="hanse-test"} 1
# HELP hanse_things_total Things, \\ and so on.
# TYPE hanse_things_total counter
hanse_things_total{hanse_pool="a \"b\" \\ \n"} 2.5
# HELP hanse_level_bytes Level.
# TYPE hanse_level_bytes gauge
hanse_level_bytes 7
# HELP hanse_times_seconds Times.
# TYPE hanse_times_seconds histogram
hanse_times_seconds_bucket{hanse_pool="x",le="0.5"} 1
hanse_times_seconds_bucket{hanse_pool="x",le="1"} 1
hanse_times_seconds_bucket{hanse_pool="x",le="+Inf"} 2
hanse_times_seconds_sum{hanse_pool="x"} 3.25
hanse_times_seconds_count{hanse_pool="x"} 2
"""


def test_the_page() -> None:
    registry = Registry()
    registry.declare(Counter("hanse.things", "{thing}", "Things, \\ and so on.", NAME)).add(2.5, 'a "b" \\ \n')
    level = registry.declare(Gauge("hanse.level", "By", "Level."))
    times = registry.declare(Histogram("hanse.times", "s", "Times.", NAME, bounds=(0.5, 1.0)))
    registry.declare(Counter("hanse.never", "{thing}", "Never counted."))
    times.record(0.25, "x")
    times.record(3.0, "x")
    with registry.observed(lambda: level.set(7)):
        assert exposition(registry.collect(), {"service.name": "hanse-test"}) == PAGE


@pytest.mark.parametrize(
    ("instrument", "name"),
    [
        (Counter("process.cpu.time", "s", ""), "process_cpu_time_seconds_total"),
        (Gauge("hanse.pool.gpus", "{gpu}", ""), "hanse_pool_gpus"),
        (Histogram("db.client.operation.duration", "s", ""), "db_client_operation_duration_seconds"),
    ],
)
def test_names_follow_prometheus(instrument: Counter | Gauge | Histogram, name: str) -> None:
    assert metric_name(instrument) == name


# ---- the endpoint --------------------------------------------------------------------------------------------


PATIENCE_S = 10.0


async def page() -> str:
    return "things 1\n"


async def ask(address: str, request: bytes) -> bytes:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_the_endpoint_answers_with_the_page() -> None:
    async with prometheus_endpoint("127.0.0.1:0", page) as address:
        head, _, body = (await ask(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n")
    assert body == b"things 1\n"


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET / HTTP/1.1", b"404 Not Found"),
        (b"POST /metrics HTTP/1.1", b"405 Method Not Allowed"),
        (b"GET /metrics?name[]=x HTTP/1.1", b"200 OK"),
        (b"nonsense", b"405 Method Not Allowed"),
    ],
)
async def test_whatever_else_is_asked_gets_a_status(request_line: bytes, status: bytes) -> None:
    async with prometheus_endpoint("127.0.0.1:0", page) as address:
        answer = await ask(address, request_line + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize("ready", [True, False])
async def test_probes_tell_ready_from_alive(ready: bool) -> None:
    with HEALTH.told_by(lambda: ready):
        async with prometheus_endpoint("127.0.0.1:0", page) as address:
            alive = await ask(address, b"GET /livez HTTP/1.1\r\n\r\n")
            able = await ask(address, b"GET /readyz HTTP/1.1\r\n\r\n")
    assert alive.startswith(b"HTTP/1.1 200 OK")
    assert able.startswith(b"HTTP/1.1 200 OK" if ready else b"HTTP/1.1 503 Service Unavailable")


async def test_a_head_without_an_end_is_cut_off() -> None:
    async with prometheus_endpoint("127.0.0.1:0", page) as address:
        assert await ask(address, b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 100_000) == b""


async def test_those_who_ask_slowly_keep_nobody_from_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "DEADLINE_S", 600.0)  # it is not this one that ends them
    async with prometheus_endpoint("127.0.0.1:0", page) as address:
        host, _, port = address.rpartition(":")
        slow = [await asyncio.open_connection(host, int(port)) for _ in range(ASKING_MAX + 5)]
        for _, writer in slow:
            writer.write(b"GET /livez HTTP/1.1\r\nX: ")
        for path in (b"/livez", b"/metrics"):
            assert (await ask(address, b"GET " + path + b" HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
        reader, _ = slow[0]
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b"", "the first of them was hung up on"
        for _, writer in slow:
            writer.close()


async def test_pages_that_nobody_takes_are_few_and_probes_are_answered_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoint, "DEADLINE_S", 600.0)  # nobody is hung up on meanwhile

    async def huge() -> str:
        return "x" * 16_000_000

    async with prometheus_endpoint("127.0.0.1:0", huge) as address:
        host, _, port = address.rpartition(":")
        takers = [await asyncio.open_connection(host, int(port), limit=1_024) for _ in range(SCRAPES_MAX)]
        for reader, writer in takers:
            writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 OK")
        assert (await ask(address, b"GET /metrics HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 503")
        assert (await ask(address, b"GET /livez HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
        for _, writer in takers:
            writer.transport.abort()


@pytest.mark.parametrize("address", ["", "nowhere", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", ":80"])
async def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        async with prometheus_endpoint(address, page):
            pass
    assert refused.value.path == "--prometheus"


async def test_an_address_that_is_taken_is_refused() -> None:
    async with prometheus_endpoint("127.0.0.1:0", page) as address:
        with pytest.raises(InvalidArgument, match="cannot listen"):
            async with prometheus_endpoint(address, page):
                pass
