"""ConfigMaps and Services that travel with jobs: made before a gang's pods, taken away when nobody uses them any
more.

One that we make is ours by its federation label, and says who uses it: a label for each gang. So the next attempt of
a job, or another job that brings the same object, joins in instead of being refused, and the last one to go takes it
along. Only the same content is shared, told by a digest.

What is there and is not ours is never changed and never removed. If it holds what the job brings it serves as it is;
if not, the gang is refused.

What an agent leaves behind that dies while it forgets a gang, the next list finds (`sweep`), as with Services: a
record precedes its gang's companions, so a user without a record is none.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from hanse.agent.cluster.kubernetes.api import CONFLICT, NOT_FOUND, Api, Refused
from hanse.agent.cluster.kubernetes.hands import NotTaken, NotYet, unless_there
from hanse.agent.cluster.kubernetes.names import FEDERATION, POOL, PREFIX, gang_text
from hanse.agent.cluster.kubernetes.objects import PLAIN, Body, Meta, read
from hanse.agent.cluster.kubernetes.pods import Start
from hanse.agent.cluster.kubernetes.throttle import Throttle
from hanse.agent.cluster.kubernetes.watching import list_all
from hanse.agent.cluster.port import GangKey
from hanse.model.beside import Companion, why_not_companion

log = logging.getLogger(__name__)

COMPANION: Final = PREFIX + "companion"
CONTENT: Final = PREFIX + "content"
USED_BY: Final = "used-by." + PREFIX
GANGS_REMEMBERED_MAX: Final = 10_000

_FOLDERS: Final = {"ConfigMap": "configmaps", "Service": "services"}
_CONTENT_FIELDS: Final = {"ConfigMap": ("data", "binaryData"), "Service": ("spec",)}


class Companions:
    """See the module.

    Args:
        federation: whose objects are ours.
    """

    def __init__(self, api: Api, throttle: Throttle, federation: Callable[[], str]) -> None:
        self._api = api
        self._throttle = throttle
        self._federation = federation
        self._made: dict[GangKey, tuple[str, ...]] = {}

    async def create(self, start: Start) -> None:
        """Have everything there that the gang brings. Raises NotTaken, NotYet, ClusterUnavailable."""
        companions = start.order.companions
        if not companions:
            return
        self._made.pop(start.key, None)
        self._made[start.key] = tuple(_path(start.namespace, c.kind, c.name) for c in companions)
        if len(self._made) > GANGS_REMEMBERED_MAX:
            del self._made[next(iter(self._made))]
        for companion in companions:
            await self._create(start, companion)

    async def remove(self, key: GangKey) -> None:
        """The gang uses nothing any more. Raises NotYet, ClusterUnavailable."""
        for path in self._made.get(key, ()):
            try:
                async with self._throttle:
                    meta = read(PLAIN, await self._api.get(path, brief=True)).metadata
            except Refused as refused:
                if refused.code != NOT_FOUND:
                    raise NotYet(f"{path}: {refused}") from None
            else:
                await self._leave(path, meta, {used_by(key)})
        self._made.pop(key, None)

    async def sweep(self, users: Callable[[], frozenset[str]], verify: Callable[[], Any]) -> None:
        """Take away what nobody uses.

        Args:
            users: the labels of the gangs that are here; asked after `verify` has found that our records are ours.

        Raises:
            Superseded, NotYet, ClusterUnavailable
        """
        found = [(path, meta) for folder in _FOLDERS.values() for path, meta in await self._list(folder)]
        if not found:
            return
        await verify()
        here = users()
        for path, meta in found:
            gone = {label for label in meta.labels if label.startswith(USED_BY)} - here
            if gone:
                log.info("companion_unused", extra={"object": f"{meta.namespace}/{meta.name}", "users": len(gone)})
                await self._leave(path, meta, gone)

    # ---- creating -----------------------------------------------------------------------------------------

    async def _create(self, start: Start, companion: Companion) -> None:
        why = why_not_companion(companion)
        if why:
            raise NotTaken(why)
        folder = f"/api/v1/namespaces/{start.namespace}/{_FOLDERS[companion.kind]}"
        try:
            async with self._throttle:
                await self._api.post(folder, _body(start, companion))
        except Refused as refused:
            unless_there(refused)
            await self._join(start, companion)

    async def _join(self, start: Start, companion: Companion) -> None:
        path = _path(start.namespace, companion.kind, companion.name)
        try:
            async with self._throttle:
                data = await self._api.get(path)
        except Refused as refused:
            raise NotYet(f"{path}: {refused}") from None
        meta, what = read(PLAIN, data).metadata, f"{companion.kind} {companion.name} is there already"
        if meta.labels.get(FEDERATION) != start.federation or COMPANION not in meta.labels:
            if not _holds(json.loads(data), companion):
                raise NotTaken(f"{what}, and it is not ours; give yours another name, or remove it")
            return
        if meta.deletion_timestamp:
            raise NotYet(f"{what}, and is still going")
        if meta.annotations.get(CONTENT) != _digest(companion):
            raise NotTaken(f"{what}, for another job and with other content; give it another name")
        await self._patch(path, meta, {used_by(start.key): ""})

    # ---- removing -----------------------------------------------------------------------------------------

    async def _leave(self, path: str, meta: Meta, gone: set[str]) -> None:
        """Without these users; nothing if it is not ours."""
        if meta.labels.get(FEDERATION) != self._federation() or COMPANION not in meta.labels:
            return
        users = {label for label in meta.labels if label.startswith(USED_BY)}
        if not users & gone:
            return
        if users - gone:
            await self._patch(path, meta, dict.fromkeys(users & gone))
            return
        try:
            async with self._throttle:
                same = {"uid": meta.uid, "resourceVersion": meta.resource_version}
                await self._api.delete(path, {"preconditions": same})
        except Refused as refused:
            if refused.code != NOT_FOUND:
                raise NotYet(f"{path}: {refused}") from None

    async def _patch(self, path: str, meta: Meta, labels: dict[str, Any]) -> None:
        body: Body = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "labels": labels},
        }
        try:
            async with self._throttle:
                await self._api.patch(path, body, brief=True)
        except Refused as refused:
            if refused.code in (NOT_FOUND, CONFLICT):
                raise NotYet(f"{path} has changed meanwhile") from None
            raise NotYet(f"{path}: {refused}") from None

    async def _list(self, folder: str) -> list[tuple[str, Meta]]:
        own: dict[str, tuple[str, Meta]] = {}

        def take(item: msgspec.Raw) -> None:
            meta = read(PLAIN, item).metadata
            own[meta.uid] = f"/api/v1/namespaces/{meta.namespace}/{folder}/{meta.name}", meta

        query = {"labelSelector": f"{FEDERATION}={self._federation()},{COMPANION}"}
        await list_all(self._api, f"/api/v1/{folder}", take, query)
        return list(own.values())


def used_by(key: GangKey) -> str:
    """The label that says that a gang uses an object; a gang's own words are too long for one."""
    return USED_BY + hashlib.blake2b(gang_text(key).encode(), digest_size=10).hexdigest()


def users_of(keys: Iterable[GangKey]) -> frozenset[str]:
    """The labels of these gangs."""
    return frozenset(map(used_by, keys))


def _path(namespace: str, kind: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/{_FOLDERS[kind]}/{name}"


def _body(start: Start, companion: Companion) -> Body:
    """The object with our marks on it; of what the job brings, nothing else than it may."""
    brought = json.loads(companion.text)
    told = brought.get("metadata", {})
    ours = {FEDERATION: start.federation, POOL: start.pool, COMPANION: "", used_by(start.key): ""}
    kept = {key: brought[key] for key in (*_CONTENT_FIELDS[companion.kind], "immutable") if key in brought}
    metadata = {
        "name": companion.name,
        "labels": {**told.get("labels", {}), **ours},
        "annotations": {**told.get("annotations", {}), CONTENT: _digest(companion)},
    }
    return {"apiVersion": "v1", "kind": companion.kind, "metadata": metadata, **kept}


def _digest(companion: Companion) -> str:
    return hashlib.blake2b(companion.text.encode(), digest_size=16).hexdigest()


def _holds(found: dict[str, Any], companion: Companion) -> bool:
    """Whether somebody else's object holds what the job brings; the server adds what was left out."""
    brought = json.loads(companion.text)
    fields = _CONTENT_FIELDS[companion.kind]
    return all(_covers(found.get(name) or {}, brought.get(name) or {}) for name in fields) and (
        companion.kind == "Service" or all(len(found.get(n) or {}) == len(brought.get(n) or {}) for n in fields)
    )


def _covers(found: object, wanted: object) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(_covers(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(_covers(one, other) for one, other in zip(found, wanted, strict=True))
        )
    return found == wanted
