"""A million nodes: 4 replicas over 200 pools of 5,000 nodes and 64 cohort roots, with a real etcd and mosquitto.

Every component is a process (agents in two, simulated clusters in two), and gangs are those of `bench/path`, which
run 10 to 30 s and end inside the window.

One federation, in this order:

* *Rate*: the client keeps WINDOW gangs on their way, after a warm-up of WARM_S for SECONDS: `gangs_per_s`.
* *Latency*: batches come at SHARE of that rate, whatever happens: `placed_ms_p50`, `placed_ms_p99`, from the call
  that submits to the event that shows PLACED or later to the client.
* *Acknowledgement*: batches come at ACK_RATE a second: `ack_ms_p99`, from a binding's commit to its agent's word for
  it in the store (`acks`).
* *One root*: the window is kept full by gangs of one cohort root: `one_root_gangs_per_s`.
* *Burst*: BURST gangs are submitted as fast as they are taken: `burst_jobs_per_s`, until the last was acknowledged.
  Their queue is on hold, so that what is measured is taking them, and they need not all run before the end.

`replica_rss_mb` is the most memory that any replica ever had, the burst included. At the end the auditor of
`bench/path` compares the client's book, the API, etcd and the clusters' logs of every pod: `lost`, `doubled`. A
second federation over three members of etcd keeps a window full for MEMBERS_S: `three_members_gangs_per_s`.

NODES may be a list: the figures are those of the first; each further one is a federation of its own, whose window is
kept full for CURVE_S, and `raw.nodes` has rate and cost of all, by nodes of a pool. Every federation is audited.
LATENCY_S, ACK_S, ROOT_S, BURST and MEMBERS_S of 0 leave a phase out, whose figures are then not measured.
"""

from collections.abc import Mapping
from typing import Final

from bench.contract import BenchArgs, BenchArgumentError, BenchResult
from bench.equal_pools import nodes_of
from bench.fleet.budget import show_budget
from bench.fleet.phases import Plan, measure
from bench.path.load import RUN_MAX_S, Load
from hanse.kit import process
from tests.services.binaries import PACKAGES, find

FIGURES: Final = (
    "nodes",
    "replicas",
    "gangs_per_s",
    "placed_ms_p50",
    "placed_ms_p99",
    "ack_ms_p99",
    "burst_jobs_per_s",
    "replica_rss_mb",
    "one_root_gangs_per_s",
    "three_members_gangs_per_s",
    "lost",
    "doubled",
)


def run(args: Mapping[str, str]) -> BenchResult:
    """See the module docstring."""
    read = BenchArgs(args)
    load = Load(
        queues=read.whole("QUEUES", 64),
        window=read.whole("WINDOW", 1_000),
        batch=read.whole("BATCH", 100),
        skew=read.number("SKEW", 1.5),
        seed=read.whole("SEED", 1),
    )
    plan = _plan(read)
    given = read.done()
    missing = [name for name in PACKAGES if find(name) is None]
    if missing:
        why = f"{' and '.join(missing)} not installed: `make services` as root"
        return BenchResult(dict.fromkeys(FIGURES), raw={"args": given, "reason": why})
    measured = process.run(measure(plan, load))
    known = {"nodes": plan.pools * nodes_of(plan.nodes[0]), "replicas": plan.replicas, **measured.figures}
    show_budget(measured.raw["budget"])
    return BenchResult({name: known.get(name) for name in FIGURES}, raw={"args": given, **measured.raw})


def _plan(read: BenchArgs) -> Plan:
    return Plan(
        pools=read.whole("POOLS", 200),
        nodes=_whole_numbers("NODES", read.text("NODES", "5000")),
        replicas=read.whole("REPLICAS", 4),
        processes=read.whole("PROCESSES", 2),
        warm_s=read.number("WARM_S", RUN_MAX_S + 2.0),
        seconds=read.number("SECONDS", 60.0),
        latency_s=read.number("LATENCY_S", 30.0),
        share=read.number("SHARE", 0.6),
        ack_s=read.number("ACK_S", 20.0),
        ack_rate=read.number("ACK_RATE", 200.0),
        root_s=read.number("ROOT_S", 20.0),
        burst=read.whole("BURST", 100_000, least=0),
        members_s=read.number("MEMBERS_S", 30.0),
        curve_s=read.number("CURVE_S", 30.0),
    )


def _whole_numbers(name: str, text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) for part in parts):
        raise BenchArgumentError(f"{name}={text}: give whole numbers of at least 1, with commas between them")
    return tuple(int(part) for part in parts)
