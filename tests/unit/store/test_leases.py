import asyncio

import pytest

from hanse.store.contract import LeaseGone
from hanse.store.leases import LeaseKeeper


class HandClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time_s = 1000.0

    def monotonic(self) -> float:
        return self.time_s

    def now_ms(self) -> int:
        return int(self.time_s * 1000)


async def test_leases_end_in_the_order_of_their_deadlines() -> None:
    clock, over = HandClock(), list[int]()
    keeper = LeaseKeeper(clock, over.append)
    keeper.grant(1, 30.0)
    keeper.grant(2, 10.0)
    keeper.grant(3, 20.0)
    clock.time_s += 9.9
    keeper.look()
    assert over == []
    clock.time_s += 15
    keeper.look()
    assert over == [2, 3]
    assert 1 in keeper
    assert 2 not in keeper
    keeper.close()


async def test_a_renewed_lease_gets_its_full_time_again() -> None:
    clock, over = HandClock(), list[int]()
    keeper = LeaseKeeper(clock, over.append)
    keeper.grant(1, 10.0)
    for _ in range(5):
        clock.time_s += 9
        keeper.look()
        assert keeper.renew(1) == 10.0
    clock.time_s += 11
    keeper.look()
    assert over == [1]
    with pytest.raises(LeaseGone):
        keeper.renew(1)
    with pytest.raises(LeaseGone):
        keeper.drop(1)


async def test_a_dropped_lease_never_expires() -> None:
    clock, over = HandClock(), list[int]()
    keeper = LeaseKeeper(clock, over.append)
    keeper.grant(1, 10.0)
    keeper.drop(1)
    clock.time_s += 20
    keeper.look()
    assert over == []


async def test_the_timer_looks_by_itself_and_again_after_a_renewal() -> None:
    clock, ended = HandClock(), asyncio.Event()
    over: list[int] = []

    def expire(lease: int) -> None:
        over.append(lease)
        ended.set()

    keeper = LeaseKeeper(clock, expire)
    keeper.grant(1, 0.01)
    keeper.grant(2, 0.02)
    clock.time_s += 0.015
    async with asyncio.timeout(30):
        await ended.wait()
        assert over == [1]
        ended.clear()
        clock.time_s += 0.01
        await ended.wait()
    assert over == [1, 2]
