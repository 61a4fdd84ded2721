"""Sees to gangs that were started: which of their pods are let go, and what becomes of the objects that make them.

Before a pod is let go its uid is in the gang's record: by one write to the ledger, which an agent that was superseded
cannot make. So no two agents let go of two pods for one rank, and one that comes after a crash knows which pods run,
or are about to. What is recorded is carried out by `chores`, however often it takes.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from hanse.agent.cluster.kubernetes.assigning import next_places, wanting
from hanse.agent.cluster.kubernetes.chores import Chore, Overdue, chores
from hanse.agent.cluster.kubernetes.hands import NotYet
from hanse.agent.cluster.kubernetes.ledgers import Ledgers
from hanse.agent.cluster.kubernetes.making import Making
from hanse.agent.cluster.kubernetes.mirror import Mirror
from hanse.agent.cluster.kubernetes.roots import Roots
from hanse.agent.cluster.kubernetes.settings import KubernetesSettings
from hanse.agent.cluster.kubernetes.spread import spread
from hanse.agent.cluster.kubernetes.stored import Root, Stored
from hanse.agent.cluster.kubernetes.tallying import Words, makers, outcome
from hanse.agent.cluster.kubernetes.verdicts import OwnPod
from hanse.agent.cluster.port import GangKey

AT_ONCE: Final = 16


class Minding:
    """See the module; `mirror` gives the present one."""

    def __init__(
        self,
        making: Making,
        ledgers: Ledgers,
        roots: Roots,
        settings: KubernetesSettings,
        mirror: Callable[[], Mirror],
    ) -> None:
        self._making = making
        self._ledgers = ledgers
        self._roots = roots
        self._settings = settings
        self._mirror = mirror
        self._since_s: dict[GangKey, float] = {}
        self._told: dict[str, None] = {}
        self._complaints: dict[GangKey, str] = {}

    # ---- what is said -------------------------------------------------------------------------------------

    def words(self, stored: Stored, refused: Overdue) -> Words:
        """What is said of a gang beside its pods."""
        return Words(self._roots.states(stored), self._late(stored), refused, self._settled)

    def _settled(self, pod: OwnPod) -> bool:
        since = self._mirror().ended_since.get(pod.uid)
        return since is not None and since < _now_s() - self._settings.ended_s

    def _late(self, stored: Stored) -> str:
        key = stored.record.key
        if stored.let or not self._is_late(key, _now_s()):
            return ""
        come, wanted = wanting(stored, self._mirror().pods(key))
        what = " and ".join(str(root) for root in makers(stored)[:2])
        said = self._complaints.get(key) or "look at its controller, and at its events"
        return f"{come} of {wanted} pods of {what} were made in {_now_s() - self._since_s[key]:.0f} s; {said}"

    def _is_late(self, key: GangKey, now_s: float) -> bool:
        """Whether the pods of a gang have been awaited for too long: sooner, where somebody says why."""
        since = self._since_s.get(key)
        wait_s = self._settings.refused_s if self._complaints.get(key) else self._settings.pods_wait_s
        return since is not None and since < now_s - wait_s

    @property
    def suspects(self) -> bool:
        """Whether time alone may change what is said of a gang."""
        mirror = self._mirror()
        return bool(self._since_s or mirror.ended_since or mirror.refused_since)

    def suspect(self) -> list[GangKey]:
        """The gangs of which it has, since this was asked last."""
        now_s = _now_s()
        waiting = [s for s in self._ledgers.records() if s.roots and not s.let and not s.stopped]
        self._since_s = {s.record.key: self._since_s.get(s.record.key, now_s) for s in waiting}
        self._complaints = {key: said for key, said in self._complaints.items() if key in self._since_s}
        over = {str(key): key for key in self._since_s if self._is_late(key, now_s)}
        over |= self._overdue(now_s)
        news = [key for what, key in over.items() if what not in self._told]
        self._told = dict.fromkeys(over)
        return list(dict.fromkeys(news))

    def _overdue(self, now_s: float) -> dict[str, GangKey]:
        """Gangs by the uids of their pods that have failed, or were refused, for so long that it counts."""
        mirror = self._mirror()
        ended = {uid for uid, since in mirror.ended_since.items() if since < now_s - self._settings.ended_s}
        refused = {uid for uid, since in mirror.refused_since.items() if since < now_s - self._settings.refused_s}
        if not (ended or refused):
            return {}
        gangs = ((key, pods) for key, pods in mirror.gangs.items())
        return {uid: key for key, pods in gangs for uid in pods if uid in ended | refused}

    async def ask(self) -> None:
        """Find out why pods do not come that have been awaited for a while. Raises ClusterUnavailable."""
        now_s = _now_s()
        for key, since in list(self._since_s.items()):
            stored = self._ledgers.get(key)
            if stored is not None and key not in self._complaints and since < now_s - self._settings.refused_s:
                self._complaints[key] = await self._making.complaint(stored.namespace, stored.roots)

    # ---- what is done -------------------------------------------------------------------------------------

    async def settle(self, keys: Iterable[GangKey]) -> None:
        """Decide which pods are let go next, and tell the objects of gangs that are stopped to go.

        Raises:
            Superseded, NotYet, ClusterUnavailable
        """
        owned = [stored for key in keys if (stored := self._ledgers.get(key)) is not None and stored.roots]
        await self._let(stored for stored in owned if not stored.stopped)
        to_go = [(stored, root) for stored in owned if stored.stopped for root in stored.roots if self._is_here(root)]
        await spread(to_go, self._tell_to_go, at_once=AT_ONCE)

    async def _let(self, gangs: Iterable[Stored]) -> None:
        wanted: dict[GangKey, Stored] = {}
        for stored in gangs:
            key = stored.record.key
            if outcome(stored, self._roots.states(stored)) is not None:
                continue
            found = next_places(stored, self._mirror().pods(key))
            if found:
                wanted[key] = stored.letting({at: pod.uid for at, pod in found.items()})
        if not wanted:
            return
        refused = await self._ledgers.change(self._ledgers.epoch, wanted)
        for key in wanted:
            self._mirror().touch(key)
        if refused:
            raise NotYet(next(iter(refused.values())))

    def _is_here(self, root: Root) -> bool:
        state = self._roots.state(root)
        return not (state.gone or state.leaving)

    async def _tell_to_go(self, which: tuple[Stored, Root]) -> None:
        stored, root = which
        await self._making.delete(stored.namespace, root)

    async def remove(self, namespace: str, roots: Iterable[Root]) -> None:
        """Let nothing remain of a forgotten gang's objects. Raises NotYet, ClusterUnavailable."""

        async def one(root: Root) -> None:
            await self._making.delete(namespace, root)
            await self._making.release(namespace, root)

        await spread(roots, one, at_once=AT_ONCE)

    def chores(self, stored: Stored, pods: Iterable[OwnPod], lost: Overdue) -> Iterable[Chore]:
        """What is to be done about its pods."""
        end = outcome(stored, self._roots.states(stored))
        return chores(stored, pods, over=end is not None and end.succeeded, lost=lost)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
