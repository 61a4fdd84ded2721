"""The caller's own terminal: its input as it comes, its size, and out of the way of what runs at the other end."""

import asyncio
import os
import shutil
import signal
import stat
import termios
import tty
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Final

from hanse.client.commands import Input, TerminalSize

READ_BYTES: Final = 32_768


@contextmanager
def raw(terminal: int | None) -> Iterator[None]:
    """Let every key through, Ctrl-C too, until the block ends; None leaves all as it is."""
    if terminal is None:
        yield
        return
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


async def inputs(source: int, *, sized: bool) -> AsyncIterator[Input]:
    """What comes from a file descriptor, until its end; with `sized` also the terminal's size when it changes."""
    if stat.S_ISREG(os.fstat(source).st_mode):
        while data := os.read(source, READ_BYTES):
            yield data
        return
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    resized = sized
    if sized:
        loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        while True:
            if resized:
                columns, rows = shutil.get_terminal_size()
                yield TerminalSize(rows, columns)
            readable = await _woken(loop, source, changed)
            resized = changed.is_set()
            changed.clear()
            if readable:
                data = os.read(source, READ_BYTES)
                if not data:
                    return
                yield data
    finally:
        if sized:
            loop.remove_signal_handler(signal.SIGWINCH)


async def _woken(loop: asyncio.AbstractEventLoop, source: int, changed: asyncio.Event) -> bool:
    """Wait for input, or for another size of the terminal; whether there is input."""
    arrived = asyncio.Event()
    loop.add_reader(source, arrived.set)
    waits = [asyncio.ensure_future(event.wait()) for event in (arrived, changed)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        loop.remove_reader(source)
        for wait in waits:
            wait.cancel()
    return arrived.is_set()
