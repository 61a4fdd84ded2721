"""Operators who give queues to other holders, and put cohorts under other ones: roots change, and their holders."""

from random import Random
from typing import TYPE_CHECKING, Final

from hanse.api.v1 import config_pb2, config_service_pb2, queue_service_pb2
from tests.sim.fleet import COHORT
from tests.sim.leaving import Insist

if TYPE_CHECKING:
    from tests.sim.world import World

APART_P: Final = 0.5
COMPANY: Final = "company"


class Giving:
    """The operators of a run who do that."""

    def __init__(self, world: "World", rng: Random, insist: Insist) -> None:
        self._world = world
        self._rng = rng
        self._insist = insist
        self._requests = 0

    async def give(self) -> None:
        """Name some replica, which may be away, to admit for a queue or all that goes with it; or nobody again."""
        queue = self._rng.choice(self._world.fleet.queues)
        holder = self._rng.choice(("", *(site.name for site in self._world.replicas)))
        apart = self._rng.random() < APART_P
        self._world.story.note(f"gives {queue.name}{' alone' if apart else ''} to {holder or 'anybody'}")
        request = queue_service_pb2.GiveQueueRequest(
            name=queue.name, holder=holder, apart=apart, request_id=self._id()
        )
        await self._insist("GiveQueue", request)

    async def regroup(self) -> None:
        """Put the cohort under another one, or make it a root again: its queues have another root from then on."""
        company = config_pb2.Cohort(name=COMPANY)
        made = config_service_pb2.CreateCohortRequest(cohort=company, request_id=self._id())
        await self._insist("CreateCohort", made)
        parent = self._rng.choice(("", COMPANY))
        self._world.story.note(f"puts cohort {COHORT.name} under {parent or 'nothing'}")
        cohort = config_pb2.Cohort(name=COHORT.name, parent=parent)
        request = config_service_pb2.UpdateCohortRequest(cohort=cohort, request_id=self._id())
        await self._insist("UpdateCohort", request)

    def _id(self) -> str:
        self._requests += 1
        return f"give-{self._requests}"
