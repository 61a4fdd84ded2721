"""What becomes of submissions, and of jobs that run, while who manages them is dead.

Two gangs run. Then the manager is killed, a third gang is submitted, and a while later is looked: was it accepted,
has it pods on nodes, and are the pods of the two still there? Then the manager is started again, what was not
accepted is submitted again, and the time to its last pod on a node is told.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from bench.contract import JsonValue
from bench.kubernetes.plane import JobShape
from bench.peers.contest import PATIENCE_S, Hanse, MultiKueue, Ring, System, end, job_of
from bench.peers.kueue import PLAIN
from hanse.agent.cluster.port import ClusterUnavailable
from hanse.model.errors import HanseError

DEAD_S: Final = 10.0
TRY_EVERY_S: Final = 0.2
SUBMIT_MAX_S: Final = 10.0
PODS: Final = 8


@dataclass(frozen=True, slots=True)
class Outage:
    """One of them.

    Attributes:
        refused: what the submission said, "" if it was accepted.
        bound: pods of it that were on nodes `waited_s` later, the manager still dead.
        running, still_running: pods of the other gangs before and then.
        back_s: from the moment when the manager was started again to the last pod bound of that gang.
    """

    refused: str
    bound: int
    waited_s: float
    running: int
    still_running: int
    back_s: float


async def outage(
    ring: Ring, system: System, name: str, kill: Callable[[], None], back: Callable[[], Awaitable[None]]
) -> JsonValue:
    """Let it happen.

    Args:
        kill, back: end it, and start it again.
    """
    running = [JobShape(f"{name}-runs-{n}", PODS) for n in range(2)]
    for shape in running:
        await system.submit(job_of(shape, PLAIN))
    for shape in running:
        await ring.watch.until_bound(shape.name, PODS, PATIENCE_S)
    before = _there(ring, running)
    kill()
    late = JobShape(f"{name}-late", PODS)
    refused = await _try(system, late)
    await asyncio.sleep(DEAD_S)
    bound, still = len(ring.watch.of(late.name).bound_s), _there(ring, running)
    begun_s = time.monotonic()
    await back()
    again = refused
    while again:
        again = await _try(system, late)
        await asyncio.sleep(TRY_EVERY_S if again else 0.0)
    marks = await ring.watch.until_bound(late.name, PODS, PATIENCE_S)
    found = Outage(refused, bound, DEAD_S, before, still, marks.last_bound_s - begun_s)
    await end(ring, system, [*running, late])
    return asdict(found)


async def of_multi_kueue(ring: Ring, system: MultiKueue) -> Mapping[str, JsonValue]:
    """Its controller dies; then the manager's whole control plane."""
    controller, plane = system.processes[0], ring.manager.plane
    parts = (plane.controllers, plane.scheduler, plane.api_server, plane.etcd)

    async def start_controller() -> None:
        controller.launch()
        await controller.wait_ready_async()

    def kill_all() -> None:
        for part in (controller, *parts):
            part.kill()

    async def start_all() -> None:
        for part in reversed(parts):
            part.launch()
            await part.wait_ready_async()
        await start_controller()

    return {
        "controller": await outage(ring, system, "mk-controller", controller.kill, start_controller),
        "control_plane": await outage(ring, system, "mk-plane", kill_all, start_all),
    }


async def of_hanse(ring: Ring, system: Hanse) -> JsonValue:
    """Its only replica dies."""

    async def start() -> None:
        system.replica.launch()
        await system.replica.wait_ready_async()

    return await outage(ring, system, "hanse-replica", system.replica.kill, start)


def _there(ring: Ring, shapes: Sequence[JobShape]) -> int:
    marks = [ring.watch.of(shape.name) for shape in shapes]
    return sum(len(seen.bound_s) - len(seen.gone_s) for seen in marks)


async def _try(system: System, shape: JobShape) -> str:
    """Submit; what is said against it."""
    try:
        async with asyncio.timeout(SUBMIT_MAX_S):
            await system.submit(job_of(shape, PLAIN))
    except TimeoutError:
        return f"not answered within {SUBMIT_MAX_S:.0f} s"
    except (ClusterUnavailable, HanseError) as error:
        return str(error)
    return ""
