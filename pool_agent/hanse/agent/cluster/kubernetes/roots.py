"""How the objects are doing whose controllers make our pods: each kind that is in use is listed and watched.

An object that is ours is known by its uid. One is *gone* once the server says so of that uid: when its watch tells of
its deletion, or when a list does not have it and a look by its name does not find it either (a list may be older than
the object). What is not known yet is taken to be under way.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

import msgspec

from hanse.agent.cluster.kubernetes.api import NOT_FOUND, Api, Refused
from hanse.agent.cluster.kubernetes.kinds import POD, End, end_of, folder_of
from hanse.agent.cluster.kubernetes.ledgers import Ledgers
from hanse.agent.cluster.kubernetes.names import FEDERATION, own_root
from hanse.agent.cluster.kubernetes.objects import ROOT, RootObject, read
from hanse.agent.cluster.kubernetes.stored import Root, Stored
from hanse.agent.cluster.kubernetes.watching import FORBIDDEN, Expired, Follower, is_served, list_pages
from hanse.agent.cluster.port import ClusterUnavailable, GangKey, WatchLost
from hanse.kit.backoff import Backoff, BackoffPolicy
from hanse.kit.tasks import cancelled

log = logging.getLogger(__name__)

RETRY: Final = BackoffPolicy(first_s=0.2, max_s=10.0)
Kind = tuple[str, str]


@dataclass(frozen=True, slots=True)
class RootState:
    """One object of ours.

    Attributes:
        end: how it has ended by its own word, None while it has not.
        leaving: somebody has told it to go.
        gone: it is not there any more.
    """

    gang: GangKey | None = None
    end: End | None = None
    leaving: bool = False
    gone: bool = False


_UNDER_WAY: Final = RootState()
_GONE: Final = RootState(gone=True)


class Roots:
    """See the module.

    Args:
        changed: told of the gang of an object that changed.
    """

    def __init__(self, api: Api, ledgers: Ledgers, rng: Random, changed: Callable[[GangKey], None]) -> None:
        self._api = api
        self._ledgers = ledgers
        self._rng = rng
        self._changed = changed
        self._states: dict[str, RootState] = {}
        self._kinds: dict[str, Kind] = {}
        self._in_use = asyncio.Event()

    def state(self, root: Root) -> RootState:
        """How one is, as far as is known."""
        return self._states.get(root.uid, _UNDER_WAY)

    def states(self, stored: Stored) -> dict[str, RootState]:
        """How those of a gang are, by uid."""
        return {root.uid: self.state(root) for root in stored.roots}

    def use(self, api_version: str, kind: str) -> None:
        """Objects of this kind are ours from now on. Pods are seen by others."""
        if (api_version, kind) == POD:
            return
        folder = folder_of(api_version, kind)
        if folder not in self._kinds:
            self._kinds[folder] = (api_version, kind)
            self._in_use.set()

    def met(self, root: Root, found: RootObject) -> None:
        """An object of ours was created, or was there."""
        self.use(root.api_version, root.kind)
        if (root.api_version, root.kind) != POD:
            self.set(root.kind, found)

    async def refresh(self) -> None:
        """See all of them as they are now. Raises ClusterUnavailable."""
        for stored in self._ledgers.records():
            for root in stored.roots:
                self.use(root.api_version, root.kind)
        for folder in list(self._kinds):
            with suppress(WatchLost):  # what is not served has nothing of ours any more
                await self._list(folder)

    async def run(self) -> None:
        """Keep them up to date until cancelled."""
        following: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                self._in_use.clear()
                for folder in self._kinds:
                    if folder not in following:
                        following[folder] = asyncio.create_task(self._follow(folder), name=f"follow-{folder}")
                await self._in_use.wait()
        finally:
            await cancelled(list(following.values()))

    async def _follow(self, folder: str) -> None:
        backoff = Backoff(RETRY, self._rng)
        while True:
            try:
                version = await self._list(folder)
                backoff.reset()
                await Follower(
                    self._api,
                    folder,
                    version,
                    self._rng,
                    take=partial(self._follow_one, self._kinds[folder][1]),
                    told=lambda: None,
                    query=self._selected,
                ).run()
            except (ClusterUnavailable, WatchLost) as error:
                log.info("objects_listed_anew", extra={"path": folder, "cause": str(error)})
            await asyncio.sleep(backoff.delay_s())

    @property
    def _selected(self) -> Mapping[str, str]:
        return {"labelSelector": f"{FEDERATION}={self._ledgers.claim.federation}"}

    async def _list(self, folder: str) -> str:
        seen: set[str] = set()

        def take(item: msgspec.Raw) -> None:
            seen.add(self._take(self._kinds[folder][1], item))

        why = await is_served(self._api, folder)
        if why:
            log.warning("objects_unreadable", extra={"path": folder, "cause": why})
            for stored, root in self._recorded(folder):
                await self._confirm(stored, root)
            raise WatchLost(f"{folder}: {why}")
        try:
            version = await list_pages(self._api, folder, take, self._selected)
        except Expired:
            raise ClusterUnavailable(f"{folder}: pages of lists expire before they are read") from None
        for stored, root in self._recorded(folder):
            if root.uid not in seen and not self.state(root).gone:
                await self._confirm(stored, root)
        return version

    def _recorded(self, folder: str) -> Iterable[tuple[Stored, Root]]:
        for stored in self._ledgers.records():
            for root in stored.roots:
                if folder_of(root.api_version, root.kind) == folder:
                    yield stored, root

    async def _confirm(self, stored: Stored, root: Root) -> None:
        """A list does not have it: is it gone, or newer than the list?"""
        path = f"{folder_of(root.api_version, root.kind, stored.namespace)}/{root.name}"
        try:
            found = read(ROOT, await self._api.get(path))
        except Refused as refused:
            if refused.code == FORBIDDEN:
                return
            if refused.code != NOT_FOUND:
                raise ClusterUnavailable(f"{path} cannot be read: {refused}") from None
            found = None
        if found is not None and found.metadata.uid == root.uid:
            self.set(root.kind, found)
        else:
            self._set(root.uid, _GONE, stored.record.key)

    def _follow_one(self, kind: str, item: msgspec.Raw, gone: bool = False) -> None:
        self._take(kind, item, gone)

    def _take(self, kind: str, item: msgspec.Raw, gone: bool = False) -> str:
        found = read(ROOT, item)
        if gone:
            key = own_root(found.metadata, self._ledgers.claim.federation)
            self._set(found.metadata.uid, _GONE, key)
        else:
            self.set(kind, found)
        return found.metadata.uid

    def set(self, kind: str, found: RootObject) -> None:
        """An object is like that now."""
        key = own_root(found.metadata, self._ledgers.claim.federation)
        state = RootState(key, end_of(kind, found), bool(found.metadata.deletion_timestamp))
        self._set(found.metadata.uid, state, key)

    def _set(self, uid: str, state: RootState, key: GangKey | None) -> None:
        if key is None or self._states.get(uid) == state:
            return
        if state.gone and self._ledgers.get(key) is None:
            self._states.pop(uid, None)  # as it should be
        else:
            self._states[uid] = state
        self._changed(key)
