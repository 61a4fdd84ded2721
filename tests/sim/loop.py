"""The event loop of a simulation: time is a number, the order of ready callbacks is drawn, processes can die.

Time stands still while anything is ready, and jumps to the next timer when nothing is; an hour costs what its events
cost. Nothing here reads a clock, a socket or a thread, so a run is a function of its seed.

Every callback belongs to an **actor**, the simulation's idea of an operating system process. The actor is a context
variable, so tasks, timers and callbacks inherit it from whoever made them, and product code needs to know nothing of
it. That gives two faults for free, with the semantics that a kernel gives them:

* **kill -9**: the callbacks of a dead actor are never run again. No `finally`, no `except CancelledError`, nothing is
  flushed. Its tasks are kept alive until the end of the run, since collecting one would run its `finally` blocks.
* **SIGSTOP**: the callbacks of a paused actor are parked, timers too, and all come back at once when it goes on.

Tasks and futures are hashed by a number that counts them, not by their address: asyncio keeps both in sets and walks
them, a `TaskGroup` that aborts cancels its tasks in such an order, and where memory lies differs from run to run.

Rejected: `task.cancel()` as a crash. It is a polite request, and what a process does politely on its way out is
exactly what a crash does not do.
"""

import asyncio
import heapq
import itertools
from asyncio import events
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from enum import Enum, unique
from random import Random
from typing import Any, Final, TypeVar

T = TypeVar("T")

START_S: Final = 1_000.0
"""Loop time at the beginning; not zero, so that "0 means never" and "at the very start" differ."""

INSTANT_STEPS_MAX: Final = 100_000
"""Callbacks at one instant before the run is called a livelock."""

TASKS_PRUNED_EVERY: Final = 4_096


class Stuck(Exception):
    """The simulation cannot go on: nothing is scheduled, or time does not move."""


@unique
class Life(Enum):
    """What a process is doing."""

    RUNNING = 1
    PAUSED = 2
    DEAD = 3


class Actor:
    """A simulated process: a name that a restart keeps, and which start it is; `skew_ms`: its wall clock is wrong."""

    def __init__(self, name: str, run: int = 1) -> None:
        self.name = name
        self.run = run
        self.life = Life.RUNNING
        self.skew_ms = 0
        self.parked: list[events.Handle] = []

    def __repr__(self) -> str:
        return f"<{self.name} {self.life.name}>"


WORLD: Final = Actor("world")
_actor: ContextVar[Actor] = ContextVar("actor", default=WORLD)


def current_actor() -> Actor:
    """The process whose callback is running."""
    return _actor.get()


def context_of(actor: Actor) -> Context:
    """A context in which everything belongs to `actor`."""
    context = copy_context()
    context.run(_actor.set, actor)
    return context


class NumberedTask(asyncio.Task[Any]):
    """A task whose place in a set is the same in every run."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], **options: Any) -> None:  # Any: as the base class
        self._number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class NumberedFuture(asyncio.Future[Any]):
    """A future whose place in a set is the same in every run."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class SimLoop(asyncio.BaseEventLoop):
    """See the module. `failures` collects what no task retrieved; a run without bugs leaves it empty."""

    def __init__(self, rng: Random) -> None:
        super().__init__()
        self._ready: list[events.Handle] = []
        self._scheduled: list[events.TimerHandle] = []
        self._now = START_S
        self._draw = rng.random
        self._instant_steps = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._disturbed = 0  # actors that are paused or dead
        self._deaf = False
        self._world = context_of(WORLD)
        self._numbers = itertools.count()
        self.steps = 0
        self.failures: list[tuple[str, str, BaseException]] = []

    # ---- what asyncio asks of a loop

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        ready = self._ready
        if not ready:
            self._advance()
        count = len(ready)
        if count == 0:
            return
        at = int(self._draw() * count)
        handle = ready[at]
        last = ready.pop()
        if at < count - 1:
            ready[at] = last
        if handle._cancelled:
            return
        if self._disturbed and self._diverted(handle):
            return
        self.steps += 1
        self._instant_steps += 1
        if self._instant_steps > INSTANT_STEPS_MAX:
            raise Stuck(f"livelock: {INSTANT_STEPS_MAX} callbacks and time stands still, now at {handle!r}")
        handle._run()

    def _advance(self) -> None:
        scheduled = self._scheduled
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)
        if not scheduled:
            raise Stuck("deadlock: nothing is ready and no timer is set")
        self._now = max(self._now, scheduled[0].when())
        self._instant_steps = 0
        while scheduled and scheduled[0].when() <= self._now:
            timer = heapq.heappop(scheduled)
            if not timer._cancelled:
                self._ready.append(timer)

    def _diverted(self, handle: events.Handle) -> bool:
        actor: Actor = handle._context.get(_actor, WORLD)  # type: ignore[attr-defined]
        if actor.life is Life.RUNNING:
            return False
        actor.parked.append(handle)
        return True

    def _timer_handle_cancelled(self, handle: events.TimerHandle) -> None:
        """Cancelled timers are dropped when their time comes."""

    def _write_to_self(self) -> None:
        """There is no selector to wake."""

    def run_in_executor(self, executor: object, func: Callable[..., T], *args: object) -> asyncio.Future[T]:
        raise RuntimeError(f"a thread in a simulation: {func!r}; simulated code runs on one loop")

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        task = NumberedTask(next(self._numbers), coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        if len(self._tasks) >= TASKS_PRUNED_EVERY:
            self._prune()
        return task

    def create_future(self) -> asyncio.Future[Any]:
        return NumberedFuture(next(self._numbers), self)

    def call_exception_handler(self, context: dict[str, Any]) -> None:  # Any: the signature of the base class
        error = context.get("exception")
        if not self._deaf and isinstance(error, BaseException):
            self.failures.append((current_actor().name, str(context.get("message")), error))

    # ---- what the simulation asks

    def spawn(self, actor: Actor, coro: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Run a coroutine inside a process."""
        return self.create_task(coro, name=name, context=context_of(actor))

    def world_later(self, delay_s: float, callback: Callable[..., object], *args: object) -> events.TimerHandle:
        """Something that happens in the world, whatever becomes of the process that caused it."""
        return self.call_at(self._now + delay_s, callback, *args, context=self._world)

    def world_task(self, coro: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Like `world_later`, for what has to wait."""
        return self.create_task(coro, name=name, context=self._world.copy())

    def kill(self, actor: Actor) -> None:
        """kill -9."""
        if actor.life is Life.RUNNING:
            self._disturbed += 1
        actor.life = Life.DEAD

    def pause(self, actor: Actor) -> None:
        """SIGSTOP; of a process that runs."""
        if actor.life is Life.RUNNING:
            self._disturbed += 1
            actor.life = Life.PAUSED

    def resume(self, actor: Actor) -> None:
        """SIGCONT; of a process that is paused."""
        if actor.life is Life.PAUSED:
            self._disturbed -= 1
            actor.life = Life.RUNNING
            self._ready.extend(actor.parked)
            actor.parked.clear()

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Run the world's main task to its end, or until `stop()`; raises Stuck, and what `main` raises."""
        task = self.world_task(main, name="main")
        task.add_done_callback(lambda _: self.stop())
        self.run_forever()
        self._prune()
        if task.done():
            task.result()

    def dispose(self) -> None:
        """End every task that is left, without letting any of it reach the world; then close."""
        self._deaf = True
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _end_quietly(task.get_coro())
        self._tasks.clear()
        self.close()

    def _prune(self) -> None:
        """Forget tasks that are done; what one of them raised and nobody looked at is a failure."""
        alive: list[asyncio.Task[Any]] = []
        for task in self._tasks:
            if not task.done():
                alive.append(task)
            elif task._log_traceback and not task.cancelled():
                self._note_unseen(task)
        self._tasks = alive

    def _note_unseen(self, task: asyncio.Task[Any]) -> None:
        error = task.exception()
        if error is not None:
            self.failures.append((task.get_name(), "nobody looked at what this task raised", error))


def _end_quietly(coro: Any) -> None:  # Any: asyncio's own type of a task's coroutine
    """Close a coroutine; the world is over, and what its `finally` blocks raise says nothing of the run."""
    try:
        coro.close()
    except BaseException as error:
        del error


class SimClock:
    """A process's clocks: loop time, and wall time that may be wrong by the process's skew."""

    def __init__(self, loop: SimLoop, actor: Actor = WORLD, *, epoch_ms: int = 1_700_000_000_000) -> None:
        self._loop = loop
        self._actor = actor
        self._epoch_ms = epoch_ms

    def monotonic(self) -> float:
        return self._loop.time()

    def now_ms(self) -> int:
        return self._epoch_ms + int((self._loop.time() - START_S) * 1000) + self._actor.skew_ms
