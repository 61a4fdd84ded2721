"""Processes that are started, watched, started again, and stopped: what supervises `hanse up --processes`.

A child that ends is started again, soon the first time and later and later if it keeps ending. Its stdin is a pipe
that nobody writes to: when this process dies, however it dies, the pipe ends and the child stops by itself. A child
is a session of its own, so that Ctrl-C reaches this process only, which then stops all of them in the right order.
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from hanse.kit.backoff import Backoff, BackoffPolicy
from hanse.kit.clock import Clock

log = logging.getLogger(__name__)

RESTART: Final = BackoffPolicy(first_s=0.2, max_s=10.0)
LIVED_S: Final = 30.0
"""A child that lived so long had a good start: the next restart is a first one again."""

STOP_DEADLINE_S: Final = 10.0
TAIL_BYTES: Final = 4_096


@dataclass(frozen=True, slots=True)
class Command:
    """How a child is started.

    Attributes:
        variables: added to the environment; what is secret goes here, since everybody sees arguments.
    """

    name: str
    arguments: Sequence[str]
    log: Path
    variables: Mapping[str, str] = field(default_factory=dict)


class Child:
    """One process, kept running.

    Attributes:
        starts: how often it was started.
        stop_deadline_s: it is ended after this time if it does not stop.
    """

    def __init__(self, command: Command, clock: Clock, rng: Random) -> None:
        self.command = command
        self.starts = 0
        self.stop_deadline_s = STOP_DEADLINE_S
        self._clock = clock
        self._backoff = Backoff(RESTART, rng)
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = False

    @property
    def pid(self) -> int | None:
        """Of the process that runs now; None between two."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if running and self._process is not None else None

    async def keep(self) -> None:
        """Run it, again and again, until `stop`."""
        while not self._stopping:
            began_s = self._clock.monotonic()
            status = await self._run()
            if self._stopping:
                return
            if self._clock.monotonic() - began_s > LIVED_S:
                self._backoff.reset()
            log.warning("process_ended", extra={"child": self.command.name, "status": status})
            await asyncio.sleep(self._backoff.delay_s())

    async def _run(self) -> int:
        with self.command.log.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *self.command.arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**os.environ, **self.command.variables},
                start_new_session=True,
            )
        self.starts += 1
        if self._stopping:
            self._process.terminate()  # told so while it was being started
        return await self._process.wait()

    async def stop(self) -> None:
        """Ask it to stop, and end it if it does not."""
        self._stopping = True
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGCONT)
        try:
            async with asyncio.timeout(self.stop_deadline_s):
                await process.wait()
        except TimeoutError:
            log.warning("process_killed", extra={"child": self.command.name})
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def last_words(self) -> str:
        """The last line of its log."""
        try:
            with self.command.log.open("rb") as found:
                found.seek(max(0, found.seek(0, os.SEEK_END) - TAIL_BYTES))
                lines = found.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        return lines[-1] if lines else ""
