"""One agent's stream: hello, epoch, complete set, then changes down and reports, summaries and answers up.

The session owns four activities, all of which end with the stream: reading what the agent says, following the
store's bindings of its pool, bringing its reports into effect, and heartbeats. Whoever fails first ends all.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from hanse.kit.clock import Clock
from hanse.kit.gang_logs import GangLogs
from hanse.kit.stream import Stream, StreamClosed
from hanse.kit.telemetry import metrics
from hanse.link.v1 import link_pb2 as pb
from hanse.model.attach import Heartbeat, Hello, Refusal, Settings, Tidied, Welcome
from hanse.model.desired import Desired
from hanse.model.detail import DetailReply, Question
from hanse.model.errors import HanseError
from hanse.model.ids import PoolName, ReplicaId
from hanse.model.report import Acknowledged, Reports
from hanse.model.summary import PoolSummary
from hanse.scheduler.core.world import World
from hanse.scheduler.shell.asking import Answers, Asking
from hanse.scheduler.shell.attach import Federation, Granted, attach, detach, mark_again
from hanse.scheduler.shell.barring import bar_left
from hanse.scheduler.shell.desired import DesiredSource, StaleRead
from hanse.scheduler.shell.recovery import mark_returned
from hanse.scheduler.shell.report_writer import ReportWriter
from hanse.scheduler.shell.reports import ReportBook, Superseded
from hanse.scheduler.shell.specs import SpecReads
from hanse.store import keys
from hanse.store.contract import Compacted, Store, StoreError, prefix_end
from hanse.wire.link import FromReplica, from_agent, to_agent

log = logging.getLogger(__name__)

HELLO_DEADLINE_S: Final = 10.0
HEARTBEAT_S: Final = 3.0
"""An agent leaves a replica that has been silent for three of these."""

SETTINGS_LOOK_S: Final = 1.0
SILENCE_MAX_S: Final = 20.0
"""A stream on which the agent has said nothing for this long is ended."""
SEND_DEADLINE_S: Final = 10.0
POOL_CHARS_SHOWN: Final = 64
OUTGOING_MAX: Final = 1_000
"""Messages that wait for a slow agent before the stream is ended."""

AgentStream = Stream[pb.AttachResponse, pb.AttachRequest]


class Session:
    """A granted attachment."""

    def __init__(
        self,
        store: Store,
        world: World,
        clock: Clock,
        stream: AgentStream,
        hello: Hello,
        granted: Granted,
        *,
        replica: ReplicaId,
        federation: Federation,
        writer: ReportWriter,
        specs: SpecReads,
        on_summary: Callable[[PoolSummary], None],
    ) -> None:
        self._store = store
        self._world = world
        self._clock = clock
        self._stream = stream
        self._hello = hello
        self._granted = granted
        self._replica = replica
        self._federation = federation
        self._specs = specs
        self._on_summary = on_summary
        self._outgoing: asyncio.Queue[FromReplica] = asyncio.Queue(OUTGOING_MAX)
        self._ending = asyncio.Event()
        self._tidied = asyncio.Event()
        self._empty = asyncio.Event()
        self._told_last: Desired | None = None
        self._told_all = False
        self._asking = Asking(hello.pool, self._tell, self._outgoing.put)
        self._heard_s = clock.monotonic()
        self._logs = GangLogs()
        self._writer = writer
        self.book = ReportBook(pool=hello.pool, epoch=granted.epoch, logs=self._logs, arrived=writer.wake)

    @property
    def granted(self) -> Granted:
        """The epoch, and the mark in the store that says that the stream is here."""
        return self._granted

    async def mark_again(self, lease: int) -> None:
        """The replica has a new lease: bind the mark to it, or end the stream if the pool has another agent now."""
        granted = await mark_again(self._store, self._hello, self._granted, replica=self._replica, lease=lease)
        if granted is None:
            self.end()
        else:
            self._granted = granted

    def end(self) -> None:
        """End the stream; the agent attaches anew."""
        self._ending.set()

    @property
    def pool(self) -> PoolName:
        """The pool that is attached."""
        return self._hello.pool

    async def run(self) -> None:
        """Serve until the stream ends."""
        self._tell(Welcome(self._granted.epoch, self._federation.name, self._replica))
        self._tell_settings()
        self._writer.join(self.book)
        try:
            await self._serve()
        finally:
            self._writer.leave(self.book)
            self._asking.leave()

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            for name, work in (
                ("end", self._end()),
                ("send", self._send()),
                ("receive", self._receive()),
                ("desired", self._desire()),
                ("reports", self.book.run(lambda sequence: self._tell(Acknowledged(sequence)))),
                ("heartbeat", self._beat()),
                ("settings", self._follow_settings()),
                ("recovery", self._follow_recovery()),
                ("return", self._record_return()),
                ("away", self._send_away()),
            ):
                group.create_task(work, name=f"link-{self.pool}-{name}")

    async def _end(self) -> None:
        await self._ending.wait()
        raise StreamClosed(f"replica {self._replica} has ended the stream")

    # ---- down ------------------------------------------------------------------------------------------------

    def _tell(self, value: FromReplica) -> None:
        try:
            self._outgoing.put_nowait(value)
        except asyncio.QueueFull:
            raise StreamClosed(f"the agent of {self.pool} is too slow: {OUTGOING_MAX} messages wait") from None

    async def _send(self) -> None:
        while True:
            value = await self._outgoing.get()
            async with asyncio.timeout(SEND_DEADLINE_S):
                await self._stream.send(to_agent(value))
            if isinstance(value, Refusal):
                raise StreamClosed(f"{value.reason}: {value.message}")

    async def _desire(self) -> None:
        source = DesiredSource(
            self._store, self.pool, self._granted.epoch, self._clock, self._recovering, self._specs
        )
        async for message in source.complete():
            await self._desired(message)
        prefix = keys.bindings(self.pool)
        watch = self._store.watch(prefix, prefix_end(prefix), from_revision=source.revision + 1)
        async with watch:
            async for batch in watch:
                async for message in source.changes(batch):
                    await self._desired(message)

    async def _desired(self, message: Desired) -> None:
        self._told_last = message
        self._told_all = message.complete_end or (self._told_all and not message.complete_begin)
        self._logs.learn(message.bindings)
        await self._outgoing.put(message)
        self._logs.forget(message.removed)
        if log.isEnabledFor(logging.DEBUG):
            for binding in message.bindings:
                said = {"pool": self.pool, "action": binding.action.name}
                log.debug("binding_sent", extra={**self._logs.fields(binding.key), **said})

    def _recovering(self) -> bool:
        return bool(self._world.missing())

    async def _follow_recovery(self) -> None:
        """Tell the agent when the last pool has come back after a restore, or one more is missing."""
        while True:
            await asyncio.sleep(SETTINGS_LOOK_S)
            last = self._told_last
            if last is not None and self._told_all and last.recovering is not self._recovering():
                await self._desired(Desired(last.epoch, last.revision, recovering=self._recovering()))

    async def _record_return(self) -> None:
        """Once the agent has said so, write down that nothing undesired runs in the pool."""
        await self._tidied.wait()
        await mark_returned(self._store, self.pool, self._granted.epoch)

    async def _beat(self) -> None:
        sequence = 0
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            sequence += 1
            self._tell(Heartbeat(sequence))
            if self._clock.monotonic() - self._heard_s > SILENCE_MAX_S:
                raise StreamClosed(f"the agent of {self.pool} has been silent for {SILENCE_MAX_S:.0f} s")

    def _tell_settings(self) -> None:
        self._tell(Settings(self._world.ordered_flavors(), self._world.flavors_revision))

    async def _follow_settings(self) -> None:
        told = self._world.flavors_revision
        while True:
            await asyncio.sleep(SETTINGS_LOOK_S)
            if self._world.flavors_revision != told:
                told = self._world.flavors_revision
                self._tell_settings()

    # ---- up --------------------------------------------------------------------------------------------------

    async def _receive(self) -> None:
        while True:
            frame = await self._stream.receive()
            self._heard_s = self._clock.monotonic()
            match from_agent(frame):
                case Reports() as reports:
                    self.book.put(reports, now_ms=self._clock.now_ms())
                case PoolSummary() as summary:
                    if self._is_mine(summary):
                        self._on_summary(summary)
                        self._see_off(summary)
                case DetailReply() as reply:
                    self._asking.answer(reply)
                case Tidied(epoch) if epoch == self._granted.epoch:
                    self._tidied.set()
                case Tidied(epoch):
                    self._forged("epoch", f"tidied, of epoch {epoch}")
                case Heartbeat():
                    pass
                case Hello():
                    raise StreamClosed("a second hello on one stream")

    def _is_mine(self, summary: PoolSummary) -> bool:
        """Whether a summary is of this pool and epoch. Raises StreamClosed: it is of another pool."""
        if summary.pool == self.pool and summary.epoch == self._granted.epoch:
            return True
        said = f"a summary of {summary.pool[:POOL_CHARS_SHOWN]!r}, epoch {summary.epoch}"
        self._forged("epoch" if summary.pool == self.pool else "summary", said)
        if summary.pool != self.pool:
            raise StreamClosed(f"the agent of {self.pool} has sent {said}")
        return False

    def _forged(self, forgery: str, said: str) -> None:
        metrics.FORGERIES.add(1, forgery)
        log.warning("message_refused", extra={"pool": self.pool, "forgery": forgery, "cause": said})

    def _see_off(self, summary: PoolSummary) -> None:
        """The pool has left: once nothing runs in the cluster any more, its agent is told so and sent away."""
        guest = self._granted.guest
        if guest is None or summary.held_gangs or summary.started_gangs or summary.stopping_gangs:
            return
        self._empty.set()

    async def _send_away(self) -> None:
        """A guest's cluster is empty: its certificates are believed no more, then it is told."""
        await self._empty.wait()
        guest = self._granted.guest
        assert guest is not None
        await bar_left(self._store, self.pool, now_ms=self._clock.now_ms())
        log.warning("agent_refused", extra={"pool": self.pool, "reason": guest.reason, "cause": guest.message})
        metrics.AGENTS_REFUSED.add(1, guest.reason)
        self._tell(guest)

    # ---- questions -------------------------------------------------------------------------------------------

    def ask(self, question: Question) -> Answers:
        """Ask the agent; the answer comes in pieces. Raises StreamClosed."""
        return self._asking.ask(question)


async def read_hello(stream: AgentStream) -> Hello | Refusal:
    """The first message of a stream."""
    async with asyncio.timeout(HELLO_DEADLINE_S):
        first = from_agent(await stream.receive())
    if isinstance(first, Hello):
        return first
    return Refusal("HELLO", "the first message of a stream is a hello", False)


async def refuse(stream: AgentStream, refusal: Refusal) -> None:
    """Say why, and end the stream."""
    log.warning("agent_refused", extra={"reason": refusal.reason, "cause": refusal.message})
    metrics.AGENTS_REFUSED.add(1, refusal.reason)
    with contextlib.suppress(StreamClosed, TimeoutError):
        async with asyncio.timeout(SEND_DEADLINE_S):
            await stream.send(to_agent(refusal))
    stream.close()


def ending(errors: BaseExceptionGroup[BaseException]) -> str:
    """Why a session ended, in one line; re-raises what is not an ending but a bug."""
    expected = (StreamClosed, Superseded, StaleRead, Compacted, StoreError, TimeoutError, HanseError)
    _, bugs = errors.split(expected)
    if bugs is not None:
        raise bugs
    return "; ".join(str(e) for e in _leaves(errors))


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]


__all__ = ["AgentStream", "Answers", "Session", "attach", "detach", "ending", "read_hello", "refuse"]
