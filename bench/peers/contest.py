"""The same Jobs through each system, over the same control planes, seen by the same onlooker.

A system takes a Job and brings its pods onto nodes. The clock of a gang runs from just before it is submitted to its
last pod on a node; that of a burst from just before the first of its gangs is submitted, 32 at a time and each by a
request of its own, to the last pod of all on a node. Only the system that is measured runs, beside the control planes
of both clusters. When a gang has been seen its pods are let succeed, and everything of it goes.
"""

import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import yaml

from bench.kubernetes.binding import QUOTA_GPUS
from bench.kubernetes.plane import AT_ONCE, BenchPlane, JobShape, play_end
from bench.kubernetes.watching import PodWatch
from bench.path.cpu import read_cpu
from bench.peers.kueue import MANAGED_BY, NAMESPACE, PLAIN, QUEUE, RACKS, kueue
from e2e.federation import FLAVOR, LEVELS, RACK, agent_process, until
from e2e.federation import QUEUE as QUEUE_TEXT
from hanse.agent.cluster.kubernetes.api import Api, Refused
from hanse.agent.cluster.kubernetes.spread import spread
from hanse.client import AsyncClient
from tests.services.process import ServerProcess

PATIENCE_S: Final = 400.0
JOBS: Final = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
PREFERRED: Final = "kueue.x-k8s.io/podset-preferred-topology"
CONFIG: Final = FLAVOR + "".join(QUEUE_TEXT % (name, QUOTA_GPUS) for name in (RACKS, PLAIN))


@dataclass(frozen=True, slots=True)
class Cluster:
    """One control plane, and the bench's own connection to it."""

    name: str
    plane: BenchPlane
    api: Api


@dataclass(frozen=True, slots=True)
class Ring:
    """Where they meet: a manager without nodes, and the clusters."""

    manager: Cluster
    workers: tuple[Cluster, ...]
    watch: PodWatch
    folder: Path


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one gang or burst took.

    Attributes:
        seconds: from the first submission to the last pod bound.
        submit_s: until all were accepted.
        made_s: until the last pod was made.
        first_s: until the first gang was whole.
        cpu_s: processor seconds by process; `others_cores`: what others computed meanwhile, in processors.
    """

    seconds: float
    submit_s: float
    made_s: float
    first_s: float
    gangs: int
    cpu_s: Mapping[str, float]
    others_cores: float


class System(Protocol):
    """What takes Jobs."""

    @property
    def pids(self) -> Mapping[str, int]:
        """Its own processes, by name."""
        ...

    async def submit(self, job: Mapping[str, Any]) -> None:
        """Give it a Job; returns when it is accepted."""
        ...

    async def clear(self, names: Sequence[str]) -> None:
        """The pods of these have ended: let nothing remain of them."""
        ...


def job_of(shape: JobShape, queue: str) -> dict[str, Any]:
    """A Job as people write it for Kueue; Hanse takes it as it is."""
    topology = {PREFERRED: RACK} if queue == RACKS else {}
    job = shape.body(labels={QUEUE: queue}, **topology)
    job["spec"]["suspend"] = True
    return job


async def contest(ring: Ring, system: System, shapes: Sequence[JobShape], queue: str) -> Outcome:
    """Let a system bring these onto nodes, and end them."""
    planes = {f"{c.name}/{name}": pid for c in (ring.manager, *ring.workers) for name, pid in c.plane.pids.items()}
    pids = {**planes, **system.pids}
    before, begun_s = read_cpu(pids), time.monotonic()

    async def submit(shape: JobShape) -> None:
        await system.submit(job_of(shape, queue))

    await spread(shapes, submit, at_once=AT_ONCE)
    submit_s = time.monotonic() - begun_s
    for shape in shapes:
        await ring.watch.until_bound(shape.name, shape.pods, PATIENCE_S)
    spent = read_cpu(pids).since(before)
    seen = [ring.watch.of(shape.name) for shape in shapes]
    seconds = max(marks.last_bound_s for marks in seen) - begun_s
    outcome = Outcome(
        seconds=round(seconds, 3),
        submit_s=round(submit_s, 3),
        made_s=round(max(marks.last_made_s for marks in seen) - begun_s, 3),
        first_s=round(min(marks.last_bound_s for marks in seen) - begun_s, 3),
        gangs=len(shapes),
        cpu_s={name: round(found, 2) for name, found in spent.own_s.items() if found},
        others_cores=round(spent.others_s / max(1e-3, time.monotonic() - begun_s), 2),
    )
    await end(ring, system, shapes)
    return outcome


async def end(ring: Ring, system: System, shapes: Sequence[JobShape]) -> None:
    """Let them succeed, and wait until their pods are gone."""
    for shape in shapes:
        marks = ring.watch.of(shape.name)
        assert marks.api is not None
        await play_end(marks.api, marks.namespace, [name for name in marks.bound_s if name not in marks.gone_s])
    await system.clear([shape.name for shape in shapes])
    for shape in shapes:
        await ring.watch.until_gone(shape.name, PATIENCE_S)


# ---- the systems -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OneKueue:
    """Kueue on one cluster."""

    cluster: Cluster
    processes: Sequence[ServerProcess]

    @property
    def pids(self) -> Mapping[str, int]:
        return {f"{self.cluster.name}/kueue": self.processes[0].pid}

    async def submit(self, job: Mapping[str, Any]) -> None:
        await self.cluster.api.post(JOBS, dict(job))

    async def clear(self, names: Sequence[str]) -> None:
        await spread(names, partial(_delete, self.cluster), at_once=AT_ONCE)


@dataclass(frozen=True, slots=True)
class MultiKueue:
    """A manager that hands Jobs to its workers; its own API server takes them."""

    ring: Ring
    processes: Sequence[ServerProcess]

    @property
    def pids(self) -> Mapping[str, int]:
        clusters = (self.ring.manager, *self.ring.workers)
        return {f"{c.name}/kueue": process.pid for c, process in zip(clusters, self.processes, strict=True)}

    async def submit(self, job: Mapping[str, Any]) -> None:
        handed = {**job, "spec": {**job["spec"], "managedBy": MANAGED_BY}}
        await self.ring.manager.api.post(JOBS, handed)

    async def clear(self, names: Sequence[str]) -> None:
        for cluster in (self.ring.manager, *self.ring.workers):
            await spread(names, partial(_delete, cluster), at_once=AT_ONCE)


@dataclass(slots=True)
class Hanse:
    """A global replica and an agent for each cluster."""

    replica: ServerProcess
    agents: Sequence[ServerProcess]
    client: AsyncClient
    ids: dict[str, str] = field(default_factory=dict)

    @property
    def pids(self) -> Mapping[str, int]:
        return {process.name: process.pid for process in (self.replica, *self.agents)}

    async def submit(self, job: Mapping[str, Any]) -> None:
        submitted = await self.client.submit(yaml.dump(dict(job), Dumper=yaml.CSafeDumper))
        submitted.raise_refusal()
        self.ids[job["metadata"]["name"]] = submitted.ids[0]

    async def clear(self, names: Sequence[str]) -> None:
        for name in names:
            await self.client.wait(self.ids.pop(name), timeout_s=PATIENCE_S)


@contextmanager
def one_kueue(ring: Ring) -> Iterator[OneKueue]:
    """On the first worker."""
    with kueue(ring.workers[0].plane) as processes:
        yield OneKueue(ring.workers[0], processes)


@contextmanager
def multi_kueue(ring: Ring) -> Iterator[MultiKueue]:
    """Over all workers."""
    with kueue(ring.manager.plane, *(worker.plane for worker in ring.workers)) as processes:
        yield MultiKueue(ring, processes)


@asynccontextmanager
async def hanse(ring: Ring, replica: ServerProcess, address: str, binder: str) -> AsyncIterator[Hanse]:
    """Over all workers; the replica runs."""
    pools = [{"name": worker.name, "levels": list(LEVELS), "binder": binder} for worker in ring.workers]
    agents = [
        agent_process(ring.folder, worker.plane, address, pool, {})
        for worker, pool in zip(ring.workers, pools, strict=True)
    ]
    try:
        for agent in agents:
            agent.start()
        async with AsyncClient(address, token="") as client:
            await healthy(client, {worker.name for worker in ring.workers})
            yield Hanse(replica, agents, client)
    finally:
        for agent in agents:
            agent.kill()


async def healthy(client: AsyncClient, names: set[str]) -> None:
    """Once all of these pools are attached and have told what they have. Raises TimeoutError."""

    async def there() -> bool:
        return names == {p.name for p in await client.pools() if p.attached and p.summary_age_ms >= 0 and p.nodes}

    await until(there, PATIENCE_S)


async def _delete(cluster: Cluster, name: str) -> None:
    """What may be gone already."""
    try:
        await cluster.api.delete(f"{JOBS}/{name}", {"propagationPolicy": "Background"})
    except Refused as refused:
        if refused.code != 404:
            raise
