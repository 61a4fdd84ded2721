"""A federation of processes that a real Prometheus scrapes: etcd, one replica, agents, simulated clusters."""

import asyncio
import json
import math
import shutil
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from hanse.client import AsyncClient
from hanse.client.objects import object_of_spec
from hanse.up.fleet import load_fleet
from tests.integration.parts import HANSE, serves
from tests.integration.test_processes import small_fleet
from tests.services.etcd import EtcdServers, etcd_servers
from tests.services.process import ServerProcess, accepts, free_ports

PATIENCE_S = 90.0
LOOK_EVERY_S = 1.0
QUERY_TIMEOUT_S = 10.0

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="Prometheus is not installed: apt-get install prometheus"
)


@dataclass
class Watched:
    """The federation.

    Attributes:
        prometheus, replica, clusters: addresses.
        parts: its processes, by name; agents by `agent-POOL`.
    """

    client: AsyncClient
    prometheus: str
    replica: str
    clusters: str
    etcd: EtcdServers
    parts: dict[str, ServerProcess]

    async def asked(self, path: str, **arguments: str) -> Any:
        """What Prometheus answers at a path of its API."""
        url = f"http://{self.prometheus}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"

        def read() -> Any:
            with urllib.request.urlopen(url, timeout=QUERY_TIMEOUT_S) as answer:
                return json.load(answer)

        found = await asyncio.to_thread(read)
        assert found["status"] == "success", (url, found)
        return found["data"]

    async def numbers(self, expr: str) -> list[float]:
        """The values of an instant query."""
        data = await self.asked("query", query=expr)
        values = [float(one["value"][1]) for one in data["result"]]
        return [value for value in values if not math.isnan(value)]

    async def firing(self) -> set[str]:
        """Names of the alerts that fire."""
        data = await self.asked("alerts")
        return {one["labels"]["alertname"] for one in data["alerts"] if one["state"] == "firing"}

    async def replica_serves(self) -> None:
        """Until the replica is ready."""
        async with asyncio.timeout(PATIENCE_S):
            while not serves(self.replica, ""):  # noqa: ASYNC110 - another process
                await asyncio.sleep(LOOK_EVERY_S)


@asynccontextmanager
async def watched_federation(
    folder: Path,
    pools: Sequence[str],
    *,
    rules: Mapping[str, object] | None = None,
    flags: Sequence[str] = (),
    etcd_flags: Sequence[str] = (),
) -> AsyncIterator[Watched]:
    """Scraped every second; its agents are attached when this returns.

    Args:
        rules: of alerts, evaluated every second.
        flags: of the replica.
    """
    fleet = small_fleet(folder)
    ports = free_ports(4 + len(pools))
    replica, sim, replica_metrics, prometheus, *agent_metrics = (f"127.0.0.1:{port}" for port in ports)
    targets = [{"targets": [replica_metrics, *agent_metrics]}]
    config: dict[str, object] = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "scrape_configs": [{"job_name": "hanse", "static_configs": targets}],
    }
    if rules is not None:
        (folder / "rules.yaml").write_text(yaml.safe_dump(rules))
        config["rule_files"] = [str(folder / "rules.yaml")]
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    parts: dict[str, ServerProcess] = {}
    with ExitStack() as stack, etcd_servers(flags=etcd_flags) as etcd:

        def start(name: str, command: list[str], port: int) -> None:
            part = parts[name] = ServerProcess(name, command, folder, ready=lambda: accepts(port))
            stack.callback(part.kill)
            part.start()

        start("clusters", [*HANSE, "sim-cluster", "--fleet", str(fleet), "--listen", sim], ports[1])
        command = [*HANSE, "global", "--store", etcd.url, "--replica", "r0", "--listen", replica]
        start("replica", [*command, "--prometheus", replica_metrics, *flags], ports[2])
        for pool, metrics, port in zip(pools, agent_metrics, ports[4:], strict=True):
            command = [*HANSE, "agent", "--pool", pool, "--cluster", f"sim:{sim}", "--global", replica]
            start(f"agent-{pool}", [*command, "--prometheus", metrics], port)
        files = [f"--config.file={folder / 'prometheus.yaml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
        start("prometheus", ["prometheus", *files, f"--web.listen-address={prometheus}"], ports[3])
        async with AsyncClient(replica, token="") as client:
            watched = Watched(client, prometheus, replica, sim, etcd, parts)
            await watched.replica_serves()
            objects = [object_of_spec(one) for one in load_fleet(fleet).resources]
            await client.apply([getattr(one, one.WhichOneof("object") or "") for one in objects])
            yield watched
