"""Specs that many ask for at once are read together."""

import asyncio
import gc
from collections.abc import Sequence
from typing import cast

from hanse.model.ids import JobId, QueueUid, job_id
from hanse.scheduler.shell.specs import SPECS_PER_READ_MAX, SpecReads
from hanse.store.contract import KeyValue, ReadResult, Store, StoreUnavailable
from hanse.store.keys import job_of
from hanse.store.schema import SpecEnvelope, encode_spec


class SlowStore:
    """A store that answers a read when it is told to."""

    def __init__(self) -> None:
        self.reads: list[list[str]] = []
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        self.fails = False

    async def read(self, keys: Sequence[str]) -> ReadResult:
        self.reads.append([str(job_of(key)) for key in keys])
        self.asked.set()
        await self.go.wait()
        if self.fails:
            raise StoreUnavailable("no")
        value = encode_spec(SpecEnvelope(spec=b"spec", principal="me", request_id="r", trace=""))
        return ReadResult({key: KeyValue(key, value, 1, 1) for key in keys}, 1)


def job(n: int) -> JobId:
    return job_id(QueueUid("abcdefgh"), "me", "r", n)


async def test_what_is_asked_while_a_read_is_under_way_is_one_read_more() -> None:
    store = SlowStore()
    reads = SpecReads(cast(Store, store))
    first = asyncio.create_task(reads.read([job(0)]))
    async with asyncio.timeout(5.0):
        await store.asked.wait()
    others = [asyncio.create_task(reads.read([job(n), job(n + 1)])) for n in (1, 2, 3)]
    await asyncio.sleep(0)
    store.go.set()
    assert set(await first) == {job(0)}
    for n, found in zip((1, 2, 3), await asyncio.gather(*others), strict=True):
        assert {job(n), job(n + 1)} <= set(found)
    assert store.reads == [[job(0)], [job(1), job(2), job(3), job(4)]]


async def test_one_that_gives_up_takes_nothing_from_the_others() -> None:
    store = SlowStore()
    reads = SpecReads(cast(Store, store))
    one, other = (asyncio.create_task(reads.read([job(n)])) for n in (1, 2))
    async with asyncio.timeout(5.0):
        await store.asked.wait()
    one.cancel()
    store.go.set()
    assert set(await other) == {job(1), job(2)}


async def test_everybody_hears_that_the_store_does_not_answer_and_may_ask_again() -> None:
    store = SlowStore()
    store.fails = True
    store.go.set()
    reads = SpecReads(cast(Store, store))
    answers = await asyncio.gather(reads.read([job(1)]), reads.read([job(2)]), return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailable, StoreUnavailable]
    store.fails = False
    assert set(await reads.read([job(1)])) == {job(1)}


async def test_a_read_is_bounded() -> None:
    store = SlowStore()
    store.go.set()
    found = await SpecReads(cast(Store, store)).read([job(n) for n in range(2 * SPECS_PER_READ_MAX + 1)])
    assert len(found) == 2 * SPECS_PER_READ_MAX + 1
    assert max(map(len, store.reads)) == SPECS_PER_READ_MAX


async def test_a_read_that_fails_after_everybody_gave_up_is_no_unseen_failure() -> None:
    unseen: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context["message"]))
    store = SlowStore()
    store.fails = True
    caller = asyncio.create_task(SpecReads(cast(Store, store)).read([job(1)]))
    async with asyncio.timeout(5.0):
        await store.asked.wait()
    caller.cancel()
    await asyncio.wait([caller])
    del caller
    store.go.set()
    others = asyncio.all_tasks() - {t for t in [asyncio.current_task()] if t is not None}
    await asyncio.wait(others)
    del others
    gc.collect()
    assert unseen == []
