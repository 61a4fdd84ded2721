"""What an API server has, listed and followed: nodes, pods, slices of devices, and the objects that make our pods."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

import msgspec

from hanse.agent.cluster.kubernetes.api import NO_QUERY, Api
from hanse.agent.cluster.kubernetes.families import Families
from hanse.agent.cluster.kubernetes.ledgers import Ledgers
from hanse.agent.cluster.kubernetes.mirror import Mirror
from hanse.agent.cluster.kubernetes.objects import NODE, POD, SLICE, read
from hanse.agent.cluster.kubernetes.roots import Roots
from hanse.agent.cluster.kubernetes.slices import SLICES_PATH
from hanse.agent.cluster.kubernetes.spread import spread
from hanse.agent.cluster.kubernetes.verdicts import version_of
from hanse.agent.cluster.kubernetes.watching import RELISTS_MAX, Expired, Follower, is_served, list_all, list_pages
from hanse.agent.cluster.port import ClusterUnavailable, NodeFacts
from hanse.kit.tasks import race
from hanse.model.ids import NodeName

log = logging.getLogger(__name__)

NODES_PATH: Final = "/api/v1/nodes"
PODS_PATH: Final = "/api/v1/pods"


class Looking:
    """See the module.

    Args:
        told: called after each batch of changes.
    """

    def __init__(
        self,
        api: Api,
        ledgers: Ledgers,
        families: Families,
        roots: Roots,
        rng: Random,
        pool: str,
        told: Callable[[], None],
    ) -> None:
        self._api = api
        self._ledgers = ledgers
        self._families = families
        self._roots = roots
        self._rng = rng
        self._pool = pool
        self._wake = told
        self._no_slices = ""

    async def mirror_at(self, version: str) -> Mirror:
        """A mirror of the newest objects, or of those at an exact version."""
        for _ in range(RELISTS_MAX):
            mirror = Mirror(self._ledgers.claim.federation, self._families.kin)
            try:
                await self._list_slices(mirror, version)
                await self._list_both(mirror, version)
            except Expired:
                continue
            mirror.version = version_of(mirror.pod_version)
            await self.meet(mirror)
            return mirror
        raise ClusterUnavailable("pages of lists expire before they are read")

    async def nodes(self) -> tuple[NodeFacts, ...]:
        """The nodes as they are now, and nothing else. Raises ClusterUnavailable."""
        mirror = Mirror("")
        await list_all(self._api, NODES_PATH, partial(self._take_node, mirror), NO_QUERY)
        return tuple(mirror.nodes.values())

    async def _list_both(self, mirror: Mirror, version: str) -> None:
        """Nodes and pods, at the same time."""

        async def one(path: str) -> None:
            if path == NODES_PATH:
                mirror.node_version = await list_pages(self._api, path, partial(self._take_node, mirror), at=version)
            else:
                mirror.pod_version = await list_pages(self._api, path, partial(self._take_pod, mirror), at=version)

        await spread((NODES_PATH, PODS_PATH), one, at_once=2)

    async def _list_slices(self, mirror: Mirror, version: str) -> None:
        """Which devices are near each other, where the server can tell."""
        why = await is_served(self._api, SLICES_PATH)
        if why:
            if why != self._no_slices:
                log.info("device_groups_unknown", extra={"pool": self._pool, "cause": why})
        else:
            mirror.slice_version = await list_pages(
                self._api, SLICES_PATH, partial(self._take_slice, mirror), at=version
            )
        self._no_slices = why

    async def meet(self, mirror: Mirror) -> None:
        """Find out whose pods those are that say they are ours. Raises ClusterUnavailable."""
        strangers = list(mirror.strangers.values())
        if strangers:
            await self._families.resolve(strangers)
            for pod in strangers:
                if pod.metadata.uid in mirror.strangers:
                    mirror.set_pod(pod, asyncio.get_running_loop().time())

    async def follow(self, mirror: Mirror) -> None:
        """Keep a mirror up to date until a watch is lost. Raises WatchLost."""
        nodes = Follower(
            self._api,
            NODES_PATH,
            mirror.node_version,
            self._rng,
            take=partial(self._take_node, mirror),
            told=self._wake,
        )
        pods = Follower(
            self._api,
            PODS_PATH,
            mirror.pod_version,
            self._rng,
            take=partial(self._take_pod, mirror),
            told=self._wake,
        )
        if not mirror.slice_version:
            await race(nodes=nodes.run(), pods=pods.run(), roots=self._roots.run())
            return
        slices = Follower(
            self._api,
            SLICES_PATH,
            mirror.slice_version,
            self._rng,
            take=partial(self._take_slice, mirror),
            told=self._wake,
        )
        await race(nodes=nodes.run(), pods=pods.run(), slices=slices.run(), roots=self._roots.run())

    def _take_slice(self, mirror: Mirror, item: msgspec.Raw, gone: bool = False) -> None:
        found = read(SLICE, item)
        if gone:
            mirror.drop_slice(found.metadata.name)
        else:
            mirror.set_slice(found)

    def _take_node(self, mirror: Mirror, item: msgspec.Raw, gone: bool = False) -> None:
        now_s = asyncio.get_running_loop().time()
        node = read(NODE, item)
        name = NodeName(node.metadata.name)
        if gone:
            mirror.drop_node(name, now_s)
            return
        try:
            mirror.set_node(node, now_s)
        except ValueError as error:
            log.warning("node_unreadable", extra={"pool": self._pool, "node": name, "cause": str(error)})
            mirror.hide_node(name)

    def _take_pod(self, mirror: Mirror, item: msgspec.Raw, gone: bool = False) -> None:
        pod = read(POD, item)
        if gone:
            mirror.drop_pod(pod.metadata.uid)
            return
        try:
            mirror.set_pod(pod, asyncio.get_running_loop().time())
        except ValueError as error:
            name = f"{pod.metadata.namespace}/{pod.metadata.name}"
            log.warning("pod_unreadable", extra={"pool": self._pool, "pod": name, "cause": str(error)})
