"""What pages follow: deltas from a cursor, bounded frames, resuming, and who may follow how much."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from hanse.apiserver.access.rights import Access, Grant
from hanse.apiserver.access.verbs import Role, Verb
from hanse.apiserver.context import CallContext
from hanse.console import hub as hub_module
from hanse.console.desk import Desk
from hanse.console.hub import Cursor, Hub, Hubs, Places
from hanse.console.limits import ROWS_PER_FRAME_MAX
from hanse.console.streams import cursor_id, cursor_of
from hanse.model.errors import ResourceExhausted
from hanse.model.ids import PoolName
from tests.unit.apiserver.stage import CTX, Stage, pool, stage

PATIENCE_S = 10.0
PLAIN = pool("p", 1, 1)


def pools(number: int) -> list[Any]:
    return [replace(PLAIN, name=PoolName(f"p{i:04d}")) for i in range(number)]


@asynccontextmanager
async def followed(number: int) -> AsyncIterator[tuple[Stage, Hub]]:
    """A hub that knows so many pools."""
    async with stage(*pools(number)) as on:
        hub = Hub(Desk(on.api), CTX, "abc")
        hub.start()
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not hub.newer(Cursor()):
                    await hub.changed()
            yield on, hub
        finally:
            await hub.close()


async def news(hub: Hub, cursor: Cursor) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not hub.newer(cursor):
            await hub.changed()


def names(values: Mapping[str, Any]) -> list[str]:
    return [row[0] for row in values["pools"]["rows"]]


async def test_a_new_page_gets_all_pools_in_frames_of_bounded_size() -> None:
    number = 2 * ROWS_PER_FRAME_MAX + 7
    async with followed(number) as (_, hub):
        cursor, seen, sizes, more = Cursor(), list[str](), list[int](), True
        while more:
            frame = hub.frame(cursor)
            seen += names(frame.values)
            sizes.append(len(names(frame.values)))
            cursor, more = frame.cursor, frame.more
    assert sizes == [ROWS_PER_FRAME_MAX, ROWS_PER_FRAME_MAX, 7]
    assert sorted(seen) == [f"p{i:04d}" for i in range(number)]


async def test_only_the_first_frame_says_that_all_begins_anew() -> None:
    async with followed(ROWS_PER_FRAME_MAX + 1) as (_, hub):
        first = hub.frame(Cursor())
        second = hub.frame(first.cursor)
    assert (first.values["pools"]["anew"], first.values["pools"]["total"]) == (True, ROWS_PER_FRAME_MAX + 1)
    assert "anew" not in second.values["pools"]


async def test_later_frames_hold_what_changed_and_what_is_gone() -> None:
    async with followed(5) as (on, hub):
        cursor = hub.frame(Cursor()).cursor
        changed = pools(5)
        changed[2] = replace(changed[2], free_gpus=3)
        on.fleet.become(*changed[1:])
        await news(hub, cursor)
        frame = hub.frame(cursor)
        assert (names(frame.values), frame.values["pools"]["removed"]) == (["p0002"], ["p0000"])
        assert not hub.newer(frame.cursor)
        assert hub.frame(frame.cursor).values == {}


async def test_a_page_that_was_away_gets_the_newest_of_each_pool_once() -> None:
    async with followed(3) as (on, hub):
        cursor = hub.frame(Cursor()).cursor
        for free in (1, 2, 3):
            on.fleet.become(*(replace(p, free_gpus=free) for p in pools(3)))
            await news(hub, hub.frame(cursor).cursor)
        rows = hub.frame(cursor).values["pools"]["rows"]
        assert isinstance(rows, list)
        assert [row[6] for row in rows if isinstance(row, list)] == [3, 3, 3]


async def test_a_page_that_missed_forgotten_removals_begins_anew_and_gets_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub_module, "REMOVED_KEPT_MAX", 2)
    number = ROWS_PER_FRAME_MAX + 20
    async with followed(number) as (on, hub):
        old = hub.frame(hub.frame(Cursor()).cursor).cursor
        on.fleet.become(*pools(number)[5:])
        await news(hub, old)
        first = hub.frame(old)
        assert first.values["pools"]["anew"] is True
        second = hub.frame(first.cursor)
        assert "anew" not in second.values["pools"]
        assert len(names(first.values)) + len(names(second.values)) == number - 5
        assert not second.more


async def test_a_cursor_of_another_hub_begins_anew() -> None:
    cursor = Cursor(4, 5, 6)
    assert cursor_of(cursor_id("abc", cursor), "abc") == cursor
    for text in ("", "abd.4.5.6", "abc.4.5", "abc.4.5.x", "abc.4.5.6.7", "abc.4.5.-6", "abc.1.1." + "9" * 30):
        assert cursor_of(text, "abc") == Cursor()


VIEWER = Grant(Role.VIEWER, "vision", frozenset({Verb.VIEW}))


def caller(name: str, *grants: Grant, expires_s: int = 0) -> CallContext:
    return CallContext(name, access=Access(name, grants=grants, expires_s=expires_s))


async def test_all_who_see_the_same_share_a_hub_and_others_do_not() -> None:
    async with stage(pool("oslo", 1, 1)) as on:
        hubs = Hubs(Desk(on.api), lambda: "n")
        ann, bob = caller("ann", VIEWER, expires_s=9), caller("bob", VIEWER)
        async with hubs.stream(ann) as one, hubs.stream(bob) as two, hubs.stream(caller("eve")) as other:
            assert one is two
            assert other is not one
        async with hubs.stream(ann) as again:
            assert again is one  # it lingers
        await hubs.close()


async def test_hubs_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "HUBS_MAX", 1)
    async with stage(pool("oslo", 1, 1)) as on:
        hubs = Hubs(Desk(on.api), lambda: "n")
        async with hubs.stream(caller("ann", VIEWER)):
            with pytest.raises(ResourceExhausted):
                async with hubs.stream(caller("eve")):
                    pass
        await hubs.close()


def test_streams_have_limits_by_caller_and_in_all() -> None:
    places = Places(3, 2)
    with places.one("ann"), places.one("ann"):
        with pytest.raises(ResourceExhausted), places.one("ann"):
            pass
        with places.one("bob"), pytest.raises(ResourceExhausted), places.one("eve"):
            pass
    with places.one("ann"):
        pass
