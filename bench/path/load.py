"""What is submitted: gangs of 1 to 64 pods that run 10 to 30 s, and no two that ask for the same.

Sizes follow a power law, as those of real clusters do: of n pods in proportion to n^-SKEW. With the default of 1.5
the mean is 6.2 pods, 42 % have one and 4 % more than 32; 1.0 gives a mean of 13.5, 0.0 one of 32.5. Gangs of at most
SMALL_PODS_MAX pods may ask for more than one GPU for each, so that a mean gang holds 7 GPUs: at 1,000 gangs a second
130,000 of the 160,000 are held, and the fleet is not what limits. Whoever sets another SKEW looks at `raw.fleet`.

Run times are log-uniform: as many between 10 and 17 s as between 17 and 30.
"""

import math
import random
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from bench.equal_pools import GPU
from hanse.api.v1 import job_spec_pb2

PODS_MAX: Final = 64
SMALL_PODS_MAX: Final = 16
RUN_MIN_S: Final = 10.0
RUN_MAX_S: Final = 30.0
GPUS: Final = (1, 2, 4, 8)
GPU_WEIGHTS: Final = (86, 93, 97, 100)
"""Of `GPUS`, added up."""

DOMAIN_GPUS_MAX: Final = 150
"""Beyond it a gang asks for no domain: a rack has 200."""

LEVELS: Final = ("", "", "rack", "block")
PAGE_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Load:
    """How much is submitted, and how.

    Attributes:
        window: gangs on their way (submitted, not placed) that the client keeps up.
        batch: gangs of one call.
        skew: exponent of the power law of sizes.
    """

    queues: int
    window: int
    batch: int
    skew: float
    seed: int


@dataclass(frozen=True, slots=True)
class Gang:
    """One gang: what is sent, and what it holds."""

    spec: job_spec_pb2.JobSpec
    pods: int
    gpus: int


class Gangs:
    """Makes gangs, each with an amount of memory that no other one has."""

    def __init__(self, load: Load) -> None:
        self._of = load
        self._queues = load.queues
        self._rng = random.Random(load.seed)
        self._weights = list(accumulate(pods**-load.skew for pods in range(1, PODS_MAX + 1)))
        self._made = 0

    def confine(self, queues: int) -> None:
        """From now on gangs are for the first so many queues alone."""
        self._queues = min(queues, self._of.queues)

    def batch(self, count: int, queue: str = "") -> list[Gang]:
        """The next gangs, for one queue or for all in turn."""
        made = [self._one() for _ in range(count)]
        for gang in made if queue else ():
            gang.spec.queue = queue
        return made

    def _one(self) -> Gang:
        self._made += 1
        rng = self._rng
        (pods,) = rng.choices(range(1, PODS_MAX + 1), cum_weights=self._weights)
        (each,) = rng.choices(GPUS, cum_weights=GPU_WEIGHTS) if pods <= SMALL_PODS_MAX else (1,)
        spec = job_spec_pb2.JobSpec(name=f"gang-{self._made:07d}", queue=f"team-{self._made % self._queues}")
        pod_set = spec.pod_sets.add(name="worker", count=pods, min_count=pods, flavors=("h100",))
        resources = pod_set.resources
        resources[GPU], resources["cpu"], resources["memory"] = each, 1_000, 2**30 + self._made * PAGE_BYTES
        pod_set.template.image = "trainer"
        pod_set.template.command.extend(("sleep", f"{self._run_s():.3f}"))
        self._ask_for_places(pod_set, pods * each)
        return Gang(spec, pods, pods * each)

    def _ask_for_places(self, pod_set: job_spec_pb2.PodSet, gpus: int) -> None:
        level = self._rng.choice(LEVELS) if gpus <= DOMAIN_GPUS_MAX else ""
        if level:
            pod_set.topology.required_level = level
        elif pod_set.count % 2 == 0 and self._rng.random() < 0.3:
            pod_set.topology.slices.add(size=2, level="rack")

    def _run_s(self) -> float:
        return math.exp(self._rng.uniform(math.log(RUN_MIN_S), math.log(RUN_MAX_S)))
