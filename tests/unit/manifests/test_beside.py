"""What a job needs of its cluster, what travels with it, and what is not taken along."""

import json
from dataclasses import replace

import pytest

from hanse.manifests import convert
from hanse.model.beside import Companion, Need, NeedKind
from hanse.model.errors import InvalidArgument
from hanse.model.validate import validate_spec
from tests.unit.manifests.texts import batch_job, converted, job_of, refusal

CONF = "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\ndata: {lr: '1e-3'}\n"
SERVICE = (
    "\n---\napiVersion: v1\nkind: Service\nmetadata: {name: svc}\n"
    "spec: {clusterIP: None, selector: {app: train}, ports: [{port: 80}]}\n"
)
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: token}\nstringData: {t: x}\n"
NAMES_CONF = "volumes: [{name: c, configMap: {name: conf}}]"


@pytest.mark.parametrize(
    ("pod", "kind", "name", "path"),
    [
        ("serviceAccountName: runner", NeedKind.SERVICE_ACCOUNT, "runner", "serviceAccountName"),
        ("serviceAccount: old", NeedKind.SERVICE_ACCOUNT, "old", "serviceAccount"),
        ("priorityClassName: high", NeedKind.PRIORITY_CLASS, "high", "priorityClassName"),
        ("runtimeClassName: kata", NeedKind.RUNTIME_CLASS, "kata", "runtimeClassName"),
        ("imagePullSecrets: [{name: pull}]", NeedKind.SECRET, "pull", "imagePullSecrets[0].name"),
        (
            "volumes: [{name: v, secret: {secretName: s}}]",
            NeedKind.SECRET,
            "s",
            "volumes[0].secret.secretName",
        ),
        (
            "volumes: [{name: v, persistentVolumeClaim: {claimName: d}}]",
            NeedKind.PERSISTENT_VOLUME_CLAIM,
            "d",
            "volumes[0].persistentVolumeClaim.claimName",
        ),
        (
            "volumes: [{name: v, projected: {sources: [{configMap: {name: m}}]}}]",
            NeedKind.CONFIG_MAP,
            "m",
            "volumes[0].projected.sources[0].configMap.name",
        ),
        (
            "containers: [{name: a, envFrom: [{secretRef: {name: e}}]}]",
            NeedKind.SECRET,
            "e",
            "containers[0].envFrom[0].secretRef.name",
        ),
        (
            "containers: [{name: a, env: [{name: T, valueFrom: {configMapKeyRef: {name: k, key: t}}}]}]",
            NeedKind.CONFIG_MAP,
            "k",
            "containers[0].env[0].valueFrom.configMapKeyRef.name",
        ),
        (
            "initContainers: [{name: i, envFrom: [{configMapRef: {name: m}}]}]",
            NeedKind.CONFIG_MAP,
            "m",
            "initContainers[0].envFrom[0].configMapRef.name",
        ),
    ],
)
def test_what_a_pod_names_is_a_need_with_its_place(pod: str, kind: NeedKind, name: str, path: str) -> None:
    job = job_of(batch_job(pod))
    assert job.spec.needs == (Need(kind, name),)
    assert job.where("needs[0]").path == f"spec.template.spec.{path}"
    assert job.where("needs[0]").line


@pytest.mark.parametrize(
    "pod",
    [
        "serviceAccountName: default",
        "volumes: [{name: v, secret: {secretName: s, optional: true}}]",
        "containers: [{name: a, envFrom: [{configMapRef: {name: m, optional: true}}]}]",
        "volumes: [{name: v, emptyDir: {}}]",
    ],
)
def test_what_may_be_missing_is_no_need(pod: str) -> None:
    assert job_of(batch_job(pod)).spec.needs == ()


def test_a_need_that_is_no_name_is_refused_where_it_stands() -> None:
    assert refusal(batch_job("serviceAccountName: No Name")) == (
        "NAME_INVALID",
        "spec.template.spec.serviceAccountName",
        15,
    )


def test_a_single_job_takes_all_that_travels() -> None:
    spec = job_of(batch_job(NAMES_CONF) + CONF + SERVICE).spec
    assert [(c.kind, c.name) for c in spec.companions] == [("ConfigMap", "conf"), ("Service", "svc")]
    assert spec.needs == spec.every_need == ()
    assert json.loads(spec.companions[0].text)["data"] == {"lr": "1e-3"}
    assert json.loads(spec.companions[1].text)["spec"]["clusterIP"] == "None"
    assert spec.manifest is not None
    assert "ConfigMap" not in spec.manifest.text


def test_of_several_jobs_each_takes_what_it_uses() -> None:
    other = batch_job().replace("train", "other")
    first, second = converted(batch_job(NAMES_CONF) + "\n---\n" + other + CONF + SERVICE).jobs
    assert [c.name for c in first.spec.companions] == ["conf", "svc"]
    assert second.spec.companions == ()


def test_what_no_job_uses_is_refused() -> None:
    both = batch_job() + "\n---\n" + batch_job().replace("train", "other")
    assert refusal(both + CONF)[0] == "NO_SUCH_JOB"
    assert refusal(CONF)[0] == "NO_SUCH_JOB"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (SECRET, 2),
        ("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: x}}", 4),
        (
            "apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nmetadata: {name: w}\nspec:\n"
            "  components:\n  - template: {apiVersion: v1, kind: Secret, metadata: {name: x}}",
            6,
        ),
        (batch_job() + "\n---\n" + SECRET, 18),
    ],
)
def test_a_secret_is_refused_with_what_to_do(text: str, line: int) -> None:
    with pytest.raises(InvalidArgument, match="create it in the cluster") as caught:
        convert(text)
    assert (caught.value.reason, caught.value.line) == ("SECRET", line)
    assert caught.value.path.endswith("kind")


@pytest.mark.parametrize(
    ("beside", "reason"),
    [
        (SERVICE.replace("clusterIP: None", "type: LoadBalancer"), "COMPANION_INVALID"),
        (SERVICE.replace("clusterIP: None", "externalIPs: [10.0.0.1]"), "COMPANION_INVALID"),
        (SERVICE.replace("selector: {app: train}, ", ""), "COMPANION_INVALID"),
        (CONF + CONF, "DUPLICATE"),
        (CONF.replace("1e-3", "x" * 50_000), "TOO_LARGE"),
        (CONF.replace("{name: conf}", "{name: conf, namespace: b}"), "CONTRADICTION"),
        ("".join(CONF.replace("conf", f"c{n}") for n in range(17)), "TOO_MANY"),
    ],
)
def test_what_cannot_travel_is_refused_at_its_object(beside: str, reason: str) -> None:
    found, path, line = refusal(batch_job(NAMES_CONF, head="namespace: a") + beside)
    assert (found, path) == (reason, "kind")
    assert line > 15


def test_the_server_refuses_what_a_client_lets_pass() -> None:
    spec = job_of(batch_job()).spec
    secret = Companion("Secret", "token", '{"kind":"Secret"}')
    with pytest.raises(InvalidArgument, match="create it in the cluster"):
        validate_spec(replace(spec, companions=(secret,)), queue_required=False)
    liar = Companion("ConfigMap", "token", '{"kind":"Secret"}')
    with pytest.raises(InvalidArgument, match="no ConfigMap of its name"):
        validate_spec(replace(spec, companions=(liar,)), queue_required=False)
