"""Supervision: what ends with what, and that nothing is left behind."""

import asyncio

import pytest

from hanse.kit.tasks import TaskPool, race
from hanse.model.errors import ResourceExhausted


class Boom(Exception):
    """An error of a task."""


class Part:
    """A task that waits until it is told to end, and remembers how it ended."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.cancelled = False

    async def run(self, error: Exception | None = None) -> None:
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if error is not None:
            raise error


async def settled() -> None:
    """Let everything that is ready run."""
    for _ in range(8):
        await asyncio.sleep(0)


async def test_race_ends_with_the_first_and_cancels_the_rest() -> None:
    first, second = Part(), Part()
    first.go.set()
    assert await race(first=first.run(), second=second.run()) == "first"
    assert second.cancelled


async def test_race_raises_the_error_of_the_first_to_fail() -> None:
    first, second = Part(), Part()
    second.go.set()
    with pytest.raises(Boom):
        await race(first=first.run(), second=second.run(Boom()))
    assert first.cancelled


async def test_of_parts_that_end_at_once_the_error_counts() -> None:
    first, second = Part(), Part()
    first.go.set()
    second.go.set()
    with pytest.raises(Boom):
        await race(first=first.run(), second=second.run(Boom()))


async def test_cancelling_a_race_cancels_its_parts() -> None:
    first, second = Part(), Part()
    running = asyncio.create_task(race(first=first.run(), second=second.run()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (first.cancelled, second.cancelled) == (True, True)


async def test_pool_refuses_more_than_its_limit_and_takes_more_when_one_ends() -> None:
    pool = TaskPool(1)
    first, second = Part(), Part()
    pool.start("a", first.run())
    with pytest.raises(ResourceExhausted):
        pool.start("b", second.run())
    first.go.set()
    await settled()
    pool.start("b", second.run())
    await asyncio.sleep(0)
    await pool.close()
    assert second.cancelled


async def test_pool_replaces_the_task_of_the_same_key() -> None:
    pool = TaskPool(1)
    first, second = Part(), Part()
    pool.start("a", first.run())
    await asyncio.sleep(0)
    pool.start("a", second.run())
    await asyncio.sleep(0)
    await pool.close()
    assert (first.cancelled, second.cancelled, len(pool)) == (True, True, 0)


async def test_a_failing_task_of_a_pool_fails_alone(caplog: pytest.LogCaptureFixture) -> None:
    pool = TaskPool(2)
    bad, good = Part(), Part()
    pool.start("bad", bad.run(Boom()))
    pool.start("good", good.run())
    bad.go.set()
    await settled()
    assert [r.message for r in caplog.records] == ["task_failed"]
    await pool.close()
