"""One cold start: the process is begun, and says in its log when it holds all roots and knows all that waits."""

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.path.cpu import read_cpu, yardstick_ms
from bench.start.fill import FEDERATION, Content
from tests.services.etcd import EtcdServers
from tests.services.process import free_ports

COMMAND: Final = (sys.executable, "-m", "hanse.cli", "global")
START_MAX_S: Final = 900.0


@dataclass(frozen=True, slots=True)
class Start:
    """What one start took.

    Attributes:
        ready_s: until it held all roots and knew all jobs that wait.
        cpu_s, etcd_cpu_s: processor time of the replica and of etcd until then.
        rss_mb, peak_mb: memory of the replica at that moment, and the most until then.
        others_cores: what others computed meanwhile, in processors.
        yardstick_ms: how fast a processor was; see bench.path.cpu.
    """

    ready_s: float
    cpu_s: float
    etcd_cpu_s: float
    rss_mb: float
    peak_mb: float
    others_cores: float
    yardstick_ms: float


async def cold_start(servers: EtcdServers, content: Content, name: str, folder: Path) -> Start:
    """Start a replica, and stop it. Raises TimeoutError, RuntimeError if it dies."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    etcd = {"etcd": servers.members[0].pid}
    before = read_cpu(etcd)
    begun_s = time.monotonic()
    settings = ("--store", servers.url, "--listen", address, "--replica", name, "--federation", FEDERATION)
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, *settings, "--log-level", "info", "--log-format", "json"),
        *("--set", f"archive_dir={folder / 'archive'}"),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(START_MAX_S):
            await _decides(process, content)
        ready_s = time.monotonic() - begun_s
        spent = read_cpu(etcd).since(before)
        own_s = read_cpu({name: process.pid}).own_s[name]
        rss_mb, peak_mb = memory_mb(process.pid)
        others = max(0.0, spent.others_s - own_s) / ready_s
        return Start(ready_s, own_s, spent.own_s["etcd"], rss_mb, peak_mb, others, yardstick_ms())
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _decides(process: asyncio.subprocess.Process, content: Content) -> None:
    """Wait until the replica says that it has caught up with everything. Raises RuntimeError if it ends before."""
    assert process.stderr is not None
    wanted = {"roots": content.queues, "pending": content.waiting}
    async for line in process.stderr:
        said = json.loads(line) if line.startswith(b"{") else {}
        if all(said.get(name) == value for name, value in wanted.items()):
            return
        if said.get("level") not in (None, "info"):
            print(line.decode().rstrip(), file=sys.stderr)
    raise RuntimeError(f"the replica has ended with status {await process.wait()}")


def memory_mb(pid: int) -> tuple[float, float]:
    """What a process has in memory, and the most that it had."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines())
    return tuple(int(lines[what].split()[0]) / 1024 for what in ("VmRSS", "VmHWM"))  # type: ignore[return-value]
