"""`hanse up` as a process of its own, to be killed and started again."""

import asyncio
import json
import os
import signal
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path

READY_DEADLINE_S = 60.0
EXIT_DEADLINE_S = 20.0
HANSE = Path(sys.executable).with_name("hanse")


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass
class Up:
    """One `hanse up`, always on the same address, store and fleet."""

    fleet: Path
    store: Path
    log: Path
    replicas: int = 1
    port: int = field(default_factory=free_port)
    process: asyncio.subprocess.Process | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start it, and wait until it says that it is up."""
        await self.begin()
        assert self.process is not None
        assert self.process.stdout is not None
        async with asyncio.timeout(READY_DEADLINE_S):
            line = await self.process.stdout.readline()
        assert line, f"hanse up ended; its log:\n{self.log.read_text()}"
        json.loads(line)

    async def begin(self) -> None:
        """Start it, and do not wait."""
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                str(HANSE),
                *("up", "--fleet", str(self.fleet), "--store", f"sqlite:{self.store}"),
                *("--listen", self.address, "--replicas", str(self.replicas), "-o", "json"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**os.environ, "NO_COLOR": "1"},
            )

    async def end(self, how: signal.Signals = signal.SIGKILL) -> int:
        """End it; its exit status."""
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(how)
        async with asyncio.timeout(EXIT_DEADLINE_S):
            return await self.process.wait()
