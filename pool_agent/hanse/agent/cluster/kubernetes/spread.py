"""Many small requests, a bounded number at a time; the first error ends them all."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def spread(items: Iterable[T], work: Callable[[T], Awaitable[None]], *, at_once: int) -> None:
    """Do `work` for each item. When one fails the others are cancelled and awaited, and its error is raised."""
    every = list(items)
    waiting = iter(every)

    async def work_on() -> None:
        for item in waiting:
            await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(min(at_once, len(every))):
                group.create_task(work_on(), name=f"spread-{number}")
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
