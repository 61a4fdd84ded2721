"""A gang of gated pods gets its nodes, in each of the ways there are: ours, and the cluster's scheduler alone.

The clock of each begins when the last pod of a Job is seen, gated, and ends when the last one is seen on a node.
The Job is the same one, made by Kubernetes' own controller. Ours is submitted to a global replica and let go by its
agent, which is a process with the rights and the settings that users have; the places are known by then. For the
scheduler the pods are let go by the agent's own client, as many at a time as the agent has, and without its rate
limit; it chooses the nodes itself. No agent runs meanwhile.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from bench.kubernetes.plane import AT_ONCE, BenchPlane, JobShape, play_end
from bench.kubernetes.watching import PodWatch
from bench.path.cpu import CpuReading, read_cpu
from e2e.federation import FLAVOR, LEVELS, QUEUE, agent_process, replica_process
from hanse.agent.cluster.kubernetes.api import JSON_PATCH, Api
from hanse.agent.cluster.kubernetes.spread import spread
from hanse.client import AsyncClient
from tests.services.process import ServerProcess, free_ports

POOL: Final = "bench"
QUEUE_NAME: Final = "team"
QUOTA_GPUS: Final = 10_000_000
CONFIG: Final = FLAVOR + QUEUE % (QUEUE_NAME, QUOTA_GPUS)
NAMESPACE: Final = "bench"
GATE: Final = "bench.example.com/wait"
PATIENCE_S: Final = 180.0


@dataclass(frozen=True, slots=True)
class Bound:
    """One gang.

    Attributes:
        bind_s: from the last pod made to the last one bound.
        first_s: from the last pod made to the first one bound.
        make_s: from the first pod made to the last.
        cpu_s: processor seconds of each process in `bind_s`; of all of them together, and of others.
    """

    bind_s: float
    first_s: float
    make_s: float
    cpu_s: Mapping[str, float]
    others_cores: float


@dataclass(frozen=True, slots=True)
class Ring:
    """Where they meet."""

    plane: BenchPlane
    api: Api
    watch: PodWatch
    folder: Path
    replica: ServerProcess
    address: str

    def agent(self, binder: str, settings: Mapping[str, Any] | None = None) -> ServerProcess:
        """An agent, not started."""
        pool = {"name": POOL, "levels": list(LEVELS), "binder": binder}
        return agent_process(self.folder, self.plane, self.address, pool, settings or {})

    async def by_us(self, shape: JobShape, binder: str) -> Bound:
        """A Job through the federation, and its end."""
        agent = self.agent(binder)
        agent.start()
        try:
            async with AsyncClient(self.address, token="") as client:
                text = yaml.safe_dump(shape.body())
                submitted = await client.submit(text, queue=QUEUE_NAME)
                submitted.raise_refusal()
                bound = await self._timed(shape, {"agent": agent.pid, "global": self.replica.pid})
                marks = self.watch.of(shape.name)
                await play_end(self.api, marks.namespace, list(marks.bound_s))
                await client.wait(submitted.ids[0], timeout_s=PATIENCE_S)
                await self.watch.until_gone(shape.name, PATIENCE_S)
            return bound
        finally:
            agent.kill()

    async def by_scheduler(self, shape: JobShape) -> Bound:
        """The same Job, let go by the bench, and its end."""
        folder = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
        await self.api.post(folder, shape.body(gate=GATE))

        async def ungate(name: str) -> None:
            at = "/spec/schedulingGates/0"
            patch = [{"op": "test", "path": f"{at}/name", "value": GATE}, {"op": "remove", "path": at}]
            path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"
            await self.api.patch(path, patch, form=JSON_PATCH, brief=True)

        async def let_go() -> None:
            await spread(list(self.watch.of(shape.name).made_s), ungate, at_once=AT_ONCE)

        bound = await self._timed(shape, {}, let_go)
        await play_end(self.api, NAMESPACE, list(self.watch.of(shape.name).bound_s))
        await self.api.delete(f"{folder}/{shape.name}", {"propagationPolicy": "Background"})
        await self.watch.until_gone(shape.name, PATIENCE_S)
        return bound

    async def _timed(self, shape: JobShape, pids: Mapping[str, int], let_go: Any = None) -> Bound:
        marks = await self.watch.until_made(shape.name, shape.pods, PATIENCE_S)
        every = {**self.plane.pids, **pids}
        before = read_cpu(every)
        begun_s = time.monotonic()
        if let_go is not None:
            await let_go()
        await self.watch.until_bound(shape.name, shape.pods, PATIENCE_S)
        spent: CpuReading = read_cpu(every).since(before)
        own_s = {name: round(found, 2) for name, found in spent.own_s.items()}
        return Bound(
            bind_s=marks.last_bound_s - marks.last_made_s,
            first_s=min(marks.bound_s.values()) - marks.last_made_s,
            make_s=marks.last_made_s - min(marks.made_s.values()),
            cpu_s=own_s,
            others_cores=round(spent.others_s / max(1e-3, time.monotonic() - begun_s), 2),
        )


def replica(folder: Path) -> tuple[ServerProcess, str]:
    """A global replica, not started, and its address."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    return replica_process(folder, address), address
