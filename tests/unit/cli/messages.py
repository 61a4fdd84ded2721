"""Messages of the public API for drawings, small enough to be read beside the golden text."""

from hanse.api.v1 import explanation_pb2, job_pb2, job_spec_pb2, pool_pb2, queue_pb2

NOON_MS = 1_790_000_000_000


def placement(pool: str = "iowa-h100", pods: int = 512) -> job_pb2.Placement:
    """One part in one block."""
    return job_pb2.Placement(
        pool=pool,
        flavor="h100",
        pods=pods,
        domains=[
            job_pb2.LevelUse(level="block", count=1),
            job_pb2.LevelUse(level="rack", count=32),
            job_pb2.LevelUse(level="host", count=pods),
        ],
    )


def llama(**status: object) -> job_pb2.Job:
    """The demo's job, running unless the status says something else."""
    fields: dict[str, object] = {
        "state": job_pb2.JOB_STATE_RUNNING,
        "attempt": 1,
        "priority": 1000,
        "submitted_ms": NOON_MS,
        "bound_ms": NOON_MS + 41,
        "placed_ms": NOON_MS + 180,
        "started_ms": NOON_MS + 190,
        "running_ms": NOON_MS + 2_400,
        "placement": [placement()],
    }
    return job_pb2.Job(
        id="abcdefgh-0123456789abcdef",
        name="llama3-70b-training",
        queue="high-priority-training",
        spec=job_spec_pb2.JobSpec(
            name="llama3-70b-training",
            pod_sets=[
                job_spec_pb2.PodSet(name="worker", count=512, resources={"nvidia.com/gpu": 8, "rdma/hca": 1}),
            ],
        ),
        status=job_pb2.JobStatus(**(fields | status)),  # type: ignore[arg-type]
    )


def named(
    name: str,
    *,
    state: job_pb2.JobState.ValueType = job_pb2.JOB_STATE_RUNNING,
    queue: str = "research",
    at_s: int = 0,
) -> job_pb2.Job:
    """A job of which only the name matters."""
    status = job_pb2.JobStatus(state=state, submitted_ms=NOON_MS + at_s * 1_000)
    return job_pb2.Job(id=f"{name}-id-{at_s}", name=name, queue=queue, status=status)


def shape_row(domains: int, *cells: tuple[int, int, int]) -> pool_pb2.ShapeRow:
    """Blocks of racks of 32 hosts; a cell is (racks, whole hosts, free GPUs)."""
    return pool_pb2.ShapeRow(
        domains=domains,
        level="block",
        cell_level="rack",
        cells=[
            pool_pb2.ShapeCell(domains=racks, hosts=32, gpus=256, free_gpus=free, free_whole_hosts=whole)
            for racks, whole, free in cells
        ],
    )


def iowa() -> pool_pb2.Pool:
    """A pool with a shape: one block whole, one half, two with nothing."""
    return pool_pb2.Pool(
        name="iowa-h100",
        region="us-central1",
        dialect="gke",
        levels=[pool_pb2.PoolLevel(key="k/block", alias="block"), pool_pb2.PoolLevel(key="k/rack", alias="rack")],
        flavors=[pool_pb2.PoolFlavor(name="h100", nodes=512, gpus=4_096, free_gpus=1_600, free_whole_hosts=190)],
        nodes=512,
        gpus=4_096,
        free_gpus=1_600,
        free_whole_hosts=190,
        health=pool_pb2.POOL_HEALTH_HEALTHY,
        attached=True,
        summary_age_ms=400,
        summary_exact=True,
        gangs=14,
        largest_whole=pool_pb2.LargestWhole(level="block", hosts=128),
        shape=pool_pb2.PoolShape(
            rows=[
                shape_row(2, (4, 0, 0)),
                shape_row(1, (1, 32, 256), (1, 30, 250), (1, 0, 40), (1, 0, 0)),
                shape_row(1, (4, 32, 256)),
            ],
            largest_gangs=[
                pool_pb2.LargestGang(level="", flavor="h100", gpus_per_pod=8, pods=190),
                pool_pb2.LargestGang(level="block", flavor="h100", gpus_per_pod=8, pods=128),
                pool_pb2.LargestGang(level="rack", flavor="h100", gpus_per_pod=8, pods=32),
                pool_pb2.LargestGang(level="", flavor="h100", gpus_per_pod=1, pods=1_600),
                pool_pb2.LargestGang(level="block", flavor="h100", gpus_per_pod=1, pods=1_024),
                pool_pb2.LargestGang(level="rack", flavor="h100", gpus_per_pod=1, pods=256),
            ],
        ),
    )


def tokyo() -> pool_pb2.Pool:
    """A pool that is not well."""
    return pool_pb2.Pool(
        name="tokyo-h200",
        nodes=2_048,
        gpus=16_384,
        free_gpus=6_224,
        health=pool_pb2.POOL_HEALTH_STALE,
        message="its last summary is 74 s old; it gets no new work",
        summary_age_ms=74_000,
    )


def waiting() -> explanation_pb2.Explanation:
    """A gang that fits nowhere now."""
    return explanation_pb2.Explanation(
        id="abcdefgh-0123456789abcdef",
        name="train-vision-31",
        queue="research",
        state=job_pb2.JOB_STATE_PENDING,
        reason="SHAPE",
        answer="no pool has 16 whole racks in one block",
        since_ms=NOON_MS - 14 * 60_000,
        position=1,
        pools=[
            explanation_pb2.PoolExplanation(
                pool="iowa-h100",
                reason="SHAPE",
                constraint="racks in one block",
                wanted=16,
                found=14,
                unit="racks",
                nodes=["r12: 1 host cordoned (disk)", "r15: 6 of 8 GPUs free on h3"],
            ),
            explanation_pb2.PoolExplanation(
                pool="frankfurt", reason="QUOTA", detail="research may use 256 more H100, job needs 1,024"
            ),
            explanation_pb2.PoolExplanation(pool="oslo-gb200", reason="FLAVOR", detail="no host of flavor h100"),
            explanation_pb2.PoolExplanation(pool="tokyo-h100", reason="LEVEL_UNKNOWN", detail="no level rack"),
        ],
        helps=[
            explanation_pb2.Help(change="15 racks instead of 16", effect="starts now in b3"),
            explanation_pb2.Help(change="uncordon iowa-h100/h1123"),
        ],
    )


def research() -> queue_pb2.Queue:
    """A queue with two flavors, one of them limited twice."""
    return queue_pb2.Queue(
        name="research",
        cohort="company",
        held=True,
        quotas=[
            queue_pb2.FlavorQuota(flavor="h100", nominal={"nvidia.com/gpu": 2_048, "cpu": 1_000_000}),
            queue_pb2.FlavorQuota(flavor="gb200", nominal={"nvidia.com/gpu": 1_024}),
        ],
        status=queue_pb2.QueueStatus(
            pending_jobs=3,
            live_jobs=2,
            ended_jobs=40,
            exact=True,
            used=[queue_pb2.FlavorUse(flavor="h100", used={"nvidia.com/gpu": 1_024, "cpu": 1_500})],
        ),
    )
