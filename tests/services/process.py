"""One server process that a test may start, stop, kill, freeze and start again.

It listens on the loopback, writes its log to a file, and dies with the process that started it, however that ends.
Only what was started here is ever signalled, by its process id.
"""

import asyncio
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PATIENCE_S: Final = 30.0
LOOK_EVERY_S: Final = 0.02
LOG_TAIL_BYTES: Final = 2_000
PORTS: Final = range(15_000, 32_000)
"""Below what the kernel gives to outgoing connections: a port stays free while its server is down."""

MEMORY_FOLDER: Final = Path("/dev/shm")
FOLDER_PREFIX: Final = "hanse-test-"
LEASH: Final = ("setpriv", "--pdeathsig", "KILL")
"""Ends the server with us. Not by a function in the child: forking Python beside gRPC's threads crashes the child."""


class ServerDied(AssertionError):
    """A server ended or did not become ready; the message holds the end of its log."""


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody uses now."""
    found: list[int] = []
    for port in random.Random(os.urandom(8)).sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise ServerDied("no free port on the loopback")


@contextmanager
def data_folder() -> Iterator[Path]:
    """An empty folder, in memory where there is such a thing: a server killed by a signal keeps what it wrote.

    What test runs that were killed have left there is removed first.
    """
    inside = MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK) else None
    if inside is not None:
        for left in inside.glob(f"{FOLDER_PREFIX}*-*"):
            if not Path("/proc", left.name.removeprefix(FOLDER_PREFIX).partition("-")[0]).exists():
                shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=inside, prefix=f"{FOLDER_PREFIX}{os.getpid()}-") as folder:
        yield Path(folder)


class ServerProcess:
    """See the module. `ready` says whether it serves; it is asked until it does."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        *,
        ready: Callable[[], bool],
        env: Mapping[str, str] = {},
    ) -> None:
        self.name = name
        leash = LEASH if shutil.which(LEASH[0]) else ()
        self._command = [*leash, *command]
        self._log = folder / f"{name}.log"
        self._ready = ready
        self._env = {**os.environ, **env}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    def change_environment(self, env: Mapping[str, str]) -> None:
        """From its next start on it has these variables, beside those that it had."""
        self._env.update(env)

    def launch(self) -> None:
        """Start it, and do not wait. From the main thread: the server dies with the thread that started it."""
        assert not self.running, f"{self.name} runs already"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._env,
            )

    def wait_ready(self) -> None:
        """Raises ServerDied."""
        ends_s = time.monotonic() + PATIENCE_S
        while not self._serves(ends_s):
            time.sleep(LOOK_EVERY_S)

    async def wait_ready_async(self) -> None:
        """The same, while the loop goes on."""
        await asyncio.get_running_loop().run_in_executor(None, self.wait_ready)

    def start(self) -> None:
        self.launch()
        self.wait_ready()

    def terminate(self) -> None:
        """End it gracefully."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a power cut would, except that the disk keeps what was written."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """It hangs: connections stay, nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def log_tail(self) -> str:
        """The end of its log."""
        return self._log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace") if self._log.exists() else ""

    def cpu_s(self) -> float:
        """Processor time that it has used, user and system."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _serves(self, ends_s: float) -> bool:
        if not self.running:
            raise ServerDied(f"{self.name} ended at once:\n{self.log_tail()}")
        if self._ready():
            return True
        if time.monotonic() > ends_s:
            raise ServerDied(f"{self.name} is not ready after {PATIENCE_S} s:\n{self.log_tail()}")
        return False

    def _end(self, how: signal.Signals) -> None:
        if self._process is None or not self.running:
            return
        self._process.send_signal(how)
        if how is not signal.SIGKILL:
            self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(PATIENCE_S)


def accepts(port: int) -> bool:
    """Whether somebody listens on that port of the loopback."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
