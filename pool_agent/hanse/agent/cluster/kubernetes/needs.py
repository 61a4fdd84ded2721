"""Whether what pods name is in the cluster: by name, and without reading what is in it.

Each object is asked for as its metadata alone (`PartialObjectMetadata`), so the contents of a Secret never leave the
server. The role must allow `get` on it all the same; where an administrator takes that away, what we may not look at
is taken to be there. A found object is believed in for THERE_S, a missing one for LACKS_S, so that a burst of equal
jobs asks once.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from hanse.agent.cluster.kubernetes.api import NOT_FOUND, Api, Refused
from hanse.model.beside import Need, NeedKind

log = logging.getLogger(__name__)

THERE_S: Final = 20.0
LACKS_S: Final = 1.0
REMEMBERED_MAX: Final = 4_096
AT_ONCE: Final = 8
"""Requests under way at a time."""

_NAMESPACES: Final = "/api/v1/namespaces"
_PATHS: Final = {
    NeedKind.SECRET: f"{_NAMESPACES}/{{}}/secrets/{{}}",
    NeedKind.CONFIG_MAP: f"{_NAMESPACES}/{{}}/configmaps/{{}}",
    NeedKind.SERVICE_ACCOUNT: f"{_NAMESPACES}/{{}}/serviceaccounts/{{}}",
    NeedKind.PERSISTENT_VOLUME_CLAIM: f"{_NAMESPACES}/{{}}/persistentvolumeclaims/{{}}",
    NeedKind.PRIORITY_CLASS: "/apis/scheduling.k8s.io/v1/priorityclasses/{1}",
    NeedKind.RUNTIME_CLASS: "/apis/node.k8s.io/v1/runtimeclasses/{1}",
}


class Needs:
    """See the module."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._seen: dict[str, tuple[float, bool]] = {}
        self._unseen: set[str] = set()

    async def lacking(self, namespace: str, needs: Iterable[Need]) -> tuple[str, ...]:
        """Those that are not there, in words. Raises ClusterUnavailable."""
        wanted = [need for need in needs if need.kind in _PATHS]
        there = await asyncio.gather(*(self._is_there(_path(need, namespace), need.kind) for need in wanted))
        return tuple(_told(need, namespace) for need, found in zip(wanted, there, strict=True) if not found)

    async def has_namespace(self, name: str) -> bool:
        """Whether it is there. Raises ClusterUnavailable."""
        return await self._is_there(f"{_NAMESPACES}/{name}", NeedKind.UNSPECIFIED)

    async def _is_there(self, path: str, kind: NeedKind) -> bool:
        now_s = asyncio.get_running_loop().time()
        until_s, there = self._seen.get(path, (0.0, False))
        if until_s <= now_s:
            async with self._slots:
                there = await self._look(path, kind)
            self._remember(path, now_s + (THERE_S if there else LACKS_S), there)
        return there

    async def _look(self, path: str, kind: NeedKind) -> bool:
        try:
            await self._api.get(path, brief=True)
        except Refused as refused:
            if refused.code == NOT_FOUND:
                return False
            if kind.word not in self._unseen:
                self._unseen.add(kind.word)
                log.warning("needs_not_looked_at", extra={"kind": kind.word, "cause": str(refused)})
        return True

    def _remember(self, path: str, until_s: float, there: bool) -> None:
        self._seen.pop(path, None)
        self._seen[path] = until_s, there
        if len(self._seen) > REMEMBERED_MAX:
            del self._seen[next(iter(self._seen))]


def _path(need: Need, namespace: str) -> str:
    return _PATHS[need.kind].format(namespace, need.name)


def _told(need: Need, namespace: str) -> str:
    return f"{need} in namespace {namespace}" if need.kind.namespaced else str(need)
