"""Removes the Services and objects, and what jobs brought along, that agents left behind which died while they
forgot a gang.

To forget is to remove the record first, because that decides; then the pods; then their Service. Pods without a
record are found by every list. A Service without either is looked for here, after each list: so after each claim, and
now and then, because what a dead agent has sent may arrive late.

A record precedes its gang's Service. So a Service that was listed *before* we looked that the records are ours, and
has none, belongs to nothing; it is deleted by its uid.

Rejected: an owner reference to the gang's pods. It would be one more write for each gang and needs a controller that
not every cluster runs; and where the first pod is lost with its node, the others would lose their names.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from hanse.agent.cluster.kubernetes.companions import Companions, users_of
from hanse.agent.cluster.kubernetes.hands import Hands, NotYet
from hanse.agent.cluster.kubernetes.ledgers import Ledgers
from hanse.agent.cluster.kubernetes.making import Making
from hanse.agent.cluster.kubernetes.mirror import Mirror
from hanse.agent.cluster.port import ClusterUnavailable, Epoch, Superseded

log = logging.getLogger(__name__)


class Orphans:
    """See the module.

    Args:
        mirror: the present one.

    Attributes:
        listed: set when there was a list.
    """

    def __init__(
        self, hands: Hands, making: Making, ledgers: Ledgers, mirror: Callable[[], Mirror], companions: Companions
    ) -> None:
        self._hands = hands
        self._making = making
        self._companions = companions
        self._ledgers = ledgers
        self._mirror = mirror
        self.listed = asyncio.Event()

    async def run(self) -> None:
        """Look after each list, until cancelled; what cannot be done now is found by the next."""
        while True:
            await self.listed.wait()
            self.listed.clear()
            try:
                await self.remove()
            except (NotYet, ClusterUnavailable, Superseded) as error:
                log.info("orphans_stay", extra={"cause": str(error)})

    def _users(self) -> frozenset[str]:
        """The gangs that may use what was brought along."""
        return users_of([*(stored.record.key for stored in self._ledgers.records()), *self._mirror().gangs])

    async def remove(self) -> None:
        """Remove them. Raises Superseded, NotYet, ClusterUnavailable."""
        epoch, federation = self._ledgers.epoch, self._ledgers.claim.federation
        if epoch == Epoch() or not federation:
            return
        await self._companions.sweep(self._users, partial(self._ledgers.verify, epoch))
        found = await self._hands.services(federation)
        objects = await self._making.all(federation)
        if found or objects:
            await self._ledgers.verify(epoch)
        for key, meta in found:
            if self._ledgers.get(key) is None and not self._mirror().pods(key):
                log.info("orphan_removed", extra={"gang": str(key), "service": f"{meta.namespace}/{meta.name}"})
                await self._hands.delete_service(meta)
        for key, namespace, root in objects:
            if self._ledgers.get(key) is None and all(pod.gated for pod in self._mirror().pods(key)):
                log.info("orphan_removed", extra={"gang": str(key), "object": f"{namespace}/{root}"})
                await self._making.delete(namespace, root)
                await self._making.release(namespace, root)
