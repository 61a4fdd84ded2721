"""Operators who take a pool out of the federation, in peace, by force or for dead, and let it in again after a while.

What an operator vouches is true here: every machine of the cluster is dead when it is ordered, and no message of its
agent is on its way any more when it comes back. An operator who is refused, since an agent is attached after all,
asks again for a while and gives up. Whatever became of it, the pool is there again in the end.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, Final

from google.protobuf.message import Message

from hanse.api.v1 import pool_service_pb2
from hanse.model.errors import FailedPrecondition, HanseError, NotFound
from hanse.model.ids import PoolName

if TYPE_CHECKING:
    from tests.sim.world import PoolSite, World

AWAY_S: Final = (1.0, 20.0)
DEADLINES_S: Final = (0, 1, 5)
LOOK_S: Final = 0.5
ASK_AGAIN_S: Final = 2.0
TRIES_MAX: Final = 10
UNDO_P: Final = 0.3
AGAIN_P: Final = 0.5
LATE_MARGIN_S: Final = 1.0

Insist = Callable[[str, Message], Awaitable[Message | HanseError]]


class Leaving:
    """The operators of a run who do that, one pool at a time each."""

    def __init__(self, world: "World", rng: Random, insist: Insist) -> None:
        self._world = world
        self._rng = rng
        self._insist = insist
        self._requests = 0

    async def once(self) -> None:
        """Take some pool out, in one of the ways."""
        site = self._rng.choice(self._world.pools)
        if site.away or site.engine.dead:
            return  # somebody else is at it
        way = self._rng.choice((self._in_peace, self._by_force, self._for_dead))
        await way(site)
        await self._let_in(site.name)

    async def _in_peace(self, site: "PoolSite") -> None:
        if await self._order(site, deadline_s=self._rng.choice(DEADLINES_S)):
            await self._wait(site)

    async def _by_force(self, site: "PoolSite") -> None:
        """Its agent is cut off, its work runs on; later it comes back and learns what was decided."""
        self._world.take_away(site)
        ordered = await self._order(site, force=True)
        await asyncio.sleep(self._rng.uniform(*AWAY_S))
        self._world.bring_back(site)
        if ordered:
            await self._wait(site)

    async def _for_dead(self, site: "PoolSite") -> None:
        self._world.destroy(site)
        lost_first = self._rng.random() < AGAIN_P and await self._order(site, force=True)
        if lost_first:
            await asyncio.sleep(self._rng.uniform(*AWAY_S))
        if await self._order(site, force=True, vouch_dead=True):
            if self._rng.random() < AGAIN_P:
                self._world.wake_agent(site)  # it runs elsewhere; its machines are as dead as they were
            await self._wait(site)
        await asyncio.sleep(self._world.weather.swarm.late_max_s + LATE_MARGIN_S)
        self._world.bring_back(site)

    async def _order(
        self, site: "PoolSite", *, deadline_s: int = 0, force: bool = False, vouch_dead: bool = False
    ) -> bool:
        """Whether it was ordered; asked again while an agent seems to be attached."""
        for _ in range(TRIES_MAX):
            request = pool_service_pb2.LeavePoolRequest(
                name=site.name, deadline_s=deadline_s, force=force, vouch_dead=vouch_dead, request_id=self._id()
            )
            how = "for dead" if vouch_dead else "by force" if force else f"in peace, deadline {deadline_s or 'none'}"
            self._world.story.note(f"lets {site.name} leave {how}", site.name)
            answer = await self._insist("LeavePool", request)
            if not isinstance(answer, FailedPrecondition):
                return not isinstance(answer, HanseError)
            await asyncio.sleep(ASK_AGAIN_S)
        return False

    async def _wait(self, site: "PoolSite") -> None:
        """Until it is gone, somebody lets it stay, or the operator thinks better of it."""
        until_s = self._world.loop.time() + self._rng.uniform(*AWAY_S)
        undo = self._rng.random() < UNDO_P
        era = self._world.store.era  # an order holds in the life of the store in which it was given
        while (
            era == self._world.store.era
            and (config := self._world.view.configs.get(site.name)) is not None
            and config.leave is not None
        ):
            if undo and self._world.loop.time() > until_s:
                return
            await asyncio.sleep(LOOK_S)

    async def _let_in(self, pool: PoolName) -> None:
        """It stays, or may join again."""
        for _ in range(TRIES_MAX):
            self._world.story.note(f"lets {pool} stay, or join again", pool)
            stays = pool_service_pb2.UncordonPoolRequest(name=pool, request_id=self._id())
            if not isinstance(await self._insist("UncordonPool", stays), NotFound):
                return
            joins = pool_service_pb2.ReadmitPoolRequest(name=pool, request_id=self._id())
            if not isinstance(await self._insist("ReadmitPool", joins), NotFound):
                return

    def _id(self) -> str:
        self._requests += 1
        return f"leave-{self._requests}"
