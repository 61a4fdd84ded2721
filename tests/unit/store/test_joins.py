"""A token is spent once, whoever asks, and however many ask at once."""

import asyncio

import pytest

from hanse.kit.clock import SystemClock
from hanse.store import joins, keys
from hanse.store.contract import Put, Txn
from hanse.store.joins import NotSpent, Spent
from hanse.store.memory import MemoryStore
from hanse.store.schema import BarredValue, JoinTokenValue, encode

NOW_MS = 1_000_000
VALUE = JoinTokenValue("digest", "oslo", created_ms=0, expires_ms=NOW_MS + 60_000, by="ana")


async def store_with(**tokens: JoinTokenValue) -> MemoryStore:
    store = MemoryStore(SystemClock())
    for token, value in tokens.items():
        await joins.keep(store, token, value)
    return store


async def spend(
    store: MemoryStore,
    token: str = "t1",
    digest: str = "digest",
    *,
    pool: str = "oslo",
    key: str = "key",
    now_ms: int = NOW_MS,
) -> Spent | NotSpent:
    return await joins.spend(store, token, digest, pool=pool, key=key, now_ms=now_ms)


async def test_of_many_who_spend_a_token_at_once_one_has_it() -> None:
    store = await store_with(t1=VALUE)
    found = await asyncio.gather(*(spend(store, key=f"key-{n}") for n in range(16)))
    assert sorted(type(one).__name__ for one in found) == ["NotSpent"] * 15 + ["Spent"]
    winner = next(n for n, one in enumerate(found) if isinstance(one, Spent))
    assert isinstance(await spend(store, key=f"key-{winner}"), Spent), "a lost answer is given again"
    assert await spend(store, key="key-of-a-thief") == NotSpent("it was spent")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"token": "t2"}, "there is none of that id"),
        ({"digest": "guess"}, "the secret is another one"),
        ({"pool": "paris"}, "it is for pool oslo"),
        ({"now_ms": NOW_MS + 60_000}, "it is over"),
    ],
)
async def test_a_token_that_is_not_good_spends_nothing(wrong: dict[str, str], why: str) -> None:
    store = await store_with(t1=VALUE)
    assert await spend(store, **wrong) == NotSpent(why)  # type: ignore[arg-type]
    assert await spend(store) == Spent("oslo", 0)


async def test_a_pool_whose_certificates_were_revoked_gets_one_that_begins_later() -> None:
    store = await store_with(t1=VALUE)
    await store.transact(Txn((), (Put(keys.barred("agent", "oslo"), encode(BarredValue(777, 777))),)))
    assert await spend(store) == Spent("oslo", 777)


async def test_tokens_are_forgotten_when_they_are_over_or_were_spent_long_ago() -> None:
    day_ms = 86_400_000
    store = await store_with(t1=VALUE, t2=JoinTokenValue("d", "paris", created_ms=1, expires_ms=day_ms * 9))
    await spend(store, "t2", "d", pool="paris")
    assert await joins.forget_old(store, now_ms=NOW_MS + 60_000) == 1
    assert [value.pool for _, value in await joins.kept(store)] == ["paris"]
    assert await joins.forget_old(store, now_ms=NOW_MS + day_ms) == 0
