"""The link to a global replica: dial, introduce, attach, and begin again when it ends.

Which replica answers is not ours to say: whoever is dialled serves this pool from then on. Every attempt reads the
claim first, because another agent may have claimed the cluster since, and the hello says what the cluster has
accepted. After an attachment that worked the next try comes at once; failures in a row wait longer and longer, and a
refusal that nobody can wait out waits longest, but an operator may mend it, so the agent never gives up.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from hanse.agent.cluster.port import Claim, ClusterUnavailable, Superseded
from hanse.agent.core.fence import check_welcome
from hanse.agent.core.topology import usable_levels
from hanse.agent.shell.config import AgentConfig
from hanse.agent.shell.pool import Pool
from hanse.agent.shell.publisher import Publisher
from hanse.agent.shell.session import AttachmentRefused, ClaimWanted, Session, Uplink, Wire
from hanse.kit.backoff import Backoff
from hanse.kit.clock import Clock
from hanse.kit.stream import StreamClosed
from hanse.kit.telemetry import metrics
from hanse.model.attach import Hello, Refusal, Welcome
from hanse.model.errors import HanseError
from hanse.model.placement import Level
from hanse.shape.limits import HOST_ALIAS, HOST_KEY
from hanse.wire.link import LINK_VERSION

log = logging.getLogger(__name__)

REFUSED_FOR_GOOD_S: Final = 30.0
"""Wait after a refusal that trying again cannot help."""

Dial = Callable[[], Awaitable[Uplink]]


class Link:
    """See the module.

    Attributes:
        attached: the complete desired set of a live stream is the one that counts.
    """

    def __init__(
        self,
        config: AgentConfig,
        dial: Dial,
        *,
        instance: str,
        pool: Pool,
        publisher: Publisher,
        clock: Clock,
        rng: Random,
    ) -> None:
        self._config = config
        self._dial = dial
        self._instance = instance
        self._pool = pool
        self._publisher = publisher
        self._clock = clock
        self._backoff = Backoff(config.reconnect, rng)
        self._session: Session | None = None

    @property
    def attached(self) -> bool:
        return self._session is not None and self._session.accepted.is_set()

    async def run(self) -> None:
        """Attach again and again, until cancelled."""
        while True:
            try:
                await self._attach()
            except AttachmentRefused as error:
                said = {"pool": self._config.pool, "reason": error.reason, "cause": str(error)}
                log.error("attachment_refused", extra=said)
                metrics.AGENT_ATTACHMENTS_REFUSED.add(1, self._config.pool)
                await asyncio.sleep(0.0 if error.retry else REFUSED_FOR_GOOD_S)
            except (StreamClosed, ClaimWanted, Superseded, ClusterUnavailable, HanseError, OSError) as error:
                log.info("link_ended", extra={"pool": self._config.pool, "cause": str(error)})
            await asyncio.sleep(self._backoff.delay_s())

    async def _attach(self) -> None:
        claim = await self._pool.read_claim()
        stream = await self._reach()
        try:
            wire = Wire(stream, send_deadline_s=self._config.send_deadline_s)
            await wire.send(self._hello(claim))
            welcome = await self._welcomed(wire, claim)
            session = Session(
                self._config, wire, welcome, claim, pool=self._pool, publisher=self._publisher, clock=self._clock
            )
            self._session = session
            try:
                await session.run()
            finally:
                self._session = None
                if session.accepted.is_set():
                    self._backoff.reset()
        finally:
            stream.close()

    async def _reach(self) -> Uplink:
        try:
            async with asyncio.timeout(self._config.dial_deadline_s):
                return await self._dial()
        except TimeoutError:
            raise StreamClosed(f"no replica answered within {self._config.dial_deadline_s:.0f} s") from None

    def _hello(self, claim: Claim) -> Hello:
        config, pool = self._config, self._pool
        levels = pool.levels
        levels = (*usable_levels(levels), Level(HOST_KEY, HOST_ALIAS))  # the host once, whatever its label is called
        return Hello(
            version=LINK_VERSION,
            pool=config.pool,
            instance=self._instance,
            cluster_uid=claim.cluster_uid,
            federation=claim.federation,
            epoch=claim.epoch,
            accepted_revision=claim.accepted_revision,
            region=config.region,
            labels=config.labels,
            dialect=pool.dialect,
            levels=levels,
            cost=config.cost,
        )

    async def _welcomed(self, wire: Wire, claim: Claim) -> Welcome:
        match await wire.receive(self._config.hello_deadline_s):
            case Refusal(reason, message, retry):
                raise AttachmentRefused(reason, message, retry=retry)
            case Welcome() as welcome:
                breach = check_welcome(claim, welcome)
                if breach is not None:
                    raise AttachmentRefused(breach.reason, breach.message, retry=True)
                return welcome
            case other:
                raise StreamClosed(f"the first message of the replica was a {type(other).__name__}, not a welcome")
