"""Kueue beside control planes, told what lets it go fast: raised client limits, more workers than as delivered.

On each worker are two cluster queues over all of its nodes: `racks` places by topology (levels rack and machine),
`plain` counts quota alone. On a manager `plain` is handed to the workers by MultiKueue. No quota is ever reached.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import yaml

from bench.kubernetes.plane import BURST, GPU, PRODUCT, QPS, BenchPlane
from e2e.api_objects import add_namespace, apply, make, wait
from e2e.control_plane import TOKEN
from e2e.controllers import KUEUE, Place, controllers
from e2e.federation import RACK
from tests.services.process import ServerProcess

API: Final = "kueue.x-k8s.io/v1beta2"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
MANAGED_BY: Final = "kueue.x-k8s.io/multikueue"
RACKS: Final = "racks"
PLAIN: Final = "plain"
NAMESPACE: Final = "bench"
SYSTEM: Final = "kueue-system"
WORKERS_AT_ONCE: Final = 20
CONCURRENCY: Final = ("Job.batch", "Pod", "Workload.kueue.x-k8s.io")


def _flags(at: Place) -> list[str]:
    told = {
        "clientConnection": {"qps": QPS, "burst": BURST},
        "controller": {"groupKindConcurrency": dict.fromkeys(CONCURRENCY, WORKERS_AT_ONCE)},
        "integrations": {"frameworks": ["batch/job"]},
        "webhook": at.hooks,
    }
    return [at.config("config.kueue.x-k8s.io/v1beta2", **told), "--feature-gates=VisibilityOnDemand=false"]


@contextmanager
def kueue(*planes: BenchPlane) -> Iterator[list[ServerProcess]]:
    """A Kueue for each, while the block runs."""
    if not planes:
        yield []
        return
    with controllers(planes[0], [replace(KUEUE, flags=_flags)]) as running, kueue(*planes[1:]) as others:
        yield [running[KUEUE.program], *others]


def settings() -> Mapping[str, Any]:
    """What it was told."""
    return {"clientConnection": {"qps": QPS, "burst": BURST}, "groupKindConcurrency": WORKERS_AT_ONCE}


def set_up_worker(plane: BenchPlane) -> None:
    """The queues of a cluster that has nodes; its Kueue runs."""
    levels = [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]
    apply(plane, _object("Topology", RACKS, {"levels": levels}))
    apply(plane, _object("ResourceFlavor", RACKS, {"nodeLabels": dict(PRODUCT), "topologyName": RACKS}))
    apply(plane, _object("ResourceFlavor", PLAIN, {}))
    for name in (RACKS, PLAIN):
        _add_queue(plane, name, {})
    wait(lambda: all(_is_active(plane, "clusterqueues", name) for name in (RACKS, PLAIN)), "queues of a worker")


def set_up_manager(plane: BenchPlane, workers: Mapping[str, BenchPlane]) -> None:
    """A manager of these; its Kueue runs, and theirs."""
    for name, worker in workers.items():
        secret = {"metadata": {"name": name}, "data": {"kubeconfig": _kubeconfig(worker)}}
        make(plane, f"/api/v1/namespaces/{SYSTEM}/secrets", secret)
        source = {"kubeConfig": {"location": name, "locationType": "Secret"}}
        apply(plane, _object("MultiKueueCluster", name, {"clusterSource": source}))
    apply(plane, _object("MultiKueueConfig", PLAIN, {"clusters": list(workers)}))
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": PLAIN}
    apply(plane, _object("AdmissionCheck", PLAIN, {"controllerName": MANAGED_BY, "parameters": parameters}))
    apply(plane, _object("ResourceFlavor", PLAIN, {}))
    _add_queue(plane, PLAIN, {"admissionChecksStrategy": {"admissionChecks": [{"name": PLAIN}]}})
    wait(lambda: _is_active(plane, "clusterqueues", PLAIN), "the manager's queue")


def _add_queue(plane: BenchPlane, name: str, more: Mapping[str, Any]) -> None:
    resources = [{"name": what, "nominalQuota": "1000000000"} for what in ("cpu", "memory", GPU)]
    resources[1]["nominalQuota"] = "1000000Ti"
    group = {
        "coveredResources": [one["name"] for one in resources],
        "flavors": [{"name": name, "resources": resources}],
    }
    apply(plane, _object("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": [group], **more}))
    add_namespace(plane, NAMESPACE)
    apply(plane, _object("LocalQueue", name, {"clusterQueue": name}), NAMESPACE)


def _object(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}


def _is_active(plane: BenchPlane, kind: str, name: str) -> bool:
    found = plane.call("GET", f"/apis/{API}/{kind}/{name}")
    conditions = found.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Active" and one["status"] == "True" for one in conditions)


def _kubeconfig(plane: BenchPlane) -> str:
    """With everything inside, as a Secret holds it."""
    config = yaml.safe_load(plane.kubeconfig.read_text(encoding="utf-8"))
    cluster = config["clusters"][0]["cluster"]
    del cluster["certificate-authority"]
    cluster["certificate-authority-data"] = base64.b64encode(plane.certificates.ca.read_bytes()).decode()
    config["users"][0]["user"] = {"token": TOKEN}
    return base64.b64encode(json.dumps(config).encode()).decode()
