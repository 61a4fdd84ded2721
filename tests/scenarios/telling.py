"""Tells one story: its setting, then its commands one after the other, on the simulator's virtual clock."""

import asyncio
import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Final

from tests.scenarios import fate, people, setting, shows
from tests.scenarios.audit import audit
from tests.scenarios.setting import setting_of
from tests.scenarios.stage import Act, Stage
from tests.scenarios.words import Line, Misread, Paragraph, Story
from tests.scenarios.world import StoryWorld
from tests.sim.loop import SimLoop

READY_S: Final = 2.0
"""Virtual time before a story begins: replicas join, agents attach, summaries arrive."""

ACTS: Final[dict[str, Act]] = {**people.VERBS, **fate.VERBS, **shows.VERBS}


def tell(story: Story, *, seed: int) -> list[list[str]]:
    """What each paragraph shows. `seed` draws the order of callbacks that are ready at the same time.

    Raises:
        Misread: a command makes no sense.
        AssertionError: an invariant does not hold, or what is waited for does not come.
    """
    lines = [line for paragraph in story.paragraphs for line in paragraph.lines]
    with _quiet(), _loop(seed) as loop:
        world = StoryWorld(loop, setting_of(lines), Random(f"{seed}/story"))
        outputs: list[list[str]] = []
        loop.run(_life(Stage(world), story, outputs))
        world.verdict()
    return outputs


async def _life(stage: Stage, story: Story, outputs: list[list[str]]) -> None:
    await stage.world.begin()
    await asyncio.sleep(READY_S)
    for paragraph in story.paragraphs:
        outputs.append(await _paragraph(stage, paragraph))
    await audit(stage)


async def _paragraph(stage: Stage, paragraph: Paragraph) -> list[str]:
    """Its commands one after the other; those that begin with `&` go on beside the others until its end."""
    told: list[str] = []
    beside: list[asyncio.Task[list[str]]] = []
    for line in paragraph.lines:
        if line.beside:
            beside.append(asyncio.create_task(_act(stage, line), name=f"line-{line.number}"))
        else:
            told += await _act(stage, line)
    return told + [text for task in beside for text in await task]


async def _act(stage: Stage, line: Line) -> list[str]:
    if line.verb in setting.VERBS:
        return []
    if line.verb not in ACTS:
        raise Misread(f"line {line.number}: no command {line.verb!r}")
    return await ACTS[line.verb](stage, line)


@contextmanager
def _loop(seed: int) -> Iterator[SimLoop]:
    loop = SimLoop(Random(f"{seed}/order"))
    asyncio.set_event_loop(loop)
    try:
        yield loop
    finally:
        loop.dispose()
        asyncio.set_event_loop(None)


@contextmanager
def _quiet() -> Iterator[None]:
    """No logs, and no collection in the middle: a collected coroutine would run its `finally` blocks."""
    logging.disable(logging.CRITICAL)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        logging.disable(logging.NOTSET)
