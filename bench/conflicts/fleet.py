"""The fleet and the gangs: pools of two accelerators each, filled to a share of their GPUs before anybody decides.

Every pool has racks of 25 hosts with 8 GPUs, half of the racks with each accelerator. Gangs are those of KINDS in
equal numbers, each for one accelerator. The filling is made of the same gangs, placed by the agents' own placement.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.ledger import NodeLedger, Placed
from hanse.model.desired import BoundSet
from hanse.model.fence import GangKey
from hanse.model.ids import Attempt, FlavorName, JobId, NodeName, Part, PoolName, QueueName, queue_uid
from hanse.model.job import JobSpec, PodSet, PodTemplate, Topology
from hanse.model.placement import Level
from hanse.model.queue import Flavor, FlavorQuota, Queue
from hanse.model.request import GangRequest, class_hash, gang_request
from hanse.model.resources import CPU, MEMORY, NVIDIA_GPU, PODS, Resources
from hanse.model.selectors import Operator, Requirement

GPU_LABEL: Final = "nvidia.com/gpu.product"
FILLING: Final = "filling"
"""Where a job has the uid of its queue, gangs of the filling have this."""

RACK: Final = Level("topology.kubernetes.io/rack", "rack")
MODELS: Final = ("h100", "a100")
HOSTS_PER_RACK: Final = 25
HOST_GPUS: Final = 8
HOST: Final = Resources({NVIDIA_GPU: HOST_GPUS, CPU: 192_000, MEMORY: 2**41, PODS: 110})
GPU: Final = Resources({NVIDIA_GPU: 1, CPU: 16_000, MEMORY: 2**37})

KINDS: Final = (
    (1, 1, ""),
    (1, 4, ""),
    (1, 8, ""),
    (2, 8, ""),
    (4, 8, ""),
    (8, 8, ""),
    (4, 8, "rack"),
    (8, 8, "rack"),
)
"""Pods, GPUs of each, and the level that must hold all of them."""

FLAVORS: Final = tuple(
    Flavor(FlavorName(model), at, (Requirement(GPU_LABEL, Operator.IN, (model,)),)) for at, model in enumerate(MODELS)
)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of gang, as a queue's users submit it."""

    spec: JobSpec
    request: GangRequest
    number: int  # the hash of its class


def queues(count: int) -> tuple[Queue, ...]:
    """Queues that may use everything: quota is not what is measured. Each is a root of its own."""
    quotas = tuple(FlavorQuota(flavor.name, Resources({NVIDIA_GPU: 10**9})) for flavor in FLAVORS)
    names = (f"q{n:03}" for n in range(count))
    return tuple(Queue(queue_uid("operator", "bench", n), QueueName(n), "", quotas) for n in names)


def kinds(queue: Queue) -> tuple[Kind, ...]:
    """Every kind of gang, for each accelerator."""
    return tuple(_kind(queue, *kind, model) for model in MODELS for kind in KINDS)


def _kind(queue: Queue, pods: int, gpus: int, level: str, model: str) -> Kind:
    pod_set = PodSet(
        name="worker",
        count=pods,
        min_count=pods,
        resources=GPU.times(gpus),
        flavors=(FlavorName(model),),
        topology=Topology(required=level),
        template=PodTemplate(image="trainer", command=("train",)),
    )
    spec = JobSpec("gang", queue.name, (pod_set,))
    request = gang_request(spec)
    return Kind(spec, request, class_hash(queue.uid, request))


# ---- pools ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Pool:
    """One pool's nodes and who is on them.

    Attributes:
        filling: gangs that were there before anybody decided, with their GPUs.
    """

    name: PoolName
    ledger: NodeLedger
    gpus: int
    filling: list[tuple[GangKey, int]] = field(default_factory=list)
    taken: Counter[FlavorName] = field(default_factory=Counter)

    def place(self, key: GangKey, request: GangRequest, flavor: FlavorName) -> bool:
        """Take places for a gang of one pod set; whether there were any."""
        sets = (BoundSet("worker", request.sets[0].count, 0, flavor),)
        return isinstance(self.ledger.place(key, request, sets), Placed)

    def fill(self, flavor: FlavorName, gpus: float, choice: Sequence[Kind], rng: Random) -> None:
        """Place such gangs, in any order, until so many GPUs are taken."""
        while self.taken[flavor] < gpus:
            request = rng.choice(choice).request
            key = GangKey(JobId(f"{FILLING}-{len(self.filling):016}"), Attempt(1), Part(0))
            if self.place(key, request, flavor):
                self.filling.append((key, request.gpus))
                self.taken[flavor] += request.gpus


def pools(count: int, nodes: int) -> list[Pool]:
    """Empty pools of so many nodes."""
    found: list[Pool] = []
    for number in range(count):
        name = PoolName(f"p{number:03}")
        inventory = Inventory(FLAVORS, [(RACK,)], list(_nodes(name, nodes)))
        found.append(Pool(name, NodeLedger(inventory), nodes * HOST_GPUS))
    return found


def grow(found: Sequence[Pool], load: float, rng: Random) -> None:
    """Fill every pool, as far as it is not, until `load` of each accelerator is taken."""
    every = kinds(queues(1)[0])
    for pool in found:
        for model in MODELS:
            own = [kind for kind in every if kind.request.sets[0].flavors == (model,)]
            pool.fill(FlavorName(model), load * pool.gpus / len(MODELS), own, rng)


def _nodes(name: PoolName, nodes: int) -> Iterator[NodeFacts]:
    racks = nodes // HOSTS_PER_RACK
    for rack in range(racks):
        labels = {GPU_LABEL: MODELS[rack * len(MODELS) // racks], RACK.key: f"{name}-r{rack:02}"}
        for host in range(HOSTS_PER_RACK):
            yield NodeFacts(NodeName(f"{name}-{rack:02}-{host:02}"), labels, (), HOST)
