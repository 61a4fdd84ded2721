"""Pod groups of Kubernetes itself and of KAI: they join a job and say what it needs."""

import pytest

from hanse.manifests import convert
from tests.unit.manifests.texts import batch_job, job_of, refusal, unmapped

JOB = batch_job(spec="parallelism: 8")
TWO = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train}
spec:
  pytorchReplicaSpecs:
    Master: {template: {spec: {containers: [{name: pytorch, image: i}]}}}
    Worker: {replicas: 4, template: {spec: {containers: [{name: pytorch, image: i}]}}}
"""


def pod_group(spec: str, *, name: str = "train", api: str = "scheduling.k8s.io/v1beta1") -> str:
    return f"apiVersion: {api}\nkind: PodGroup\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"


def workload(spec: str, *, api: str = "scheduling.k8s.io/v1beta1") -> str:
    return f"apiVersion: {api}\nkind: Workload\nmetadata: {{name: plan}}\nspec: {{{spec}}}\n"


def kai(spec: str) -> str:
    return pod_group(spec, api="scheduling.run.ai/v2alpha2")


GANG = (
    "schedulingPolicy: {gang: {minCount: 6}}, priorityClassName: high, "
    "schedulingConstraints: {topology: [{key: example.com/rack}]}"
)
OWNER = "controllerRef: {apiGroup: batch, kind: Job, name: train}"


@pytest.mark.parametrize(
    "group",
    [
        pod_group(GANG),
        workload(f"{OWNER}, podGroupTemplates: [{{name: all, {GANG}}}]"),
    ],
)
def test_a_group_says_minimum_priority_and_level(group: str) -> None:
    job = job_of(f"{JOB}\n---\n{group}")
    assert (job.min_total, job.spec.priority_class) == (6, "high")
    assert job.spec.pod_sets[0].topology.required == "example.com/rack"


def test_the_first_version_of_workloads_is_read() -> None:
    group = workload(
        f"{OWNER}, podGroups: [{{name: all, policy: {{gang: {{minCount: 3}}}}}}]", api="scheduling.k8s.io/v1alpha1"
    )
    assert job_of(f"{JOB}\n---\n{group}").min_total == 3


def test_a_basic_group_is_no_gang() -> None:
    assert job_of(f"{JOB}\n---\n{pod_group('schedulingPolicy: {basic: {}}')}").min_total == 1


def test_pods_join_by_their_scheduling_group() -> None:
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p{0}}}\n"
        "spec: {{schedulingGroup: {{podGroupName: g}}, containers: [{{name: c, image: i}}]}}\n"
    )
    pods = "---\n".join(pod.format(index) for index in range(3))
    (job,) = convert(f"{pods}---\n{pod_group('schedulingPolicy: {gang: {minCount: 2}}', name='g')}").jobs
    assert (job.spec.name, job.spec.pods, job.min_total) == ("g", 3, 2)


def test_a_job_whose_template_names_the_group_is_joined() -> None:
    text = batch_job("schedulingGroup: {podGroupName: g}", spec="parallelism: 4")
    assert job_of(f"{text}\n---\n{pod_group('schedulingPolicy: {gang: {minCount: 2}}', name='g')}").min_total == 2


def test_a_group_speaks_for_the_workload_it_was_made_from() -> None:
    made = pod_group("workloadRef: {workloadName: plan, templateName: a}, schedulingPolicy: {gang: {minCount: 5}}")
    plan = workload(f"{OWNER}, podGroupTemplates: [{{name: a, {GANG}}}]")
    assert job_of(f"{plan}---\n{JOB}\n---\n{made}").min_total == 5


def test_several_templates_are_pod_sets_by_name() -> None:
    templates = (
        "podGroupTemplates: [{name: master, schedulingPolicy: {gang: {minCount: 1}}}, "
        "{name: worker, schedulingPolicy: {gang: {minCount: 3}}, schedulingConstraints: {topology: [{key: rack}]}}]"
    )
    text = f"{TWO}---\n{workload('controllerRef: {name: train}, ' + templates)}"
    sets = job_of(text).spec.pod_sets
    assert [(s.min_count, s.topology.required) for s in sets] == [(1, ""), (3, "rack")]


@pytest.mark.parametrize(
    ("group", "reason", "path"),
    [
        (pod_group("parentCompositePodGroupName: a"), "NOT_SUPPORTED", "spec.parentCompositePodGroupName"),
        (workload("compositePodGroupTemplates: []"), "NOT_SUPPORTED", "spec.compositePodGroupTemplates"),
        (pod_group("schedulingPolicy: {gang: {}}"), "MISSING", "spec.schedulingPolicy.gang.minCount"),
        (
            pod_group("schedulingConstraints: {topology: [{key: a}, {key: b}]}"),
            "TOO_MANY",
            "spec.schedulingConstraints.topology[1]",
        ),
        (
            pod_group("schedulingPolicy: {gang: {minCount: 9}}"),
            "MIN_OVER_COUNT",
            "spec.schedulingPolicy.gang.minCount",
        ),
        (pod_group("", name="tarin"), "NO_SUCH_JOB", "metadata.name"),
        (kai("subGroups: [{name: main, parent: top}]"), "NOT_SUPPORTED", "spec.subGroups[0].parent"),
        (kai("subGroups: [{name: man, minMember: 2}]"), "UNKNOWN_TASK", "spec.subGroups[0].minMember"),
    ],
)
def test_what_cannot_be_held_is_refused(group: str, reason: str, path: str) -> None:
    assert refusal(f"{JOB}\n---\n{group}")[:2] == (reason, path)


def test_a_kai_group_says_queue_minimum_and_levels() -> None:
    group = kai(
        "minMember: 4, queue: research, priorityClassName: high, "
        "topologyConstraint: {topology: t, requiredTopologyLevel: block, preferredTopologyLevel: rack}"
    )
    job = job_of(f"{JOB}\n---\n{group}")
    assert (job.min_total, job.spec.queue, job.spec.priority_class) == (4, "research", "high")
    topology = job.spec.pod_sets[0].topology
    assert (topology.required, topology.preferred) == ("block", "rack")
    assert "spec.topologyConstraint.topology" in unmapped(f"{JOB}\n---\n{group}")


def test_kai_subgroups_are_pod_sets() -> None:
    group = kai(
        "subGroups: [{name: worker, minMember: 2, topologyConstraint: {requiredTopologyLevel: rack}}, "
        "{name: master, minMember: 1}]"
    )
    sets = job_of(f"{TWO}---\n{group}").spec.pod_sets
    assert [(s.min_count, s.topology.required) for s in sets] == [(1, ""), (2, "rack")]
