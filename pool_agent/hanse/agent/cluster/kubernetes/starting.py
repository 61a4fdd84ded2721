"""Gangs that are being started: their objects created, and written down.

An order is carried out behind the write that gave it. The write waits a while, because most gangs are quick, and
answers Done for what is then still going on: the record is marked as started, the agent that comes after a crash
repeats the order, and until then this one goes on, however often the API server is busy or away.

What makes it safe under a newer epoch: pods are made gated, and none is let go before one more write to the gang's
ledger names it (see `minding`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import Final

from hanse.agent.cluster.kubernetes.counting import Underway
from hanse.agent.cluster.kubernetes.hands import NotTaken, NotYet
from hanse.agent.cluster.kubernetes.pods import Start
from hanse.agent.cluster.port import ClusterUnavailable, GangKey, Superseded
from hanse.kit.backoff import Backoff, BackoffPolicy
from hanse.kit.tasks import cancelled

log = logging.getLogger(__name__)

RETRY: Final = BackoffPolicy(first_s=0.2, max_s=10.0)

Launch = Callable[[Start], Awaitable[None]]
IsLaunched = Callable[[GangKey], bool]
Changed = Callable[[GangKey], None]


class Starting:
    """See the module.

    Args:
        launch: makes what the gang has beside its pods, and what makes these, and records it. Raises NotTaken,
            NotYet, Superseded, ClusterUnavailable.
        is_launched: whether it is recorded; nothing of such a gang is made any more.
        changed: told of a gang whose start has ended, or was refused.
    """

    def __init__(self, rng: Random, *, launch: Launch, is_launched: IsLaunched, changed: Changed) -> None:
        self._rng = rng
        self._launch = launch
        self._is_launched = is_launched
        self._changed = changed
        self._tasks: dict[GangKey, asyncio.Task[object]] = {}
        self._refused: dict[GangKey, str] = {}
        self._awaited: set[GangKey] = set()

    def underway(self, key: GangKey) -> Underway | None:
        """The start of a gang that is carried out here, or was refused after somebody was told that it goes on; None
        if there is none."""
        if key in self._refused and key not in self._awaited:
            return Underway(self._refused[key])
        return Underway() if key in self._tasks else None

    def begin(self, start: Start) -> None:
        """Carry out an order; one that is under way is the same one repeated."""
        if start.key not in self._tasks:
            self._refused.pop(start.key, None)
            self._tasks[start.key] = asyncio.create_task(self._run(start), name=f"start-{start.key}")

    async def wait(self, keys: Iterable[GangKey], wait_s: float) -> dict[GangKey, str]:
        """Wait so long for starts to end; why those that were refused were. Those are over with that answer."""
        waited = dict.fromkeys(keys)
        tasks = [task for key in waited if (task := self._tasks.get(key)) is not None]
        self._awaited.update(waited)
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=wait_s)
            return {key: self._refused.pop(key) for key in waited if key in self._refused}
        finally:
            self._awaited.difference_update(waited)

    async def drop(self, key: GangKey) -> None:
        """Begin nothing more for this gang: what was begun has ended when this returns."""
        self._refused.pop(key, None)
        task = self._tasks.pop(key, None)
        if task is not None:
            await cancelled([task])

    async def close(self) -> None:
        """End all."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        self._refused.clear()
        await cancelled(tasks)

    async def _run(self, start: Start) -> None:
        me = asyncio.current_task()
        try:
            await self._until_launched(start)
        except NotTaken as refused:
            self._refused[start.key] = str(refused)
            self._changed(start.key)
        except Superseded as error:
            log.info("start_superseded", extra={"gang": str(start.key), "cause": str(error)})
        finally:
            if self._tasks.get(start.key) is me:
                del self._tasks[start.key]

    async def _until_launched(self, start: Start) -> None:
        backoff = Backoff(RETRY, self._rng)
        while not self._is_launched(start.key):
            try:
                await self._launch(start)
            except (NotYet, ClusterUnavailable) as error:
                log.info("start_goes_on", extra={"gang": str(start.key), "cause": str(error)})
                await asyncio.sleep(backoff.delay_s())
        self._changed(start.key)
