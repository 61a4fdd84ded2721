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
from dataclasses import dataclass
from random import Random
from typing import Final

import msgspec

from hanse.agent.cluster.kubernetes.api import GONE, LIST_DEADLINE_S, Api, Refused
from hanse.agent.cluster.kubernetes.objects import ITEMS, PLAIN, REFUSAL, WATCH_EVENT
from hanse.agent.cluster.port import ClusterUnavailable, WatchLost
from hanse.kit.backoff import Backoff, BackoffPolicy

log = logging.getLogger(__name__)

PAGE: Final = 1_000
RELISTS_MAX: Final = 3
WATCH_FOR_S: Final = 300
SILENCE_MAX_S: Final = 90.0
"""A server sends a bookmark every minute; one that is silent for longer may be gone."""

RESUMES_MAX: Final = 6
RESUME: Final = BackoffPolicy(first_s=0.1, max_s=2.0)
_ERROR: Final = "ERROR"
_BOOKMARK: Final = "BOOKMARK"
_DELETED: Final = "DELETED"


@dataclass(frozen=True, slots=True)
class Listed:
    """All objects of one kind at a version, not decoded yet."""

    version: str
    items: list[msgspec.Raw]


async def list_all(api: Api, path: str, *, at: str = "") -> Listed:
    """Every object, as new as when this was called, or as of an exact version.

    Raises:
        Refused: that version is not there (any more, or yet).
        ClusterUnavailable: also when pages expire again and again.
    """
    for _ in range(RELISTS_MAX):
        try:
            return await _list_once(api, path, at)
        except Refused as refused:
            if refused.code != GONE or at:
                raise
    raise ClusterUnavailable(f"{path}: its pages expire before they are read")


async def _list_once(api: Api, path: str, at: str) -> Listed:
    query = {"limit": str(PAGE)}
    if at:
        query |= {"resourceVersion": at, "resourceVersionMatch": "Exact"}
    items: list[msgspec.Raw] = []
    while True:
        page = ITEMS.decode(await api.get(path, query, deadline_s=LIST_DEADLINE_S))
        items += page.items
        if not page.metadata.continue_:
            return Listed(page.metadata.resource_version, items)
        query = {"limit": str(PAGE), "continue": page.metadata.continue_}


class Follower:
    """One watch of one kind.

    Args:
        take: is given each object as JSON, and whether it is gone.
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
    ) -> None:
        self.version = version
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
                raise WatchLost(f"{self._path}: {refused}") from refused
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
        event = WATCH_EVENT.decode(line)
        if event.type == _ERROR:
            said = REFUSAL.decode(event.object)
            raise Refused(said.code, said.reason, said.message)
        if event.type != _BOOKMARK:
            self._take(event.object, event.type == _DELETED)
        self.version = PLAIN.decode(event.object).metadata.resource_version
