"""ClusterPort over a real Kubernetes API server.

    claim, records     `ledgers`    ConfigMaps, each changed only as it was seen (P7, P8)
    starting a gang    `starting`   pods gated, then complete in the ledger, then let go
    other operations   `writing`    records first, then their pods
    what follows       `tending`    what `chores` says about pods: a level, whoever left them like that
    what is left over  `orphans`    Services of gangs that are no more
    lists, watches     `mirror`, `watching`, `telling`
    requests           `hands` for pods (throttled), `api` for all

The version that the port speaks of is that of the list of pods. A watch goes on from the lists of this process; for
a version that this process has not listed last, it lists everything as it was then, if the server still knows that.

Gangs of one write are independent of each other: their operations take effect in any order, those on one gang in the
order given, and an accepted revision before whatever follows it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

import msgspec

from hanse.agent.cluster.kubernetes.api import Access, Api
from hanse.agent.cluster.kubernetes.companions import Companions
from hanse.agent.cluster.kubernetes.counting import counts_of
from hanse.agent.cluster.kubernetes.hands import Hands, NotTaken
from hanse.agent.cluster.kubernetes.ledgers import Ledgers
from hanse.agent.cluster.kubernetes.logs import lines_of
from hanse.agent.cluster.kubernetes.mirror import Mirror
from hanse.agent.cluster.kubernetes.names import PodKey, own_pod, pod_name
from hanse.agent.cluster.kubernetes.needs import Needs
from hanse.agent.cluster.kubernetes.objects import NODE, POD, SLICE, PodObject, read
from hanse.agent.cluster.kubernetes.orphans import Orphans
from hanse.agent.cluster.kubernetes.pods import Start
from hanse.agent.cluster.kubernetes.settings import KubernetesSettings
from hanse.agent.cluster.kubernetes.slices import SLICES_PATH
from hanse.agent.cluster.kubernetes.starting import Starting
from hanse.agent.cluster.kubernetes.telling import Told
from hanse.agent.cluster.kubernetes.tending import Tending
from hanse.agent.cluster.kubernetes.throttle import Throttle
from hanse.agent.cluster.kubernetes.verdicts import own_pod_of, version_of
from hanse.agent.cluster.kubernetes.watching import RELISTS_MAX, Expired, Follower, is_served, list_pages
from hanse.agent.cluster.kubernetes.writing import Writing
from hanse.agent.cluster.port import (
    PORT_DEADLINE_S,
    Claim,
    ClusterEvent,
    ClusterPort,
    ClusterState,
    ClusterUnavailable,
    ClusterWrite,
    Epoch,
    GangKey,
    PodCounts,
    PodPhase,
    PodStatus,
    Wanted,
    WatchLost,
    WriteResult,
)
from hanse.kit.tasks import TaskPool, race
from hanse.model.ids import NodeName

log = logging.getLogger(__name__)

NODES_PATH: Final = "/api/v1/nodes"
PODS_PATH: Final = "/api/v1/pods"
LOG_LOOK_EVERY_S: Final = 0.5
BEHIND: Final = 2
"""Tasks that go on behind the port."""


class KubernetesCluster:
    """See the module. Connects when it is first used; `close` ends what goes on behind it."""

    def __init__(
        self,
        access: Access,
        pool: str,
        settings: KubernetesSettings | None = None,
        rng: Random | None = None,
    ) -> None:
        self._where = str(access)
        self._pool = pool
        self._settings = told = settings or KubernetesSettings()
        self._rng = rng or Random()
        self._api = Api(access)
        throttle = Throttle(per_s=told.requests_per_s, burst=told.requests_burst, at_once=told.requests_at_once)
        self._hands = Hands(self._api, throttle)
        self._ledgers = Ledgers(self._api, told, pool)
        self._mirror = Mirror("")
        self._told = Told(self._mirror, (), self._count)
        self._needs = Needs(self._api)
        self._companions = Companions(self._api, throttle, lambda: self._ledgers.claim.federation)
        self._tending = Tending(
            self._hands, self._ledgers, told, self._rng, lambda: self._mirror, companions=self._companions
        )
        self._starting = Starting(
            self._hands,
            self._rng,
            at_once=told.requests_at_once,
            complete=self._complete,
            is_complete=self._is_complete,
            created=self._created,
            changed=self._changed,
            prepare=self._prepare,
        )
        self._writing = Writing(self._ledgers, self._starting, self._tending, told, pool, lambda: self._mirror)
        self._orphans = Orphans(self._hands, self._ledgers, lambda: self._mirror, self._companions)
        self._tasks = TaskPool(BEHIND)
        self._news: dict[asyncio.Event, None] = {}
        self._no_slices = ""

    async def close(self) -> None:
        """End what goes on behind the port. No pod is stopped."""
        await self._starting.close()
        await self._tasks.close()
        await self._api.close()

    # ---- claims -------------------------------------------------------------------------------------------

    async def read_claim(self) -> Claim:
        async with self._deadline("read_claim"):
            return await self._ledgers.read_claim()

    async def claim(self, federation: str, epoch: Epoch, revision: int) -> Claim:
        async with self._deadline("claim"):
            await self._starting.close()
            claim = await self._ledgers.claim_for(federation, epoch, revision)
        self._tend_on()
        return claim

    def _tend_on(self) -> None:
        if len(self._tasks) < BEHIND:
            self._tasks.start("tending", self._tending.run())
            self._tasks.start("orphans", self._orphans.run())
        self._tending.woken.set()

    # ---- lists and watches --------------------------------------------------------------------------------

    async def list(self) -> ClusterState:
        async with self._deadline("list"):
            await self._list()
        mirror, records = self._mirror, self._ledgers.records()
        self._wake()
        self._orphans.listed.set()
        return ClusterState(
            version=mirror.version,
            claim=self._ledgers.claim,
            nodes=tuple(mirror.nodes.values()),
            foreign=tuple(mirror.all_foreign()),
            records=tuple(stored.record for stored in records),
            pods=self._told.counts,
        )

    async def _list(self) -> None:
        """Records first: what they say was complete has its pods in a list that is made after that."""
        await self._ledgers.refresh()
        mirror = await self._mirror_at("")
        mirror.inherit(self._mirror, asyncio.get_running_loop().time())
        for stored in self._ledgers.records():
            mirror.touch(stored.record.key)
        self._mirror = mirror
        self._told = self._told_of(mirror)

    async def _mirror_at(self, version: str) -> Mirror:
        """A mirror of the newest objects, or of those at an exact version."""
        for _ in range(RELISTS_MAX):
            mirror = Mirror(self._ledgers.claim.federation)
            try:
                await self._list_slices(mirror, version)
                mirror.node_version = await list_pages(
                    self._api, NODES_PATH, partial(self._take_node, mirror), at=version
                )
                mirror.pod_version = await list_pages(
                    self._api, PODS_PATH, partial(self._take_pod, mirror), at=version
                )
            except Expired:
                continue
            mirror.version = version_of(mirror.pod_version)
            return mirror
        raise ClusterUnavailable(f"{self._where}: pages of lists expire before they are read")

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

    def _told_of(self, mirror: Mirror) -> Told:
        """A list's state, all of it told."""
        keys = dict.fromkeys(stored.record.key for stored in self._ledgers.records() if stored.record.started)
        keys |= dict.fromkeys(key for key in mirror.gangs if key not in keys and self._count(mirror, key).existing)
        told = Told(mirror, keys, self._count)
        mirror.changed_nodes.clear()
        mirror.changed_gangs.clear()
        return told

    def _count(self, mirror: Mirror, key: GangKey) -> PodCounts:
        return counts_of(key, self._ledgers.get(key), mirror.pods(key), self._starting.underway(key))

    async def watch(self, version: int) -> AsyncIterator[tuple[ClusterEvent, ...]]:
        mirror, told = self._mirror, self._told
        if mirror.version != version or mirror.watched:
            try:
                async with self._deadline("watch"):
                    mirror = await self._mirror_at(str(version))
                    told = self._told_of(mirror)
            except ClusterUnavailable as error:
                raise WatchLost(f"version {version} cannot be listed any more: {error}") from error
        mirror.watched = True
        news = asyncio.Event()
        news.set()
        self._news[news] = None
        following = asyncio.create_task(self._follow(mirror), name="follow")
        following.add_done_callback(lambda _: news.set())
        try:
            while True:
                await news.wait()
                news.clear()
                events = told.news()
                if events:
                    yield events
                if following.done():
                    following.result()
        finally:
            del self._news[news]
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _follow(self, mirror: Mirror) -> None:
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
            await race(nodes=nodes.run(), pods=pods.run())
            return
        slices = Follower(
            self._api,
            SLICES_PATH,
            mirror.slice_version,
            self._rng,
            take=partial(self._take_slice, mirror),
            told=self._wake,
        )
        await race(nodes=nodes.run(), pods=pods.run(), slices=slices.run())

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

    def _wake(self) -> None:
        for news in self._news:
            news.set()
        self._tending.woken.set()

    # ---- writing ------------------------------------------------------------------------------------------

    async def write(self, epoch: Epoch, ops: Sequence[ClusterWrite]) -> tuple[WriteResult, ...]:
        async with self._deadline("write"):
            await self._ledgers.own(epoch)
            self._tend_on()
            if self._mirror.federation != self._ledgers.claim.federation:
                await self._list()
            return await self._writing.write(epoch, ops)

    async def _prepare(self, start: Start) -> None:
        """Raises NotTaken, NotYet, ClusterUnavailable."""
        if not await self._needs.has_namespace(start.namespace):
            if not self._settings.may_create(start.namespace, start.order.namespace):
                raise NotTaken(f"there is no namespace {start.namespace}; create it in the cluster")
            await self._hands.create_namespace(start.namespace)
        await self._companions.create(start)

    # ---- what starts tell ---------------------------------------------------------------------------------

    async def _complete(self, start: Start) -> None:
        """Every pod was created and acknowledged: from now on they may run, and none is created any more.

        Raises:
            NotTaken, NotYet, Superseded, ClusterUnavailable
        """
        stored = self._ledgers.get(start.key)
        if stored is None or stored.stopped:
            return
        if stored.complete is None:
            refused = await self._ledgers.change(start.epoch, {start.key: replace(stored, complete=start.epoch)})
            if refused:
                raise NotTaken(refused[start.key])
        self._changed(start.key)
        await self._tending.tend([start.key])

    def _is_complete(self, key: GangKey) -> bool:
        stored = self._ledgers.get(key)
        return stored is not None and stored.complete is not None

    def _created(self, pod: PodObject) -> None:
        self._mirror.set_pod(pod, asyncio.get_running_loop().time())

    def _changed(self, key: GangKey) -> None:
        self._mirror.touch(key)
        self._wake()

    # ---- details ------------------------------------------------------------------------------------------

    async def lacking(self, wanted: Wanted) -> tuple[str, ...]:
        namespace = self._settings.namespace_for(wanted.namespace, wanted.queue)
        async with self._deadline("lacking"):
            return await self._needs.lacking(namespace, wanted.needs)

    async def pods(self, key: GangKey) -> tuple[PodStatus, ...]:
        async with self._deadline("pods"):
            federation = (await self._ledgers.read_claim()).federation
            found = await self._hands.pods_of(key, federation) if federation else []
        return tuple(own_pod_of(pod_key, pod).status() for pod_key, pod in found)

    async def logs(
        self, key: GangKey, *, pod_set: str, rank: int, follow: bool, tail: int
    ) -> AsyncIterator[tuple[str, ...]]:
        """As in the port; a pod that does not exist, or has not begun and is not followed, has no lines."""
        pod = await self._begun(PodKey(key, pod_set, rank), follow=follow)
        if pod is None:
            return
        async with aclosing(lines_of(self._api, pod.metadata, follow=follow, tail=tail)) as batches:
            async for lines in batches:
                yield lines

    async def _begun(self, wanted: PodKey, *, follow: bool) -> PodObject | None:
        """The pod once it has begun; None if it is not there, or has not begun and nobody waits for it."""
        while True:
            async with self._deadline("logs"):
                federation = (await self._ledgers.read_claim()).federation
                stored = self._ledgers.get(wanted.gang)
                namespace = (stored.namespace if stored is not None else "") or self._settings.jobs_namespace
                pod = await self._hands.find(namespace, pod_name(wanted))
            if pod is None or own_pod(pod.metadata, federation) != wanted:
                return None
            if own_pod_of(wanted, pod).phase is not PodPhase.PENDING:
                return pod
            if not follow:
                return None
            await asyncio.sleep(LOG_LOOK_EVERY_S)

    @asynccontextmanager
    async def _deadline(self, what: str) -> AsyncIterator[None]:
        """The port's deadline, and what cannot be read as the port's error."""
        try:
            async with asyncio.timeout(PORT_DEADLINE_S):
                yield
        except TimeoutError:
            raise ClusterUnavailable(f"{self._where}: {what} took longer than {PORT_DEADLINE_S:.0f} s") from None
        except msgspec.DecodeError as error:
            raise ClusterUnavailable(f"{self._where}: {what}: the answer cannot be read: {error}") from None


def _is_port(adapter: KubernetesCluster) -> ClusterPort:
    """For the type checker: the adapter keeps the port."""
    return adapter
