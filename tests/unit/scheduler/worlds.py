"""Small worlds for the scheduler's tests: pools with real shapes, queues, pending jobs."""

from collections.abc import Iterable, Mapping

from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.inventory import Inventory
from hanse.model.ids import Attempt, FlavorName, JobId, NodeName, Part, PoolName, QueueName, QueueUid, ReplicaId
from hanse.model.job import Slice, Topology
from hanse.model.lifecycle import JobState, State
from hanse.model.placement import Level
from hanse.model.queue import Charge, Flavor, FlavorQuota, Queue, QueueLimits
from hanse.model.request import GangRequest, SetRequest, class_hash
from hanse.model.resources import Resources
from hanse.model.selectors import Operator, Requirement, Selector
from hanse.scheduler.core.facts import BindingFacts, GrantFacts, PoolFacts, SummaryFacts, SummaryOrder
from hanse.scheduler.core.pending import PendingJob, PendingSet, pending_job
from hanse.scheduler.core.world import World
from hanse.shape import Shape

RACK = Level("rack", "rack")
H100 = FlavorName("h100")
A100 = FlavorName("a100")
QUEUE = QueueUid("abcdefgh")
ROOT = f"queue.{QUEUE}"
NONCE = "start-1"
GPU = "nvidia.com/gpu"
HOST = Resources({GPU: 8, "cpu": 64_000, "memory": 2**40, "pods": 110})


def flavor(name: FlavorName) -> Flavor:
    return Flavor(name, 0, (Requirement("gpu", Operator.IN, (name,)),))


def inventory(racks: Mapping[str, int], *, name: FlavorName = H100, used: Mapping[str, int] = {}) -> Inventory:
    """Racks with so many hosts of 8 GPUs; `used` GPUs on the host `rack-number`."""
    found = Inventory([flavor(H100), flavor(A100)], [(RACK,)])
    for rack, hosts in racks.items():
        for number in range(hosts):
            node = f"{rack}-{number}"
            facts = NodeFacts(NodeName(node), {"gpu": name, "rack": rack}, (), HOST)
            taken = Resources({GPU: used[node]}) if node in used else Resources()
            found.set_node(facts, taken)
    return found


def request(
    count: int,
    gpus: int = 8,
    *,
    required: str = "",
    slices: tuple[Slice, ...] = (),
    flavors: tuple[FlavorName, ...] = (),
    max_pools: int = 1,
    least: int = 0,
) -> GangRequest:
    each = Resources({GPU: gpus})
    topology = Topology(required=required, slices=slices)
    return GangRequest((SetRequest(count, least or count, each, flavors, Selector(), (), topology),), max_pools)


def queue(quota: Mapping[FlavorName, int], *, held: bool = False, running: int = 0) -> Queue:
    quotas = tuple(FlavorQuota(f, Resources({GPU: amount})) for f, amount in quota.items())
    limits = QueueLimits(running_jobs_max=running)
    return Queue(QUEUE, QueueName("research"), "", quotas, held, limits=limits)


def world(
    pools: Mapping[str, Shape], quota: Mapping[FlavorName, int], *, observed: int = 10, held: bool = False
) -> World:
    """A world at revision 10 in which this replica holds the only queue's root."""
    found = World(ReplicaId("r0"))
    found.revision, found.incarnation = 10, 1
    for name in (H100, A100):
        found.put_flavor(flavor(name), 1)
    found.put_queue(queue(quota, held=held), 2)
    found.grants[ROOT] = GrantFacts(ROOT, "r0", NONCE, 3)
    for slot, (pool, shape) in enumerate(pools.items()):
        found.put_pool(PoolFacts(PoolName(pool), slot, 4, levels=(RACK,)))
        found.put_attached(PoolName(pool), "r0")
        found.accept_summary(PoolName(pool), summary(shape, 1, observed))
    return found


def summary(shape: Shape, sequence: int, observed: int, *, at_s: float = 0.0) -> SummaryFacts:
    return SummaryFacts(SummaryOrder(1, 5, sequence), observed, at_s, 0, shape, shape)


def job(number: int, want: GangRequest, *, priority: int = 0, submit_ms: int = 0) -> PendingJob:
    name = JobId(f"{QUEUE}-{number:016d}")
    state = JobState(State.PENDING, Attempt(0), priority, submit_ms, submit_ms, class_hash(QUEUE, want))
    return pending_job(name, QUEUE, state, 9)


def pending(jobs: Iterable[PendingJob]) -> PendingSet:
    found = PendingSet()
    for each in jobs:
        found.put(each)
    return found


def binding(number: int, pool: str, want: GangRequest, revision: int, *, name: FlavorName = H100) -> BindingFacts:
    amount = Resources({GPU: want.gpus})
    return BindingFacts(
        PoolName(pool),
        JobId(f"{QUEUE}-{number:016d}"),
        Attempt(1),
        Part(0),
        revision,
        QUEUE,
        want,
        tuple(name for _ in want.sets),
        (Charge(name, amount),),
    )
