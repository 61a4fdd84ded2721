"""What people see, as golden text at 80 columns: `tests/unit/cli/golden/NAME.txt`.

`REWRITE_GOLDEN=1 pytest tests/unit/cli/test_drawings.py` writes them anew; look at the difference then.
"""

import os
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Final

import pytest

from hanse.api.v1 import config_service_pb2, event_service_pb2, job_pb2, job_service_pb2, server_service_pb2
from hanse.api.v1 import usage_service_pb2 as pb
from hanse.cli.demo import scenes
from hanse.cli.paper import PLAIN_PAPER, Paper, columns_of
from hanse.cli.show.changes import change_line
from hanse.cli.show.conversion import conversion_page
from hanse.cli.show.events import events_page
from hanse.cli.show.explanation import explanation_page, places_of, pool_lines
from hanse.cli.show.fate import fate_page
from hanse.cli.show.job import job_page
from hanse.cli.show.jobs import jobs_page
from hanse.cli.show.pool import pool_page
from hanse.cli.show.pools import pools_page
from hanse.cli.show.queues import queue_page, queues_page
from hanse.cli.show.server import version_page
from hanse.cli.show.status import status_page
from hanse.cli.show.submitted import accepted_page, applied_page, retried_page, states_page, waiting_page
from hanse.cli.show.usage import usage_page
from hanse.client.usage import Usage
from hanse.manifests import convert
from hanse.sim.v1 import sim_pb2
from tests.arch.tree import ROOT
from tests.unit.cli import messages
from tests.unit.cli.messages import NOON_MS

GOLDEN: Final = Path(__file__).parent / "golden"
WIDTH: Final = 80
REWRITE: Final = bool(os.environ.get("REWRITE_GOLDEN"))


def nodes() -> list[job_pb2.NodePlacement]:
    """Two racks of one set, and a host of another."""
    return [
        *(
            job_pb2.NodePlacement(
                name=f"n{i}", pod_set="worker", ranks=[2 * i, 2 * i + 1], path=["b7", f"r0{i // 4}"], pool="iowa-h100"
            )
            for i in range(7)
        ),
        job_pb2.NodePlacement(name="n9", pod_set="eval", ranks=[0], path=["b7", "r03"], pool="iowa-h100"),
    ]


def broken() -> job_pb2.Job:
    """A job that waits for its third attempt."""
    return messages.llama(
        state=job_pb2.JOB_STATE_PENDING,
        attempt=2,
        reason="SHAPE",
        held=True,
        placement=[],
        bound_ms=0,
        placed_ms=0,
        started_ms=0,
        running_ms=0,
        attempts=[
            job_pb2.AttemptRecord(
                attempt=n,
                outcome=job_pb2.JOB_STATE_PENDING,
                reason="INFRASTRUCTURE",
                bound_ms=NOON_MS,
                ended_ms=NOON_MS + n * 3_200,
                placement=[messages.placement()],
            )
            for n in (1, 2)
        ],
    )


def several_jobs() -> list[job_pb2.Job]:
    """One of each kind of line."""
    ended = messages.named("eval-of-a-checkpoint-with-a-very-long-name", state=job_pb2.JOB_STATE_FAILED)
    ended.status.reason = "POD_FAILED"
    ended.status.placement.append(messages.placement("oslo-gb200", 4))
    ended.status.attempt = 3
    return [messages.llama(), broken(), ended]


def explained() -> str:
    """A job that waits, told on plain paper."""
    found = messages.waiting()
    return explanation_page(found, places_of(messages.named("x")), PLAIN_PAPER, NOON_MS)


def placed() -> str:
    """A job that runs, told on plain paper."""
    found = messages.waiting()
    found.state, found.answer = job_pb2.JOB_STATE_RUNNING, "train-vision-31 is RUNNING in iowa-h100"
    found.position = 0
    del found.helps[:]
    found.pools[0].chosen = found.pools[0].fits = found.pools[1].fits = True
    found.pools[0].detail = "best of 2 pools that held it: 1 block against 2 in tokyo-h200"
    found.pools[0].terms.add(name="hosts", value=512)
    found.pools[0].nodes[:] = [
        "1 block, with 240 of 4,096 GPUs free",
        "power 412 a host, 380 on the hosts that are free",
    ]
    found.pools[1].detail = "fits in 1 block, 512 hosts"
    return explanation_page(found, places_of(messages.llama()), PLAIN_PAPER, NOON_MS)


def applied() -> str:
    """Three outcomes."""
    results = [
        config_service_pb2.AppliedObject(kind="queue", name="research", outcome=1),  # type: ignore[arg-type]
        config_service_pb2.AppliedObject(kind="priority_class", name="high", outcome=3),  # type: ignore[arg-type]
        config_service_pb2.AppliedObject(kind="flavor", name="h100"),
    ]
    return applied_page(results, PLAIN_PAPER)


def wide_pool() -> str:
    """More blocks than a screen holds, and more racks than a line holds."""
    pool = messages.iowa()
    del pool.shape.rows[:]
    pool.shape.rows.extend([messages.shape_row(30, (90, 32, 256)), messages.shape_row(20, (60, 0, 8), (30, 0, 0))])
    return pool_page(pool, PLAIN_PAPER)


def status() -> str:
    """A federation that is not well."""
    found = server_service_pb2.FederationStatus()
    found.server.federation, found.server.store = "hanse", "etcd"
    found.replicas.add(
        id="r0", answers=True, ready=True, uptime_ms=90_000_000, agents=120, roots=31, pending_jobs=4_812,
        bound_per_s=412.25, conflict_fraction=0.043, refusal_fraction=0.002, conflicts={"state": 40, "pools": 812},
        refusals={"SHAPE": 7}, takeovers=31, fenced=2,
    )  # fmt: skip
    found.replicas.add(id="r1")
    found.roots.add(root="queue.a", replica="r0", alive=True)
    found.roots.add(root="queue.b", replica="r1")
    found.pools.add(
        name="iowa-h100", state="healthy", replica="r0", summary_age_ms=1_400, gangs=310, unacknowledged=2
    )
    found.pools.add(name="oslo-gb200", state="detached", summary_age_ms=-1)
    found.degraded.extend(
        [
            "replica r1 is a member and does not answer",
            "root queue.b is held by r1, which is gone; another replica takes it soon",
            "pool oslo-gb200 is detached: its agent is not attached; what runs there runs on, and gets no new work",
        ]
    )
    return status_page(found, PLAIN_PAPER)


def used(*by: str) -> str:
    """Two queues, of which one month was not told whole."""
    hour = 3_600_000
    rows = [
        pb.UsageRow(queue=queue, user=user, gpu_ms=h * hour, cost_micros=h * 2_500_000, attempts=attempts)
        for queue, user, h, attempts in (("research", "alice@example.com", 18_422, 311), ("vision", "bob", 907, 12))
    ]
    gaps = [
        pb.UsageGap(month="2026-11", jobs=4_211, gpu_ms=90_211 * hour),
        pb.UsageGap(month="2026-12", lost_ms=NOON_MS),
    ]
    return usage_page(Usage(rows, gaps if by else [], NOON_MS), by, "2026-11-03 to 2026-12-04", PLAIN_PAPER)


def story() -> str:
    """The demo's scenes."""
    info = server_service_pb2.ServerInfo(store="sqlite", replicas=[server_service_pb2.Replica(id="r0")] * 2)
    job, queue, pools = messages.llama(nodes=nodes()), messages.research(), [messages.iowa(), messages.tokyo()]
    found = messages.waiting()
    found.answer = "llama3-70b-training is RUNNING in iowa-h100"
    found.pools[0].chosen = True
    found.pools[0].nodes[:] = ["1 block, with 240 of 4,096 GPUs free"]
    again = messages.llama(attempt=2, attempts=broken().status.attempts[:1])
    died = sim_pb2.PathResponse(nodes=["iowa-b7-r03-h11"], gangs=[sim_pb2.GangKey(job="a", attempt=1)])
    seen = scenes.Seen(1_100, job_pb2.JOB_STATE_STOPPING, 1, "INFRASTRUCTURE")
    return "".join(
        [
            scenes.title(pools, info, PLAIN_PAPER),
            scenes.heading(1, "The fleet", "hanse pools", PLAIN_PAPER),
            scenes.fleet_scene(pools, {"iowa-h100": pools[0].shape}, PLAIN_PAPER),
            scenes.heading(2, "One job, as it is written elsewhere", f"hanse submit {'x' * 40}.yaml", PLAIN_PAPER),
            scenes.submission_scene(job, queue, 4, PLAIN_PAPER),
            scenes.submission_scene(broken(), queue, 4, PLAIN_PAPER),
            scenes.reasons_scene(found, job, PLAIN_PAPER),
            scenes.nodes_scene(job, PLAIN_PAPER),
            scenes.failure_lines(died),
            scenes.change_line(seen, PLAIN_PAPER),
            scenes.recovered_lines(again, PLAIN_PAPER),
            scenes.ending(job, scenes.outcome_of(job), PLAIN_PAPER),
            scenes.stays_up(
                "127.0.0.1:1",
                console="http://127.0.0.1:2",
                usual=False,
                paper=PLAIN_PAPER,
                try_pool="iowa-h100",
                broken="iowa-h100/n",
            ),
        ]
    )


def submitted() -> str:
    """Accepted, and what became of them."""
    job = job_service_pb2.SubmittedJob(id="abcdefgh-0123456789abcdef", name="train", queue="research")
    return accepted_page([job], PLAIN_PAPER) + states_page(several_jobs(), PLAIN_PAPER)


def changed() -> str:
    """A job that was put on hold, one of another class, and one that is tried again."""
    held = messages.named("train", state=job_pb2.JOB_STATE_PENDING)
    held.status.MergeFrom(job_pb2.JobStatus(held=True, reason="JOB_HELD", held_by="ann", priority=5))
    held.status.message = "on hold by ann; `hanse release train` lets it wait for places again"
    urgent = messages.named("eval", state=job_pb2.JOB_STATE_PENDING)
    urgent.status.MergeFrom(job_pb2.JobStatus(reason="SHAPE", priority=90, priority_class="urgent"))
    again = messages.named("train", state=job_pb2.JOB_STATE_PENDING, at_s=60)
    again.retry_of = "abcdefgh-0123456789abcdef"
    pages = [waiting_page(held, PLAIN_PAPER), waiting_page(urgent, PLAIN_PAPER), retried_page(again, PLAIN_PAPER)]
    return "".join([*pages, job_page(held, PLAIN_PAPER), job_page(again, PLAIN_PAPER), job_page(urgent, PLAIN_PAPER)])


def events() -> str:
    """A job's way to an end, a pool's trouble, and something that this version does not know."""
    found = event_service_pb2.TailEventsResponse()
    job = {"job": "abcdefgh-0123456789abcdef", "name": "llama3-70b-training-with-a-long-name"}
    told = [
        (1, job, "submitted with priority 90"),
        (12, job, "priority 90 instead of 5"),
        (2, job, "bound to iowa as attempt 1"),
        (36, {"pool": "iowa"}, "its last summary is 74 s old; it gets no new work"),
        (9, {"job": "abcdefgh-0123456789abcdef"}, "SUCCEEDED: all pods succeeded"),
        (99, {"pool": "oslo"}, "something new"),
    ]
    for number, (kind, subject, message) in enumerate(told):
        found.events.add(at_ms=NOON_MS + number * 1_000, kind=kind, message=message, **subject)
    return events_page(found, PLAIN_PAPER) + events_page(event_service_pb2.TailEventsResponse(), PLAIN_PAPER)


def fate() -> str:
    """Nodes that failed, with and without work on them."""
    gangs = [sim_pb2.GangKey(job="abcdefgh-0123456789abcdef", attempt=2)]
    return fate_page("failed", sim_pb2.PathResponse(nodes=["h1"], gangs=gangs), PLAIN_PAPER) + fate_page(
        "restored", sim_pb2.PathResponse(nodes=[f"h{n}" for n in range(16)]), PLAIN_PAPER
    )


def versions() -> str:
    """With and without a server."""
    info = server_service_pb2.ServerInfo(
        version="0.1.0", federation="hanse", store="sqlite", replicas=[server_service_pb2.Replica(id="r0")]
    )
    return version_page("0.1.0", info, "", PLAIN_PAPER) + version_page("0.1.0", None, "cannot reach it", PLAIN_PAPER)


def example(name: str) -> str:
    """What an example of the docs means."""
    return conversion_page(convert((ROOT / "docs/examples" / name).read_bytes()), PLAIN_PAPER, file=name)


DRAWINGS: Final[dict[str, Callable[[], str]]] = {
    "pools": lambda: pools_page(
        [messages.iowa(), messages.tokyo()], {"iowa-h100": messages.iowa().shape}, PLAIN_PAPER
    ),
    "pools_none": lambda: pools_page([], {}, PLAIN_PAPER),
    "status": status,
    "pool_shape": lambda: pool_page(messages.iowa(), PLAIN_PAPER),
    "pool_shape_ascii": lambda: Paper(unicode=False, encoding="ascii").write(pool_page(messages.iowa(), PLAIN_PAPER)),
    "pool_shape_folded": wide_pool,
    "pool_stale": lambda: pool_page(messages.tokyo(), PLAIN_PAPER),
    "explain_waiting": explained,
    "explain_placed": placed,
    "explain_no_pool": lambda: "\n".join(pool_lines([], PLAIN_PAPER, places={})) + "\n",
    "explain_many": lambda: "\n".join(pool_lines(messages.waiting().pools, PLAIN_PAPER, places={}, most=1)) + "\n",
    "job": lambda: job_page(messages.llama(), PLAIN_PAPER),
    "job_broken": lambda: job_page(broken(), PLAIN_PAPER),
    "job_nodes": lambda: job_page(messages.llama(nodes=nodes()), PLAIN_PAPER, nodes=True),
    "job_nodes_silent": lambda: job_page(messages.llama(pools_silent=["iowa-h100"]), PLAIN_PAPER, nodes=True),
    "jobs": lambda: jobs_page(several_jobs(), PLAIN_PAPER, NOON_MS + 90_000, hidden=12),
    "jobs_none": lambda: jobs_page([], PLAIN_PAPER, NOON_MS),
    "queues": lambda: queues_page([messages.research()], PLAIN_PAPER),
    "usage": lambda: used("queue", "user"),
    "usage_sum": used,
    "queue": lambda: queue_page(messages.research(), PLAIN_PAPER),
    "convert_llama": lambda: example("llama3-70b.yaml"),
    "convert_native": lambda: example("native.yaml"),
    "submitted": submitted,
    "changed": changed,
    "events": events,
    "applied": applied,
    "fate": fate,
    "version": versions,
    "demo": story,
}
BEYOND_THE_WIDTH: Final = {
    "events": "one line for each event",
    "convert_llama": "a line of a file, its field and why stay in one line, so that an editor can jump there",
    "demo": "a command that can be copied stays in one line",
    "submitted": "one line for each job",
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hanse.cli.show.job.clock", lambda ms: "12:00:00")
    monkeypatch.setattr("hanse.cli.show.events.clock", lambda ms, zone: "12:00:00")
    drawn = DRAWINGS[name]()
    file = GOLDEN / f"{name}.txt"
    if REWRITE:
        file.parent.mkdir(exist_ok=True)
        file.write_text(drawn, encoding="utf-8")
    assert drawn == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in DRAWINGS if name not in BEYOND_THE_WIDTH])
def test_drawing_fits_its_paper(name: str) -> None:
    assert max(columns_of(line) for line in DRAWINGS[name]().splitlines()) <= WIDTH


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(DRAWINGS)


def test_a_change_is_one_line() -> None:
    job = messages.llama(changed_ms=NOON_MS)
    assert change_line(job, PLAIN_PAPER, UTC) == "14:13:20  llama3-70b-training           RUNNING    iowa-h100"


def test_the_ending_says_when_the_gang_is_not_whole() -> None:
    job = messages.llama(state=job_pb2.JOB_STATE_PENDING, reason="SHAPE", placement=[])
    outcome = scenes.outcome_of(job)
    assert not outcome.whole
    assert "✘ llama3-70b-training is PENDING: 0 of 512 pods have places" in scenes.ending(job, outcome, PLAIN_PAPER)


def test_the_ending_counts_what_the_agents_say() -> None:
    places = [
        job_pb2.NodePlacement(name=f"n{rank}", pod_set="worker", ranks=[rank], pool="iowa-h100")
        for rank in range(512)
    ]
    job = messages.llama(nodes=places)
    outcome = scenes.outcome_of(job)
    assert outcome.whole
    told = scenes.ending(job, outcome, PLAIN_PAPER)
    assert told.endswith("512 pods · 4,096 GPUs · 512 different nodes · in pool iowa-h100\n")
    places[7].pool = "tokyo-h200"
    assert not scenes.outcome_of(messages.llama(nodes=places)).whole
    assert not scenes.outcome_of(messages.llama(nodes=places[1:])).whole
