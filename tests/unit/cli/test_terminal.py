"""What a command at the other end reads: pipes, files and terminals of the caller, as they come."""

import asyncio
import os
import pty
import signal
import termios
from pathlib import Path

import pytest

from hanse.cli.terminal import inputs, raw
from hanse.client.commands import Input, TerminalSize

DEADLINE_S = 10.0


async def test_a_pipe_is_read_as_it_is_written_until_its_end() -> None:
    source, end = os.pipe()
    found: list[Input] = []
    try:
        async with asyncio.timeout(DEADLINE_S):
            reading = inputs(source, sized=False)
            os.write(end, b"one")
            found.append(await anext(reading))
            os.write(end, b"two")
            found.append(await anext(reading))
            os.close(end)
            found += [value async for value in reading]
    finally:
        os.close(source)
    assert found == [b"one", b"two"]


async def test_a_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"x" * 100_000)
    with path.open("rb") as file:
        found = [value async for value in inputs(file.fileno(), sized=False)]
    assert b"".join(value for value in found if isinstance(value, bytes)) == b"x" * 100_000


async def test_a_terminals_size_is_told_first_and_when_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    source, end = os.pipe()
    reading = inputs(source, sized=True)
    try:
        async with asyncio.timeout(DEADLINE_S):
            assert await anext(reading) == TerminalSize(24, 80)
            waiting = asyncio.ensure_future(anext(reading))
            await asyncio.sleep(0)
            monkeypatch.setenv("COLUMNS", "120")
            os.kill(os.getpid(), signal.SIGWINCH)
            assert await waiting == TerminalSize(24, 120)
            os.write(end, b"x")
            assert await anext(reading) == b"x"
    finally:
        await reading.aclose()  # type: ignore[attr-defined]
        os.close(source)
        os.close(end)


def test_a_terminal_is_as_it_was_after_all() -> None:
    leader, terminal = pty.openpty()
    try:
        before = termios.tcgetattr(terminal)
        with raw(terminal):
            assert not termios.tcgetattr(terminal)[3] & termios.ECHO
        assert termios.tcgetattr(terminal) == before
        with raw(None):
            pass
    finally:
        os.close(leader)
        os.close(terminal)
