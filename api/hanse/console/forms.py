"""Messages of the API in the form in which the page takes them: figures in columns, and what would be long cut.

Pure. Whatever is left out is counted beside it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from hanse.api.v1 import (
    event_pb2,
    explanation_pb2,
    job_pb2,
    pool_pb2,
    pool_service_pb2,
    queue_pb2,
    server_service_pb2,
)
from hanse.console.limits import (
    CELLS_PER_POOL_MAX,
    DEGRADED_MAX,
    POOLS_EXPLAINED_MAX,
    RACKS_MAX,
    RANKS_SHOWN_MAX,
    ROOTS_MAX,
)
from hanse.model.lifecycle import State
from hanse.model.reasons import Reason
from hanse.model.resources import GPU_RESOURCES
from hanse.wire.json import Json, bare_word, message_to_json

Form: TypeAlias = dict[str, Json]

POOL_COLUMNS: Final = (
    "name region dialect state message gpus free whole nodes broken gangs held stopping reason flavors levels "
    "largest version"
).split()
RACK_COLUMNS: Final = "path hosts broken whole gpus free held releasing out".split()
EVENT_COLUMNS: Final = "seq at kind job name pool attempt reason message".split()
JOB_COLUMNS: Final = (
    "id name queue state reason message priority submitted changed pods gpus pools held attempt"
).split()

_HEALTH: Final = {1: "healthy", 2: "stale", 3: "detached", 4: "starting"}


# ---- pools --------------------------------------------------------------------------------------------------


def pool_row(pool: pool_pb2.Pool, version: int) -> list[Json]:
    """A pool as a row of POOL_COLUMNS."""
    return [
        pool.name,
        pool.region,
        pool.dialect,
        pool_state(pool),
        pool.message,
        pool.gpus,
        pool.free_gpus,
        pool.free_whole_hosts,
        pool.nodes,
        pool.unusable_nodes,
        pool.gangs,
        pool.held_gangs,
        pool.stopping_gangs,
        pool.cordon_reason,
        [[f.name, f.gpus, f.free_gpus] for f in pool.flavors],
        [level.alias or level.key for level in pool.levels],
        [pool.largest_whole.level, pool.largest_whole.hosts] if pool.HasField("largest_whole") else None,
        version,
    ]


def pool_state(pool: pool_pb2.Pool) -> str:
    """The one word that matters most."""
    if pool.HasField("leave"):
        return "leaving"
    health = _HEALTH.get(pool.health, "unknown")
    if health == "healthy" and pool.cordoned:
        return "draining" if pool.HasField("drain") else "cordoned"
    return health


def shape_form(shape: pool_pb2.PoolShape) -> Form:
    """A picture: for each run of equal blocks its number and its runs of equal racks, each
    `[racks, hosts, GPUs, free, whole hosts]` of one of them."""
    rows: list[Json] = []
    left = CELLS_PER_POOL_MAX
    for row in shape.rows:
        left -= len(row.cells)
        if left < 0:
            break
        cells: list[Json] = [[c.domains, c.hosts, c.gpus, c.free_gpus, c.free_whole_hosts] for c in row.cells]
        rows.append([row.domains, cells])
    first = shape.rows[0] if shape.rows else pool_pb2.ShapeRow()
    return {"level": first.level, "cell_level": first.cell_level, "rows": rows, "cut": len(shape.rows) - len(rows)}


def gangs_form(shape: pool_pb2.PoolShape) -> list[Json]:
    """The largest gangs that still fit."""
    return [[g.level, g.flavor, g.gpus_per_pod, g.pods] for g in shape.largest_gangs]


def racks_form(found: pool_service_pb2.PoolRacks) -> Form:
    """Racks as rows of RACK_COLUMNS."""
    rows: list[Json] = [
        [
            *(list[Json](one.path), one.hosts, one.broken_hosts, one.whole_hosts, one.gpus, one.free_gpus),
            *(one.held_gpus, one.releasing_gpus, one.broken_gpus),
        ]
        for one in found.racks
    ]
    return {"columns": list(RACK_COLUMNS), "rows": rows, "left_out": found.left_out}


# ---- queues -------------------------------------------------------------------------------------------------


def queue_form(queue: queue_pb2.Queue) -> Form:
    """A queue with its quota and use, GPUs only, and how many jobs it holds."""
    used = {use.flavor: gpus_of(use.used) for use in queue.status.used}
    nominal = {quota.flavor: gpus_of(quota.nominal) for quota in queue.quotas}
    return {
        "name": queue.name,
        "cohort": queue.cohort,
        "held": queue.held,
        "holder": queue.holder,
        "pending": queue.status.pending_jobs,
        "live": queue.status.live_jobs,
        "ended": queue.status.ended_jobs,
        "exact": queue.status.exact,
        "flavors": [[f, nominal.get(f, 0), used.get(f, 0)] for f in sorted({*nominal, *used})],
    }


def gpus_of(amounts: Mapping[str, int]) -> int:
    """Accelerators of any kind."""
    return sum(amounts.get(name, 0) for name in GPU_RESOURCES)


# ---- jobs ---------------------------------------------------------------------------------------------------


def job_row(job: job_pb2.Job) -> list[Json]:
    """A job as a row of JOB_COLUMNS; its size is known if it comes with its spec."""
    status = job.status
    return [
        job.id,
        job.name,
        job.queue,
        bare_word(job_pb2.JobState.DESCRIPTOR, status.state),
        status.reason,
        status.message,
        status.priority,
        status.submitted_ms,
        status.changed_ms,
        sum(s.count for s in job.spec.pod_sets) or sum(p.pods for p in status.placement),
        sum(s.count * gpus_of(s.resources) for s in job.spec.pod_sets),
        [p.pool for p in status.placement],
        status.held,
        status.attempt,
    ]


def job_form(job: job_pb2.Job) -> Form:
    """A job's page: all of it but the manifest's text and what travels with it."""
    told = job_pb2.Job()
    told.CopyFrom(job)
    told.spec.manifest.ClearField("text")
    told.spec.ClearField("companions")
    for pod_set in told.spec.pod_sets:
        pod_set.template.ClearField("env")  # it may hold what is not for everybody's eyes
    told.status.ClearField("nodes")
    return message_to_json(told)


def placement_form(job: job_pb2.Job) -> Form:
    """Where the pods of a job are, by rack: `[pool, path, pod set, hosts, pods, ranks]`."""
    racks: dict[tuple[str, tuple[str, ...], str], tuple[list[str], list[int]]] = {}
    for node in job.status.nodes:
        names, ranks = racks.setdefault((node.pool, tuple(node.path), node.pod_set), ([], []))
        names.append(node.name)
        ranks.extend(node.ranks)
    rows: list[Json] = [
        [pool, list(path), pod_set, len(set(names)), len(ranks), _ranges(ranks)]
        for (pool, path, pod_set), (names, ranks) in sorted(
            racks.items(), key=lambda item: min(item[1][1], default=0)
        )
    ]
    return {
        "racks": rows[:RACKS_MAX],
        "left_out": max(0, len(rows) - RACKS_MAX),
        "nodes": [
            [n.name, n.pod_set, _ranges(n.ranks), list(n.path), n.pool] for n in job.status.nodes[:RANKS_SHOWN_MAX]
        ],
        "nodes_left_out": max(0, len(job.status.nodes) - RANKS_SHOWN_MAX),
        "silent": list(job.status.pools_silent),
    }


def _ranges(values: Iterable[int]) -> str:
    """`0-15, 32-47`."""
    runs: list[list[int]] = []
    for value in sorted(values):
        if runs and value <= runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def explanation_form(found: explanation_pb2.Explanation) -> Form:
    """Why a job waits or is where it is; the nearest pools."""
    pools: list[Json] = [
        {
            "pool": p.pool,
            "fits": p.fits,
            "chosen": p.chosen,
            "reason": p.reason,
            "wanted": p.wanted,
            "found": p.found,
            "unit": p.unit,
            "detail": p.detail,
            "flavor": p.flavor,
            "nodes": list(p.nodes),
        }
        for p in found.pools[:POOLS_EXPLAINED_MAX]
    ]
    return {
        "answer": found.answer,
        "reason": found.reason,
        "prose": prose_of(found.reason),
        "since": found.since_ms,
        "position": found.position,
        "pools": pools,
        "left_out": max(0, len(found.pools) - POOLS_EXPLAINED_MAX),
        "helps": [[h.change, h.effect] for h in found.helps],
    }


def prose_of(code: str) -> str:
    """A reason code as a sentence, "" for one that is not known here."""
    known = Reason.__members__.get(code)
    return known.prose if known is not None else ""


# ---- events and status --------------------------------------------------------------------------------------


def event_row(event: event_pb2.Event, sequence: int) -> list[Json]:
    """An event as a row of EVENT_COLUMNS."""
    return [
        sequence,
        event.at_ms,
        bare_word(event_pb2.EventKind.DESCRIPTOR, event.kind),
        event.job,
        event.name,
        event.pool,
        event.attempt,
        event.reason,
        event.message,
    ]


def status_form(status: server_service_pb2.FederationStatus) -> Form:
    """How the federation is: what is degraded, replicas, roots that nobody holds."""
    replicas: list[Json] = [message_to_json(one) for one in status.replicas]
    loose = [root for root in status.roots if not root.alive]
    ages = [pool.summary_age_ms for pool in status.pools if pool.summary_age_ms >= 0]
    return {
        "at": status.server.time_ms,
        "revision": status.server.revision,
        "replica": status.server.replica,
        "degraded": list(status.degraded[:DEGRADED_MAX]),
        "degraded_left_out": max(0, len(status.degraded) - DEGRADED_MAX),
        "replicas": replicas[:ROOTS_MAX],
        "roots": len(status.roots),
        "loose": [[root.root, root.replica] for root in loose[:ROOTS_MAX]],
        "agents": sum(bool(pool.replica) for pool in status.pools),
        "pools": len(status.pools),
        "unacknowledged": sum(pool.unacknowledged for pool in status.pools),
        "ages": _quantiles(ages),
    }


def _quantiles(values: Sequence[int]) -> list[Json]:
    """Median and largest; nothing of nothing."""
    ordered = sorted(values)
    return [ordered[len(ordered) // 2], ordered[-1]] if ordered else []


STATES: Final = tuple(state.name for state in State if state is not State.UNSPECIFIED)
