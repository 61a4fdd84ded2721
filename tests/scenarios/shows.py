"""What a story shows: jobs and pools as the API tells them, clusters as they are."""

from collections.abc import Iterable, Mapping
from typing import Final

from hanse.api.v1 import (
    explanation_pb2,
    job_pb2,
    job_service_pb2,
    pool_pb2,
    pool_service_pb2,
    queue_pb2,
    queue_service_pb2,
)
from hanse.model.errors import HanseError
from hanse.model.ids import JobId
from hanse.model.lifecycle import JobState, State
from hanse.model.resources import NVIDIA_GPU
from hanse.simcluster.gang import FAILED, MISSING, NEVER, PENDING, RUNNING, STOPPING, SUCCEEDED, Gang
from tests.scenarios.stage import Act, Stage, refusal
from tests.scenarios.words import Line, table

NAMES_MAX: Final = 4
PHASES: Final = {
    NEVER: "not created",
    PENDING: "pending",
    RUNNING: "running",
    STOPPING: "stopping",
    SUCCEEDED: "succeeded",
    FAILED: "failed",
    MISSING: "missing",
}


# ---- jobs ---------------------------------------------------------------------------------------------------


async def _listed(stage: Stage, pattern: str) -> list[tuple[str, job_pb2.Job]]:
    """Jobs as a list shows them, in the order in which the story asked for them."""
    found: dict[str, job_pb2.Job] = {}
    token = ""
    while True:
        page = await stage.world.ask("ListJobs", job_service_pb2.ListJobsRequest(page_token=token, page_size=500))
        assert isinstance(page, job_service_pb2.ListJobsResponse)
        found.update({job.id: job for job in page.jobs})
        token = page.next_page_token
        if not token:
            return [(name, found[job]) for name, job in stage.named(pattern).items() if job in found]


def _pattern(line: Line) -> str:
    return line.words[0] if line.words else "*"


async def jobs(stage: Stage, line: Line) -> list[str]:
    """A line for each job: state, attempt, reason, where."""
    return table([[name, *_row(job.status)] for name, job in await _listed(stage, _pattern(line))])


async def count(stage: Stage, line: Line) -> list[str]:
    """How many jobs are alike."""
    alike: dict[tuple[str, ...], int] = {}
    for _, job in await _listed(stage, _pattern(line)):
        row = _row(job.status)
        alike[row] = alike.get(row, 0) + 1
    return table([[f"{number} jobs" if number > 1 else "1 job", *row] for row, number in sorted(alike.items())])


def _row(status: job_pb2.JobStatus) -> tuple[str, ...]:
    state = State(status.state).name
    if status.target:
        state += f" towards {State(status.target).name}"
    attempt = f"attempt {status.attempt}" if status.attempt else ""
    return state, attempt, status.reason, " and ".join(_placed(p) for p in status.placement)


def _placed(placement: job_pb2.Placement) -> str:
    """`4 pods in iowa, rack r0, 2 hosts`."""
    used = ", ".join(_used(use) for use in placement.domains)
    return f"{placement.pods} pod{'s' if placement.pods != 1 else ''} in {placement.pool}{', ' if used else ''}{used}"


def _used(use: job_pb2.LevelUse) -> str:
    if use.level == "host":
        return f"{use.count} host{'s' if use.count != 1 else ''}"
    if 1 <= len(use.names) <= NAMES_MAX and len(use.names) == use.count:
        return f"{use.level} {' '.join(use.names)}"
    return f"{use.count} {use.level}s"


async def job(stage: Stage, line: Line) -> list[str]:
    """One job with its attempts."""
    found = await stage.world.ask("GetJob", job_service_pb2.GetJobRequest(job=stage.job(line)))
    assert isinstance(found, job_pb2.Job)
    status = found.status
    row = _row(status) if State(status.state).live else _row(status)[:-1]
    told = ["  ".join(word for word in row if word)]
    if status.failures:
        told.append(f"failures {status.failures}")
    rows = [
        [f"attempt {a.attempt}", f"ended {State(a.outcome).name}", a.reason, " and ".join(map(_placed, a.placement))]
        for a in status.attempts
    ]
    return told + table(rows)


async def life(stage: Stage, line: Line) -> list[str]:
    """Every state of a job, in order, each once; what only the reason or a touched key changed is left out."""
    told: list[str] = []
    for state in stage.world.lives.get(stage.job(line), ()):
        text = _state(state)
        if not told or told[-1] != text:
            told.append(text)
    return told


def _state(state: JobState) -> str:
    target = f" towards {state.target.name}" if state.target else ""
    told = state.reason.name if state.state is State.STOPPING or state.state.terminal else ""
    return f"{state.attempt} {state.state.name}{target} {told}".rstrip()


async def nodes(stage: Stage, line: Line) -> list[str]:
    """Who runs where, by the agents."""
    found = await stage.world.ask("GetJob", job_service_pb2.GetJobRequest(job=stage.job(line), nodes=True))
    assert isinstance(found, job_pb2.Job)
    silent = [f"no answer from {pool}" for pool in found.status.pools_silent]
    return silent + table([[n.pool, n.name, n.pod_set, _ranks(n.ranks)] for n in found.status.nodes])


def _ranks(found: Iterable[int]) -> str:
    """`ranks 0-3 8`."""
    runs: list[list[int]] = []
    for rank in sorted(found):
        if runs and runs[-1][-1] + 1 == rank:
            runs[-1] = [runs[-1][0], rank]
        else:
            runs.append([rank])
    return "ranks " + " ".join("-".join(map(str, run)) for run in runs)


async def explain(stage: Stage, line: Line) -> list[str]:
    """Why a job waits: the answer, every pool, what would help."""
    job_id = stage.job(line)
    request = job_service_pb2.ExplainJobRequest(job=job_id, without_nodes=not line.has("nodes"))
    try:
        found = await stage.world.ask("ExplainJob", request)
    except HanseError as error:
        return [refusal(error)]
    assert isinstance(found, explanation_pb2.Explanation)
    rows = [["", p.pool, _verdict(p), p.constraint or p.detail, _amount(p)] for p in found.pools]
    helps = [f"  would help: {h.change} → {h.effect}" for h in found.helps]
    detail = [f"  {p.pool}: {text}" for p in found.pools for text in p.nodes] if line.has("nodes") else []
    told = f"{found.reason}: {found.answer}" if found.reason else found.answer
    stored = stage.world.view.states[job_id].reason.name
    if found.state == job_pb2.JOB_STATE_PENDING and found.reason != stored:
        told += f" (its state says {stored})"
    return [told, *table(rows), *helps, *detail]


def _verdict(pool: explanation_pb2.PoolExplanation) -> str:
    return "runs here" if pool.chosen else "fits" if pool.fits else pool.reason


def _amount(pool: explanation_pb2.PoolExplanation) -> str:
    return f"wanted {pool.wanted}, found {pool.found}" if pool.constraint else ""


# ---- capacity -----------------------------------------------------------------------------------------------


async def pools(stage: Stage, line: Line) -> list[str]:
    """The fleet as the API tells it."""
    found = await stage.world.ask("ListPools", pool_service_pb2.ListPoolsRequest())
    assert isinstance(found, pool_service_pb2.ListPoolsResponse)
    return table([_pool_row(pool) for pool in found.pools])


def _pool_row(pool: pool_pb2.Pool) -> list[str]:
    health = pool_pb2.PoolHealth.Name(pool.health).removeprefix("POOL_HEALTH_")
    unusable = f"{pool.unusable_nodes} hosts unusable" if pool.unusable_nodes else ""
    gangs = f"{pool.gangs} gang{'s' if pool.gangs != 1 else ''}" if pool.gangs else ""
    return [
        pool.name,
        health,
        "leaving" if pool.HasField("leave") else "cordoned" if pool.cordoned else "",
        f"{pool.free_gpus} of {pool.gpus} GPUs free",
        f"{pool.free_whole_hosts} whole hosts",
        unusable,
        gangs,
    ]


async def queues(stage: Stage, line: Line) -> list[str]:
    """What each queue uses of its quota, by flavor."""
    rows: list[list[str]] = []
    for name in (queue.name for queue in stage.world.setting.queues):
        found = await stage.world.ask("GetQueue", queue_service_pb2.GetQueueRequest(name=name))
        assert isinstance(found, queue_pb2.Queue)
        used = {use.flavor: use.used for use in found.status.used}
        for quota in found.quotas:
            told = ", ".join(_use(name, used.get(quota.flavor, {}), quota.nominal) for name in sorted(quota.nominal))
            rows.append([found.name, "held" if found.held else "", quota.flavor, told or "unlimited"])
    return table(rows)


def _use(resource: str, used: Mapping[str, int], nominal: Mapping[str, int]) -> str:
    short = "GPUs" if resource == NVIDIA_GPU else resource
    return f"{used.get(resource, 0)} of {nominal[resource]} {short} used"


async def cluster(stage: Stage, line: Line) -> list[str]:
    """What a cluster really has: pods of every gang by phase, and foreign pods."""
    site = stage.world.site(line.word(0, "a pool"))
    site.cluster.sync()
    names = {job: name for name, job in stage.jobs.items()}
    rows = [[_gang_name(names, gang_id.job, gang_id.attempt), _phases(g)] for gang_id, g in site.engine.gangs.items()]
    rows += [[f"foreign {name}", f"{len(g.nodes)} running"] for name, g in sorted(site.engine.foreign.items())]
    return table(rows) or ["empty"]


def _gang_name(names: dict[JobId, str], job: JobId, attempt: int) -> str:
    return f"{names.get(job, 'unknown')} attempt {attempt}"


def _phases(gang: Gang) -> str:
    found = gang.phase.tolist()
    told = ", ".join(f"{found.count(phase)} {word}" for phase, word in PHASES.items() if phase in found)
    return told if gang.recorded else f"{told}, no record"


async def pods(stage: Stage, line: Line) -> list[str]:
    """How many pods of all gangs of a cluster are in each phase."""
    site = stage.world.site(line.word(0, "a pool"))
    site.cluster.sync()
    found = [phase for gang in site.engine.gangs.values() for phase in gang.phase.tolist()]
    told = ", ".join(f"{found.count(phase)} {word}" for phase, word in PHASES.items() if phase in found)
    return [told or "no pods"]


async def hosts(stage: Stage, line: Line) -> list[str]:
    """GPUs of every host of a cluster: how many of those that it offers are free."""
    site = stage.world.site(line.word(0, "a pool"))
    site.cluster.sync()
    nodes_ = site.engine.nodes
    free, offered = nodes_.gpus_of(nodes_.free).tolist(), nodes_.gpus_of(nodes_.allocatable).tolist()
    return table([[name, f"{max(0, free[i])} of {offered[i]} GPUs free"] for i, name in enumerate(nodes_.names)])


VERBS: Final[dict[str, Act]] = {
    "jobs": jobs,
    "count": count,
    "job": job,
    "life": life,
    "nodes": nodes,
    "explain": explain,
    "pools": pools,
    "queues": queues,
    "cluster": cluster,
    "pods": pods,
    "hosts": hosts,
}
