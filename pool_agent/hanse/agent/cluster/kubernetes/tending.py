"""Sees to the pods of gangs until nothing is left to do: what `chores` says, one sweep after the other.

Only the owner of the ledgers tends. Most chores are safe whoever does them, and name what they touch by its uid; the
leftovers of a gang without a record are removed only after looking that the ledgers still are ours, because to an
agent that was superseded the gangs of its successor look like that.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from random import Random
from typing import Final

from hanse.agent.cluster.kubernetes.chores import Chore, Wish, leftover_chores
from hanse.agent.cluster.kubernetes.companions import Companions
from hanse.agent.cluster.kubernetes.hands import Hands, NotYet
from hanse.agent.cluster.kubernetes.ledgers import Ledgers
from hanse.agent.cluster.kubernetes.minding import Minding
from hanse.agent.cluster.kubernetes.mirror import Mirror
from hanse.agent.cluster.kubernetes.settings import KubernetesSettings
from hanse.agent.cluster.kubernetes.spread import spread
from hanse.agent.cluster.kubernetes.verdicts import OwnPod
from hanse.agent.cluster.port import ClusterUnavailable, Epoch, GangKey, Superseded
from hanse.kit.backoff import Backoff, BackoffPolicy

log = logging.getLogger(__name__)

SUSPECTS_EVERY_S: Final = 1.0
SWEEPS_EVERY_S: Final = 0.02
"""What comes within that is seen to together: a gang's pods come one by one."""

WISHES_MAX: Final = 10_000
RETRY: Final = BackoffPolicy(first_s=0.2, max_s=5.0)


Meet = Callable[[Mirror], Awaitable[None]]


class Tending:
    """See the module.

    Args:
        mirror: the present one.
        meet: finds out whose pods those are that say they are ours.
        changed: told of a gang that is told otherwise from now on, although nothing happened to it.

    Attributes:
        woken: set when there may be something to do.
    """

    def __init__(
        self,
        hands: Hands,
        ledgers: Ledgers,
        settings: KubernetesSettings,
        rng: Random,
        mirror: Callable[[], Mirror],
        companions: Companions,
        minding: Minding,
        meet: Meet,
        changed: Callable[[GangKey], None],
    ) -> None:
        self._minding = minding
        self._meet = meet
        self._changed = changed
        self._hands = hands
        self._companions = companions
        self._ledgers = ledgers
        self._settings = settings
        self._rng = rng
        self._mirror = mirror
        self._wishes: dict[GangKey, Wish] = {}
        self.woken = asyncio.Event()

    def wish(self, key: GangKey, wish: Wish) -> None:
        """What is left of a gang without a record is to go, or to end."""
        self._wishes.pop(key, None)
        self._wishes[key] = wish
        if len(self._wishes) > WISHES_MAX:
            del self._wishes[next(iter(self._wishes))]
        self._mirror().untended[key] = None

    async def run(self) -> None:
        """Tend until cancelled."""
        backoff = Backoff(RETRY, self._rng)
        while True:
            await self._wait()
            mirror = self._mirror()
            self._suspect(mirror)
            if self._ledgers.epoch == Epoch():
                continue
            try:
                await self._minding.ask()
                await self._meet(mirror)
                await self.tend(list(mirror.untended))
            except Superseded as error:
                log.info("tending_superseded", extra={"cause": str(error)})
            except (NotYet, ClusterUnavailable) as error:
                log.info("tending_goes_on", extra={"cause": str(error)})
                await asyncio.sleep(backoff.delay_s())
            else:
                backoff.reset()
                await asyncio.sleep(SWEEPS_EVERY_S)

    async def _wait(self) -> None:
        mirror = self._mirror()
        suspects = bool(mirror.silent_since or mirror.refused_since or mirror.untended or self._minding.suspects)
        try:
            async with asyncio.timeout(SUSPECTS_EVERY_S if suspects else None):
                await self.woken.wait()
        except TimeoutError:
            return
        self.woken.clear()

    def _suspect(self, mirror: Mirror) -> None:
        """Time alone makes a pod overdue, and no event tells it."""
        for key in self._minding.suspect():
            self._changed(key)
        if not (mirror.silent_since or mirror.refused_since):
            return
        for key, pods in mirror.gangs.items():
            if any(not pod.ended and (self._lost(pod) or self.refused(pod)) for pod in pods.values()):
                mirror.untended[key] = None

    def _lost(self, pod: OwnPod) -> bool:
        return self._mirror().is_lost(pod.node, asyncio.get_running_loop().time() - self._settings.node_lost_s)

    def refused(self, pod: OwnPod) -> bool:
        """Whether the scheduler has refused it for too long."""
        since = self._mirror().refused_since.get(pod.uid)
        return since is not None and since < asyncio.get_running_loop().time() - self._settings.refused_s

    async def tend(self, keys: Iterable[GangKey]) -> None:
        """Do what is to be done for these gangs.

        Raises:
            Superseded: they are another agent's by now.
            NotYet, ClusterUnavailable: it is not all done; it stays remembered.
        """
        mirror, wanted = self._mirror(), dict.fromkeys(keys)
        todo: list[Chore] = []
        for key in wanted:
            mirror.untended.pop(key, None)
        try:
            await self._minding.settle(wanted)
            for key in wanted:
                todo += self._chores(key, mirror.pods(key))
            # What is forgotten while chores are done is not over with them: its own are still to come.
            over = {key: wish for key in wanted if (wish := self._wishes.get(key)) is not None and wish.forget}
            if any(self._ledgers.get(chore.pod.key.gang) is None for chore in todo):
                await self._ledgers.verify(self._ledgers.epoch)
            refused = await self._do(todo)
            refused |= await self._end({key: wish for key, wish in over.items() if key not in refused})
        except BaseException:
            mirror.untended |= wanted
            raise
        mirror.untended |= dict.fromkeys(refused)
        if refused:
            raise NotYet(next(iter(refused.values())))

    def _chores(self, key: GangKey, pods: Iterable[OwnPod]) -> Iterable[Chore]:
        stored = self._ledgers.get(key)
        if stored is not None:
            return self._minding.chores(stored, pods, self._lost)
        return leftover_chores(self._wishes.get(key), pods, lost=self._lost)

    async def _do(self, todo: Iterable[Chore]) -> dict[GangKey, str]:
        """What the cluster does not do now for one gang is no reason to leave the others; says for which, and why."""
        refused: dict[GangKey, str] = {}

        async def one(chore: Chore) -> None:
            try:
                await self._hands.do(chore)
            except NotYet as error:
                refused.setdefault(chore.pod.key.gang, str(error))

        await spread(todo, one, at_once=self._settings.requests_at_once_max)
        return refused

    async def _end(self, over: Mapping[GangKey, Wish]) -> dict[GangKey, str]:
        """The pods of forgotten gangs are gone; so go their Services. Says which do not, and why."""
        refused: dict[GangKey, str] = {}

        async def one(key: GangKey) -> None:
            try:
                await self._end_one(key, over[key])
            except NotYet as error:
                refused[key] = str(error)

        await spread(over, one, at_once=self._settings.requests_at_once_max)
        return refused

    async def _end_one(self, key: GangKey, wish: Wish) -> None:
        if self._wishes.get(key) is not wish:  # a write and the sweep behind it may come to the same gang
            return
        await self._companions.remove(key)
        await self._minding.remove(wish.namespace, wish.roots)
        if wish.namespace:
            await self._hands.remove_service(key, wish.namespace, self._ledgers.claim.federation)
        if self._wishes.get(key) is wish:
            del self._wishes[key]
