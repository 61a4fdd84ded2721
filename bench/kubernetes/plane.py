"""A control plane for benches: a real one with nobody in its way, and thousands of nodes that only exist.

Beside what the end-to-end tests start there is no audit, and there are no kubelets: nodes are created as ready, and
who would mark them, or taint them, for being silent is switched off. So what is measured is what creates and binds
pods. `play_end` ends the pods of a job as their kubelets would.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from e2e.control_plane import TOOLS, ControlPlane
from e2e.federation import RACK
from hanse.agent.cluster.kubernetes.api import Api
from hanse.agent.cluster.kubernetes.spread import spread
from tests.services.process import ServerProcess, accepts, data_folder

QPS: Final = 5_000
BURST: Final = 10_000
"""What clients are raised to: no limit that anything here reaches."""

STOCK: Final = (50, 100)
"""kube-scheduler's own limit, requests a second and at once."""

RACK_NODES: Final = 32
AT_ONCE: Final = 32
GPU: Final = "nvidia.com/gpu"
PRODUCT: Final = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
OFFERS: Final = {"cpu": "96", "memory": "1Ti", "pods": "110", GPU: "8"}
SWITCHED_OFF: Final = ("node-lifecycle-controller", "ttl-controller")
NEEDED: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")


def missing(programs: Sequence[str]) -> list[str]:
    """Which of these programs are not built."""
    folders = os.pathsep.join((os.environ.get("KUBEBUILDER_ASSETS", ""), str(TOOLS)))
    return [name for name in programs if shutil.which(name, path=folders) is None]


class BenchPlane(ControlPlane):
    """See the module."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.stock = self._process(
            "kube-scheduler", self._limited_scheduler(*STOCK), ready=lambda: accepts(self._scheduler)
        )

    @property
    def all(self) -> tuple[ServerProcess, ...]:
        """In the order in which they are started."""
        return self.etcd, self.api_server, self.controllers, self.scheduler

    @property
    def pids(self) -> dict[str, int]:
        """Of what runs, by name."""
        return {part.name: part.pid for part in (*self.all, self.stock) if part.running}

    @property
    def version(self) -> str:
        """Of Kubernetes."""
        return str(self.call("GET", "/version")["gitVersion"])

    def use_scheduler(self, *, stock: bool) -> None:
        """Let the scheduler run with its own limits, or with raised ones."""
        wanted, other = (self.stock, self.scheduler) if stock else (self.scheduler, self.stock)
        other.kill()
        if not wanted.running:
            wanted.start()

    def _api_flags(self) -> list[str]:
        kept = [flag for flag in super()._api_flags() if not flag.startswith("--audit-")]
        return [*kept, "--disable-admission-plugins=TaintNodesByCondition"]

    def _manager_flags(self) -> list[str]:
        limits = [f"--kube-api-qps={QPS}", f"--kube-api-burst={BURST}", "--concurrent-job-syncs=20"]
        return [*super()._manager_flags(), *limits, f"--controllers=*,{','.join(f'-{n}' for n in SWITCHED_OFF)}"]

    def _scheduler_flags(self) -> list[str]:
        return self._limited_scheduler(QPS, BURST)

    def _limited_scheduler(self, qps: int, burst: int) -> list[str]:
        return [*super()._scheduler_flags(), f"--kube-api-qps={qps}", f"--kube-api-burst={burst}"]


@contextmanager
def bench_plane() -> Iterator[BenchPlane]:
    """One that runs, in a folder of its own."""
    with data_folder() as folder:
        plane = BenchPlane(folder)
        try:
            plane.start()
            yield plane
        finally:
            plane.stock.kill()
            plane.stop()


# ---- what is in it -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JobShape:
    """A Job whose pods take a machine each."""

    name: str
    pods: int

    def body(self, *, gate: str = "", labels: dict[str, str] | None = None, **annotations: str) -> dict[str, Any]:
        """As an object.

        Args:
            gate: that its pods wait behind.
            labels: of the object.
            annotations: of its pods.
        """
        asks = {GPU: "8", "cpu": "8", "memory": "64Gi"}
        container = {
            "name": "main",
            "image": "example.com/train:1",
            "command": ["train"],
            "resources": {"requests": asks, "limits": asks},
        }
        spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
        if gate:
            spec["schedulingGates"] = [{"name": gate}]
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": self.name, "labels": labels or {}},
            "spec": {
                "parallelism": self.pods,
                "completions": self.pods,
                "completionMode": "Indexed",
                "backoffLimit": 0,
                "template": {"metadata": {"annotations": annotations}, "spec": spec},
            },
        }


async def add_nodes(api: Api, count: int, **labels: str) -> None:
    """Create ready nodes, in racks."""

    async def one(number: int) -> None:
        await api.post("/api/v1/nodes", _node(number, labels))

    await spread(range(count), one, at_once=AT_ONCE)


def node_name(number: int) -> str:
    """Of one of the nodes."""
    return f"node-{number:05}"


def _node(number: int, labels: dict[str, str]) -> dict[str, Any]:
    name = node_name(number)
    told = {"kubernetes.io/hostname": name, RACK: f"r{number // RACK_NODES:03}", **PRODUCT, **labels}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is ready"}
    calm = [
        {"type": name, "status": "False", "reason": f"KubeletHasNo{name}", "message": f"kubelet has no {name}"}
        for name in ("MemoryPressure", "DiskPressure", "PIDPressure")
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": told},
        "status": {"capacity": OFFERS, "allocatable": OFFERS, "conditions": [ready, *calm]},
    }


async def play_end(api: Api, namespace: str, pods: Sequence[str]) -> None:
    """Let pods succeed, as kubelets would tell it."""

    async def one(name: str) -> None:
        await api.patch(f"/api/v1/namespaces/{namespace}/pods/{name}/status", {"status": {"phase": "Succeeded"}})

    await spread(pods, one, at_once=AT_ONCE)
