"""A federation whose authority is its own: a cluster joins by a token, renews itself, and is shut out."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from hanse.api.v1 import job_pb2
from hanse.client import AsyncClient
from hanse.client.objects import object_of_spec
from hanse.kit.tls import TlsFiles
from hanse.kit.trust.files import read_shown
from hanse.up.fleet import load_fleet
from tests.integration.parts import HANSE, serves
from tests.integration.test_process_life import PATIENCE_S, until
from tests.integration.test_processes import small_fleet
from tests.integration.test_tls_processes import variables
from tests.integration.workload import spec
from tests.services.authority import Authority
from tests.services.etcd import etcd_servers
from tests.services.process import ServerProcess, accepts, free_ports

POOL = "oslo"
LIFETIME_S = 20
RENEWALS = 3


async def hanse(*words: str, env: Mapping[str, str] = {}, fails: bool = False) -> str:
    """What a command prints; what it says of its failure, if it is to fail."""
    process = await asyncio.create_subprocess_exec(
        *HANSE,
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **env},
    )
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate()
    assert (process.returncode != 0) is fails, err.decode()
    return (err if fails else out).decode()


@dataclass
class Site:
    """Two replicas that sign, and the clusters' side of one pool."""

    folder: Path
    fleet: Path
    sim: str
    addresses: list[str]
    ana: TlsFiles
    parts: dict[str, ServerProcess]
    stack: ExitStack

    @property
    def me(self) -> dict[str, str]:
        return {**variables("", self.ana), "HANSE_SERVER": self.addresses[0]}

    def client(self, number: int = 0) -> AsyncClient:
        return AsyncClient(self.addresses[number], token="", tls=self.ana)

    async def token(self, pool: str = POOL) -> dict[str, str]:
        return dict(json.loads(await hanse("join-token", pool, "-o", "json", env=self.me)))

    async def joined(self, folder: Path) -> TlsFiles:
        made = await self.token()
        order = (
            "join",
            made["address"],
            "--pool",
            POOL,
            "--token",
            made["token"],
            "--dir",
            str(folder),
            "-o",
            "json",
        )
        told = json.loads(await hanse(*order))
        assert sorted(told["replicas"]) == sorted(self.addresses)
        return TlsFiles(Path(told["ca_file"]), Path(told["cert_file"]), Path(told["key_file"]))

    def start_agent(self, files: TlsFiles, name: str = "agent") -> None:
        command = ["agent", "--pool", POOL, "--cluster", f"sim:{self.sim}", "--global", ",".join(self.addresses)]
        self.start(name, command, env=variables("AGENT_TLS_", files))

    def start(self, name: str, command: list[str], *, port: int = 0, env: Mapping[str, str] = {}) -> None:
        ready = (lambda: serves(self.sim, "hanse.sim.v1.SimService")) if name == "sim" else lambda: accepts(port)
        ready = ready if port else lambda: True
        part = ServerProcess(name, [*HANSE, *command], self.folder, ready=ready, env=env)
        self.stack.callback(part.kill)
        self.parts[name] = part
        part.start()


@asynccontextmanager
async def site(folder: Path, *, lifetime_s: int) -> AsyncIterator[Site]:
    """A site whose certificates are good for so long, made by the commands that its operator runs."""
    fleet, ca = small_fleet(folder), folder / "ca"
    access = folder / "access.yaml"
    access.write_text("bindings:\n- role: admin\n  users: [ana]\n  cluster: true\n")
    await hanse("ca", "init", "--dir", str(ca))
    await hanse("ca", "issue", "hanse://user/ana", "--dir", str(ca), "--into", str(folder / "ana.pem"))
    *ports, join_port, other_join_port, sim_port = free_ports(5)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    ana = TlsFiles(ca / "ca.pem", folder / "ana.pem", folder / "ana.pem")
    with ExitStack() as stack, etcd_servers() as etcd:
        found = Site(folder, fleet, f"127.0.0.1:{sim_port}", addresses, ana, {}, stack)
        found.start("sim", ["sim-cluster", "--fleet", str(fleet), "--listen", found.sim], port=sim_port)
        for n, (port, joins) in enumerate(zip(ports, (join_port, other_join_port), strict=True)):
            own = folder / f"r{n}.pem"
            order = ("--host", "127.0.0.1", "--dir", str(ca), "--into", str(own), "--lifetime", f"{lifetime_s}s")
            await hanse("ca", "issue", f"hanse://replica/r{n}", *order)
            settings = {
                "authority_cert_file": ca / "ca.pem",
                "authority_key_file": ca / "ca-key.pem",
                "join_listen": f"127.0.0.1:{joins}",
                "certificate_lifetime_s": lifetime_s,
                "access_file": access,
            }
            command = ["global", "--store", etcd.url, "--replica", f"r{n}", "--listen", addresses[n]]
            command += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
            found.start(f"r{n}", command, port=port, env=variables("GLOBAL_TLS_", TlsFiles(ca / "ca.pem", own, own)))
        yield found


async def running_job(found: Site) -> str:
    async with found.client() as client:
        objects = [object_of_spec(one) for one in load_fleet(found.fleet).resources]
        await client.apply([getattr(one, one.WhichOneof("object") or "") for one in objects])
        (job,) = (await client.submit(spec("job", 4, 3_600.0))).ids
        await client.wait(job, until="running", timeout_s=PATIENCE_S)
        return job


def attaches(found: Site) -> int:
    """How often the agent was granted an epoch, by what the replicas logged."""
    logs = [(found.folder / f"{name}.log").read_text() for name in ("r0", "r1")]
    return sum(text.count("agent_attached") for text in logs)


async def test_streams_live_through_renewals_of_both_ends(tmp_path: Path) -> None:
    async with site(tmp_path, lifetime_s=LIFETIME_S) as found:
        agent = await found.joined(tmp_path / "tls")
        watched = [path for path in (agent.cert, tmp_path / "r0.pem", tmp_path / "r1.pem") if path is not None]
        first = {path: read_shown(path) for path in watched}
        seen = {path: {shown.serial} for path, shown in first.items()}
        found.start_agent(agent)
        job = await running_job(found)
        attached = attaches(found)

        async def renewed() -> bool:
            for path in watched:
                seen[path].add(read_shown(path).serial)
            over = all(shown.ends_ms < time.time() * 1_000 for shown in first.values())
            return over and min(len(serials) for serials in seen.values()) > RENEWALS

        async with asyncio.timeout(PATIENCE_S + LIFETIME_S * RENEWALS):
            while not await renewed():  # noqa: ASYNC110 - what other processes write
                await asyncio.sleep(0.5)
        assert attaches(found) == attached, "the agent's stream has lived on"
        async with found.client() as client:
            assert (await client.job(job)).status.state == job_pb2.JOB_STATE_RUNNING
            (later,) = (await client.submit(spec("later", 2, 3_600.0))).ids
            await client.wait(later, until="running", timeout_s=PATIENCE_S)
        for address in found.addresses:  # each asks the other, with the certificate of now
            told = await hanse("job", later, "--nodes", "-o", "json", env={**found.me, "HANSE_SERVER": address})
            assert json.loads(told)["nodes"]


async def test_a_certificate_that_is_over_at_the_start_says_what_to_do(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    oslo = authority.issue("oslo", "hanse://agent/oslo", lifetime=timedelta(seconds=-1))
    command = ("agent", "--pool", POOL, "--cluster", "sim:127.0.0.1:1", "--global", "127.0.0.1:1")
    told = await hanse(*command, env=variables("AGENT_TLS_", oslo), fails=True)
    assert "the certificate of agent oslo is over since" in told
    assert "get a new one with `hanse join`" in told
    r0 = authority.issue("r0", "hanse://replica/r0", lifetime=timedelta(seconds=-1))
    told = await hanse("global", "--store", f"sqlite:{tmp_path}/s", env=variables("GLOBAL_TLS_", r0), fails=True)
    assert "make a new one with `hanse ca issue`" in told


async def test_a_cluster_joins_by_a_token_renews_itself_and_is_shut_out_when_revoked(tmp_path: Path) -> None:
    async with site(tmp_path, lifetime_s=3_600) as found:
        agent = await found.joined(tmp_path / "tls")
        assert str(read_shown(agent.cert or tmp_path).identity) == "agent oslo"
        again = ("join", "127.0.0.1:1", "--pool", POOL, "--dir", str(tmp_path / "tls"), "--if-missing")
        assert "has a certificate that is good" in await hanse(*again)
        assert "--token or --token-file" in await hanse(*again[:-1], fails=True)
        (listed,) = (line for line in (await hanse("join-token", env=found.me)).splitlines() if POOL in line)
        assert "ana" in listed
        found.start_agent(agent)
        job = await running_job(found)
        told = await hanse("revoke", POOL, "--reason", "laptop lost", env=found.me)
        assert "hanse://agent/oslo is believed no more" in told
        assert "laptop lost" in await hanse("revoke", env=found.me)

        async def gone() -> bool:
            async with found.client(1) as client:
                return [pool.attached for pool in await client.pools()] == [False]

        await until(gone)
        async with found.client() as client:
            assert (await client.job(job)).status.state, "what runs runs on"
        renewed = await found.joined(tmp_path / "tls")  # the same files: the agent dials with what it finds there
        assert renewed == agent

        async def back() -> bool:
            async with found.client(1) as client:
                return [pool.attached for pool in await client.pools()] == [True]

        await until(back)
