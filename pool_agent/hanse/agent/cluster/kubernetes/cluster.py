"""ClusterPort over a real Kubernetes API server.

    claim, records     `ledgers`    ConfigMaps, each changed only as it was seen (P7, P8)
    starting a gang    `starting`, `launching`  its objects are created (`adapting`, `pods`) and recorded
    other operations   `writing`    records first, then their pods
    their pods         `minding`, `assigning`  each let go once the ledger names it; `families`, `roots`, `tallying`
    what follows       `tending`    what `chores` says about pods: a level, whoever left them like that
    what is left over  `orphans`    Services of gangs that are no more
    lists, watches     `looking`, `mirror`, `watching`, `telling`
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
from random import Random
from typing import Final

import msgspec

from hanse.agent.cluster.kubernetes.adapting import Terms
from hanse.agent.cluster.kubernetes.api import Access, Api
from hanse.agent.cluster.kubernetes.companions import Companions
from hanse.agent.cluster.kubernetes.counting import counts_of
from hanse.agent.cluster.kubernetes.families import Families
from hanse.agent.cluster.kubernetes.hands import Hands, NotTaken
from hanse.agent.cluster.kubernetes.launching import Launching
from hanse.agent.cluster.kubernetes.ledgers import Ledgers
from hanse.agent.cluster.kubernetes.logs import lines_of
from hanse.agent.cluster.kubernetes.looking import Looking
from hanse.agent.cluster.kubernetes.making import Making
from hanse.agent.cluster.kubernetes.minding import Minding
from hanse.agent.cluster.kubernetes.mirror import Mirror
from hanse.agent.cluster.kubernetes.names import PodKey
from hanse.agent.cluster.kubernetes.needs import Needs
from hanse.agent.cluster.kubernetes.objects import PodObject
from hanse.agent.cluster.kubernetes.orphans import Orphans
from hanse.agent.cluster.kubernetes.pods import Start, main_container
from hanse.agent.cluster.kubernetes.roots import Roots
from hanse.agent.cluster.kubernetes.sessions import run
from hanse.agent.cluster.kubernetes.settings import KubernetesSettings
from hanse.agent.cluster.kubernetes.starting import Starting
from hanse.agent.cluster.kubernetes.tallying import tally
from hanse.agent.cluster.kubernetes.telling import Told
from hanse.agent.cluster.kubernetes.tending import Tending
from hanse.agent.cluster.kubernetes.throttle import Throttle
from hanse.agent.cluster.kubernetes.verdicts import own_pod_of
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
    ExecInput,
    ExecOutput,
    GangKey,
    NodeFacts,
    PodCommand,
    PodCounts,
    PodPhase,
    PodStatus,
    Wanted,
    WatchLost,
    WriteResult,
)
from hanse.kit.tasks import TaskPool
from hanse.model.errors import FailedPrecondition, NotFound

log = logging.getLogger(__name__)

NODES_PATH: Final = "/api/v1/nodes"
PODS_PATH: Final = "/api/v1/pods"
LOG_LOOK_EVERY_S: Final = 0.5
NEWS_EVERY_S: Final = 0.05
NEWS_SPARED: Final = 10
"""Pauses between news, also in multiples of what it takes to find them: gangs are counted anew, pod by pod."""

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
        throttle = Throttle(
            per_s=told.requests_per_s, burst=told.requests_burst_max, at_once=told.requests_at_once_max
        )
        self._hands = Hands(self._api, throttle)
        self._ledgers = Ledgers(self._api, told, pool)
        self._mirror = Mirror("")
        self._told = Told(self._mirror, (), self._count)
        self._needs = Needs(self._api)
        self._companions = Companions(self._api, throttle, lambda: self._ledgers.claim.federation)
        self._families = Families(self._api, self._ledgers)
        self._roots = Roots(self._api, self._ledgers, self._rng, self._changed)
        self._looking = Looking(self._api, self._ledgers, self._families, self._roots, self._rng, pool, self._wake)
        making = Making(self._hands)
        self._minding = Minding(making, self._ledgers, self._roots, told, lambda: self._mirror)
        self._tending = Tending(
            self._hands,
            self._ledgers,
            told,
            self._rng,
            lambda: self._mirror,
            self._companions,
            self._minding,
            self._looking.meet,
            self._changed,
        )
        self._launching = Launching(making, self._ledgers, self._roots, Terms(told.schedulers, told.direct))
        self._starting = Starting(
            self._rng, launch=self._launch, is_launched=self._is_launched, changed=self._changed
        )
        self._writing = Writing(self._ledgers, self._starting, self._tending, told, pool, lambda: self._mirror)
        self._orphans = Orphans(self._hands, making, self._ledgers, lambda: self._mirror, self._companions)
        self._tasks = TaskPool(BEHIND)
        self._news: dict[asyncio.Event, None] = {}

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

    async def nodes(self) -> tuple[NodeFacts, ...]:
        async with self._deadline("nodes"):
            return await self._looking.nodes()

    async def _list(self) -> None:
        """Records first: what they say was complete has its pods in a list that is made after that."""
        await self._ledgers.refresh()
        await self._roots.refresh()
        mirror = await self._looking.mirror_at("")
        mirror.inherit(self._mirror, asyncio.get_running_loop().time())
        for stored in self._ledgers.records():
            mirror.touch(stored.record.key)
        self._mirror = mirror
        self._told = self._told_of(mirror)

    def _told_of(self, mirror: Mirror) -> Told:
        """A list's state, all of it told."""
        keys = dict.fromkeys(stored.record.key for stored in self._ledgers.records() if stored.record.started)
        keys |= dict.fromkeys(key for key in mirror.gangs if key not in keys and self._count(mirror, key).existing)
        told = Told(mirror, keys, self._count)
        mirror.changed_nodes.clear()
        mirror.changed_gangs.clear()
        return told

    def _untold_of(self, mirror: Mirror) -> Told:
        """The state of an older version, of which no gang was told: how records and objects were then nobody knows,
        so what they say of its gangs by now is news."""
        told = Told(mirror, (), self._count)
        mirror.changed_nodes.clear()
        for stored in self._ledgers.records():
            mirror.touch(stored.record.key)
        return told

    def _count(self, mirror: Mirror, key: GangKey) -> PodCounts:
        stored = self._ledgers.get(key)
        if stored is not None and stored.launched:
            return tally(key, stored, mirror.pods(key), self._minding.words(stored, self._tending.refused))
        return counts_of(key, stored, mirror.pods(key), self._starting.underway(key))

    async def watch(self, version: int) -> AsyncIterator[tuple[ClusterEvent, ...]]:
        mirror, told = self._mirror, self._told
        if mirror.version != version or mirror.watched:
            try:
                async with self._deadline("watch"):
                    mirror = await self._looking.mirror_at(str(version))
                    told = self._untold_of(mirror)
            except ClusterUnavailable as error:
                raise WatchLost(f"version {version} cannot be listed any more: {error}") from error
        mirror.watched = True
        news = asyncio.Event()
        news.set()
        self._news[news] = None
        following = asyncio.create_task(self._looking.follow(mirror), name="follow")
        following.add_done_callback(lambda _: news.set())
        try:
            while True:
                await news.wait()
                news.clear()
                begun_s = asyncio.get_running_loop().time()
                events = told.news()
                took_s = asyncio.get_running_loop().time() - begun_s
                if events:
                    yield events
                await asyncio.wait([following], timeout=max(NEWS_EVERY_S, NEWS_SPARED * took_s))
                if following.done():
                    following.result()
        finally:
            del self._news[news]
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

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

    async def _launch(self, start: Start) -> None:
        """Raises NotTaken, NotYet, Superseded, ClusterUnavailable."""
        await self._prepare(start)
        await self._launching.launch(start)

    def _is_launched(self, key: GangKey) -> bool:
        stored = self._ledgers.get(key)
        return stored is not None and stored.launched

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
            found = await self._pods(key)
        return tuple(own_pod_of(pod_key, pod).status() for pod_key, pod in found)

    async def _pods(self, key: GangKey) -> Sequence[tuple[PodKey, PodObject]]:
        """The pods of a gang as they are now, by set and rank."""
        federation = (await self._ledgers.read_claim()).federation
        if self._ledgers.get(key) is None:
            await self._ledgers.refresh()
        return await self._hands.pods_of(key, federation, self._families.kin) if federation else []

    async def logs(
        self, key: GangKey, *, pod_set: str, rank: int, follow: bool, tail: int
    ) -> AsyncIterator[tuple[str, ...]]:
        """As in the port; a pod that does not exist, or has not begun and is not followed, has no lines."""
        pod = await self._begun(PodKey(key, pod_set, rank), follow=follow)
        if pod is None:
            return
        lines = lines_of(self._api, pod.metadata, main_container(pod), follow=follow, tail=tail)
        async with aclosing(lines) as batches:
            async for batch in batches:
                yield batch

    async def exec(self, command: PodCommand, stdin: AsyncIterator[ExecInput] | None) -> AsyncIterator[ExecOutput]:
        wanted = PodKey(command.gang, command.pod_set, command.rank)
        pod = await self._find(wanted)
        if pod is None:
            raise NotFound(f"there is no pod {wanted.rank} of {wanted.pod_set} in the cluster")
        phase = own_pod_of(wanted, pod).phase
        if phase not in (PodPhase.RUNNING, PodPhase.STOPPING):
            raise FailedPrecondition(f"the pod does not run, it is {phase.name}")
        session = run(self._api, pod.metadata, main_container(pod), command.words, stdin=stdin, tty=command.tty)
        async with aclosing(session) as outputs:
            async for output in outputs:
                yield output

    async def _begun(self, wanted: PodKey, *, follow: bool) -> PodObject | None:
        """The pod once it has begun; None if it is not there, or has not begun and nobody waits for it."""
        while True:
            pod = await self._find(wanted)
            if pod is None:
                return None
            if own_pod_of(wanted, pod).phase is not PodPhase.PENDING:
                return pod
            if not follow:
                return None
            await asyncio.sleep(LOG_LOOK_EVERY_S)

    async def _find(self, wanted: PodKey) -> PodObject | None:
        """The pod as it is now; None if there is none of ours."""
        async with self._deadline("pod"):
            return dict(await self._pods(wanted.gang)).get(wanted)

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
