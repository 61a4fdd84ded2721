"""The shell of a simulated cluster: an engine, a clock, a timer, and whoever waits for changes.

Nothing here decides anything. Calls bring the engine up to the present, write what they are about to do into the
journal, do it, and wake the watchers; a timer does the same for what happens by itself. Calls never wait, so they
are plain functions; only watching and following wait, and are async.

Rules:
* An input is in the journal before it is in the engine. If the journal does not take it (a full disk), nothing
  happened.
* One timer, armed for the next due time, by the event loop's clock: under a virtual-time loop an hour takes no time.
* Time goes on whatever the wall clock does: a step forward is taken, a step back is bridged by the monotonic clock.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing, closing
from typing import Final

from hanse.kit.clock import Clock
from hanse.model.errors import FailedPrecondition, InvalidArgument, NotFound, OutOfRange, Unavailable
from hanse.simcluster.changes import Changed
from hanse.simcluster.commands import Played, play
from hanse.simcluster.engine import Engine
from hanse.simcluster.facts import FactBatch
from hanse.simcluster.inputs import AgentInput, Claim, EpochId, Input, OperatorInput
from hanse.simcluster.nodes import Indexes
from hanse.simcluster.pod_lines import LOG_LINE_EVERY_MS, PodLines, PodName
from hanse.simcluster.storage import MemoryStorage, Storage

WATCH_BATCH_MAX: Final = 1_000
WATCHERS_MAX: Final = 1_000
OPS_PER_WRITE_MAX: Final = 1_000
SUPERSEDED: Final = "SUPERSEDED"


class SimCluster:
    """One simulated cluster, to be used inside one event loop."""

    def __init__(self, engine: Engine, clock: Clock, storage: Storage | None = None) -> None:
        self.engine = engine
        self._clock = clock
        self._begun_ms = max(engine.now_ms, clock.now_ms())
        self._begun_s = clock.monotonic()
        self._storage: Storage = storage or MemoryStorage(engine.nodes.names)
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for: int | None = None
        self._waiting: list[asyncio.Event] = []
        self._watch_floor = engine.version
        self._closed = False

    @property
    def name(self) -> str:
        """Name of the pool."""
        return self.engine.spec.name

    @property
    def state_path(self) -> str:
        """Where the state is kept, "" if nowhere."""
        return self._storage.path

    def close(self) -> None:
        """Stop the timer, let watchers go, write out what is buffered. May be repeated."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._wake()
        self._storage.close()

    # Time

    def present_ms(self) -> int:
        """The wall time up to which the engine must have come."""
        ran_ms = int((self._clock.monotonic() - self._begun_s) * 1000)
        return max(self.engine.now_ms, self._clock.now_ms(), self._begun_ms + ran_ms)

    def sync(self) -> None:
        """Bring the engine to the present."""
        if self._closed:
            raise Unavailable(f"the simulated cluster {self.name} has been shut down")
        before = self.engine.version
        self.engine.advance(self.present_ms())
        self._settle(before)

    def _settle(self, version_before: int) -> None:
        """After the engine moved: keep its facts, wake who waits, arm the timer."""
        if self.engine.facts:
            self._storage.keep(self.engine.take_facts())
        if self.engine.version != version_before:
            self._wake()
        self._arm()

    def _arm(self) -> None:
        due = self.engine.next_wakeup()
        if due == self._armed_for:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for, self._timer = due, None
        if due is not None:
            wait_s = max(0, due - self.present_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._on_timer)

    def _on_timer(self) -> None:
        self._armed_for, self._timer = None, None
        if not self._closed:
            self.sync()

    # Writing

    def claim(self, federation: str, epoch: EpochId, revision: int) -> Claim:
        """Make an epoch the only one that may write. Raises FailedPrecondition (SUPERSEDED)."""
        self.sync()
        wanted = Claim(federation, epoch, revision)
        refused = "a claim needs a federation" if not federation else self.engine.may_claim(wanted)
        if refused:
            raise FailedPrecondition(refused, reason=SUPERSEDED)
        if wanted != self.engine.claim:
            self._apply([wanted])
        return self.engine.claim

    def write(self, epoch: EpochId, inputs: Sequence[AgentInput]) -> list[str]:
        """Do things in the name of an epoch, in order, each alone: "" or the reason of its refusal, for each.

        Raises:
            FailedPrecondition: SUPERSEDED, the epoch is not the claimed one; nothing was done.
            Unavailable: the state file takes nothing more; nothing was done.
        """
        if len(inputs) > OPS_PER_WRITE_MAX:
            raise InvalidArgument(f"{len(inputs)} operations in one write; at most {OPS_PER_WRITE_MAX}")
        self.sync()
        if not self.engine.may_write(epoch):
            raise FailedPrecondition(
                f"epoch {tuple(epoch)} may not write; {tuple(self.engine.claim.epoch)} has claimed the cluster",
                reason=SUPERSEDED,
            )
        return self._apply(inputs)

    def operate(self, change: OperatorInput) -> None:
        """What an operator, or fate, does. Raises FailedPrecondition where it makes no sense; Unavailable."""
        self.sync()
        refused = self._apply([change])[0]
        if refused:
            raise FailedPrecondition(refused)

    def _apply(self, inputs: Sequence[Input]) -> list[str]:
        now_ms, before = self.engine.now_ms, self.engine.version
        self._storage.append(now_ms, inputs)
        outcomes = [self.engine.apply(change, now_ms) for change in inputs]
        self._settle(before)
        self._storage.tidy(self.engine)
        return outcomes

    # Nodes

    def nodes_are_as_of(self, uid: str, version: int) -> bool:
        """Whether no node has changed since a version of this cluster, as far as that can be told."""
        known = self._watch_floor <= version <= self.engine.version
        return known and uid == self.engine.uid and self.engine.nodes_version <= version

    def nodes_below(self, path: str) -> Indexes:
        """Nodes under a path of domain names, or of that name. Raises NotFound."""
        found = self.engine.nodes.below(path)
        if not len(found):
            tops = sorted({own[0] for own in self.engine.nodes.paths})
            raise NotFound(f"no node or domain {path!r} in {self.name}; its top domains are {_few(tops)}")
        return found

    # Waiting

    def _wake(self) -> None:
        for event in self._waiting:
            event.set()

    async def changes(self, version: int) -> AsyncGenerator[tuple[int, list[Changed]], None]:
        """What changed after a version, in batches, each with the version that it leads to.

        Raises:
            OutOfRange: the version is of another life of this cluster: list again.
            Unavailable: the cluster was shut down.
        """
        self.sync()
        if not self._watch_floor <= version <= self.engine.version:
            raise OutOfRange(f"version {version} is not in {self._watch_floor}..{self.engine.version}: list again")
        with _Waiting(self._waiting) as changed:
            while not self._closed:
                changed.clear()
                found = self.engine.changed_since(version)
                version = self.engine.version
                for start in range(0, len(found), WATCH_BATCH_MAX):
                    batch = found[start : start + WATCH_BATCH_MAX]
                    yield batch[-1][1], [thing for thing, _ in batch]
                await changed.wait()
        raise Unavailable(f"the simulated cluster {self.name} has been shut down")

    async def pod_log(self, from_seq: int, *, follow: bool) -> AsyncGenerator[FactBatch, None]:
        """Facts from a position on, in order, in batches. Raises OutOfRange if the position is not kept."""
        self.sync()
        reader = self._storage.facts_from(from_seq)
        with closing(reader), _Waiting(self._waiting) as changed:
            while not self._closed:
                changed.clear()
                while (batch := reader.read()).facts:
                    yield batch
                if not follow:
                    return
                await changed.wait()

    @property
    def pod_log_first_seq(self) -> int:
        """Oldest position that the pod log still has."""
        return self._storage.first_seq

    def lacking(self, needs: Iterable[str]) -> tuple[str, ...]:
        """Which of these are not there."""
        return tuple(need for need in needs if need in self.engine.spec.lacks)

    async def logs(self, pod: PodName, *, follow: bool, tail: int) -> AsyncGenerator[tuple[str, ...], None]:
        """Lines of one pod's log; ends when the pod has ended or `follow` is false. Raises NotFound."""
        self.sync()
        lines = PodLines(self.engine, pod, tail)
        while True:
            while batch := lines.next_batch():
                yield batch
            if not follow or lines.ended:
                return
            await asyncio.sleep(LOG_LINE_EVERY_MS / 1000)
            self.sync()

    async def exec(
        self, pod: PodName, command: Sequence[str], stdin: AsyncIterator[bytes] | None
    ) -> AsyncGenerator[Played, None]:
        """Play a command in a pod. Raises NotFound, FailedPrecondition."""
        self.sync()
        async with aclosing(play(self.engine, pod, command, stdin)) as pieces:
            async for piece in pieces:
                yield piece
                self.sync()


class _Waiting:
    """Membership in the list of those who wait for changes."""

    def __init__(self, waiting: list[asyncio.Event]) -> None:
        if len(waiting) >= WATCHERS_MAX:
            raise Unavailable(f"{WATCHERS_MAX} watchers already; end one first")
        self._waiting = waiting
        self._event = asyncio.Event()

    def __enter__(self) -> asyncio.Event:
        self._waiting.append(self._event)
        return self._event

    def __exit__(self, *_: object) -> None:
        self._waiting.remove(self._event)


def _few(names: Iterable[str], limit: int = 8) -> str:
    listed = list(names)
    shown = ", ".join(listed[:limit])
    return shown if len(listed) <= limit else f"{shown} and {len(listed) - limit} more"
