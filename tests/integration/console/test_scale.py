"""A thousand pools and a hundred thousand jobs behind the same views: what is sent and drawn stays small.

The fleet is written down and the jobs are submitted; nothing runs. Measured are bytes and elements, which a busy
machine does not change.
"""

import asyncio
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
import pytest
from playwright.sync_api import Page, expect

from hanse.apiserver.ports import PoolHealth
from hanse.model.ids import PoolName
from tests.integration.console.http import Console, served
from tests.integration.console.pages import CHROMIUM, Browsing, chromium
from tests.unit.apiserver.stage import batch, pool, spec

POOLS: Final = 1_000
JOBS: Final = 100_000
BATCH: Final = 1_000
AT_ONCE: Final = 10
START_DEADLINE_S: Final = 120
FRAME_BYTES_MAX: Final = 64 * 1024
ANSWER_BYTES_MAX: Final = 64 * 1024
ELEMENTS_MAX: Final = 1_200
FOOT: Final = "document.querySelector('.foot').innerText"


def fleet() -> list[Any]:
    """Pools of one shape under many names, some of them in trouble."""
    plain = pool("p", 16, 4)
    rng = random.Random(7)
    return [
        replace(
            plain,
            name=PoolName(f"pool-{i:04d}"),
            region=f"region-{i % 12}",
            free_gpus=rng.randrange(plain.gpus),
            health=PoolHealth.DETACHED if i % 41 == 0 else PoolHealth.HEALTHY,
            message="its agent is not attached; what runs there runs on" if i % 41 == 0 else "",
            unusable_nodes=8 if i % 29 == 0 else 0,
        )
        for i in range(POOLS)
    ]


@dataclass(slots=True)
class Large:
    """A console over the large federation, on a loop of its own thread."""

    page: Console
    loop: asyncio.AbstractEventLoop

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(START_DEADLINE_S)


@pytest.fixture(scope="module")
def large() -> Iterator[Large]:
    ready, found, over = threading.Event(), list[Large](), list[asyncio.Event]()

    async def serve() -> None:
        async with served(*fleet()) as page:
            await submit(page)
            over.append(asyncio.Event())
            found.append(Large(page, asyncio.get_running_loop()))
            ready.set()
            await over[0].wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="large")
    thread.start()
    assert ready.wait(START_DEADLINE_S)
    yield found[0]
    found[0].loop.call_soon_threadsafe(over[0].set)
    thread.join(START_DEADLINE_S)


async def submit(page: Console) -> None:
    """All jobs, in batches."""

    async def one(number: int) -> None:
        jobs = (spec(f"train-{number:03d}-{i:04d}") for i in range(BATCH))
        await page.on.submit(batch(*jobs, request_id=f"batch-{number}"))

    for start in range(0, JOBS // BATCH, AT_ONCE):
        await asyncio.gather(*(one(number) for number in range(start, start + AT_ONCE)))


def size(value: object) -> int:
    return len(orjson.dumps(value))


def test_a_new_page_gets_all_pools_in_small_frames_and_then_only_what_changed(large: Large) -> None:
    async def follow() -> tuple[list[int], int, int]:
        sizes, seen = list[int](), 0
        async with large.page.stream("/api/live") as events:
            while seen < POOLS:
                _, _, value = await anext(events)
                sizes.append(size(value))
                seen += len(value.get("pools", {"rows": []})["rows"])
            views = list(large.page.on.fleet.pools())
            large.page.on.fleet.become(*(replace(v, free_gpus=1) if i < 3 else v for i, v in enumerate(views)))
            while True:
                _, _, value = await anext(events)
                if "pools" in value:
                    return sizes, len(value["pools"]["rows"]), size(value)

    sizes, rows, bytes_ = large.run(follow())
    assert max(sizes) < FRAME_BYTES_MAX
    assert sum(sizes) < 6 * FRAME_BYTES_MAX
    assert (rows, bytes_ < 2_048) == (3, True)


@pytest.mark.parametrize("path", ["/api/jobs", "/api/queues", "/api/queues/research", "/api/find?prefix=train-0"])
def test_no_answer_grows_with_the_number_of_jobs(large: Large, path: str) -> None:
    answer = large.run(large.page.ask(path))
    assert answer.status == 200
    assert size(answer.json) < ANSWER_BYTES_MAX


def test_the_queue_says_how_many_jobs_wait(large: Large) -> None:
    [queue] = large.run(large.page.ask("/api/queues")).json["queues"]
    assert (queue["name"], queue["pending"], queue["exact"]) == ("research", JOBS, True)


def elements(page: Page) -> int:
    return int(page.evaluate("() => document.querySelectorAll('*').length"))


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed: apt-get install chromium")
def test_the_page_draws_what_can_be_seen_and_no_more(large: Large) -> None:
    with chromium() as browser:
        browsing = Browsing(browser)
        page = browsing.page(large.page.url)
        expect(page.locator(".mapwrap")).to_have_attribute("data-pools", str(POOLS))
        assert elements(page) < ELEMENTS_MAX
        page.locator(".mapwrap").evaluate("map => map.scrollTo(0, map.scrollHeight)")
        page.locator(".mapbar input").fill("pool-0777")
        expect(page.locator(".mapwrap")).to_have_attribute("data-pools", "1")
        page.goto(f"{large.page.url}/#/jobs")
        expect(page.locator(".vrow").first).to_be_visible()
        for _ in range(12):
            page.locator(".vlist").evaluate("list => list.scrollTo(0, list.scrollHeight)")
            page.wait_for_function("() => document.querySelectorAll('.vrow').length > 0")
        page.wait_for_function(
            "() => Number(document.querySelector('.foot').innerText.replace(/[^0-9]/g, '')) >= 500"
        )
        assert elements(page) < ELEMENTS_MAX
        page.keyboard.press("/")
        page.keyboard.type("train-042-0007")
        expect(page.locator(".palette li", has_text="train-042-0007")).to_be_visible()
        assert elements(page) < ELEMENTS_MAX
        assert browsing.complaints == []
