"""One process at a time: when it is ready, what it refuses, and that `hanse up --processes` keeps them all."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hanse.client import AsyncClient
from tests.integration.parts import HANSE, federation, serves
from tests.integration.test_processes import POOLS, small_fleet
from tests.integration.workload import spec
from tests.services.etcd import EtcdServers, etcd_servers
from tests.services.process import ServerProcess, free_ports

PATIENCE_S = 40.0
LOOK_EVERY_S = 0.05
SHORT_LEASE = {"HANSE_GLOBAL_LEASE_TTL_S": "3"}


async def until(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = holds()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(LOOK_EVERY_S)


async def serving(address: str, service: str) -> bool:
    return await asyncio.get_running_loop().run_in_executor(None, serves, address, service)


# ---- health -------------------------------------------------------------------------------------------------


async def test_a_replica_without_its_store_is_alive_and_not_ready_until_the_store_is_back(tmp_path: Path) -> None:
    with federation(tmp_path, small_fleet(tmp_path), (), replicas=1, variables=SHORT_LEASE) as parts:
        (address,) = parts.addresses
        assert await serving(address, "")
        parts.etcd.members[0].kill()

        async def not_ready() -> bool:
            return not await serving(address, "")

        await until(not_ready)
        assert await serving(address, "liveness")
        parts.etcd.members[0].launch()
        await until(lambda: serving(address, ""))


# ---- refusals -----------------------------------------------------------------------------------------------


async def ended(*arguments: str) -> tuple[int, str]:
    """Run a command to its end: exit code and the last line on stderr."""
    process = await asyncio.create_subprocess_exec(
        *HANSE, *arguments, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(PATIENCE_S):
        _, told = await process.communicate()
    assert process.returncode is not None
    return process.returncode, told.decode().strip().splitlines()[-1]


async def test_a_second_replica_of_the_same_name_ends_one_of_them_loudly(tmp_path: Path) -> None:
    with federation(tmp_path, small_fleet(tmp_path), (), replicas=1) as parts:
        (port,) = free_ports(1)
        address = f"127.0.0.1:{port}"
        command = [*HANSE, "global", "--store", parts.etcd.url, "--replica", "r0", "--listen", address]
        twin = ServerProcess("twin", command, tmp_path, ready=lambda: serves(address, ""))
        twin.start()
        try:
            await until(lambda: not parts.replicas[0].running)
            assert "another process has started as replica r0" in parts.replicas[0].log_tail()
            assert await serving(address, "")
        finally:
            twin.kill()


async def test_a_store_of_another_federation_and_a_taken_port_are_refused(tmp_path: Path) -> None:
    with federation(tmp_path, small_fleet(tmp_path), (), replicas=1) as parts:
        common = ("global", "--store", parts.etcd.url, "--replica", "r1", "--listen")
        code, told = await ended(*common, "127.0.0.1:0", "--federation", "other")
        assert (code, told) == (
            1,
            "the store belongs to federation 'hanse', not 'other'; name the right one in the settings",
        )
        code, told = await ended(*common, parts.addresses[0])
        assert code == 1
        assert told.startswith(f"cannot listen on {parts.addresses[0]}")


# ---- hanse up --processes -----------------------------------------------------------------------------------


class Up:
    """`hanse up --processes`, as a person starts it."""

    def __init__(self, etcd: EtcdServers, folder: Path) -> None:
        self.etcd = etcd
        self.folder = folder
        self.process: asyncio.subprocess.Process | None = None
        self.first: dict[str, object] = {}

    async def start(self) -> None:
        (port,) = free_ports(1)
        self.process = await asyncio.create_subprocess_exec(
            *HANSE,
            *("up", "--processes", "--store", self.etcd.url, "--replicas", "2", "--listen", f"127.0.0.1:{port}"),
            *("--fleet", str(small_fleet(self.folder)), "--state", str(self.folder / "state")),
            *("--agents-per-process", "2", "-o", "json"),
            stdout=asyncio.subprocess.PIPE,
            stderr=(self.folder / "up.log").open("ab"),
        )
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            line = await self.process.stdout.readline()
        assert line, (self.folder / "up.log").read_text()
        self.first = json.loads(line)

    async def end(self, how: signal.Signals) -> int:
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(how)
        async with asyncio.timeout(PATIENCE_S):
            return await self.process.wait()

    def children(self) -> dict[str, int]:
        """Process ids of what it has started, by command line."""
        assert self.process is not None
        pid = self.process.pid
        try:
            pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            words = {int(one): Path(f"/proc/{one}/cmdline").read_bytes().decode().split("\0") for one in pids}
        except OSError:
            return {}  # one ended while we looked
        return {" ".join(said[3:7]): one for one, said in words.items() if "hanse.cli" in said}


def gone(pids: list[int]) -> bool:
    """Whether none of these processes runs."""
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


@asynccontextmanager
async def up(folder: Path) -> AsyncIterator[Up]:
    with etcd_servers() as etcd:
        found = Up(etcd, folder)
        await found.start()
        try:
            yield found
        finally:
            await found.end(signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
async def test_up_starts_again_what_dies_and_stops_everything_when_told(tmp_path: Path) -> None:
    async with up(tmp_path) as found:
        assert set(found.first) == {"address", "store", "replicas", "clusters", "state", "console"}
        before = found.children()
        assert sorted(name.split()[0] for name in before) == ["agent", "agent", "global", "global", "sim-cluster"]
        async with AsyncClient(str(found.first["address"]), token="") as client:
            job = await client.submit(spec("runs-on", 30, 3_600))
            await client.wait(job.ids[0], until="running", timeout_s=PATIENCE_S)
            for pid in before.values():
                os.kill(pid, signal.SIGKILL)

            async def all_again() -> bool:
                now = found.children()
                return set(now) == set(before) and not set(now.values()) & set(before.values())

            await until(all_again)

            async def answered() -> bool:
                try:
                    return {pool.name for pool in await client.pools() if pool.attached} == set(POOLS)
                except Exception:
                    return False

            await until(answered)
            again = await client.job(job.ids[0])
            assert again.status.attempt == 1, "what ran has run on"
        pids = list(found.children().values())
        assert await found.end(signal.SIGTERM) == 0
        assert gone(pids)


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
async def test_up_that_is_killed_leaves_nobody_behind(tmp_path: Path) -> None:
    async with up(tmp_path) as found:
        pids = list(found.children().values())
        assert len(pids) == 5
        await found.end(signal.SIGKILL)
        await until(lambda: gone(pids))


async def test_one_replica_keeps_its_store_in_a_file(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    command = [*HANSE, "global", "--store", f"sqlite:{tmp_path / 's.sqlite'}", "--replica", "r0", "--listen", address]
    replica = ServerProcess("r0", command, tmp_path, ready=lambda: serves(address, ""))
    replica.start()
    try:
        code, told = await ended("global", "--store", f"sqlite:{tmp_path / 's.sqlite'}", "--listen", "127.0.0.1:0")
        assert code == 1
        assert "s.sqlite" in told
    finally:
        replica.terminate()
    assert not replica.running
