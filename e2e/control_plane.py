"""A real Kubernetes control plane on the loopback, for tests: etcd, API server, controllers, scheduler, and kwok.

Nothing of it is ours but the flags. kwok plays the kubelets of nodes that carry a label (`stages.yaml`); logs
of pods come from a small server of our own (`kubelet_logs`), because kwok has one file for all. A control plane is
ready after some seconds; it is stopped by process id, and dies with the test's own process.
"""

import asyncio
import json
import os
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import trustme

from e2e.api_server import CALL_TIMEOUT_S, ApiServer
from e2e.kubelet_logs import kubelet_logs
from tests.arch.tree import ROOT
from tests.services.certificates import Certificates
from tests.services.process import ServerProcess, accepts, data_folder, free_ports

TOOLS: Final = ROOT / "e2e" / "tools" / "bin"
STAGES: Final = ROOT / "e2e" / "stages.yaml"
TOKEN: Final = "for-tests-on-the-loopback"
AUDITED: Final = "system:serviceaccount:hanse-system:hanse-agent"
"""The account whose requests the API server writes down."""

PLAYED: Final = ("kwok.x-k8s.io/node", "played")
"""Label of nodes whose kubelet is played. Not an annotation: kwok does not notice when one is taken away."""

NODE_SILENT_S: Final = 12
"""After so long without a lease a node is Unknown; Kubernetes' own default is 50 s."""

LEASE_S: Final = 16
"""kwok renews a node's lease four times in that."""

KUBELETS_S: Final = 30.0
LOOK_EVERY_S: Final = 0.1
PROBE_TIMEOUT_S: Final = 2.0
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def tool(name: str) -> str:
    """A program that was built for these tests; without it the test is skipped, or fails in CI."""
    folders = [os.environ.get("KUBEBUILDER_ASSETS", ""), str(TOOLS)]
    found = shutil.which(name, path=os.pathsep.join(folder for folder in folders if folder))
    if found is not None:
        return found
    how = f"{name} is not built: run `make {'e2e-jaeger' if name == 'jaeger' else 'e2e-all'}`, or `e2e/tools/build`"
    if os.environ.get("CI"):
        pytest.fail(how)
    pytest.skip(how)


class ControlPlane(ApiServer):
    """See the module.

    Attributes:
        audit_log: every request of AUDITED, a line of JSON for each of its stages.
        log_port: where the API server asks for logs of pods and sessions with them; `kubelet_logs` serves them.
        exec_port: where kwok plays commands.
    """

    def __init__(self, folder: Path, *, lease_s: int = LEASE_S, silent_s: int = NODE_SILENT_S) -> None:
        self.folder = folder
        self._lease_s, self._silent_s = lease_s, silent_s
        self.certificates = Certificates(folder)
        self.audit_log = folder / "audit.log"
        ports = free_ports(7)
        self._etcd, self._peer, self._secure, self._manager, self._scheduler, self._kwok, self.log_port = ports
        self.exec_port = self._kwok
        tls = ssl.create_default_context(cafile=str(self.certificates.ca))
        super().__init__(f"https://127.0.0.1:{self._secure}", folder / "kubeconfig", tls, TOKEN)
        self._write_files()
        self.etcd = self._process("etcd", self._etcd_flags(), ready=lambda: accepts(self._etcd))
        self.api_server = self._process("kube-apiserver", self._api_flags(), ready=lambda: self._healthy("/readyz"))
        self.controllers = self._process(
            "kube-controller-manager", self._manager_flags(), ready=lambda: accepts(self._manager)
        )
        self.scheduler = self._process(
            "kube-scheduler", self._scheduler_flags(), ready=lambda: accepts(self._scheduler)
        )
        self.kwok = self._process("kwok", self._kwok_flags(), ready=lambda: accepts(self._kwok))

    @property
    def all(self) -> tuple[ServerProcess, ...]:
        """In the order in which they are started."""
        return self.etcd, self.api_server, self.controllers, self.scheduler, self.kwok

    def start(self) -> None:
        """Start what does not run, and wait until it serves."""
        for process in (self.etcd, self.api_server):
            if not process.running:
                process.start()
        idle = [process for process in self.all if not process.running]
        for process in idle:
            process.launch()
        for process in idle:
            process.wait_ready()

    def stop(self) -> None:
        for process in reversed(self.all):
            process.kill()

    async def restart_api_server(self) -> None:
        """The API server and its store end without notice, and come back with what they had acknowledged.

        Whoever else lives on them is started anew after that: their waits between tries grow with every restart, to
        half a minute in which they act on what they knew before. To be called in the main thread: a server dies with
        the thread that started it.
        """
        self.api_server.kill()
        self.etcd.kill()
        for process in (self.etcd, self.api_server):
            process.launch()
            await process.wait_ready_async()
        for process in (self.controllers, self.scheduler):
            process.kill()
            process.launch()
        await self.restart_kubelets()
        for process in (self.controllers, self.scheduler):
            await process.wait_ready_async()

    async def restart_kubelets(self) -> None:
        """Let all kubelets be played anew; also of nodes that were given back, which kwok may overlook."""
        self.kwok.kill()
        await asyncio.to_thread(self.call, "DELETE", LEASES)
        self.kwok.launch()
        await self.kwok.wait_ready_async()
        async with asyncio.timeout(KUBELETS_S):
            while not await asyncio.to_thread(self._kubelets_are_back):  # noqa: ASYNC110 - kwok's doing
                await asyncio.sleep(LOOK_EVERY_S)

    def _kubelets_are_back(self) -> bool:
        """Whether every node that is played has its lease: before that kwok may overlook its pods."""
        played = self.call("GET", f"/api/v1/nodes?labelSelector={'='.join(PLAYED)}")["items"]
        leases = self.call("GET", LEASES)["items"]
        return {node["metadata"]["name"] for node in played} <= {lease["metadata"]["name"] for lease in leases}

    def requests_of_pods(self) -> str:
        """What kube-scheduler says that each pod requests, init containers, overhead and defaults counted in."""
        url = f"https://127.0.0.1:{self._scheduler}/metrics/resources"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}"})
        trusting = ssl._create_unverified_context()  # it signs its own certificate
        with urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S, context=trusting) as answer:
            return str(answer.read().decode())

    def make(self, path: str, body: Mapping[str, Any]) -> None:
        """Create an object, which may be there already."""
        try:
            self.call("POST", path, body)
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise

    def wait_for(self, path: str) -> Any:
        """An object, once a controller has made it."""
        until_s = time.monotonic() + CALL_TIMEOUT_S
        while True:
            try:
                return self.call("GET", path)
            except urllib.error.HTTPError as error:
                if error.code != 404 or time.monotonic() > until_s:
                    raise
            time.sleep(LOOK_EVERY_S)

    def has_ended(self, namespace: str, pod: str) -> bool:
        """Whether a pod has ended, or is gone."""
        try:
            phase = self.call("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}")["status"]["phase"]
        except urllib.error.HTTPError:
            return True
        return phase in ("Succeeded", "Failed")

    def _process(self, name: str, flags: list[str], *, ready: Callable[[], bool]) -> ServerProcess:
        return ServerProcess(name, [tool(name), *flags], self.folder, ready=ready)

    def _healthy(self, path: str) -> bool:
        request = urllib.request.Request(self.address + path, headers={"Authorization": f"Bearer {TOKEN}"})
        try:
            with urllib.request.urlopen(request, timeout=PROBE_TIMEOUT_S, context=self._tls) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    # ---- files and flags ----------------------------------------------------------------------------------

    def _write_files(self) -> None:
        (self.folder / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
        (self.folder / "accounts.pem").write_bytes(trustme.CA().private_key_pem.bytes())
        ca = str(self.certificates.ca)
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": {"server": self.address, "certificate-authority": ca}}],
            "users": [{"name": "admin", "user": {"token": TOKEN}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "admin"}}],
            "current-context": "here",
        }
        self.kubeconfig.write_text(json.dumps(config))
        rules = [{"level": "Metadata", "users": [AUDITED]}, {"level": "None"}]
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
        (self.folder / "audit.yaml").write_text(json.dumps(policy))

    def _etcd_flags(self) -> list[str]:
        url, peer = f"http://127.0.0.1:{self._etcd}", f"http://127.0.0.1:{self._peer}"
        return [
            f"--data-dir={self.folder / 'etcd'}",
            *(f"--listen-client-urls={url}", f"--advertise-client-urls={url}"),
            *(
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
            ),
            *("--unsafe-no-fsync", "--log-level=error", f"--quota-backend-bytes={4 << 30}"),
        ]

    def _api_flags(self) -> list[str]:
        accounts = self.folder / "accounts.pem"
        return [
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            *("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={self._secure}"),
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={self.certificates.server_cert}",
            f"--tls-private-key-file={self.certificates.server_key}",
            f"--cert-dir={self.folder}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            *(f"--audit-policy-file={self.folder / 'audit.yaml'}", f"--audit-log-path={self.audit_log}"),
            "--audit-log-mode=blocking",
            "--service-cluster-ip-range=10.96.0.0/16",
            *(f"--service-account-key-file={accounts}", f"--service-account-signing-key-file={accounts}"),
            "--service-account-issuer=https://kubernetes.default.svc",
            "--kubelet-preferred-address-types=InternalIP",
            "--v=0",
        ]

    def _manager_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            *("--leader-elect=false", "--bind-address=127.0.0.1", f"--secure-port={self._manager}"),
            f"--cert-dir={self.folder / 'controllers'}",
            f"--service-account-private-key-file={self.folder / 'accounts.pem'}",
            *(f"--node-monitor-grace-period={self._silent_s}s", "--node-monitor-period=1s"),
            *("--kube-api-qps=500", "--kube-api-burst=1000"),
        ]

    def _scheduler_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            *("--leader-elect=false", "--bind-address=127.0.0.1", f"--secure-port={self._scheduler}"),
            f"--cert-dir={self.folder / 'scheduler'}",
            *(f"--authentication-kubeconfig={self.kubeconfig}", f"--authorization-kubeconfig={self.kubeconfig}"),
            *("--kube-api-qps=500", "--kube-api-burst=1000"),
        ]

    def _kwok_flags(self) -> list[str]:
        return [
            *(f"--kubeconfig={self.kubeconfig}", f"--config={STAGES}"),
            *("--manage-all-nodes=false", f"--manage-nodes-with-label-selector={'='.join(PLAYED)}"),
            *(f"--server-address=127.0.0.1:{self._kwok}", "--node-ip=127.0.0.1"),
            *("--cidr=10.0.0.0/8", f"--node-lease-duration-seconds={self._lease_s}"),
        ]


@contextmanager
def control_plane(*, lease_s: int = LEASE_S, silent_s: int = NODE_SILENT_S) -> Iterator[ControlPlane]:
    """One that runs, in a folder of its own.

    Args:
        lease_s: of nodes; of a thousand nodes, short ones are more work than all that is tested.
        silent_s: after so long without a lease a node is Unknown.
    """
    with data_folder() as folder:
        plane = ControlPlane(folder, lease_s=lease_s, silent_s=silent_s)
        cert, key = str(plane.certificates.server_cert), str(plane.certificates.server_key)
        try:
            plane.start()
            with kubelet_logs(plane.log_port, cert, key, plane.has_ended, plane.exec_port):
                yield plane
        finally:
            plane.stop()
