"""Every panel of every dashboard shows something when a real Prometheus scrapes a federation that works."""

import asyncio
import json
import math
import shutil
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from hanse.client import AsyncClient
from hanse.client.objects import object_of_spec
from hanse.up.fleet import load_fleet
from helm.dashboards.boards import BOARDS
from helm.dashboards.panels import RATE
from tests.integration.parts import HANSE, serves
from tests.integration.test_processes import small_fleet
from tests.integration.workload import spec
from tests.services.etcd import etcd_servers
from tests.services.process import ServerProcess, accepts, free_ports

POOL = "oslo"
JOB_S = 1.0
PATIENCE_S = 90.0
LOOK_EVERY_S = 1.0
WINDOW = "20s"

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="Prometheus is not installed: apt-get install prometheus"
)


@asynccontextmanager
async def watched_federation(folder: Path) -> AsyncIterator[tuple[AsyncClient, str]]:
    """A client, and the address of a Prometheus that scrapes the replica and the agent every second."""
    fleet = small_fleet(folder)
    ports = free_ports(5)
    replica, sim, replica_metrics, agent_metrics, prometheus = (f"127.0.0.1:{port}" for port in ports)
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [
            {"job_name": "hanse", "static_configs": [{"targets": [replica_metrics, agent_metrics]}]},
        ],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    with ExitStack() as stack, etcd_servers() as etcd:

        def start(name: str, command: list[str], port: int) -> None:
            part = ServerProcess(name, command, folder, ready=lambda: accepts(port))
            stack.callback(part.kill)
            part.start()

        command = [*HANSE, "sim-cluster", "--fleet", str(fleet), "--listen", sim]
        start("sim", command, ports[1])
        command = [*HANSE, "global", "--store", etcd.url, "--replica", "r0", "--listen", replica]
        start("r0", [*command, "--prometheus", replica_metrics], ports[2])
        command = [*HANSE, "agent", "--pool", POOL, "--cluster", f"sim:{sim}", "--global", replica]
        start("agent", [*command, "--prometheus", agent_metrics], ports[3])
        files = [f"--config.file={folder / 'prometheus.yaml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
        start("prometheus", ["prometheus", *files, f"--web.listen-address={prometheus}"], ports[4])
        async with asyncio.timeout(PATIENCE_S):
            while not serves(replica, ""):  # noqa: ASYNC110 - another process
                await asyncio.sleep(LOOK_EVERY_S)
        async with AsyncClient(replica, token="") as client:
            objects = [object_of_spec(one) for one in load_fleet(fleet).resources]
            await client.apply([getattr(one, one.WhichOneof("object") or "") for one in objects])
            yield client, prometheus


async def asked(prometheus: str, expr: str) -> list[Any]:
    query = expr.replace(RATE, WINDOW).replace("$pool", ".*")
    url = f"http://{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': query})}"

    def read() -> Any:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)

    found = await asyncio.to_thread(read)
    assert found["status"] == "success", (query, found)
    return [float(one["value"][1]) for one in found["data"]["result"] if not math.isnan(float(one["value"][1]))]


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
    async with watched_federation(tmp_path) as (client, prometheus):
        loop = asyncio.get_running_loop()
        ends_s, number = loop.time() + PATIENCE_S, 0
        while missing and loop.time() < ends_s:
            number += 1
            (job,) = (await client.submit(spec(f"job-{number}", 2, JOB_S))).ids
            await client.wait(job, timeout_s=PATIENCE_S)
            for name, expr in list(missing.items()):
                if await asked(prometheus, expr):
                    del missing[name]
        for expr in rare:  # nothing of the kind need happen, but the query must be one
            await asked(prometheus, expr)
    assert not missing, "panels that show nothing:\n" + "\n".join(missing)
