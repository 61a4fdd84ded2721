"""RayCluster and RayJob: what KubeRay would start, counted as it counts."""

from textwrap import dedent, indent

import pytest

from hanse.model.job import Slice
from tests.unit.manifests.texts import job_of, refusal, unmapped

MI = 2**20
POD = "{spec: {containers: [{name: ray, image: r, resources: {limits: {cpu: 4, memory: 1Gi}}}]}}"


def cluster(*groups: str, spec: str = "") -> str:
    listed = "".join(f"\n  - {{groupName: {group}, template: {POD}}}" for group in groups)
    lines = [dedent(spec).strip(), f"headGroupSpec: {{rayStartParams: {{}}, template: {POD}}}"]
    return "\n".join(line for line in (*lines, f"workerGroupSpecs:{listed or ' []'}") if line)


def ray_cluster(*groups: str, spec: str = "", head: str = "") -> str:
    body = indent(cluster(*groups, spec=spec), "  ")
    metadata = f"metadata:\n  name: ray\n{indent(dedent(head), '  ')}"
    return f"apiVersion: ray.io/v1\nkind: RayCluster\n{metadata}\nspec:\n{body}\n"


def ray_job(*groups: str, spec: str = "", head: str = "") -> str:
    body = indent(cluster(*groups), "    ")
    rest = indent(dedent(spec).strip(), "  ")
    top = f"apiVersion: ray.io/v1\nkind: RayJob\nmetadata:\n  name: ray\n{indent(dedent(head), '  ')}\nspec:\n"
    return f"{top}  entrypoint: python a.py\n{rest}\n  rayClusterSpec:\n{body}\n"


def sets(text: str) -> list[tuple[str, int, int]]:
    return [(s.name, s.count, s.min_count) for s in job_of(text).spec.pod_sets]


@pytest.mark.parametrize(
    ("groups", "spec", "wanted"),
    [
        ([], "", [("head", 1, 1)]),
        (["a, replicas: 4", "b, replicas: 2"], "", [("head", 1, 1), ("a", 4, 4), ("b", 2, 2)]),
        (["a, replicas: 4, numOfHosts: 3"], "", [("head", 1, 1), ("a", 12, 12)]),
        (["a, replicas: 1, minReplicas: 3"], "", [("head", 1, 1), ("a", 3, 3)]),
        (["a, replicas: 9, maxReplicas: 5"], "", [("head", 1, 1), ("a", 5, 5)]),
        (["a, minReplicas: 2"], "", [("head", 1, 1), ("a", 2, 2)]),
        (["a, replicas: 0", "b"], "", [("head", 1, 1)]),
        (["a, replicas: 2, suspend: true"], "", [("head", 1, 1)]),
        (
            ["a, replicas: 4, minReplicas: 1, maxReplicas: 8, numOfHosts: 2"],
            "enableInTreeAutoscaling: true",
            [("head", 1, 1), ("a", 8, 2)],
        ),
        (["a, replicas: 4"], "enableInTreeAutoscaling: true", [("head", 1, 1), ("a", 4, 0)]),
        (["a, replicas: 4, minReplicas: 1"], "enableInTreeAutoscaling: false", [("head", 1, 1), ("a", 4, 4)]),
    ],
)
def test_worker_groups_are_pod_sets(groups: list[str], spec: str, wanted: list[tuple[str, int, int]]) -> None:
    text = ray_cluster(*groups, spec=spec)
    assert sets(text) == wanted
    assert job_of(text).min_total == sum(least for _, _, least in wanted)


def test_the_autoscaler_is_a_container_of_the_head() -> None:
    head = job_of(ray_cluster(spec="enableInTreeAutoscaling: true")).spec.pod_sets[0]
    assert dict(head.resources) == {"cpu": 4500, "memory": (1024 + 512) * MI}
    small = "enableInTreeAutoscaling: true\nautoscalerOptions: {resources: {requests: {cpu: 100m}}}"
    assert dict(job_of(ray_cluster(spec=small)).spec.pod_sets[0].resources) == {"cpu": 4100, "memory": 1024 * MI}


def test_a_submitter_pod_counts_for_kueue_alone() -> None:
    queue = "labels: {kueue.x-k8s.io/queue-name: q}"
    job = job_of(ray_job("a, replicas: 2", head=queue))
    assert [(s.name, s.count) for s in job.spec.pod_sets] == [("head", 1), ("a", 2), ("submitter", 1)]
    assert dict(job.spec.pod_sets[2].resources) == {"cpu": 500, "memory": 200 * MI}
    assert job.min_total == 4
    plain = ray_job("a, replicas: 2")
    assert sets(plain) == [("head", 1, 1), ("a", 2, 2)]
    assert set(unmapped(plain)) == {"spec.entrypoint"}


def test_a_submitter_of_its_own_template() -> None:
    spec = "submitterPodTemplate: {spec: {containers: [{name: s, resources: {requests: {cpu: 1}}}]}}"
    job = job_of(ray_job(spec=spec, head="labels: {kueue.x-k8s.io/queue-name: q}"))
    assert dict(job.spec.pod_sets[1].resources) == {"cpu": 1000}


@pytest.mark.parametrize(
    ("mode", "cpu"), [("SidecarMode", 4500), ("HTTPMode", 4000), ("InteractiveMode", 4000), ("K8sJobMode", 4000)]
)
def test_a_sidecar_submitter_loads_the_head(mode: str, cpu: int) -> None:
    job = job_of(ray_job(spec=f"submissionMode: {mode}"))
    assert [(s.name, s.resources["cpu"]) for s in job.spec.pod_sets] == [("head", cpu)]


def test_limits_of_a_ray_job() -> None:
    spec = "backoffLimit: 2\nactiveDeadlineSeconds: 60\nttlSecondsAfterFinished: 5\nshutdownAfterJobFinishes: true"
    job = job_of(ray_job(spec=spec))
    assert (job.spec.restart.max_retries, job.spec.duration_s) == (2, 60)
    assert set(unmapped(ray_job(spec=spec))) == {
        "spec.entrypoint",
        "spec.ttlSecondsAfterFinished",
        "spec.shutdownAfterJobFinishes",
    }


def test_kuberays_labels_for_volcano() -> None:
    head = """
    labels:
      ray.io/priority-class-name: high
      ray.io/gang-scheduling-enabled: "true"
      volcano.sh/queue-name: research
      volcano.sh/network-topology-mode: hard
      volcano.sh/network-topology-highest-tier-allowed: "2"
    """
    job = job_of(ray_cluster(head=head))
    assert (job.spec.queue, job.spec.priority_class) == ("research", "high")
    assert job.spec.pod_sets[0].topology.required == "tier-2"
    assert unmapped(ray_cluster(head=head)) == {}


def test_kais_minimum_is_that_of_the_replicas_if_given() -> None:
    kai = POD.replace("containers", "schedulerName: kai-scheduler, containers")
    text = ray_cluster("a, replicas: 4, minReplicas: 2").replace(POD, kai)
    assert sets(text) == [("head", 1, 1), ("a", 4, 2)]


def test_hosts_of_a_replica_are_held_together_by_a_slice_alone() -> None:
    text = ray_cluster("a, replicas: 4, numOfHosts: 2")
    assert set(unmapped(text)) == {"spec.workerGroupSpecs[0].numOfHosts"}
    notes = "kueue.x-k8s.io/podset-slice-required-topology: rack, kueue.x-k8s.io/podset-slice-size: '2'"
    start, _, rest = text.rpartition("template: {spec")
    held = f"{start}template: {{metadata: {{annotations: {{{notes}}}}}, spec{rest}"
    assert job_of(held).spec.pod_sets[1].topology.slices == (Slice(2, "rack"),)
    assert unmapped(held) == {}


@pytest.mark.parametrize(
    ("text", "reason", "path"),
    [
        (ray_cluster("a, replicas: -1"), "COUNT_OUT_OF_RANGE", "spec.workerGroupSpecs[0].replicas"),
        (ray_cluster("a, replicas: 100001"), "COUNT_OUT_OF_RANGE", "spec.workerGroupSpecs[0].replicas"),
        (ray_cluster("a, replicas: 1, numOfHosts: 0"), "COUNT_OUT_OF_RANGE", "spec.workerGroupSpecs[0].numOfHosts"),
        (
            ray_cluster("a, minReplicas: 3, maxReplicas: 2"),
            "CONTRADICTION",
            "spec.workerGroupSpecs[0].maxReplicas",
        ),
        (ray_cluster("A, replicas: 1"), "NAME_INVALID", "spec.workerGroupSpecs[0].groupName"),
        (ray_cluster("head, replicas: 1"), "DUPLICATE", "spec.workerGroupSpecs[0].groupName"),
        (ray_job(spec="submissionMode: Mail"), "UNKNOWN_VALUE", "spec.submissionMode"),
        (ray_job(spec="clusterSelector: {a: b}"), "NOT_SUPPORTED", "spec.clusterSelector"),
        (
            ray_cluster(head="labels: {volcano.sh/network-topology-mode: hard}"),
            "MISSING",
            'metadata.labels["volcano.sh/network-topology-mode"]',
        ),
    ],
)
def test_clusters_that_make_no_sense_are_refused(text: str, reason: str, path: str) -> None:
    assert refusal(text)[:2] == (reason, path)
