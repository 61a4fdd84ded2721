"""Processes that run until they are told to stop, and then tidy up."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
EOF_READ_BYTES: Final = 4_096


async def until_stopped(work: Awaitable[None], *, stop_on_eof: bool = False) -> None:
    """Run until the work ends, or until the process is told to stop; then the work is cancelled and may tidy up.

    Args:
        stop_on_eof: the end of stdin, a pipe, is such an order too: whoever held its other end has gone.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, task.cancel)
    try:
        with _at_eof(task.cancel if stop_on_eof else None):
            await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)


@contextmanager
def _at_eof(stop: Callable[[], object] | None) -> Iterator[None]:
    """Stop when stdin ends; what is written there is of no account."""
    if stop is None:
        yield
        return
    loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()

    def look() -> None:
        if not os.read(fd, EOF_READ_BYTES):
            loop.remove_reader(fd)
            stop()

    loop.add_reader(fd, look)
    try:
        yield
    finally:
        loop.remove_reader(fd)
