"""The contract suite's home on a real API server: the same nodes as the simulated homes', the same acts of fate.

All tests share one control plane, because starting one costs more than a test; before each of them everything that
Hanse or a test left in it is wiped away.
"""

import asyncio
import urllib.error
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from e2e import nodes
from e2e.control_plane import PLAYED, ControlPlane
from hanse.agent.cluster.kubernetes.api import Kubeconfig
from hanse.agent.cluster.kubernetes.cluster import KubernetesCluster
from hanse.agent.cluster.kubernetes.kinds import KNOWN, folder_of
from hanse.agent.cluster.kubernetes.settings import KubernetesSettings
from hanse.agent.cluster.port import ClusterPort, PodRun
from hanse.model.beside import Need, NeedKind
from hanse.model.resources import Resources
from hanse.simcluster.programs import EXIT_ENV, RUNTIME_ENV
from tests.contract.cluster_port.homes import DEVICES, HOST, LEVELS, NODES

HASTY: Final = KubernetesSettings(node_lost_s=0.5, refused_s=2.0)
"""What takes minutes on real machines would only be waited for here."""

JSON: Final = "application/json"
JOBS: Final = "hanse-jobs"
"""Where gangs of no queue go; strangers are put there before any agent makes it."""

_GONE_AT_ONCE: Final = {"gracePeriodSeconds": 0}


def hosts() -> Iterator[nodes.Host]:
    """Two racks of four hosts."""
    racks = 2
    for rack in range(racks):
        for host in range(NODES // racks):
            name = f"node-r{rack}-h{host}"
            labels = {LEVELS[0]: f"r{rack}", LEVELS[1]: name, "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
            yield nodes.Host(name, labels, HOST, DEVICES)


class KubernetesHome:
    """See the module."""

    durable = True
    whole_sessions = False  # kwok keeps commands' input open, and tells of one that fails as of an error of its own

    def __init__(self, plane: ControlPlane, settings: KubernetesSettings = HASTY) -> None:
        self.plane = plane
        self._settings = settings
        self._ports: list[KubernetesCluster] = []

    def port(self, settings: KubernetesSettings | None = None) -> ClusterPort:
        port = KubernetesCluster(Kubeconfig(self.plane.kubeconfig), "pool", settings or self._settings)
        self._ports.append(port)
        return port

    def run(self, pod_set: str, *, seconds: float, exit_code: int = 0) -> PodRun:
        env = ((RUNTIME_ENV, str(seconds)), (EXIT_ENV, str(exit_code)))
        return PodRun(pod_set, "example.com/train:1", ("python", "train.py"), (), env)

    async def fail(self, node: str) -> None:
        await asyncio.to_thread(nodes.fail, self.plane, node)

    async def restore(self, node: str) -> None:
        await asyncio.to_thread(nodes.restore, self.plane, node)

    async def unready(self, node: str) -> None:
        await asyncio.to_thread(nodes.unready, self.plane, node)

    @asynccontextmanager
    async def removed(self, node: str) -> AsyncIterator[None]:
        """Somebody removes it from the cluster, and after that puts another machine in its place."""
        await self._call("DELETE", f"{nodes.NODES}/{node}")
        try:
            yield
        finally:
            host = next(host for host in hosts() if host.name == node)
            await asyncio.to_thread(nodes.add_nodes, self.plane, [host])

    async def cordon(self, node: str) -> None:
        await self._call("PATCH", f"{nodes.NODES}/{node}", {"spec": {"unschedulable": True}})

    async def add_foreign(self, name: str, node: str, resources: Resources) -> None:
        told = nodes.quantities(resources)
        container = {"name": "main", "image": "example.com/theirs:1", "resources": {"requests": told, "limits": told}}
        env = [{"name": RUNTIME_ENV, "value": "600"}]
        spec = {"nodeName": node, "containers": [{**container, "env": env}]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        await self._call("POST", "/api/v1/namespaces/default/pods", body)

    async def remove_foreign(self, name: str) -> None:
        await self._call("DELETE", f"/api/v1/namespaces/default/pods/{name}", _GONE_AT_ONCE)

    async def withhold(self, needs: Sequence[Need]) -> None:
        for need in needs:
            await asyncio.to_thread(self.plane.delete, f"{_folder(need)}/{need.name}")

    async def provide(self, need: Need) -> None:
        extra = {"value": 9} if need.kind is NeedKind.PRIORITY_CLASS else {}
        await self._call("POST", _folder(need), {"metadata": {"name": need.name}, **extra})

    async def restart(self) -> None:
        await self.plane.restart_api_server()

    async def close(self) -> None:
        for port in self._ports:
            await port.close()

    async def wipe(self) -> None:
        """As if nothing had ever been here. To be called in the main thread, as kwok may be started."""
        played = all(
            PLAYED[0] in node["metadata"]["labels"] for node in await asyncio.to_thread(nodes.nodes, self.plane)
        )
        await asyncio.to_thread(wipe, self.plane)
        if not played:
            await self.plane.restart_kubelets()
        await asyncio.to_thread(nodes.wait_usable, self.plane)

    async def _call(self, method: str, path: str, body: object = None) -> Any:
        return await asyncio.to_thread(self.plane.call, method, path, body)


def _folder(need: Need) -> str:
    if need.kind is NeedKind.PRIORITY_CLASS:
        return "/apis/scheduling.k8s.io/v1/priorityclasses"
    kinds = {NeedKind.SECRET: "secrets", NeedKind.SERVICE_ACCOUNT: "serviceaccounts"}
    return f"/api/v1/namespaces/default/{kinds[need.kind]}"


def wipe(plane: ControlPlane) -> None:
    """Remove everybody's pods and what Hanse keeps; make every node usable."""
    _wipe_jobs(plane)
    for pod in plane.call("GET", "/api/v1/pods")["items"]:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        with suppress(urllib.error.HTTPError):  # it may be gone by then
            plane.call("PATCH", path, {"metadata": {"finalizers": None}})
        plane.delete(path, _GONE_AT_ONCE)
    for kind in ("configmaps", "services"):
        for found in plane.call("GET", f"/api/v1/{kind}?labelSelector=hanse.dev/pool")["items"]:
            plane.delete(f"/api/v1/namespaces/{found['metadata']['namespace']}/{kind}/{found['metadata']['name']}")
    plane.make("/api/v1/namespaces", {"metadata": {"name": JOBS}})
    plane.wait_for(f"/api/v1/namespaces/{JOBS}/serviceaccounts/default")
    for node in nodes.nodes(plane):
        nodes.restore(plane, node["metadata"]["name"])


def _wipe_jobs(plane: ControlPlane) -> None:
    """Those that make pods go first, or they make them anew."""
    for kind in KNOWN:
        try:
            found = plane.call("GET", folder_of(*kind))["items"]
        except urllib.error.HTTPError:  # it is not served here
            continue
        for one in found:
            path = f"{folder_of(*kind, one['metadata']['namespace'])}/{one['metadata']['name']}"
            plane.delete(path, {"propagationPolicy": "Background"})
            with suppress(urllib.error.HTTPError):  # it may be gone by then
                plane.call("PATCH", path, {"metadata": {"finalizers": None}})
