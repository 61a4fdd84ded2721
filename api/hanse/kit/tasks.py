"""Supervision: every task has a name and an owner that awaits it.

`race` is for things that only make sense together (the parts of an attachment): when one ends, in whatever way, the
others are cancelled and awaited, and its error goes to the owner. `TaskPool` is for a bounded number of short-lived
tasks that fail alone. Both leave nothing behind, also when their owner is cancelled.

Rejected: `asyncio.TaskGroup`. It waits for all of its tasks where we want the first end to end all, and it wraps a
single error into a group that each caller would have to unpack.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine

from hanse.model.errors import ResourceExhausted

_log = logging.getLogger(__name__)


async def race(**parts: Coroutine[object, object, object]) -> str:
    """Run all until the first ends; then cancel and await the rest. The keywords are the tasks' names.

    Returns the name of the part that returned first. If parts end at once, errors go before returns, and earlier
    parts before later ones; errors of the others, while they are being cancelled, are logged.
    """
    tasks = [asyncio.create_task(part, name=name) for name, part in parts.items()]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        ended = [task for task in tasks if task.done()]
    finally:
        await cancelled(tasks)
    failed = [task for task in ended if not task.cancelled() and task.exception() is not None]
    for task in tasks:
        if task not in failed[:1] and not task.cancelled() and (error := task.exception()) is not None:
            _log.error("task_failed", extra={"task": task.get_name()}, exc_info=error)
    if failed:
        error = failed[0].exception()
        assert error is not None
        raise error
    return ended[0].get_name()


async def cancelled(tasks: list[asyncio.Task[object]]) -> None:
    """Cancel them and wait until they have ended; how they ended is left in them."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def close_iterator(iterator: AsyncIterator[object]) -> None:
    """Let an iterator that is left early run its `finally` now, where its owner awaits it."""
    if isinstance(iterator, AsyncGenerator):
        await iterator.aclose()


class TaskPool:
    """At most `limit` tasks at a time, each named by a key, each failing alone (logged)."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._tasks: dict[str, asyncio.Task[object]] = {}
        self._ending: dict[asyncio.Task[object], None] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, key: str, work: Coroutine[object, object, object]) -> None:
        """Begin a task; one of the same key is cancelled.

        Raises:
            ResourceExhausted: `limit` tasks run already; `work` is not begun.
        """
        self.cancel(key)
        if len(self._tasks) >= self._limit:
            work.close()
            raise ResourceExhausted(f"{self._limit} tasks run at once already; try again")
        task = asyncio.create_task(work, name=key)
        self._tasks[key] = task
        task.add_done_callback(self._ended)

    def cancel(self, key: str) -> None:
        """Cancel the task of that key, if there is one."""
        task = self._tasks.pop(key, None)
        if task is not None:
            self._ending[task] = None
            task.cancel()

    async def close(self) -> None:
        """Cancel and await all."""
        for key in list(self._tasks):
            self.cancel(key)
        await cancelled(list(self._ending))

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._ending.pop(task, None)
        if self._tasks.get(task.get_name()) is task:
            del self._tasks[task.get_name()]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("task_failed", extra={"task": task.get_name()}, exc_info=error)
