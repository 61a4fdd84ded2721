"""The federation of a run: clusters, queues, and the jobs that users will submit, all drawn from the seed.

Small on purpose: a dozen nodes show every race that ten thousand would, and a run stays under half a second. Quotas
are drawn smaller than capacity in some queues and larger in others, so that both run short.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

from hanse.model.ids import FlavorName, PoolName, QueueName, queue_uid
from hanse.model.job import EnvVar, JobSpec, PodSet, PodTemplate, RestartPolicy, Slice, Spread, Topology
from hanse.model.placement import Level
from hanse.model.queue import Cohort, Flavor, FlavorQuota, PriorityClass, Queue
from hanse.model.resources import CPU, PODS, Resources
from hanse.model.selectors import Operator, Requirement
from hanse.simcluster.programs import EXIT_ENV, RUNTIME_ENV
from hanse.simcluster.spec import ClusterSpec, GroupLevel, NodeGroup, Sizes, Timing
from hanse.store import keys
from hanse.store.contract import Put
from hanse.store.schema import CohortValue, FlavorValue, PriorityValue, QueueValue, encode
from tests.sim.swarm import Swarm

GPU: Final = "nvidia.com/gpu"
GPUS_PER_NODE: Final = 8
GPU_LABEL: Final = "nvidia.com/gpu.product"
RACK: Final = "example.com/rack"
HOST: Final = "kubernetes.io/hostname"
MODELS: Final = ("H100", "A100")
LEVELS: Final = (Level(RACK, "rack"), Level(HOST, "host"))
NODE: Final = Resources({GPU: GPUS_PER_NODE, CPU: 64_000, "memory": 256 * 2**30, PODS: 110})
PER_GPU: Final = Resources({GPU: 1, CPU: 4_000, "memory": 8 * 2**30})
WITHIN_QUOTA_P: Final = 0.9
TIMING: Final = Timing(start=500, start_jitter=400, run=5_000, stop=400, tick=25)

FLAVORS: Final = tuple(
    Flavor(FlavorName(model.lower()), order, (Requirement(GPU_LABEL, Operator.IN, (model,)),))
    for order, model in enumerate(MODELS)
)
PRIORITIES: Final = (PriorityClass("normal", 0, default=True), PriorityClass("high", 100))
COHORT: Final = Cohort("research")


@dataclass(frozen=True, slots=True)
class Fleet:
    """What exists before anybody acts."""

    clusters: tuple[ClusterSpec, ...]
    queues: tuple[Queue, ...]

    @property
    def pools(self) -> tuple[PoolName, ...]:
        return tuple(PoolName(spec.name) for spec in self.clusters)

    def settings(self) -> tuple[Put, ...]:
        """The operators' settings as they are kept in the store."""
        queues = (Put(keys.queue(q.name), encode(QueueValue.of(q, created_ms=0))) for q in self.queues)
        flavors = (Put(keys.flavor(f.name), encode(FlavorValue.of(f))) for f in FLAVORS)
        classes = (Put(keys.priority(p.name), encode(PriorityValue(p.value, p.default))) for p in PRIORITIES)
        return (Put(keys.cohort(COHORT.name), encode(CohortValue.of(COHORT))), *queues, *flavors, *classes)


def draw_fleet(rng: Random, swarm: Swarm) -> Fleet:
    """Clusters of one or two GPU models and three queues, two of them in one cohort."""
    clusters = tuple(_cluster(f"p{number}", rng, swarm) for number in range(swarm.pools))
    return Fleet(clusters, tuple(_queue(f"q{number}", rng) for number in range(3)))


def _cluster(name: str, rng: Random, swarm: Swarm) -> ClusterSpec:
    levels = (GroupLevel(RACK, "rack", "r"), GroupLevel(HOST, "host", "h"))
    models = MODELS if rng.random() < 0.4 else (rng.choice(MODELS),)
    groups = tuple(
        NodeGroup(
            prefix=f"{name}-{model.lower()}",
            levels=levels,
            sizes=_sizes(rng, max(1, swarm.nodes_max // (3 * len(models)))),
            allocatable=NODE,
            labels={GPU_LABEL: model},
        )
        for model in models
    )
    return ClusterSpec(name, groups, TIMING, seed=rng.randrange(2**31))


def _sizes(rng: Random, racks: int) -> Sizes:
    """Racks of one to four hosts."""
    return ((racks,), tuple(rng.randint(1, 4) for _ in range(racks)))


def _queue(name: str, rng: Random) -> Queue:
    flavors = rng.sample([f.name for f in FLAVORS], k=rng.choice((1, 2, 2)))
    quotas = tuple(FlavorQuota(flavor, Resources({GPU: rng.choice((8, 16, 24, 32, 64))})) for flavor in flavors)
    uid = queue_uid("operator", "sim", name)
    return Queue(uid, QueueName(name), COHORT.name if name != "q2" else "", quotas)


def draw_job(rng: Random, swarm: Swarm, number: int, queues: tuple[Queue, ...]) -> JobSpec:
    """One gang: mostly one pod set of whole or half hosts, sometimes two sets, racks, slices, failures.

    Mostly it is within its queue's quota, so that queues are full and jobs wait for each other, not for ever.
    """
    queue = rng.choice(queues)
    most = max(quota.nominal[GPU] for quota in queue.quotas) if rng.random() < WITHIN_QUOTA_P else 10**6
    sets = tuple(_pod_set(rng, swarm, f"s{index}", most) for index in range(rng.choice((1, 1, 1, 2))))
    return JobSpec(
        name=f"job-{number}",
        queue=queue.name,
        pod_sets=sets,
        priority_class=rng.choice(("", "normal", "high")),
        duration_s=rng.choice((0, 0, 0, 0, 0, 3)),
        restart=RestartPolicy(max_retries=rng.choice((0, 1, 2))),
        max_pools=2 if swarm.split and len(sets) == 1 and rng.random() < 0.6 else 1,
        start_skew_max_s=rng.choice((5, 60)),
    )


def _pod_set(rng: Random, swarm: Swarm, name: str, gpus_max: int) -> PodSet:
    gpus = rng.choice((1, 2, 4, 8, 8))
    count = min(rng.choice((1, 1, 2, 2, 3, 4, 6, 8)), max(1, gpus_max // gpus))
    kind = rng.random()
    return PodSet(
        name=name,
        count=count,
        min_count=(count + 1) // 2 if kind > 0.85 else count,
        resources=PER_GPU.times(gpus),
        topology=_topology(kind, count),
        template=PodTemplate(
            image="train",
            command=("train",),
            env=(
                EnvVar(RUNTIME_ENV, f"{rng.choice((0.5, 2, 5, 10)):g}"),
                EnvVar(EXIT_ENV, "1" if rng.random() < swarm.pod_fail_p else "0"),
            ),
        ),
    )


def _topology(kind: float, count: int) -> Topology:
    if kind < 0.2:
        return Topology(required="rack")
    if kind < 0.35:
        return Topology(preferred="rack")
    if kind < 0.45 and count % 2 == 0:
        return Topology(slices=(Slice(2, "rack"),))
    if 0.5 < kind < 0.55:
        return Topology(spread=Spread("rack", (count + 1) // 2))
    if 0.55 < kind < 0.6:
        return Topology(slices=(Slice(2, "rack", preferred=True),) if count % 2 == 0 else ())
    if 0.6 < kind < 0.65:
        return Topology(slices=(Slice(2, "rack", ragged=True),))
    return Topology(balanced="rack") if 0.65 < kind < 0.7 else Topology()
