"""Every panel of every dashboard shows something when a real Prometheus scrapes a federation that works."""

import asyncio
from pathlib import Path

from helm.dashboards.boards import BOARDS
from helm.dashboards.panels import RATE
from tests.integration.telemetry.watched import PATIENCE_S, needs_prometheus, watched_federation
from tests.integration.workload import spec

POOL = "oslo"
JOB_S = 1.0
WINDOW = "20s"

pytestmark = needs_prometheus


def query_of(expr: str) -> str:
    """A panel's query as Grafana sends it."""
    return expr.replace(RATE, WINDOW).replace("$pool", ".*")


async def test_every_panel_shows_something_while_jobs_come_and_go(tmp_path: Path) -> None:
    missing = {
        f"{board.uid}: {panel.title}: {line.legend or line.expr}": line.expr
        for board in BOARDS
        for row in board.rows
        for panel in row.panels
        if not panel.rare
        for line in panel.lines
    }
    rare = [line.expr for b in BOARDS for row in b.rows for panel in row.panels if panel.rare for line in panel.lines]
    async with watched_federation(tmp_path, [POOL]) as watched:
        loop = asyncio.get_running_loop()
        ends_s, number = loop.time() + PATIENCE_S, 0
        while missing and loop.time() < ends_s:
            number += 1
            (job,) = (await watched.client.submit(spec(f"job-{number}", 2, JOB_S))).ids
            await watched.client.wait(job, timeout_s=PATIENCE_S)
            for name, expr in list(missing.items()):
                if await watched.numbers(query_of(expr)):
                    del missing[name]
        for expr in rare:  # nothing of the kind need happen, but the query must be one
            await watched.numbers(query_of(expr))
    assert not missing, "panels that show nothing:\n" + "\n".join(missing)
