"""Group commit: units share transactions and never each other's fate."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hanse.apiserver.commits import GroupCommitter, Unit
from hanse.kit.clock import SystemClock
from hanse.model.errors import ResourceExhausted
from hanse.store.contract import (
    TXN_OPS_MAX,
    Committed,
    Conflict,
    ModRevisionIs,
    Outcome,
    Put,
    StoreUnavailable,
    Txn,
    Unknown,
)
from hanse.store.memory import MemoryStore
from tests.unit.apiserver.stage import FaultyStore


def unit(*keys: str, revision: int = 0, ops: int = 0) -> Unit:
    """Writes keys under the guard that they are at this revision, and so many keys more."""
    more = tuple(Put(f"{keys[0]}/{i}", b"x") for i in range(ops))
    return Unit.of(tuple(ModRevisionIs(key, revision) for key in keys), (*(Put(key, b"x") for key in keys), *more))


@asynccontextmanager
async def committing() -> AsyncIterator[tuple[GroupCommitter, FaultyStore]]:
    store = FaultyStore(MemoryStore(SystemClock()))
    committer = GroupCommitter(store)
    running = asyncio.create_task(committer.run())
    try:
        yield committer, store
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await store.close()


async def together(committer: GroupCommitter, *units: Unit) -> list[Outcome]:
    return list(await asyncio.gather(*(committer.commit(one) for one in units)))


async def test_units_that_arrive_together_share_transactions() -> None:
    async with committing() as (committer, store):
        outcomes = await together(committer, *(unit(f"k{i}") for i in range(200)))
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    assert len(store.txns) < 20
    assert all(len(txn.ops) <= TXN_OPS_MAX and len(txn.guards) <= TXN_OPS_MAX for txn in store.txns)


async def test_a_conflict_is_the_losers_alone() -> None:
    async with committing() as (committer, store):
        await store.core.transact(Txn((), (Put("k3", b"old"),)))
        outcomes = await together(committer, *(unit(f"k{i}") for i in range(8)))
    assert [isinstance(outcome, Conflict) for outcome in outcomes] == [i == 3 for i in range(8)]


async def test_units_on_the_same_key_never_share_a_transaction() -> None:
    async with committing() as (committer, store):
        outcomes = await together(committer, unit("k"), unit("k"), unit("k"))
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Committed", "Conflict", "Conflict"]
    assert all(len({op.key for op in txn.ops}) == len(txn.ops) for txn in store.txns)


async def test_two_blind_writes_of_a_key_are_both_done() -> None:
    blind = Unit.of((), (Put("k", b"x"),))
    async with committing() as (committer, store):
        outcomes = await together(committer, blind, blind)
        revision = (await store.core.read(["k"])).items["k"].mod_revision
    assert {outcome.revision for outcome in outcomes if isinstance(outcome, Committed)} == {revision - 1, revision}


async def test_a_unit_as_large_as_a_transaction_goes_alone() -> None:
    async with committing() as (committer, store):
        outcomes = await together(
            committer, unit("a", ops=TXN_OPS_MAX - 1), unit("b"), unit("c", ops=TXN_OPS_MAX - 1)
        )
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    assert sorted(len(txn.ops) for txn in store.txns)[-2:] == [TXN_OPS_MAX, TXN_OPS_MAX]


async def test_an_unknown_outcome_is_told_to_every_unit_of_the_transaction() -> None:
    async with committing() as (committer, store):
        store.rule = lambda txn: "silent"
        outcomes = await together(committer, *(unit(f"k{i}") for i in range(5)))
    assert all(isinstance(outcome, Unknown) for outcome in outcomes)


async def test_a_store_that_is_away_is_told_and_the_next_unit_goes_on() -> None:
    async with committing() as (committer, store):

        def away(txn: Txn) -> str:
            raise StoreUnavailable("disk full")

        store.rule = away
        with pytest.raises(StoreUnavailable):
            await committer.commit(unit("k"))
        store.rule = lambda txn: ""
        assert isinstance(await committer.commit(unit("k")), Committed)


async def test_a_caller_that_gives_up_does_not_take_its_unit_back() -> None:
    async with committing() as (committer, store):
        giving_up = asyncio.create_task(committer.commit(unit("k")))
        await asyncio.sleep(0)
        giving_up.cancel()
        await asyncio.gather(giving_up, return_exceptions=True)
        assert isinstance(await committer.commit(unit("l")), Committed)
        assert set((await store.core.read(["k", "l"])).items) == {"k", "l"}


async def test_what_waits_when_the_server_stops_is_unknown() -> None:
    store = FaultyStore(MemoryStore(SystemClock()))
    committer = GroupCommitter(store)
    stuck = asyncio.Event()

    async def hang(txn: Txn, **_: object) -> Outcome:
        stuck.set()
        await asyncio.Event().wait()
        raise AssertionError

    store.transact = hang  # type: ignore[method-assign]
    running = asyncio.create_task(committer.run())
    waiting = [asyncio.create_task(committer.commit(unit("k"))) for _ in range(8)]
    await stuck.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert all(isinstance(outcome, Unknown) for outcome in await asyncio.gather(*waiting))


async def test_the_number_of_waiting_units_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hanse.apiserver.commits.UNITS_WAITING_MAX", 1)
    committer = GroupCommitter(MemoryStore(SystemClock()))
    waiting = asyncio.create_task(committer.commit(unit("k")))
    await asyncio.sleep(0)
    with pytest.raises(ResourceExhausted):
        await committer.commit(unit("l"))
    waiting.cancel()
