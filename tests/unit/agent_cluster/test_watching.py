"""Lists by pages, and watches that outlive their connections."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from hanse.agent.cluster.kubernetes.objects import PLAIN
from hanse.agent.cluster.kubernetes.watching import Expired, Follower, list_all, list_pages
from hanse.agent.cluster.port import ClusterUnavailable, WatchLost
from tests.unit.agent_cluster.api_server import Answer, lines, serving, whole

PATIENCE_S = 20.0


def event(kind: str, name: str, version: int) -> dict[str, Any]:
    return {"type": kind, "object": {"metadata": {"name": name, "resourceVersion": str(version)}}}


GONE = {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}


async def followed(folder: Path, *answers: Answer) -> tuple[list[tuple[str, bool]], list[str]]:
    """What a watch from version 1 took until it was lost, and the versions that it asked for."""
    took: list[tuple[str, bool]] = []
    async with serving(folder, *answers) as (api, script):
        follower = Follower(
            api,
            "/pods",
            "1",
            Random(1),
            take=lambda item, gone: took.append((PLAIN.decode(item).metadata.name, gone)),
            told=lambda: None,
        )
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(WatchLost):
                await follower.run()
    return took, [query["resourceVersion"] for _, query in script.asked]


async def test_a_watch_tells_what_came_and_went_until_it_is_too_old(tmp_path: Path) -> None:
    took, asked = await followed(tmp_path, lines(event("ADDED", "a", 2), event("DELETED", "a", 3), GONE))
    assert took == [("a", False), ("a", True)]
    assert asked == ["1"]


async def test_a_watch_that_was_cut_off_goes_on_after_its_last_whole_event(tmp_path: Path) -> None:
    half = b'{"type":"ADDED","object":{"metadata":{"na'
    took, asked = await followed(
        tmp_path, lines(event("ADDED", "a", 2), half), lines(event("ADDED", "b", 3)), lines(GONE)
    )
    assert took == [("a", False), ("b", False)]
    assert asked == ["1", "2", "3"]


async def test_an_event_may_come_in_pieces(tmp_path: Path) -> None:
    whole_line = msgspec.json.encode(event("ADDED", "a", 2)) + b"\n"
    took, _ = await followed(tmp_path, lines(whole_line[:9], whole_line[9:], GONE))
    assert took == [("a", False)]


async def test_a_bookmark_moves_on_and_tells_nothing(tmp_path: Path) -> None:
    took, asked = await followed(tmp_path, lines(event("BOOKMARK", "", 9)), lines(GONE))
    assert took == []
    assert asked == ["1", "9"]


async def test_a_server_that_fails_for_a_moment_is_asked_again(tmp_path: Path) -> None:
    took, asked = await followed(tmp_path, whole({}, 503), lines(event("ADDED", "a", 2)), whole({"code": 410}, 410))
    assert took == [("a", False)]
    assert asked == ["1", "1", "2"]


async def test_a_busy_server_is_no_reason_to_list_everything(tmp_path: Path) -> None:
    took, asked = await followed(
        tmp_path, whole({}, 429), lines(event("ADDED", "a", 2)), lines(event("ADDED", "b", 3), GONE)
    )
    assert took == [("a", False), ("b", False)]
    assert asked == ["1", "1", "2"]


def page(names: list[str], *, more: str = "") -> Answer:
    meta = {"resourceVersion": "7", **({"continue": more} if more else {})}
    return whole({"metadata": meta, "items": [{"metadata": {"name": name}} for name in names]})


async def test_a_list_is_read_page_by_page(tmp_path: Path) -> None:
    took: list[str] = []
    async with serving(tmp_path, page(["a", "b"], more="token"), page(["c"])) as (api, script):
        version = await list_pages(api, "/pods", lambda item: took.append(PLAIN.decode(item).metadata.name))
    assert (took, version) == (["a", "b", "c"], "7")
    assert [query.get("continue") for _, query in script.asked] == [None, "token"]


async def test_an_exact_version_is_asked_for_once(tmp_path: Path) -> None:
    async with serving(tmp_path, page(["a"], more="token"), page(["b"])) as (api, script):
        await list_pages(api, "/pods", lambda _: None, at="5")
    assert [query.get("resourceVersionMatch") for _, query in script.asked] == ["Exact", None]


async def test_pages_that_expire_make_the_list_worthless(tmp_path: Path) -> None:
    async with serving(tmp_path, page(["a"], more="token"), whole({}, 410)) as (api, _):
        with pytest.raises(Expired):
            await list_pages(api, "/pods", lambda _: None)


async def test_selected_objects_are_listed_anew_when_their_pages_expire(tmp_path: Path) -> None:
    took: list[str] = []
    expired = [page(["a"], more="token"), whole({}, 410)]
    async with serving(tmp_path, *expired, page(["a"], more="token"), page(["b"])) as (api, script):
        query = {"labelSelector": "x=y"}
        await list_all(api, "/pods", lambda item: took.append(PLAIN.decode(item).metadata.name), query, page=1)
    assert took == ["a", "a", "b"]
    assert {(asked["labelSelector"], asked["limit"]) for _, asked in script.asked} == {("x=y", "1")}
    async with serving(tmp_path, *expired * 5) as (api, _):
        with pytest.raises(ClusterUnavailable, match="expire"):
            await list_all(api, "/pods", lambda _: None, {})


async def test_an_empty_list_may_say_null(tmp_path: Path) -> None:
    async with serving(tmp_path, whole({"metadata": {"resourceVersion": "7"}, "items": None})) as (api, _):
        assert await list_pages(api, "/pods", lambda _: None) == "7"


async def test_a_version_that_is_gone_cannot_be_listed(tmp_path: Path) -> None:
    async with serving(tmp_path, whole({}, 410)) as (api, _):
        with pytest.raises(ClusterUnavailable):
            await list_pages(api, "/pods", lambda _: None, at="5")
