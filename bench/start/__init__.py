"""How long a cold replica takes until it decides: a process is started over an etcd that is full of jobs.

Every job has a spec and a state, half of them are bound and have a binding too, in 200 pools and 64 queues; each
queue is a root. Another replica held all roots and is gone. The replica is `hanse global`, a process of its own over
a real etcd, as in production. The clock begins when the process is started and ends when the replica tells that it
holds every root and knows every job that waits: the next thing that it does is decide. `ready_s_*` is that time, for
so many jobs; `rss_mb_*` the memory of the process then. Filling etcd does not count: it is done once, in large
transactions.

JOBS and JOBS_LARGE are the two sizes; the names of the figures keep the numbers of the standard run only if these are
not changed. `raw` has the processor time of replica and etcd, and what others computed meanwhile: on a shared machine
a reader of seconds must know it.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.contract import BenchArgs, BenchResult, JsonValue
from bench.start.cold import Start, cold_start
from bench.start.fill import Content, fill
from tests.services.binaries import find
from tests.services.etcd import EtcdServers

QUOTA_BYTES: Final = 16 * 2**30
FILL_OPS_MAX: Final = 2_048
"""Operations in one transaction of the filling; in production at most 128."""


def run(args: Mapping[str, str]) -> BenchResult:
    """See the module docstring."""
    read = BenchArgs(args)
    sizes = read.whole("JOBS", 10_000), read.whole("JOBS_LARGE", 1_000_000)
    queues, pools, runs = read.whole("QUEUES", 64), read.whole("POOLS", 200), read.whole("RUNS", 1)
    given = read.done()
    names = [f"ready_s_{n}" for n in sizes] + [f"rss_mb_{sizes[1]}"]
    if find("etcd") is None:
        why = "etcd is not installed: `make services` as root"
        return BenchResult(dict.fromkeys(names), raw={"args": given, "reason": why})
    starts = {jobs: _measure(Content(jobs, queues, pools), runs) for jobs in sizes}
    best = {jobs: min(found, key=lambda start: start.ready_s) for jobs, found in starts.items()}
    figures = {f"ready_s_{jobs}": start.ready_s for jobs, start in best.items()}
    figures[f"rss_mb_{sizes[1]}"] = best[sizes[1]].rss_mb
    raw: dict[str, JsonValue] = {
        "args": given,
        "starts": {str(jobs): [asdict(start) for start in found] for jobs, found in starts.items()},
    }
    return BenchResult(figures, raw=raw)


def _measure(content: Content, runs: int) -> list[Start]:
    """Fill an etcd, and start a replica over it so many times."""
    flags = (
        *("--quota-backend-bytes", str(QUOTA_BYTES), "--max-txn-ops", str(FILL_OPS_MAX)),
        *("--max-request-bytes", str(64 * 2**20), "--election-timeout", "10000", "--heartbeat-interval", "1000"),
    )
    with TemporaryDirectory(dir=Path.cwd(), prefix=".bench-start-") as folder:
        servers = EtcdServers(Path(folder), flags=flags)
        try:
            servers.start()
            asyncio.run(fill(servers.endpoints[0], content, FILL_OPS_MAX))
            return [asyncio.run(cold_start(servers, content, f"cold-{n}", Path(folder))) for n in range(runs)]
        finally:
            servers.stop()
