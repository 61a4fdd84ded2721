"""Children are started again, and stopped for good."""

import asyncio
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from hanse.kit.clock import SystemClock
from hanse.up.children import Child, Command

PATIENCE_S = 20.0
SERVE = "import signal; print('here', flush=True); signal.pause()"
STUBBORN = "import signal; signal.signal(15, signal.SIG_IGN); print('here', flush=True)\nwhile True: signal.pause()"
UNTIL_EOF = "import sys; print('here', flush=True); sys.stdin.read(); print('gone', flush=True)"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - another process's doing, which signals nothing here
            await asyncio.sleep(0.01)


def child(tmp_path: Path, code: str, **variables: str) -> Child:
    command = Command("one", (sys.executable, "-c", code), tmp_path / "one.log", variables)
    return Child(command, SystemClock(), random.Random(1))


def said(one: Child) -> str:
    return one.command.log.read_text() if one.command.log.exists() else ""


async def test_a_child_that_is_killed_is_started_again(tmp_path: Path) -> None:
    one = child(tmp_path, SERVE)
    keeping = asyncio.create_task(one.keep())
    await until(lambda: "here" in said(one) and one.pid is not None)
    pid = one.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await until(lambda: said(one).count("here") == 2)
    assert (one.starts, one.pid != pid) == (2, True)
    await one.stop()
    await keeping
    assert one.pid is None


async def test_a_child_that_stops_by_itself_and_badly_leaves_its_last_words(tmp_path: Path) -> None:
    one = child(tmp_path, "print('first'); raise SystemExit('no such store')")
    keeping = asyncio.create_task(one.keep())
    await until(lambda: one.starts > 1)
    assert one.last_words() == "no such store"
    await one.stop()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


async def test_a_child_that_does_not_stop_is_ended(tmp_path: Path) -> None:
    one = child(tmp_path, STUBBORN)
    one.stop_deadline_s = 0.2
    keeping = asyncio.create_task(one.keep())
    await until(lambda: "here" in said(one) and one.pid is not None)
    await one.stop()
    await keeping
    assert (one.pid, one.starts) == (None, 1)


async def test_a_frozen_child_is_stopped_too(tmp_path: Path) -> None:
    one = child(tmp_path, SERVE)
    keeping = asyncio.create_task(one.keep())
    await until(lambda: "here" in said(one) and one.pid is not None)
    assert one.pid is not None
    os.kill(one.pid, signal.SIGSTOP)
    await one.stop()
    await keeping
    assert one.pid is None


async def test_a_child_sees_the_end_of_whoever_started_it(tmp_path: Path) -> None:
    """Its stdin ends with the supervisor's process, whatever ended that."""
    supervisor = (
        "import asyncio, random, sys; from pathlib import Path\n"
        "from hanse.kit.clock import SystemClock; from hanse.up.children import Child, Command\n"
        f"one = Child(Command('one', (sys.executable, '-c', {UNTIL_EOF!r}), Path({str(tmp_path / 'one.log')!r})),"
        " SystemClock(), random.Random(1))\n"
        "asyncio.run(one.keep())"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", supervisor)
    log = tmp_path / "one.log"
    await until(lambda: log.exists() and "here" in log.read_text())
    process.kill()
    await process.wait()
    await until(lambda: "gone" in log.read_text())


async def test_what_is_given_in_the_environment_arrives(tmp_path: Path) -> None:
    one = child(tmp_path, "import os, signal; print(os.environ['SECRET'], flush=True); signal.pause()", SECRET="s")
    keeping = asyncio.create_task(one.keep())
    await until(lambda: said(one) == "s\n" and one.pid is not None)
    await one.stop()
    await keeping
