"""One run: draw, break for a while, heal, and demand that everything comes to rest.

Two phases. Under faults only safety is judged, at every step, by the hooks of store and clusters. Then faults stop,
and within SETTLE_MAX_S of virtual time the federation must have settled (`liveness`), and stay settled.
"""

import asyncio
import gc
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Final

from hanse.simcluster.engine import Engine
from tests.sim import replay
from tests.sim.fleet import draw_fleet
from tests.sim.limits import perturbed
from tests.sim.liveness import Unsettled, running_sets_differ, unsettled
from tests.sim.loop import SimLoop, Stuck
from tests.sim.mutants import RUNNABLE, applied
from tests.sim.nemesis import Nemesis
from tests.sim.people import People
from tests.sim.story import LogTeller
from tests.sim.swarm import NOTHING_FIXED, Swarm, draw
from tests.sim.verdict import Violation
from tests.sim.world import World

LOOK_EVERY_S: Final = 1.0
SETTLE_MAX_S: Final = 300.0
REST_S: Final = 5.0
"""How long it must stay settled."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to. `digest` names it: equal seeds, equal digests."""

    seed: int
    swarm: str
    violation: Violation | None
    story: tuple[str, ...]
    digest: str
    steps: int
    revisions: int
    virtual_s: float
    real_s: float
    tally: dict[str, int]


def run_seed(
    seed: int, *, mutant: str = "", story: bool = False, fixed: Mapping[str, float] = NOTHING_FIXED
) -> Outcome:
    """Run one seed to its end; `story`: tell everything.

    With a deliberate bug the seed draws the same federation; the faults that the bug needs have fixed rates.
    `fixed` sets fields of the swarm beside them.
    """
    began_s = time.perf_counter()
    logging.disable(logging.NOTSET if story else logging.CRITICAL)
    gc.collect()
    gc.disable()
    try:
        bug = RUNNABLE[mutant] if mutant else None
        with applied(bug):
            needs = {**(bug.needs if bug else {}), **fixed}
            return _run(seed, draw(Random(f"{seed}/swarm"), needs), began_s, story)
    finally:
        gc.enable()
        logging.disable(logging.NOTSET)


def _run(seed: int, swarm: Swarm, began_s: float, story: bool) -> Outcome:
    loop = SimLoop(Random(f"{seed}/order"))
    asyncio.set_event_loop(loop)
    world = World(loop, swarm, draw_fleet(Random(f"{seed}/fleet"), swarm), Random(f"{seed}/world"))
    people = People(world, Random(f"{seed}/people"))
    nemesis = Nemesis(world, Random(f"{seed}/nemesis"))
    try:
        with (
            replay.watched(world.court, Random(f"{seed}/replay")),
            perturbed(Random(f"{seed}/limits"), swarm.small_limits_p),
            _logs_told(world, story),
        ):
            loop.run(_life(world, people, nemesis, swarm))
    except Stuck as stuck:
        world.court.accuse("stuck", str(stuck))
    for who, what, error in loop.failures:
        world.court.accuse("crash", f"{who}: {what}: {error!r}")
    outcome = _outcome(seed, swarm, world, people, began_s, story)
    loop.dispose()
    asyncio.set_event_loop(None)
    return outcome


@contextmanager
def _logs_told(world: World, story: bool) -> Iterator[None]:
    """While inside, what the product logs is part of the story, if there is one."""
    logger, handler = logging.getLogger("hanse"), LogTeller(world.story)
    if not story:
        yield
        return
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = True


async def _life(world: World, people: People, nemesis: Nemesis, swarm: Swarm) -> None:
    await world.begin()
    people.begin(swarm.jobs, swarm.faults_s * 0.8)
    nemesis.begin(swarm)
    nemesis.couple(people)
    await asyncio.sleep(swarm.faults_s)
    nemesis.stop()
    world.heal()
    await _settle(world, people)
    world.histories.judge()


async def _settle(world: World, people: People) -> None:
    """Wait until nothing is on its way, for REST_S; what stays on its way is a violation."""
    loop = world.loop
    until_s = loop.time() + SETTLE_MAX_S
    rested_s = 0.0
    last: Unsettled | None = None
    while rested_s < REST_S:
        await asyncio.sleep(LOOK_EVERY_S)
        world.store_checks.check_acknowledged()
        last = _look(world, people)
        rested_s = 0.0 if last is not None else rested_s + LOOK_EVERY_S
        if last is not None and loop.time() > until_s:
            world.court.accuse(last.invariant, f"{last.text}, {SETTLE_MAX_S:.0f}s after faults stopped", *last.about)
            return


def _look(world: World, people: People) -> Unsettled | None:
    if people.busy:
        return Unsettled("L4", "somebody still waits for an answer", ())
    engines: list[Engine] = [site.engine for site in world.pools]
    return (
        unsettled(world.view, engines, people.books.asked)
        or running_sets_differ(world.view, engines)
        or people.watcher.at_rest()
        or world.summary_checks.at_rest(engines)
    )


def _outcome(seed: int, swarm: Swarm, world: World, people: People, began_s: float, story: bool) -> Outcome:
    violation = world.court.violation
    lines = world.story.told((), lines_max=100_000) if story else _short_story(world, violation)
    tally: dict[str, int] = {"jobs": len(people.books.specs), "refused": len(people.books.refused)}
    for state in world.view.states.values():
        tally[state.state.name] = tally.get(state.state.name, 0) + 1
        tally["attempts"] = tally.get("attempts", 0) + state.attempt
    return Outcome(
        seed=seed,
        swarm=swarm.told(),
        violation=violation,
        story=tuple(lines),
        digest=world.story.digest(),
        steps=world.loop.steps,
        revisions=world.store.revision,
        virtual_s=world.loop.time(),
        real_s=time.perf_counter() - began_s,
        tally=tally,
    )


def _short_story(world: World, violation: Violation | None) -> list[str]:
    return world.story.told(violation.about) if violation is not None else []
