"""Processes that run until they are told to stop, and then tidy up."""

import asyncio
import signal
from collections.abc import Awaitable
from typing import Final

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


async def until_stopped(work: Awaitable[None]) -> None:
    """Run until the work ends, or until the process is told to stop; then the work is cancelled and may tidy up."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
