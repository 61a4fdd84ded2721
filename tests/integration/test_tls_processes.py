"""A federation that speaks TLS throughout, as its operator sets it up: replicas, an agent, the command line."""

import asyncio
import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from hanse.api.v1 import pool_pb2
from hanse.client import AsyncClient
from hanse.client.objects import object_of_spec
from hanse.kit.tls import TlsFiles
from hanse.up.fleet import load_fleet
from tests.integration.parts import HANSE, serves
from tests.integration.test_process_life import PATIENCE_S, until
from tests.integration.test_processes import small_fleet
from tests.integration.workload import spec
from tests.services.authority import Authority
from tests.services.etcd import etcd_servers
from tests.services.process import ServerProcess, accepts, free_ports

POOL = "oslo"
NO_VARIABLES: Mapping[str, str] = {}


def variables(prefix: str, files: TlsFiles) -> dict[str, str]:
    return {
        f"HANSE_{prefix}CA_FILE": str(files.ca),
        f"HANSE_{prefix}CERT_FILE": str(files.cert),
        f"HANSE_{prefix}KEY_FILE": str(files.key),
    }


async def test_agents_peers_users_and_the_command_line_speak_tls(tmp_path: Path) -> None:
    authority, fleet = Authority(tmp_path), small_fleet(tmp_path)
    ana = authority.issue("ana", "hanse://user/ana")
    *ports, sim_port = free_ports(3)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    sim = f"127.0.0.1:{sim_port}"
    with ExitStack() as stack, etcd_servers() as etcd:

        def start(name: str, command: list[str], *, port: int = 0, env: Mapping[str, str] = NO_VARIABLES) -> None:
            ready = (lambda: serves(sim, "hanse.sim.v1.SimService")) if port == sim_port else lambda: accepts(port)
            part = ServerProcess(name, [*HANSE, *command], tmp_path, ready=ready if port else lambda: True, env=env)
            stack.callback(part.kill)
            part.start()

        start("sim", ["sim-cluster", "--fleet", str(fleet), "--listen", sim], port=sim_port)
        for n, (port, address) in enumerate(zip(ports, addresses, strict=True)):
            files = authority.issue(f"r{n}", f"hanse://replica/r{n}")
            command = ["global", "--store", etcd.url, "--replica", f"r{n}", "--listen", address]
            start(f"r{n}", command, port=port, env=variables("GLOBAL_TLS_", files))
        files = authority.issue("oslo", f"hanse://agent/{POOL}")
        command = ["agent", "--pool", POOL, "--cluster", f"sim:{sim}", "--global", ",".join(addresses)]
        start("agent", command, env=variables("AGENT_TLS_", files))

        async with AsyncClient(addresses[0], token="", tls=ana) as client:
            objects = [object_of_spec(one) for one in load_fleet(fleet).resources]
            await client.apply([getattr(one, one.WhichOneof("object") or "") for one in objects])
            (job,) = (await client.submit(spec("job", 4, 3_600.0))).ids
            await client.wait(job, until="running", timeout_s=PATIENCE_S)
        for address in addresses:  # one of them asks the other, which has the agent

            async def seen(address: str = address) -> bool:
                async with AsyncClient(address, token="", tls=ana) as client:
                    healthy = pool_pb2.POOL_HEALTH_HEALTHY
                    return [(p.name, p.health) for p in await client.pools()] == [(POOL, healthy)]

            await until(seen)
        told = await _hanse("job", job, "--nodes", "-o", "json", server=addresses[1], files=ana)
        assert json.loads(told)["nodes"]


async def _hanse(*words: str, server: str, files: TlsFiles) -> str:
    process = await asyncio.create_subprocess_exec(
        *HANSE,
        *words,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **variables("", files), "HANSE_SERVER": server},
    )
    async with asyncio.timeout(PATIENCE_S):
        out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()
