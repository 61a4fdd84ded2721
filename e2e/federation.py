"""A federation over real API servers: a global replica and an agent for each of them as processes.

What is asked of it goes through its own client and command; what runs is read from the API servers themselves.
"""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from e2e.agent_access import account_token, kubeconfig
from e2e.api_server import ApiServer
from e2e.pod_log import PodLog, pod_log
from hanse.api.v1 import job_pb2, job_spec_pb2, pool_pb2
from hanse.client import AsyncClient
from tests.integration.parts import HANSE, serves
from tests.services.process import ServerProcess, free_ports

PATIENCE_S: Final = 90.0
LOOK_EVERY_S: Final = 0.1
NODE_LOST_S: Final = 2
RACK: Final = "example.com/rack"
LEVELS: Final = ({"key": RACK, "alias": "rack"}, {"key": "kubernetes.io/hostname", "alias": "host"})
FLAVOR: Final = """
apiVersion: hanse/v1
kind: Flavor
name: h100
labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
"""
QUEUE: Final = """---
apiVersion: hanse/v1
kind: Queue
name: %s
quotas: [{flavor: h100, nominal: {nvidia.com/gpu: %d}}]
"""
CONFIG: Final = FLAVOR + QUEUE % ("team", 1_000)
HASTY: Final[Mapping[str, Any]] = {"summary_min_interval_s": 0.2, "node_lost_s": NODE_LOST_S}
"""Settings of agents in tests, where waiting proves nothing."""


@dataclass
class Federation:
    """One global replica, and the agents of real pools, by the names of these."""

    planes: Mapping[str, ApiServer]
    replica: ServerProcess
    agents: Mapping[str, ServerProcess]
    logs: Mapping[str, PodLog]
    address: str

    @property
    def plane(self) -> ApiServer:
        """Where there is but one pool: its control plane."""
        (found,) = self.planes.values()
        return found

    @property
    def agent(self) -> ServerProcess:
        """Where there is but one pool: its agent."""
        (found,) = self.agents.values()
        return found

    @property
    def log(self) -> PodLog:
        """Where there is but one pool: what its auditor has seen."""
        (found,) = self.logs.values()
        return found

    async def job(self, job: str) -> job_pb2.Job:
        async with AsyncClient(self.address, token="") as client:
            return await client.job(job)

    async def submit(
        self,
        name: str,
        pods: int,
        seconds: float,
        *,
        required: str = "",
        image: str = "example.com/train:1",
        cpu: int = 8_000,
    ) -> str:
        """The id of an accepted job of whole hosts; played kubelets run it as long as a real one would."""
        template = job_spec_pb2.PodTemplate(
            image=image,
            command=["sleep", str(seconds)],
            env=[job_spec_pb2.EnvVar(name="HANSE_SIM_RUNTIME_S", value=str(seconds))],
        )
        pod_set = job_spec_pb2.PodSet(
            name="worker",
            count=pods,
            resources={"nvidia.com/gpu": 8, "cpu": cpu},
            topology=job_spec_pb2.Topology(required_level=required),
            template=template,
        )
        async with AsyncClient(self.address, token="") as client:
            submission = await client.submit([job_spec_pb2.JobSpec(name=name, queue="team", pod_sets=[pod_set])])
        assert submission.refusals == ()
        return submission.jobs[0].id

    async def until_state(
        self,
        job: str,
        *states: "job_pb2.JobState.ValueType",
        attempt: int = 1,
        patience_s: float = PATIENCE_S,
    ) -> job_pb2.Job:
        """The job in one of these states, at that attempt or later."""
        found = job_pb2.Job()

        async def there() -> bool:
            nonlocal found
            found = await self.job(job)
            return found.status.state in states and found.status.attempt >= attempt

        await until(there, patience_s)
        return found

    def pods(self, job: str) -> list[dict[str, Any]]:
        """As the API servers have them."""
        selector = f"/api/v1/pods?labelSelector=hanse.dev/job={job}"
        return [pod for plane in self.planes.values() for pod in plane.call("GET", selector)["items"]]

    def named_nodes(self, job: str) -> dict[int, str]:
        """Node of each rank of a job of one pod set, as `hanse job JOB --nodes` tells."""
        return {rank: node for (_, rank), node in self.named_places(job).items()}

    def named_places(self, job: str) -> dict[tuple[str, int], str]:
        """Node of each pod set and rank, as `hanse job JOB --nodes` tells."""
        told = self.command("job", job, "--nodes", "-o", "json")["nodes"]
        return {(node["pod_set"], int(rank)): node["name"] for node in told for rank in node["ranks"]}

    def command(self, *words: str) -> Any:
        """What a command of ours answers, as JSON."""
        done = subprocess.run(
            [*HANSE, *words, "--server", self.address], capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 0, f"hanse {' '.join(words)}: {done.stderr}{done.stdout}"
        return json.loads(done.stdout)


async def until(holds: Callable[[], Awaitable[bool]], patience_s: float = PATIENCE_S) -> None:
    """Wait for a condition that other processes bring about."""
    async with asyncio.timeout(patience_s):
        while not await holds():  # noqa: ASYNC110 - other processes' doing
            await asyncio.sleep(LOOK_EVERY_S)


@asynccontextmanager
async def federation_over(
    planes: Mapping[str, ApiServer], folder: Path, config: str = CONFIG, levels: Sequence[Mapping[str, str]] = LEVELS
) -> AsyncIterator[Federation]:
    """One that is healthy in every pool; at the end no auditor may have seen a rank twice or attempts that overlap.

    Args:
        config: flavors and queues.
        levels: of every pool, coarse to fine.
    """
    address = f"127.0.0.1:{free_ports(1)[0]}"
    replica = replica_process(folder, address)
    agents = {
        pool: agent_process(folder, plane, address, {"name": pool, "levels": list(levels)})
        for pool, plane in planes.items()
    }
    with ExitStack() as stack:
        logs = {pool: stack.enter_context(pod_log(plane)) for pool, plane in planes.items()}
        running = Federation(planes, replica, agents, logs, address)
        try:
            replica.start()
            for agent in agents.values():
                agent.start()
            await _ready(running, config)
            yield running
            for log in logs.values():
                log.check()
        finally:
            for process in (*agents.values(), replica):
                process.kill()


def replica_process(folder: Path, address: str) -> ServerProcess:
    """A global replica over a file of its own."""
    store = ["--store", f"sqlite:{folder / 'store.sqlite'}", "--replica", "r0"]
    command = [*HANSE, "global", *store, "--listen", address, "--log-format", "json"]
    return ServerProcess("global", command, folder, ready=lambda: serves(address, ""))


def agent_process(
    folder: Path, plane: ApiServer, address: str, pool: Mapping[str, Any], settings: Mapping[str, Any] = HASTY
) -> ServerProcess:
    """An agent with the rights that users are told to give it.

    Args:
        pool: as in the agent's settings.
        settings: all others.
    """
    name = pool["name"]
    written = folder / f"agent-{name}.yaml"
    access = kubeconfig(plane, folder / f"kubeconfig-{name}", {"token": account_token(plane)})
    told = {"cluster": f"kubeconfig:{access}#here", "replicas": [address], "pools": [pool], **settings}
    written.write_text(json.dumps(told))
    command = [*HANSE, "agent", "--config", str(written), "--log-format", "json"]
    return ServerProcess(f"agent-{name}", command, folder, ready=lambda: True)


async def _ready(running: Federation, config: str) -> None:
    async with AsyncClient(running.address, token="") as client:
        await client.apply(config)

        async def healthy() -> bool:
            found = {pool.name for pool in await client.pools() if pool.health is pool_pb2.POOL_HEALTH_HEALTHY}
            return found == set(running.planes)

        await until(healthy)
