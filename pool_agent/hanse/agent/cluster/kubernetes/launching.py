"""Starts a gang: creates its objects, and writes down which they are.

That is all that the order is needed for. A pod of each template is tried first, without being made: what the cluster
would never take is refused at once and in its own words, which a controller would only write into an event. Pods come
when their controllers make them, gated, and are let go by whoever tends the gang then.

A crash between the objects and the record leaves objects of this very gang, which the order that is repeated finds; a
gang that is forgotten meanwhile leaves them to `orphans`.
"""

import logging
from dataclasses import replace
from typing import Final

from hanse.agent.cluster.kubernetes.adapting import Terms, adapted
from hanse.agent.cluster.kubernetes.hands import NotTaken
from hanse.agent.cluster.kubernetes.ledgers import Ledgers
from hanse.agent.cluster.kubernetes.making import Making
from hanse.agent.cluster.kubernetes.pods import Start
from hanse.agent.cluster.kubernetes.roots import Roots
from hanse.agent.cluster.kubernetes.spread import spread
from hanse.agent.cluster.kubernetes.stored import Root
from hanse.model.errors import InvalidArgument

log = logging.getLogger(__name__)

AT_ONCE: Final = 16
FEW: Final = 4
"""So few objects are created in their order; more are pods, which have none."""


class Launching:
    """See the module."""

    def __init__(self, making: Making, ledgers: Ledgers, roots: Roots, terms: Terms) -> None:
        self._making = making
        self._ledgers = ledgers
        self._roots = roots
        self._terms = terms

    async def launch(self, start: Start) -> None:
        """Create and record. Raises NotTaken, NotYet, Superseded, ClusterUnavailable."""
        try:
            made = adapted(start, self._terms)
        except InvalidArgument as error:
            raise NotTaken(str(error)) from None
        if start.finds_itself and not start.order.manifest:
            await self._making.hands.create_service(start)
        await self._making.hands.try_pods(start, made.pods)
        created: dict[int, Root] = {}

        async def one(at: int) -> None:
            root, found = await self._making.create(start, made.bodies[at])
            created[at] = root
            self._roots.met(root, found)

        await spread(range(len(made.bodies)), one, at_once=AT_ONCE if len(made.bodies) > FEW else 1)
        stored = self._ledgers.get(start.key)
        if stored is None or stored.launched:
            return
        wanted = replace(
            stored, roots=tuple(created[at] for at in sorted(created)), late=made.late, follows=made.follows
        )
        refused = await self._ledgers.change(start.epoch, {start.key: wanted})
        if refused:
            raise NotTaken(refused[start.key])
        what = {
            "gang": str(start.key),
            "objects": [str(root) for root in wanted.roots[:FEW]],
            "changed": list(made.changed),
        }
        log.info("objects_created", extra=what)
