"""The real controllers of users' job kinds, beside a control plane: CRDs, webhooks and a process for each.

Each runs outside of the cluster as an administrator, without leader election, on ports of its own; it finds its
control plane by KUBECONFIG. CRDs and webhooks are read from the folder of the module that it is built from. Webhooks
are called by URL, with the certificate of the API server, and only those of controllers whose pods or objects would
look otherwise without.

A controller that insists on making its own certificate keeps it in a Secret and waits until a kubelet has mounted
that. No kubelet is here, so files of any certificate lie where it looks: it only asks whether they are there, and
nobody calls it.
"""

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from e2e.api_objects import MANAGER, add_crds, add_namespace, make
from e2e.control_plane import ControlPlane, tool
from e2e.modules import documents, module_folder
from tests.services.process import ServerProcess, accepts, free_ports

FIXED_CERTS: Final = Path("/tmp/k8s-webhook-server/serving-certs")
"""Where controllers look for a mounted certificate that cannot be told another place."""

QPS: Final = 500
MPI_PORT: Final = 8080
"""Of the MPI operator, on every machine; it cannot be told another."""

ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
LOCAL: Final = "127.0.0.1"


@dataclass(frozen=True)
class Place:
    """Where one controller runs.

    Attributes:
        folder: of its own files; also its temporary ones.
        certs: certificates for its webhooks.
    """

    plane: ControlPlane
    folder: Path
    health: int
    webhooks: int

    @property
    def certs(self) -> Path:
        return self.folder / "k8s-webhook-server" / "serving-certs"

    @property
    def hooks(self) -> dict[str, object]:
        """Where its webhooks are served, for a configuration."""
        return {"port": self.webhooks, "host": LOCAL, "certDir": str(self.certs)}

    def config(self, api_version: str, **told: object) -> str:
        """A configuration as most of them take it, in a file."""
        body = {
            "apiVersion": api_version,
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"{LOCAL}:{self.health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"port": self.webhooks, "host": LOCAL},
            "leaderElection": {"leaderElect": False},
            **told,
        }
        path = self.folder / "config.yaml"
        path.write_text(json.dumps(body))
        return f"--config={path}"


@dataclass(frozen=True)
class Controller:
    """One of them.

    Attributes:
        program: its name in e2e/tools/bin.
        group: folder of its go.mod below e2e/tools; `module` is what has its CRDs.
        crds: files or folders in the module.
        flags: what it is started with; may write files and objects first.
        webhooks: file in the module, or none are registered.
        hooked: label of pods that its webhooks look at.
        secret: namespace and name of the Secret of its certificate, where it insists on one.
    """

    program: str
    group: str
    module: str
    crds: Sequence[str]
    flags: Callable[[Place], Sequence[str]]
    webhooks: str = ""
    hooked: str = ""
    secret: tuple[str, str] | None = None

    @property
    def folder(self) -> Path:
        return module_folder(self.group, self.module)

    def definitions(self) -> Iterator[dict[str, Any]]:
        """Its CRDs, of the versions that need no conversion."""
        for path in self.crds:
            for crd in documents(self.folder / path):
                yield _of_one_version(crd, self) if self.program == "kueue" else crd


def _of_one_version(crd: dict[str, Any], _: Controller) -> dict[str, Any]:
    """Only the version that is stored, and a webhook that is never asked: Kueue wants to write its CA there."""
    stored = [version for version in crd["spec"]["versions"] if version["storage"]]
    client = {"url": f"https://{LOCAL}:1/convert"}
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
    return {**crd, "spec": {**crd["spec"], "versions": stored, "conversion": conversion}}


def _jobset(at: Place) -> Sequence[str]:
    told = {"internalCertManagement": {"enable": False}, "clientConnection": {"qps": QPS, "burst": QPS}}
    return [at.config("config.jobset.x-k8s.io/v1alpha1", webhook=at.hooks, **told)]


def _lws(at: Place) -> Sequence[str]:
    told = {"internalCertManagement": {"enable": False}, "clientConnection": {"qps": QPS, "burst": QPS}}
    return [at.config("config.lws.x-k8s.io/v1alpha1", webhook=at.hooks, **told)]


def _trainer(at: Place) -> Sequence[str]:
    told = {"certManagement": {"enable": False}, "clientConnection": {"qps": QPS, "burst": QPS}}
    return [at.config("config.trainer.kubeflow.org/v1alpha1", **told)]


def _kueue(at: Place) -> Sequence[str]:
    told = {
        "clientConnection": {"qps": QPS, "burst": QPS},
        "integrations": {"frameworks": list(KUEUE_FRAMEWORKS)},
        "webhook": at.hooks,
    }
    return [at.config("config.kueue.x-k8s.io/v1beta2", **told), "--feature-gates=VisibilityOnDemand=false"]


def _training_operator(at: Place) -> Sequence[str]:
    return [
        "--metrics-bind-address=0",
        f"--health-probe-bind-address={LOCAL}:{at.health}",
        f"--webhook-server-port={at.webhooks}",
        *(f"--enable-scheme={kind}" for kind in ("pytorchjob", "tfjob", "xgboostjob", "paddlejob", "jaxjob")),
        *(f"--kube-api-qps={QPS}", f"--kube-api-burst={QPS}", "--controller-threads=4"),
    ]


def _mpi(at: Place) -> Sequence[str]:
    assert not accepts(MPI_PORT), f"port {MPI_PORT}, which the MPI operator cannot do without, is taken"
    add_namespace(at.plane, "mpi-operator")
    return [f"--kube-api-qps={QPS}", f"--kube-api-burst={QPS}", f"--controller-queue-rate-limit={QPS}"]


def _ray(at: Place) -> Sequence[str]:
    return [
        *("--metrics-addr=0", f"--health-probe-bind-address={LOCAL}:{at.health}", "--enable-leader-election=false"),
        *(f"--qps={QPS}", f"--burst={QPS}"),
    ]


def _appwrapper(at: Place) -> Sequence[str]:
    """It reads a ConfigMap; without Kueue there is nobody who would admit what it wraps."""
    config = {
        "appwrapper": {"userRBACAdmissionCheck": False, "autopilot": {"monitorNodes": False}},
        "controllerManager": {"health": {"bindAddress": f"{LOCAL}:{at.health}"}, "metrics": {"bindAddress": "0"}},
        "webhooksEnabled": False,
    }
    body = {"metadata": {"name": "settings"}, "data": {"config.yaml": json.dumps(config)}}
    make(at.plane, "/api/v1/namespaces/default/configmaps", body)
    return ["--config=settings"]


KUEUE_FRAMEWORKS: Final = (
    "batch/job",
    "jobset.x-k8s.io/jobset",
    "kubeflow.org/mpijob",
    "kubeflow.org/pytorchjob",
    "kubeflow.org/tfjob",
    "kubeflow.org/xgboostjob",
    "kubeflow.org/paddlejob",
    "kubeflow.org/jaxjob",
    "ray.io/rayjob",
    "ray.io/raycluster",
    "trainer.kubeflow.org/trainjob",
    "workload.codeflare.dev/appwrapper",
)
JOBSET: Final = Controller(
    "jobset",
    "jobset",
    "sigs.k8s.io/jobset",
    ["config/components/crd/bases"],
    _jobset,
    "config/components/webhook/manifests.yaml",
    "jobset.sigs.k8s.io/jobset-name",
)
TRAINING_OPERATOR: Final = Controller(
    "training-operator",
    "training-operator",
    "github.com/kubeflow/training-operator",
    [f"manifests/base/crds/kubeflow.org_{kind}jobs.yaml" for kind in ("pytorch", "tf", "xgboost", "paddle", "jax")],
    _training_operator,
    secret=("kubeflow", "training-operator-webhook-cert"),
)
KUEUE: Final = Controller(
    "kueue",
    "kueue",
    "sigs.k8s.io/kueue",
    ["config/components/crd/bases"],
    _kueue,
    secret=("kueue-system", "kueue-webhook-server-cert"),
)
LWS: Final = Controller(
    "lws",
    "lws",
    "sigs.k8s.io/lws",
    ["config/crd/bases"],
    _lws,
    "config/webhook/manifests.yaml",
    "leaderworkerset.sigs.k8s.io/name",
)
MPI_OPERATOR: Final = Controller(
    "mpi-operator",
    "kueue",
    "github.com/kubeflow/mpi-operator",
    ["manifests/base/kubeflow.org_mpijobs.yaml"],
    _mpi,
)
TRAINER: Final = Controller(
    "trainer",
    "kueue",
    "github.com/kubeflow/trainer/v2",
    ["manifests/base/crds"],
    _trainer,
    "manifests/base/webhook/manifests.yaml",
)
RAY: Final = Controller("kuberay", "ray", "github.com/ray-project/kuberay/ray-operator", ["config/crd/bases"], _ray)
APPWRAPPER: Final = Controller(
    "appwrapper", "appwrapper", "github.com/project-codeflare/appwrapper", ["config/crd/bases"], _appwrapper
)


@contextmanager
def controllers(
    plane: ControlPlane, wanted: Sequence[Controller], env: Mapping[str, str] | None = None
) -> Iterator[dict[str, ServerProcess]]:
    """Run them beside a control plane, by name; ready when each says so.

    Args:
        env: more of the environment of all of them.
    """
    running: dict[str, ServerProcess] = {}
    try:
        for controller in wanted:
            add_crds(plane, controller.definitions())
        for controller in wanted:
            running[controller.program] = _launched(plane, controller, env or {})
        for process in running.values():
            process.wait_ready()
        yield running
    finally:
        for process in running.values():
            process.kill()


def _launched(plane: ControlPlane, controller: Controller, env: Mapping[str, str]) -> ServerProcess:
    program = tool(controller.program)
    folder = plane.folder / controller.program
    health, webhooks = free_ports(2)
    at = Place(plane, folder, health, webhooks)
    _lay_certificates(at, fixed=controller.secret is not None)
    if controller.secret:
        _add_secret(plane, *controller.secret)
    own = {"KUBECONFIG": str(plane.kubeconfig), "TMPDIR": str(folder), "NAMESPACE": "default"}
    health_port = MPI_PORT if controller is MPI_OPERATOR else health
    process = ServerProcess(
        controller.program,
        [program, *controller.flags(at)],
        plane.folder,
        ready=lambda: _is_ready(controller, at, health_port),
        env={**own, **env},
    )
    process.launch()
    if controller.webhooks:
        process.wait_ready()
        _register(at, controller)
    return process


def _is_ready(controller: Controller, at: Place, health: int) -> bool:
    return accepts(health) and (not controller.webhooks or accepts(at.webhooks))


def _lay_certificates(at: Place, *, fixed: bool) -> None:
    for folder in (at.certs, *((FIXED_CERTS,) if fixed else ())):
        folder.mkdir(parents=True, exist_ok=True)
        for name, source in (
            ("tls.crt", at.plane.certificates.server_cert),
            ("tls.key", at.plane.certificates.server_key),
        ):
            if folder is at.certs or not (folder / name).exists():
                (folder / name).write_bytes(source.read_bytes())


def _add_secret(plane: ControlPlane, namespace: str, name: str) -> None:
    add_namespace(plane, namespace)
    make(plane, f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": name}})


def _register(at: Place, controller: Controller) -> None:
    """Its webhooks under names of its own, by URL."""
    ca = base64.b64encode(at.plane.certificates.ca.read_bytes()).decode()
    for found in documents(controller.folder / controller.webhooks):
        name, plural = f"{controller.program}-{found['metadata']['name']}", f"{found['kind'].lower()}s"
        hooks = [_by_url(hook, at, ca, controller.hooked) for hook in found["webhooks"]]
        body = {**found, "metadata": {"name": name}, "webhooks": hooks}
        path = f"{ADMISSION}/{plural}/{name}?{MANAGER}"
        at.plane.call("PATCH", path, body, form="application/apply-patch+yaml")


def _by_url(hook: dict[str, Any], at: Place, ca: str, hooked: str) -> dict[str, Any]:
    path = hook["clientConfig"]["service"]["path"]
    told = {**hook, "clientConfig": {"url": f"https://{LOCAL}:{at.webhooks}{path}", "caBundle": ca}}
    if any("pods" in rule["resources"] for rule in hook["rules"]):
        told["objectSelector"] = {"matchExpressions": [{"key": hooked, "operator": "Exists"}]}
    return told
