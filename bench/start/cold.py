"""One cold start: the process is begun, and asked how it is until it holds all roots and knows all that waits."""

import asyncio
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from bench.path.cpu import read_cpu, yardstick_ms
from bench.start.fill import FEDERATION, Content
from hanse.api.v1 import server_service_pb2 as pb
from hanse.api.v1 import server_service_pb2_grpc as rpc
from tests.services.etcd import EtcdServers
from tests.services.process import free_ports

COMMAND: Final = (sys.executable, "-m", "hanse.cli", "global")
LOOK_EVERY_S: Final = 0.02
ANSWER_MAX_S: Final = 30.0
START_MAX_S: Final = 900.0


@dataclass(frozen=True, slots=True)
class Start:
    """What one start took.

    Attributes:
        listening_s: until the first call was answered.
        ready_s: until it held all roots and knew all jobs that wait.
        cpu_s, etcd_cpu_s: processor time of the replica and of etcd until then.
        rss_mb, peak_mb: memory of the replica at that moment, and the most until then.
        others_cores: what others computed meanwhile, in processors.
        yardstick_ms: how fast a processor was; see bench.path.cpu.
    """

    listening_s: float
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
        *COMMAND, *settings, "--log-level", "warning", "--set", f"archive_dir={folder / 'archive'}"
    )
    try:
        async with asyncio.timeout(START_MAX_S), grpc.aio.insecure_channel(address) as channel:
            stub: rpc.ServerServiceAsyncStub = rpc.ServerServiceStub(channel)
            await _answers(stub, process)
            listening_s = time.monotonic() - begun_s
            await _decides(stub, name, content)
        ready_s = time.monotonic() - begun_s
        spent = read_cpu(etcd).since(before)
        own_s = read_cpu({name: process.pid}).own_s[name]
        rss_mb, peak_mb = _memory_mb(process.pid)
        others = max(0.0, spent.others_s - own_s) / ready_s
        return Start(listening_s, ready_s, own_s, spent.own_s["etcd"], rss_mb, peak_mb, others, yardstick_ms())
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _answers(stub: "rpc.ServerServiceAsyncStub", process: asyncio.subprocess.Process) -> None:
    while True:
        if process.returncode is not None:
            raise RuntimeError(f"the replica has ended with status {process.returncode}; it says why above")
        try:
            await stub.GetStatus(pb.GetStatusRequest(), timeout=ANSWER_MAX_S)
            return
        except grpc.aio.AioRpcError:
            await asyncio.sleep(LOOK_EVERY_S)


async def _decides(stub: "rpc.ServerServiceAsyncStub", name: str, content: Content) -> None:
    while True:
        if _is_ready(await _ask(stub), name, content):
            return
        await asyncio.sleep(LOOK_EVERY_S)


async def _ask(stub: "rpc.ServerServiceAsyncStub") -> pb.FederationStatus | None:
    try:
        return await stub.GetStatus(pb.GetStatusRequest(), timeout=ANSWER_MAX_S)
    except grpc.aio.AioRpcError:
        return None


def _is_ready(status: pb.FederationStatus | None, name: str, content: Content) -> bool:
    found = next((one for one in status.replicas if one.id == name), None) if status is not None else None
    if found is None or not found.ready:
        return False
    return (found.roots, found.pending_jobs) == (content.queues, content.waiting)


def _memory_mb(pid: int) -> tuple[float, float]:
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines())
    return tuple(int(lines[what].split()[0]) / 1024 for what in ("VmRSS", "VmHWM"))  # type: ignore[return-value]
