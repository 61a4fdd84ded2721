"""What the product is compared with: one scheduler that sees every node of every pool.

The placement is the agent's, over one inventory whose coarsest level is the pool; every gang must be inside one pool,
as it must be in the product. Order of service, order of flavors and moments of decision are those of the product:
jobs by age, a class that finds no place is not asked again before something is given back, one choice of flavors
after the other. So what differs is what two levels and summaries lose, and which pool they choose.
"""

from collections.abc import Sequence
from dataclasses import replace

from bench.hierarchy.federation import queues
from bench.hierarchy.fleet import POOL_LEVEL, Pool, flavors, tree_inventory
from bench.hierarchy.stream import Gang
from bench.hierarchy.waiting import waiting
from hanse.agent.core.placement import Placement, place
from hanse.model.ids import JobId
from hanse.model.request import GangRequest
from hanse.scheduler.core.pending import PendingJob, PendingSet
from hanse.scheduler.core.plan import flavor_choices
from hanse.shape import NoFit


class OneTree:
    """See the module."""

    def __init__(self, fleet: Sequence[Pool]) -> None:
        self._inventory = tree_inventory(fleet)
        self._pending = PendingSet()
        self._requests: dict[int, GangRequest] = {}
        self._held: dict[JobId, Placement] = {}
        self._blocked: dict[int, object] = {}
        self._flavors = tuple(flavor.name for flavor in flavors())
        self._quotas = {queue.uid: tuple(q.flavor for q in queue.quotas) for queue in queues(flavors())}

    def submit(self, gang: Gang) -> None:
        """See Side."""
        self._requests[gang.class_hash] = in_one_pool(gang.request)
        self._pending.put(waiting(gang))

    def release(self, gang: Gang, at_s: float) -> None:
        """See Side."""
        self._inventory.give(self._held.pop(gang.job))
        self._blocked.clear()

    def decide(self, now_s: float) -> list[JobId]:
        """See Side."""
        service = self._pending.service(self._blocked)
        started: list[JobId] = []
        while (job := service.next()) is not None:
            if self._place(job):
                started.append(job.job)
            else:
                self._blocked[job.class_hash] = True
                service.drop_class(job.class_hash)
        for name in started:
            self._pending.remove(name)
        return started

    def _place(self, job: PendingJob) -> bool:
        """Take places for the job in the first flavors that have them; whether there were any."""
        request = self._requests[job.class_hash]
        for choice in flavor_choices(request, self._quotas[job.queue], self._flavors):
            found = place(self._inventory, request, choice)
            if not isinstance(found, NoFit):
                self._inventory.take(found)
                self._held[job.job] = found
                return True
        return False


def in_one_pool(request: GangRequest) -> GangRequest:
    """The request, each set of which must be inside one pool at the least."""
    sets = [
        replace(s, topology=replace(s.topology, required=s.topology.required or POOL_LEVEL.alias))
        for s in request.sets
    ]
    return replace(request, sets=tuple(sets))
