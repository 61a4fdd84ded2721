"""One attachment, from the welcome to the end of its stream.

Its parts end together: reading, applying what was read, reports, summaries, heartbeats. Reading never waits for the
cluster, so a slow cluster is not taken for a silent replica; what was read waits in a bounded queue, and behind that
the stream itself holds the replica back.

Reports and summaries of this stream begin when its complete desired set was accepted. Reports are kept by the core's
outbox until they are acknowledged, by this replica or by the next.
"""

import asyncio
import logging
from dataclasses import replace
from typing import Final

from hanse.agent.cluster.port import Claim
from hanse.agent.core.fence import Breach, Change, CompleteSet, DesiredGate
from hanse.agent.shell.config import AgentConfig
from hanse.agent.shell.details import Details
from hanse.agent.shell.pool import Pool
from hanse.agent.shell.publisher import Publisher
from hanse.kit.clock import Clock
from hanse.kit.gang_logs import GangLogs
from hanse.kit.stream import Stream, StreamClosed
from hanse.kit.tasks import race
from hanse.link.v1 import link_pb2 as pb
from hanse.model.attach import Heartbeat, Hello, Refusal, Settings, Tidied, Welcome
from hanse.model.desired import Desired
from hanse.model.detail import DetailReply, DetailRequest
from hanse.model.fence import Epoch
from hanse.model.report import Acknowledged, GangReport, GangStatus, Reports
from hanse.model.summary import PoolSummary
from hanse.wire.link import FromReplica, from_replica, to_replica

log = logging.getLogger(__name__)

TIDY_LOOK_S: Final = 0.5
"""Between looks whether everything that runs is desired, while the federation recovers from a restore."""

DESIRED_WAITING_MAX: Final = 64
"""Messages that were read and not applied yet."""

Uplink = Stream[pb.AttachRequest, pb.AttachResponse]

_LOUD: Final = frozenset({GangStatus.REFUSED, GangStatus.BROKEN})


class AttachmentRefused(Exception):
    """The replica refused the agent, or the agent what the replica said; `retry`: trying again soon can help."""

    def __init__(self, reason: str, message: str, *, retry: bool) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.retry = retry


class ClaimWanted(Exception):
    """Nothing more can be written under this attachment's epoch."""


class Wire:
    """A stream in the values of the model, with deadlines. Several tasks may send."""

    def __init__(self, stream: Uplink, *, send_deadline_s: float) -> None:
        self._stream = stream
        self._send_deadline_s = send_deadline_s
        self._sending = asyncio.Lock()

    async def send(self, value: Hello | Reports | PoolSummary | DetailReply | Heartbeat | Tidied) -> None:
        """Raises StreamClosed, also when the other end takes nothing any more."""
        frame = to_replica(value)
        try:
            async with asyncio.timeout(self._send_deadline_s), self._sending:
                await self._stream.send(frame)
        except TimeoutError:
            raise StreamClosed(f"the replica took nothing for {self._send_deadline_s:.0f} s") from None

    async def receive(self, deadline_s: float) -> FromReplica:
        """Raises StreamClosed, also when the other end says nothing for so long."""
        try:
            async with asyncio.timeout(deadline_s):
                frame = await self._stream.receive()
        except TimeoutError:
            raise StreamClosed(f"the replica said nothing for {deadline_s:.0f} s") from None
        return from_replica(frame)


class Session:
    """See the module.

    Attributes:
        accepted: set once the complete desired set of this stream is the one that counts.
    """

    def __init__(
        self,
        config: AgentConfig,
        wire: Wire,
        welcome: Welcome,
        claim: Claim,
        *,
        pool: Pool,
        publisher: Publisher,
        clock: Clock,
    ) -> None:
        self.accepted = asyncio.Event()
        self._config = config
        self._wire = wire
        self._welcome = welcome
        self._gate = DesiredGate(welcome.epoch, claim)
        self._pool = pool
        self._publisher = publisher
        self._clock = clock
        self._details = Details(config, pool, wire.send)
        self._desired: asyncio.Queue[Desired] = asyncio.Queue(DESIRED_WAITING_MAX)
        self._logs = GangLogs()
        self._reports_sent = 0
        self._summary_sent: PoolSummary | None = None
        self._empty_sent: bytes | None = None
        self._summing = asyncio.Lock()

    async def run(self) -> None:
        """Serve until the stream ends; always raises.

        Raises:
            StreamClosed: the stream broke, or the other end is silent or stuck.
            AttachmentRefused: the desired set did not pass the fence.
            ClaimWanted, Superseded, ClusterUnavailable: the cluster has to be claimed anew.
        """
        try:
            await race(
                read=self._read(),
                apply=self._apply(),
                claim=self._leave_without_claim(),
                reports=self._report(),
                summaries=self._sum_up(),
                beat=self._beat(),
                tidy=self._tell_tidied(),
            )
        finally:
            await self._details.close()
        raise StreamClosed("the session ended")

    # ---- down ---------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while True:
            match await self._wire.receive(self._config.silence_max_s):
                case Desired() as desired:
                    await self._desired.put(desired)
                case Acknowledged(sequence):
                    self._pool.gangs.acknowledge(sequence)
                    self._pool.look_at_reports()
                case Settings(flavors, revision):
                    self._pool.set_flavors(flavors, revision)
                case DetailRequest() as request:
                    await self._details.ask(request)
                case Refusal() as refusal:
                    raise AttachmentRefused(refusal.reason, refusal.message, retry=refusal.retry)
                case Heartbeat():
                    pass
                case Welcome():
                    raise StreamClosed("a second welcome on one stream")

    async def _apply(self) -> None:
        while True:
            match self._gate.receive(await self._desired.get()):
                case Breach(reason, message):
                    raise AttachmentRefused(reason, message, retry=True)
                case CompleteSet() as desired if self.accepted.is_set():
                    self._logs.learn_all(desired.bindings)
                    self._pool.accept_again(desired)
                case CompleteSet() as desired:
                    self._logs.learn_all(desired.bindings)
                    await self._accept(desired)
                case Change() as change:
                    self._logs.learn(change.bindings)
                    self._pool.change(change)
                    self._logs.forget(change.removed)
                case None:
                    pass

    async def _accept(self, desired: CompleteSet) -> None:
        epoch = self._welcome.epoch
        await self._pool.accept(self._welcome.federation, epoch, desired)
        said = {"pool": self._config.pool, "epoch": str(epoch), "revision": desired.revision}
        log.info("desired_accepted", extra={**said, "bindings": len(desired.bindings)})
        self._publisher.publish()
        self.accepted.set()

    async def _leave_without_claim(self) -> None:
        await self.accepted.wait()
        await self._pool.claim_wanted.wait()
        raise ClaimWanted(f"epoch {self._welcome.epoch} cannot write to the cluster any more")

    # ---- up -----------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        sequence = 0
        while True:
            await asyncio.sleep(self._config.heartbeat_s)
            sequence += 1
            await self._wire.send(Heartbeat(sequence))

    async def _tell_tidied(self) -> None:
        """While the federation recovers, say once that nothing runs here which is not desired."""
        await self.accepted.wait()
        gangs = self._pool.gangs
        while True:
            if gangs.recovering and gangs.tidy:
                await self._wire.send(Tidied(self._welcome.epoch))
                break
            await asyncio.sleep(TIDY_LOOK_S)
        await asyncio.Event().wait()

    async def _sum_up(self) -> None:
        await self.accepted.wait()
        news = self._publisher.subscribe()
        try:
            while True:
                await self._send_summary()
                await news.wait()
                news.clear()
        finally:
            self._publisher.unsubscribe(news)

    async def _send_summary(self) -> None:
        """The newest summary, unless it was sent; its empty shape only if that is new."""
        async with self._summing:
            summary = self._publisher.latest
            if summary is None or summary is self._summary_sent:
                return
            news = summary.empty_shape != self._empty_sent
            self._summary_sent, self._empty_sent = summary, summary.empty_shape
            await self._wire.send(summary if news else replace(summary, empty_shape=None))

    async def _report(self) -> None:
        await self.accepted.wait()
        pool, config = self._pool, self._config
        while True:
            await self._send_reports(self._welcome.epoch)
            if not await _within(config.report_gather_s, pool.to_report_now):
                await _within(config.report_resend_s, pool.to_report)
            pool.to_report.clear()
            pool.to_report_now.clear()

    async def _send_reports(self, epoch: Epoch) -> None:
        box, config = self._pool.gangs.outbox, self._config
        if box.overdue(self._clock.monotonic() - config.report_resend_s):
            log.info("reports_sent_again", extra={"pool": config.pool, "epoch": str(epoch)})
        while box.waiting and box.batches_sent < config.report_window:
            self._reports_sent += 1
            now_s = self._clock.monotonic()
            batch = box.take(self._reports_sent, limit=config.report_batch_max, now_s=now_s)
            if any(report.status is GangStatus.REFUSED for report in batch):
                await self._publisher.fresh()
                await self._send_summary()
            await self._wire.send(Reports(epoch, self._reports_sent, batch))
            self._pool.traces.reported(batch)
            self._tell(batch)

    def _tell(self, batch: tuple[GangReport, ...]) -> None:
        for report in batch:
            level = logging.INFO if report.status in _LOUD else logging.DEBUG
            if log.isEnabledFor(level):
                fields = self._logs.fields(report.key)
                fields |= {"pool": self._config.pool, "status": report.status.name, "reason": report.reason.name}
                log.log(level, "gang_reported", extra={**fields, "cause": report.message})


async def _within(seconds: float, event: asyncio.Event) -> bool:
    """Wait for an event for so long; whether it came."""
    if event.is_set():
        return True
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
