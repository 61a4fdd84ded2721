"""The loop keeps its promises: time is virtual, order is drawn, the dead stay dead, the paused come back."""

import asyncio
from collections.abc import Coroutine
from random import Random

import pytest

from tests.sim.loop import INSTANT_STEPS_MAX, START_S, Actor, SimLoop, Stuck, current_actor


def run(main: Coroutine[object, object, None], loop: SimLoop) -> None:
    try:
        loop.run(main)
    finally:
        loop.dispose()


def order_of(seed: str) -> list[int]:
    loop = SimLoop(Random(seed))
    seen: list[int] = []

    async def main() -> None:
        for number in range(8):
            loop.call_soon(seen.append, number)
        await asyncio.sleep(1)

    run(main(), loop)
    return seen


def test_time_jumps_to_the_next_timer() -> None:
    loop = SimLoop(Random(1))
    times: list[float] = []

    async def main() -> None:
        await asyncio.sleep(3600)
        times.append(loop.time())

    run(main(), loop)
    assert times == [START_S + 3600]


def test_ready_callbacks_run_in_an_order_that_the_seed_draws() -> None:
    assert order_of("a") == order_of("a")
    assert sorted(order_of("a")) == list(range(8))
    assert len({tuple(order_of(seed)) for seed in "abcdef"}) > 1


def test_a_killed_process_runs_nothing_more_not_even_its_finally() -> None:
    loop, actor, said = SimLoop(Random(1)), Actor("a"), []

    async def work() -> None:
        try:
            await asyncio.sleep(5)
            said.append("slept")
        finally:
            said.append("finally")

    async def main() -> None:
        loop.spawn(actor, work(), name="work")
        await asyncio.sleep(1)
        loop.kill(actor)
        await asyncio.sleep(10)
        assert said == []

    run(main(), loop)


def test_a_paused_process_comes_back_with_everything_that_became_due() -> None:
    loop, actor = SimLoop(Random(1)), Actor("a")
    ticks: list[float] = []

    async def work() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            ticks.append(loop.time() - START_S)

    async def main() -> None:
        loop.spawn(actor, work(), name="work")
        await asyncio.sleep(1.5)
        loop.pause(actor)
        await asyncio.sleep(10)
        loop.resume(actor)
        await asyncio.sleep(10)

    run(main(), loop)
    assert ticks == [1, 11.5, 12.5]


def test_children_belong_to_the_process_that_made_them() -> None:
    loop, actor, owners = SimLoop(Random(1)), Actor("a"), []

    async def child() -> None:
        owners.append(current_actor().name)

    async def work() -> None:
        await asyncio.create_task(child())
        loop.call_later(1, lambda: owners.append(current_actor().name))
        loop.world_later(1, lambda: owners.append(current_actor().name))

    async def main() -> None:
        loop.spawn(actor, work(), name="work")
        await asyncio.sleep(5)

    run(main(), loop)
    assert sorted(owners) == ["a", "a", "world"]


def test_a_deadlock_is_told() -> None:
    loop = SimLoop(Random(1))

    async def main() -> None:
        await loop.create_future()

    with pytest.raises(Stuck, match="deadlock"):
        run(main(), loop)


def test_a_livelock_is_told() -> None:
    loop = SimLoop(Random(1))

    async def main() -> None:
        for _ in range(2 * INSTANT_STEPS_MAX):
            await asyncio.sleep(0)

    with pytest.raises(Stuck, match="livelock"):
        run(main(), loop)


def test_threads_are_refused() -> None:
    loop = SimLoop(Random(1))

    async def main() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="thread"):
        run(main(), loop)


def test_what_nobody_looked_at_is_a_failure() -> None:
    loop = SimLoop(Random(1))

    async def fall_over() -> None:
        raise ValueError("nobody looks")

    async def main() -> None:
        loop.create_task(fall_over())
        await asyncio.sleep(1)

    loop.run(main())
    failures = list(loop.failures)
    loop.dispose()
    assert [str(error) for _, _, error in failures] == ["nobody looks"]
