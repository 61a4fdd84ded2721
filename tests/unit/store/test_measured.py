"""Calls of a store are timed by outcome, and change nothing else."""

import pytest

from hanse.kit.clock import SystemClock
from hanse.store.contract import (
    Committed,
    Conflict,
    LeaseGone,
    ModRevisionIs,
    Put,
    Store,
    StoreUnavailable,
    Txn,
    key_after,
)
from hanse.store.measured import MeasuredStore
from hanse.store.memory import MemoryStore
from tests.unit.telling import counting

NAME = "db.client.operation.duration"


async def test_every_outcome_is_told_apart() -> None:
    clock = SystemClock()
    store: Store = MeasuredStore(MemoryStore(clock), clock, "memory")
    with counting() as counted:
        assert isinstance(await store.transact(Txn((), (Put("a", b"1"),))), Committed)
        assert isinstance(await store.transact(Txn((ModRevisionIs("a", 0),), ())), Conflict)
        with pytest.raises(LeaseGone):
            await store.transact(Txn((), (Put("b", b"1", 99),)))
        assert (await store.read(["a"])).items["a"].value == b"1"
        assert len((await store.range("a", key_after("a"))).items) == 1
        watch = store.watch("a", "b", from_revision=1)
        async with watch:
            assert (await anext(watch)).events
        await store.close()
        with pytest.raises(StoreUnavailable):
            await store.read(["a"])
    assert counted(NAME, "memory", "transact", "committed") == 1
    assert counted(NAME, "memory", "transact", "conflict") == 1
    assert counted(NAME, "memory", "transact", "error") == 1
    assert counted(NAME, "memory", "read", "done") == 1
    assert counted(NAME, "memory", "read", "unavailable") == 1
    assert counted(NAME, "memory", "range", "done") == 1
