"""Reading whole ranges: page by page at one revision, into columns, and into an empty world."""

import logging
from dataclasses import replace
from typing import Any

import pytest

from hanse.model.ids import Attempt, JobId, Part, PoolName, ReplicaId
from hanse.model.lifecycle import JobState, State, encode_state
from hanse.scheduler.core.world import World
from hanse.scheduler.shell.feed import Feed
from hanse.scheduler.shell.loading import load_pages, load_range
from hanse.scheduler.shell.state_loading import Loaded, load_columns
from hanse.store import keys
from hanse.store.contract import Put, RangeResult, Txn
from hanse.store.memory import MemoryStore
from hanse.store.schema import Amounts, BindingValue, BoundSet, SetRequestValue, encode
from tests.unit.scheduler.worlds import H100, QUEUE, request
from tests.unit.scheduler_shell.puppet import CLOCK, stage, submit, wait_state

STATE = JobState(State.PENDING, Attempt(0), 0, 1, 1, 7)


class SmallPages(MemoryStore):
    """Answers a range with few keys at a time."""

    def __init__(self, items_max: int = 3) -> None:
        super().__init__(CLOCK)
        self.items_max = items_max
        self.asked = 0

    async def range(self, *args: Any, **more: Any) -> RangeResult:  # Any: as the base class
        self.asked += 1
        return await super().range(*args, **{**more, "limit": self.items_max})

    async def put(self, pairs: dict[str, bytes]) -> None:
        await self.transact(Txn((), tuple(Put(key, value) for key, value in pairs.items())))


def job(number: int) -> JobId:
    return JobId(f"{QUEUE}-{number:016}")


async def test_all_pages_are_of_the_first_ones_revision() -> None:
    store = SmallPages()
    await store.put({f"a/{n}": b"old" for n in range(8)})
    values: list[bytes] = []
    async for page in load_pages(store, "a/", "a0"):
        await store.put({f"a/{n}": b"new" for n in range(12)})
        values += [kv.value for kv in page.items]
    assert values == [b"old"] * 8


async def test_the_next_page_is_asked_for_before_one_is_looked_at() -> None:
    store = SmallPages()
    await store.put({f"a/{n}": b"" for n in range(8)})
    pages = load_pages(store, "a/", "a0")
    await anext(pages)
    await store.read([])
    assert store.asked == 2
    await pages.aclose()


@pytest.mark.parametrize("first_whole", [False, True])
@pytest.mark.parametrize("cuts", [(), ("a/2", "a/5"), ("a/0", "a/00", "a/7", "a/9", "b"), ("a/4", "a/4")])
async def test_a_range_in_pieces_holds_the_same_keys(cuts: tuple[str, ...], first_whole: bool) -> None:
    store = SmallPages()
    await store.put({f"a/{n}": b"" for n in range(8)})
    pages = load_pages(store, "a/", "a0", cuts=cuts, first_whole=first_whole)
    assert [kv.key async for page in pages for kv in page.items] == [f"a/{n}" for n in range(8)]


async def test_pieces_are_of_a_given_revision_too() -> None:
    store = SmallPages()
    await store.put({"a/1": b"old"})
    before = (await store.read([])).revision
    await store.put({"a/1": b"new", "a/2": b""})
    pages = load_pages(store, "a/", "a0", at_revision=before, cuts=("a/2",))
    assert [(kv.key, kv.value) async for page in pages for kv in page.items] == [("a/1", b"old")]


async def test_a_range_without_keys_has_a_revision() -> None:
    store = SmallPages()
    await store.put({"b": b""})
    items, revision = await load_range(store, "a/", "a0")
    assert (items, revision) == ([], (await store.read([])).revision)


async def columns(states: dict[JobId, bytes], watched: tuple[JobId, ...] = ()) -> Loaded:
    store = SmallPages()
    await store.put({keys.state(one): value for one, value in states.items()})
    return await load_columns(store, keys.states(QUEUE), watched)


async def test_what_waits_is_in_columns_what_is_over_is_counted_and_the_rest_is_left_out() -> None:
    states = [STATE, replace(STATE, state=State.RUNNING), replace(STATE, state=State.FAILED), STATE, STATE, STATE]
    loaded = await columns({job(n): encode_state(state) for n, state in enumerate(states)})
    assert loaded.jobs.tolist() == [job(n).encode() for n in (0, 3, 4, 5)]
    assert (len(loaded.records), loaded.revisions.tolist(), loaded.ended) == (4, [loaded.revision] * 4, 1)
    assert not loaded.others


async def test_what_somebody_must_look_at_comes_as_it_was_read() -> None:
    split = replace(STATE, state=State.STARTING, pools=(1, 2))
    states = [b"damaged", *(encode_state(one) for one in (replace(STATE, held=True), split, STATE, STATE))]
    loaded = await columns(dict(zip(map(job, range(5)), states, strict=True)), watched=(job(3),))
    assert [keys.job_of(kv.key) for kv in loaded.others] == [job(n) for n in (0, 1, 2, 3)]
    assert loaded.jobs.tolist() == [job(4).encode()]


async def test_a_name_that_is_not_ours_is_left_to_whoever_tells_of_it() -> None:
    foreign = JobId(f"{QUEUE}-{'ü':0>16}")
    loaded = await columns({job(1): encode_state(STATE), foreign: encode_state(STATE)})
    assert [keys.job_of(kv.key) for kv in loaded.others] == [foreign]
    assert loaded.jobs.tolist() == [job(1).encode()]


def binding(number: int) -> bytes:
    want = request(1 + number % 2, flavors=(H100,))
    return encode(
        BindingValue(
            desired=2,
            sets=[BoundSet(0, want.pods, 0, H100)],
            request=[SetRequestValue.of(one) for one in want.sets],
            charges=[Amounts(H100, {"nvidia.com/gpu": want.gpus})],
            order=number,
            write_id=number,
        )
    )


async def test_an_empty_world_is_filled_page_by_page_as_one_that_hears_of_every_change() -> None:
    store = SmallPages()
    heard = World(ReplicaId("r0"))
    names = [keys.binding(PoolName(f"p{n % 3}"), job(n), Attempt(1), Part(0)) for n in range(9)]
    for number, name in reversed(list(enumerate(names))):
        await store.put({name: binding(number)})
        await Feed(store, heard, CLOCK, lambda: None)._load()
    await store.put({names[4]: binding(4), keys.INCARNATION: b"1", "bindings/p0/foreign": b"{}"})
    await Feed(store, heard, CLOCK, lambda: None)._load()
    filled = World(ReplicaId("r0"))
    await Feed(store, filled, CLOCK, lambda: None)._load()
    assert sorted(filled.binding_keys()) == sorted(heard.binding_keys()) == sorted(names)
    for number in range(3):
        pool = PoolName(f"p{number}")
        assert filled.ledger(pool).bindings() == heard.ledger(pool).bindings()
    assert filled.usage.by_flavor(QUEUE) == heard.usage.by_flavor(QUEUE)
    assert filled.usage.jobs(QUEUE) == 9
    for world in (filled, heard):
        for name in names:
            world.remove_binding(name)
    assert filled.released == heard.released == {PoolName("p1"): 1}


async def test_nothing_is_decided_before_all_that_waits_is_known(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="hanse.scheduler.shell")
    async with stage() as found:
        replica = await found.replica()
        agent = await found.puppet(replica, PoolName("p0"), {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        await wait_state(found.store, await submit(found.store, 1, 2), State.BOUND)
    said = [record.getMessage() for record in caplog.records]
    assert said.index("caught_up") < said.index("plan_committed")
