"""Lists in pages and watches that go on, over the API's own rules for both.

A list is read in pages of one version. A watch begins where its list ended, moves on with every event and bookmark,
and is resumed there whenever its connection ends: servers end watches after some minutes, cut off slow readers in
silence, and restart. Only when the server says that the version is gone, or nothing works for a while, it is lost,
and everything is listed again.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from random import Random
from typing import Final

import msgspec

from hanse.agent.cluster.kubernetes.api import (
    GONE,
    LIST_DEADLINE_S,
    NO_QUERY,
    NOT_FOUND,
    TOO_MANY_REQUESTS,
    Api,
    Query,
    Refused,
)
from hanse.agent.cluster.kubernetes.objects import ITEMS, PLAIN, REFUSAL, WATCH_EVENT, Items, read
from hanse.agent.cluster.port import ClusterUnavailable, WatchLost
from hanse.kit.backoff import Backoff, BackoffPolicy
from hanse.kit.tasks import cancelled

log = logging.getLogger(__name__)

FORBIDDEN: Final = 403
PAGE: Final = 1_000
TAKEN_AT_ONCE: Final = 50
WATCH_FOR_S: Final = 300
SILENCE_MAX_S: Final = 90.0
"""A server sends a bookmark every minute; one that is silent for longer may be gone."""

RELISTS_MAX: Final = 3
RESUMES_MAX: Final = 6
RESUME: Final = BackoffPolicy(first_s=0.1, max_s=2.0)
_ERROR: Final = "ERROR"
_BOOKMARK: Final = "BOOKMARK"
_DELETED: Final = "DELETED"


class Expired(Exception):
    """The pages of a list went out of date while they were read: begin again."""


async def list_all(
    api: Api, path: str, take: Callable[[msgspec.Raw], None], query: Query, *, page: int = PAGE
) -> None:
    """Give every object that is selected to `take`, some more than once: pages that expire are begun anew.

    Raises:
        ClusterUnavailable
    """
    for _ in range(RELISTS_MAX):
        try:
            await list_pages(api, path, take, query, page=page)
        except Expired:
            continue
        return
    raise ClusterUnavailable(f"{path}: pages of lists expire before they are read")


async def list_pages(
    api: Api,
    path: str,
    take: Callable[[msgspec.Raw], None],
    query: Query = NO_QUERY,
    *,
    at: str = "",
    page: int = PAGE,
) -> str:
    """Give every object to `take`, page by page, so that a body is dropped once it is read. The server makes the next
    page meanwhile.

    Args:
        query: selects objects.
        at: an exact version; "" for the newest, of which nothing that was acknowledged before this call is missing.
        page: objects in one answer.

    Returns the version.

    Raises:
        Expired: what was taken is worth nothing.
        ClusterUnavailable: also when an exact version is not there (any more, or yet).
    """
    limited = {**query, "limit": str(page)}
    asked = limited | {"resourceVersion": at, "resourceVersionMatch": "Exact"} if at else limited
    found = await _page(api, path, asked)
    while found.metadata.continue_:
        asked = limited | {"continue": found.metadata.continue_}
        following = asyncio.create_task(_page(api, path, asked), name="next-page")
        try:
            await _take(found, take)
            found = await following
        finally:
            await cancelled([following])
    await _take(found, take)
    return found.metadata.resource_version


async def _page(api: Api, path: str, asked: Query) -> Items:
    """Raises Expired, ClusterUnavailable."""
    try:
        return read(ITEMS, await api.get(path, asked, deadline_s=LIST_DEADLINE_S))
    except Refused as refused:
        if refused.code == GONE and "continue" in asked:
            raise Expired from None
        raise ClusterUnavailable(f"{path} cannot be listed: {refused}") from None


async def _take(found: Items, take: Callable[[msgspec.Raw], None]) -> None:
    """All objects of a page; others get their turns meanwhile, and so does the request for the next page."""
    for at, item in enumerate(found.items or ()):
        if at % TAKEN_AT_ONCE == 0:
            await asyncio.sleep(0)
        take(item)


async def is_served(api: Api, path: str) -> str:
    """Whether the server has objects of a kind and lets us list them: "", or why not.

    Raises:
        ClusterUnavailable
    """
    try:
        await api.get(path, {"limit": "1"}, deadline_s=LIST_DEADLINE_S)
    except Refused as refused:
        if refused.code in (NOT_FOUND, FORBIDDEN):
            return str(refused)
        raise ClusterUnavailable(f"{path} cannot be listed: {refused}") from None
    return ""


class Follower:
    """One watch of one kind.

    Args:
        take: is given each object as JSON, and whether it is gone.
        query: selects objects.
        told: called after each batch of objects.

    Attributes:
        version: up to which everything was taken.
    """

    def __init__(
        self,
        api: Api,
        path: str,
        version: str,
        rng: Random,
        *,
        take: Callable[[msgspec.Raw, bool], None],
        told: Callable[[], None],
        query: Query = NO_QUERY,
    ) -> None:
        self.version = version
        self._query = query
        self._api = api
        self._path = path
        self._rng = rng
        self._take = take
        self._told = told
        self._failures = 0

    async def run(self) -> None:
        """Follow until the watch is lost. Raises WatchLost."""
        backoff = Backoff(RESUME, self._rng)
        while True:
            before = self.version
            try:
                await self._follow()
            except Refused as refused:
                if refused.code != TOO_MANY_REQUESTS:
                    raise WatchLost(f"{self._path}: {refused}") from refused
                log.info("watch_resumed", extra={"path": self._path, "cause": str(refused)})
            except ClusterUnavailable as error:
                log.info("watch_resumed", extra={"path": self._path, "cause": str(error)})
            if self.version != before:
                self._failures = 0
                backoff.reset()
            self._failures += 1
            if self._failures > RESUMES_MAX:
                raise WatchLost(f"{self._path}: its watch cannot be resumed")
            await asyncio.sleep(backoff.delay_s())

    async def _follow(self) -> None:
        query = {
            **self._query,
            "watch": "1",
            "resourceVersion": self.version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_FOR_S),
        }
        async with aclosing(self._api.stream(self._path, query, silence_s=SILENCE_MAX_S)) as pieces:
            rest = b""
            async for piece in pieces:
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    self._event(line)
                self._failures = 0
                self._told()

    def _event(self, line: bytes) -> None:
        event = read(WATCH_EVENT, line)
        if event.type == _ERROR:
            said = read(REFUSAL, event.object)
            raise Refused(said.code, said.reason, said.message)
        if event.type != _BOOKMARK:
            self._take(event.object, event.type == _DELETED)
        self.version = read(PLAIN, event.object).metadata.resource_version
