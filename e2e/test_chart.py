"""The chart: linted, rendered over a matrix of values, installed on a real API server that is strict about pods."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.control_plane import LOOK_EVERY_S, ControlPlane, tool
from hanse.up.access_file import parse_policy
from hanse.up.agent_settings import AgentSettings
from hanse.up.global_settings import GlobalSettings
from hanse.up.settings import load

CHART = Path(__file__).resolve().parents[1] / "helm" / "hanse"
ROLE = CHART.parents[1] / "docs" / "examples" / "agent-role.yaml"
NAMESPACE = "hanse"
TEMPLATE = ("template", "here", str(CHART), "--kube-version", "1.36.0")
PODS_DEADLINE_S = 60.0
AGENT_CHARS = len("here-hanse-agent")
STORE = {"replica.store": "etcd://etcd.example:2379"}
TOKENS = {**STORE, "replica.tokensSecret": "tokens"}
ISSUED = {**STORE, "replica.tls.issuer.name": "hanse"}
AGENT = {"agent.enabled": "true", "agent.pool": "oslo"}
FAR = {"replica.enabled": "false", **AGENT, "agent.replicas": "{10.0.0.1:7311,10.0.0.2:7311}"}
MATRIX = {
    "tokens": TOKENS,
    "certificates of cert-manager": ISSUED,
    "certificates, tokens for users": {**ISSUED, **TOKENS, "replica.tls.clients": "false"},
    "a Secret of certificates": {**STORE, "replica.tls.secret": "tls"},
    "a Secret with the store": {"replica.storeSecret": "store", "replica.tokensSecret": "tokens"},
    "one replica": {**TOKENS, "replica.count": "1", "replica.archive.size": "", "networkPolicy.enabled": "false"},
    "replicas that show tokens": {**TOKENS, "replica.peerTokenSecret": "peer", "replica.bus": "mqtt://broker:1883"},
    "both": {**TOKENS, **AGENT, "agent.tokenSecret": "agent"},
    "both, with certificates": {**ISSUED, **AGENT, "agent.tls.issuer.name": "hanse"},
    "an agent alone": {**FAR, "agent.tls.secret": "oslo", "agent.region": "north", "agent.bus": "mqtts://b:8883"},
    "replicas that sign": {**ISSUED, "replica.authority.secret": "hanse-ca"},
    "an agent that joins": {**FAR, "agent.join.address": "hanse.example:7312", "agent.join.tokenSecret": "join"},
    "a console": {**ISSUED, **TOKENS, "replica.console.enabled": "true", "replica.console.port": "8443"},
    "settings": {**TOKENS, "replica.settings.lease_ttl_s": "15", "otlp": "collector:4317"},
    "users of an issuer": {
        **ISSUED,
        "replica.tls.clients": "false",
        "replica.settings.oidc_issuer": "https://login.example.org",
        "replica.settings.oidc_audience": "hanse",
        "replica.access.bindings[0].role": "submitter",
        "replica.access.bindings[0].groups": "{oidc:vision}",
        "replica.access.bindings[0].queues": "{vision,nlp-*}",
        "replica.access.queues.vision.namespaces": "{vision}",
    },
    "monitored": {**TOKENS, **{f"metrics.{part}.enabled": "true" for part in ("podMonitor", "rules", "dashboards")}},
}


def helm(*words: str, values: dict[str, str] | None = None, ok: bool = True) -> str:
    sets = [word for name, value in (values or {}).items() for word in ("--set", f"{name}={value}")]
    command = [tool("helm"), *words, *sets]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode == 0) is ok, done.stderr or done.stdout
    return done.stdout if ok else done.stderr


def rendered(values: dict[str, str]) -> list[dict[str, Any]]:
    text = helm(*TEMPLATE, "--namespace", NAMESPACE, values=values)
    return [one for one in yaml.safe_load_all(text) if one]


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [one for one in objects if one["kind"] == kind]


@pytest.mark.parametrize("name", MATRIX)
def test_it_lints_over_a_matrix_of_values(name: str) -> None:
    helm("lint", "--strict", str(CHART), values=MATRIX[name])


@pytest.mark.parametrize("name", MATRIX)
def test_the_processes_take_the_settings_that_it_writes(name: str, tmp_path: Path) -> None:
    found = 0
    for config in of_kind(rendered(MATRIX[name]), "ConfigMap"):
        for file, text in config["data"].items():
            if file.endswith(".json"):
                assert json.loads(text)["panels"]
                continue
            if file == "access.yaml":
                assert len(parse_policy(text).bindings) == (1 if name == "users of an issuer" else 0)
                continue
            (tmp_path / file).write_text(text)
            model = GlobalSettings if file == "global.yaml" else AgentSettings
            store = {"store": "etcd://x:1"} if model is GlobalSettings else {}
            load(model, file=tmp_path / file, flags=store, environment={})
            found += 1
    assert found == sum(1 for part in ("replica", "agent") if _has(part, MATRIX[name]))


def _has(part: str, values: dict[str, str]) -> bool:
    return values.get(f"{part}.enabled", "true" if part == "replica" else "false") == "true"


@pytest.mark.parametrize("name", MATRIX)
def test_what_pods_mount_and_name_is_there(name: str) -> None:
    """Each mount has its volume, each file of the settings a mount, each account and Service its object."""
    objects = rendered(MATRIX[name])
    accounts = {one["metadata"]["name"] for one in of_kind(objects, "ServiceAccount")}
    for one in (*of_kind(objects, "StatefulSet"), *of_kind(objects, "Deployment")):
        pod = one["spec"]["template"]["spec"]
        claims = [claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates", ())]
        volumes = {*(volume["name"] for volume in pod["volumes"]), *claims}
        (container,) = pod["containers"]
        before = [mount["name"] for first in pod.get("initContainers", ()) for mount in first["volumeMounts"]]
        assert {*(mount["name"] for mount in container["volumeMounts"]), *before} == volumes
        assert pod["serviceAccountName"] in accounts
        mounts = tuple(mount["mountPath"] for mount in container["volumeMounts"])
        (config,) = [
            config["data"]
            for config in of_kind(objects, "ConfigMap")
            if config["metadata"]["name"] == one["metadata"]["name"]
        ]
        for text in config.values():
            files = [v for v in yaml.safe_load(text).values() if isinstance(v, str) and v.startswith("/etc/hanse/")]
            assert all(file.startswith(mounts) for file in files)


def test_an_agent_gets_the_rights_of_the_documented_role_and_no_others() -> None:
    (role,) = of_kind(rendered(MATRIX["both"]), "ClusterRole")
    assert role["rules"] == yaml.safe_load(ROLE.read_text())["rules"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "replica.store: name the store"),
        ({**ISSUED, "replica.console.enabled": "true"}, "replica.console: browsers show no certificate"),
        (STORE, "replica.tokensSecret: name a Secret of tokens"),
        ({**ISSUED, "replica.tls.clients": "false"}, "replica.tokensSecret"),
        ({**TOKENS, "agent.enabled": "true"}, "agent.pool: name the pool"),
        ({"replica.enabled": "false", **AGENT}, "agent.replicas: name HOST:PORT"),
        ({**TOKENS, "replica.authority.secret": "hanse-ca"}, "replica.authority: whoever signs"),
        ({**FAR, "agent.join.address": "hanse.example:7312"}, "agent.join.tokenSecret: name a Secret"),
        ({**FAR, "agent.join.address": "h:1", "agent.join.tokenSecret": "t", "agent.tls.secret": "s"}, "not by both"),
        ({**TOKENS, "replica.count": "0"}, "count"),
        ({**TOKENS, "replica.access.bindings[0].role": "king"}, "role"),
        ({**TOKENS, "replica.access.bindings[0].user": "ana"}, "user"),
        ({**TOKENS, "replica.replicas": "3"}, "replicas"),
        ({**TOKENS, "replica.store": "http://x"}, "store"),
        ({**TOKENS, **AGENT, "agent.pool": "Oslo_1"}, "pool"),
    ],
)
def test_values_that_cannot_be_are_refused_by_name(values: dict[str, str], said: str) -> None:
    assert said in helm(*TEMPLATE, values=values, ok=False)


@pytest.fixture
def strict(plane: ControlPlane) -> Iterator[list[str]]:
    """Flags of helm for a namespace that takes restricted pods alone."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    plane.make("/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": labels}})
    yield ["--kubeconfig", str(plane.kubeconfig), "--namespace", NAMESPACE]
    plane.call("DELETE", f"/api/v1/namespaces/{NAMESPACE}")


def test_it_is_installed_upgraded_rolled_back_and_gone(plane: ControlPlane, strict: list[str]) -> None:
    values = {**TOKENS, **AGENT, "replica.archive.size": ""}
    helm("install", "here", str(CHART), *strict, values=values)
    pods = _pods(plane, 4)
    assert sorted(pods) == ["here-hanse-0", "here-hanse-1", "here-hanse-2", "here-hanse-agent"]
    helm("upgrade", "here", str(CHART), *strict, values={**values, "replica.count": "4"})
    assert "here-hanse-3" in _pods(plane, 5)
    helm("rollback", "here", "1", *strict)
    _pods(plane, 4)
    history = json.loads(helm("history", "here", "-o", "json", *strict))
    assert [one["description"] for one in history][-1] == "Rollback to 1"
    helm("uninstall", "here", *strict)
    _pods(plane, 0)


def _pods(plane: ControlPlane, count: int) -> list[str]:
    """Names of the pods once there are so many; of a Deployment's without what it appends."""
    ends_s = time.monotonic() + PODS_DEADLINE_S
    while True:
        found = plane.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
        live = [pod["metadata"] for pod in found if "deletionTimestamp" not in pod["metadata"]]
        if len(live) == count:
            return [pod["name"][: AGENT_CHARS if "agent" in pod["name"] else None] for pod in live]
        assert time.monotonic() < ends_s, f"{len(live)} pods instead of {count}"
        time.sleep(LOOK_EVERY_S)
