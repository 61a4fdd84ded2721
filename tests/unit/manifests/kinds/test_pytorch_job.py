"""PyTorchJob and the pod group that joins it: the demo's input, and everything near it."""

from pathlib import Path

import pytest

from hanse.manifests import convert
from hanse.model.selectors import Operator, Requirement, Selector
from tests.unit.manifests.texts import batch_job, converted, job_of, pod_group, pytorch_job, refusal, unmapped

EXAMPLE = Path(__file__).parents[4] / "docs/examples/llama3-70b.yaml"


def test_the_demo_is_one_job_of_512_workers() -> None:
    found = convert(EXAMPLE.read_bytes())
    (job,) = found.jobs
    (workers,) = job.spec.pod_sets
    assert (job.kind, job.spec.name, job.spec.queue) == (
        "PyTorchJob",
        "llama3-70b-training",
        "high-priority-training",
    )
    assert (workers.name, workers.count, workers.min_count, job.min_total) == ("worker", 512, 512, 512)
    assert dict(workers.resources) == {"nvidia.com/gpu": 8, "rdma/hca": 1}
    key = "feature.node.kubernetes.io/pci-10de.present"
    assert workers.selector == Selector(((Requirement(key, Operator.IN, ("true",)),),))
    assert [entry.path for entry in found.unmapped] == ["spec.pytorchReplicaSpecs.Worker.template.spec.schedulerName"]


def test_both_documents_are_kept_as_written() -> None:
    text = EXAMPLE.read_text()
    manifest = job_of(text).spec.manifest
    assert manifest is not None
    assert (manifest.kind, manifest.api_version) == ("PyTorchJob", "kubeflow.org/v1")
    again = convert(manifest.text).jobs[0]
    assert again.spec.pod_sets == job_of(text).spec.pod_sets
    assert again.spec.queue == "high-priority-training"


def test_the_order_of_the_documents_does_not_matter() -> None:
    group, job = EXAMPLE.read_text().split("---\n")
    assert job_of(job + "---\n" + group).spec.pod_sets == job_of(group + "---\n" + job).spec.pod_sets


@pytest.mark.parametrize("workers", [1, 7, 512, 100_000])
def test_any_number_of_workers_is_a_gang(workers: int) -> None:
    job = job_of(pytorch_job(workers=workers))
    assert (job.spec.pods, job.min_total) == (workers, workers)


def test_a_master_comes_first_whatever_the_order() -> None:
    job = job_of(pytorch_job(workers=7, master=True))
    assert [(s.name, s.count, s.min_count) for s in job.spec.pod_sets] == [("master", 1, 1), ("worker", 7, 7)]
    assert job.min_total == 8


def test_replicas_default_to_one() -> None:
    assert job_of(pytorch_job().replace("replicas: 4, ", "")).spec.pods == 1


@pytest.mark.parametrize(
    ("workers", "reason"),
    [
        (0, "COUNT_OUT_OF_RANGE"),
        (-3, "COUNT_OUT_OF_RANGE"),
        (100_001, "COUNT_OUT_OF_RANGE"),
        (2**40, "COUNT_OUT_OF_RANGE"),
    ],
)
def test_counts_out_of_range_are_refused(workers: int, reason: str) -> None:
    text = pytorch_job(workers=workers)
    (line,) = [number for number, row in enumerate(text.splitlines(), 1) if "Worker" in row]
    assert refusal(text) == (reason, "spec.pytorchReplicaSpecs.Worker.replicas", line)


@pytest.mark.parametrize("workers", ["many", '"4"', "4.5", "[4]", "true", "9" * 30])
def test_counts_that_are_no_numbers_are_refused(workers: str) -> None:
    reason, path, _ = refusal(pytorch_job(workers=workers))
    assert reason in ("TYPE", "OUT_OF_RANGE")
    assert path == "spec.pytorchReplicaSpecs.Worker.replicas"


def test_zero_workers_are_refused_in_words() -> None:
    with pytest.raises(Exception, match="0 workers; a gang needs at least 1"):
        convert(pytorch_job(workers=0))


@pytest.mark.parametrize(
    ("old", "new", "reason", "path"),
    [
        ("Worker:", "Wroker:", "UNKNOWN_FIELD", "spec.pytorchReplicaSpecs.Wroker"),
        ("Worker:", "PS:", "UNKNOWN_FIELD", "spec.pytorchReplicaSpecs.PS"),
        ("pytorchReplicaSpecs", "pytorchReplicaSpec", "MISSING", "spec.pytorchReplicaSpecs"),
        ("kind: PyTorchJob", "kind: PytorchJob", "UNKNOWN_KIND", "kind"),
        ("kubeflow.org/v1", "kubeflow.org/v9", "UNKNOWN_KIND", "apiVersion"),
        ("kubeflow.org/v1", "kubeflow.com/v1", "UNKNOWN_KIND", "kind"),
        ("  name: train", "  nmae: train", "MISSING", "metadata.name"),
        ("  name: train", "  generateName: train-", "MISSING", "metadata.generateName"),
        ("  name: train", "  name: Train_1", "NAME_INVALID", "metadata.name"),
        ("  name: train", "  name: 12", "TYPE", "metadata.name"),
        ("  name: train", "  name: " + "a" * 254, "NAME_INVALID", "metadata.name"),
        ("  name: train", '  name: "train\\u0000"', "NAME_INVALID", "metadata.name"),
    ],
)
def test_slips_of_the_pen_are_refused(old: str, new: str, reason: str, path: str) -> None:
    assert refusal(pytorch_job().replace(old, new, 1))[:2] == (reason, path)


def test_a_second_master_is_refused() -> None:
    text = pytorch_job(master=True).replace("Master: {replicas: 1", "Master: {replicas: 2")
    assert refusal(text)[:2] == ("COUNT_OUT_OF_RANGE", "spec.pytorchReplicaSpecs.Master.replicas")


def test_a_replica_type_is_found_in_any_case_but_not_twice() -> None:
    assert job_of(pytorch_job().replace("Worker:", "worker:")).spec.pod_sets[0].name == "worker"
    doubled = pytorch_job(master=True).replace("Master:", "WORKER:")
    assert refusal(doubled)[0] == "DUPLICATE"


# What the run policy says.


def test_a_run_policy_is_mapped() -> None:
    job = job_of(pytorch_job(run="backoffLimit: 3\nactiveDeadlineSeconds: 7200"))
    assert (job.spec.restart.max_retries, job.spec.duration_s) == (3, 7200)


def test_the_shorter_duration_counts() -> None:
    head = 'labels: {kueue.x-k8s.io/max-exec-time-seconds: "60"}'
    assert job_of(pytorch_job(run="activeDeadlineSeconds: 7200", head=head)).spec.duration_s == 60
    assert job_of(pytorch_job(run="activeDeadlineSeconds: 30", head=head)).spec.duration_s == 30


def test_what_hanse_does_not_do_is_named() -> None:
    run = """
    cleanPodPolicy: Running
    ttlSecondsAfterFinished: 60
    suspend: true
    managedBy: kueue.x-k8s.io/multikueue
    schedulingPolicy: {minResources: {cpu: 1}, scheduleTimeoutSeconds: 60}
    """
    at = "spec.runPolicy."
    assert set(unmapped(pytorch_job(run=run, more="nproc: 8"))) == {
        "spec.nproc",
        f"{at}cleanPodPolicy",
        f"{at}ttlSecondsAfterFinished",
        f"{at}suspend",
        f"{at}managedBy",
        f"{at}schedulingPolicy.minResources",
        f"{at}schedulingPolicy.scheduleTimeoutSeconds",
    }


def test_an_unknown_field_is_named_with_the_nearest_known_one() -> None:
    text = pytorch_job(more="nprocPerNod: auto")
    assert "nprocPerNode" in unmapped(text)["spec.nprocPerNod"]


def test_unmapped_fields_come_in_the_order_of_their_lines() -> None:
    found = converted(pytorch_job(run="suspend: true\ncleanPodPolicy: All", more="zzz: 1"))
    assert [u.path for u in found.unmapped] == ["spec.zzz", "spec.runPolicy.suspend", "spec.runPolicy.cleanPodPolicy"]
    assert [u.line for u in found.unmapped] == sorted(u.line for u in found.unmapped)


# Minima.


def test_the_minimum_is_min_available_else_everything() -> None:
    job = job_of(pytorch_job(workers=8, master=True, run="schedulingPolicy: {minAvailable: 5}"))
    assert job.min_total == 5
    assert [s.min_count for s in job.spec.pod_sets] == [1, 4]


def test_elastic_minima_are_kais_alone() -> None:
    elastic = "elasticPolicy: {minReplicas: 2, maxReplicas: 8}"
    plain = pytorch_job(workers=8, more=elastic)
    assert job_of(plain).min_total == 8
    assert set(unmapped(plain)) == {"spec.elasticPolicy.minReplicas", "spec.elasticPolicy.maxReplicas"}
    kai = pytorch_job(workers=8, more=elastic, head="labels: {kai.scheduler/queue: research}")
    assert (job_of(kai).min_total, job_of(kai).spec.queue) == (2, "research")
    assert set(unmapped(kai)) == {"spec.elasticPolicy.maxReplicas"}
    both = pytorch_job(
        workers=8, more=elastic, head="labels: {kai.scheduler/queue: q}", run="schedulingPolicy: {minAvailable: 6}"
    )
    assert job_of(both).min_total == 6


def test_elastic_restarts_count_where_there_is_no_backoff_limit() -> None:
    more = "elasticPolicy: {maxRestarts: 9}"
    assert job_of(pytorch_job(more=more)).spec.restart.max_retries == 9
    both = pytorch_job(more=more, run="backoffLimit: 2")
    assert job_of(both).spec.restart.max_retries == 2
    assert set(unmapped(both)) == {"spec.elasticPolicy.maxRestarts"}


@pytest.mark.parametrize(
    ("run", "more", "reason", "path"),
    [
        ("schedulingPolicy: {minAvailable: 9}", "", "MIN_OVER_COUNT", "spec.runPolicy.schedulingPolicy.minAvailable"),
        (
            "schedulingPolicy: {minAvailable: 0}",
            "",
            "COUNT_OUT_OF_RANGE",
            "spec.runPolicy.schedulingPolicy.minAvailable",
        ),
        ("backoffLimit: -1", "", "COUNT_OUT_OF_RANGE", "spec.runPolicy.backoffLimit"),
        ("activeDeadlineSeconds: 0", "", "COUNT_OUT_OF_RANGE", "spec.runPolicy.activeDeadlineSeconds"),
        ("activeDeadlineSeconds: 1e9", "", "DURATION_OUT_OF_RANGE", "spec.runPolicy.activeDeadlineSeconds"),
        ("", "elasticPolicy: {minReplicas: 5, maxReplicas: 4}", "CONTRADICTION", "spec.elasticPolicy.maxReplicas"),
    ],
)
def test_policies_that_make_no_sense_are_refused(run: str, more: str, reason: str, path: str) -> None:
    assert refusal(pytorch_job(workers=8, run=run, more=more))[:2] == (reason, path)


# Queues and priorities.


@pytest.mark.parametrize(
    ("head", "run"),
    [
        ("labels: {kueue.x-k8s.io/queue-name: research}", ""),
        ("labels: {kai.scheduler/queue: research}", ""),
        ("annotations: {scheduling.volcano.sh/queue-name: research}", ""),
        ("", "schedulingPolicy: {queue: research}"),
        ("labels: {kueue.x-k8s.io/queue-name: research}", "schedulingPolicy: {queue: research}"),
        ("annotations: {scheduling.volcano.sh/queue-name: other}", "schedulingPolicy: {queue: research}"),
    ],
)
def test_a_queue_is_found_wherever_it_is_named(head: str, run: str) -> None:
    assert job_of(pytorch_job(head=head, run=run)).spec.queue == "research"


def test_a_queue_that_is_named_nowhere_is_the_callers() -> None:
    assert job_of(pytorch_job()).spec.queue == ""
    assert convert(pytorch_job(), default_queue="mine").jobs[0].spec.queue == "mine"


def test_two_queues_are_refused_at_the_second() -> None:
    text = pytorch_job(head="labels: {kueue.x-k8s.io/queue-name: a}", run="schedulingPolicy: {queue: b}")
    assert refusal(text)[:2] == ("CONTRADICTION", "spec.runPolicy.schedulingPolicy.queue")


def test_an_odd_queue_name_is_refused_where_it_stands() -> None:
    text = pytorch_job(head='labels: {kueue.x-k8s.io/queue-name: "High Priority"}')
    assert refusal(text) == ("NAME_INVALID", 'metadata.labels["kueue.x-k8s.io/queue-name"]', 5)


def test_priorities_count_in_kueues_order() -> None:
    pod = pytorch_job(run="").replace("{containers:", "{priorityClassName: pods, containers:")
    assert job_of(pod).spec.priority_class == "pods"
    policy = pytorch_job(run="schedulingPolicy: {priorityClass: policy}").replace(
        "{containers:", "{priorityClassName: pods, containers:"
    )
    assert job_of(policy).spec.priority_class == "policy"
    labelled = policy.replace("  name: train", "  name: train\n  labels: {kueue.x-k8s.io/priority-class: label}")
    assert job_of(labelled).spec.priority_class == "label"
    assert set(unmapped(labelled)) == {
        "spec.runPolicy.schedulingPolicy.priorityClass",
        "spec.pytorchReplicaSpecs.Worker.template.spec.priorityClassName",
    }


def test_labels_of_the_object_are_the_jobs_but_for_the_schedulers() -> None:
    job = job_of(pytorch_job(head="labels: {team: vision, kueue.x-k8s.io/queue-name: q}"))
    assert job.spec.labels == {"team": "vision"}


# The pod group.


def test_a_pod_group_brings_minimum_queue_and_priority() -> None:
    group = pod_group("minMember: 3\nqueue: research\npriorityClassName: high")
    job = job_of(group + pytorch_job(workers=4))
    assert (job.min_total, job.spec.queue, job.spec.priority_class) == (3, "research", "high")
    assert job.spec.pod_sets[0].min_count == 3


def test_a_pod_group_without_a_queue_means_volcanos_default() -> None:
    text = pod_group("minMember: 4") + pytorch_job()
    assert job_of(text).spec.queue == "default"
    assert convert(text, default_queue="mine").jobs[0].spec.queue == "mine"


def test_minima_per_task() -> None:
    text = pod_group("minMember: 6\nminTaskMember: {master: 1, Worker: 4}") + pytorch_job(workers=8, master=True)
    job = job_of(text)
    assert (job.min_total, [s.min_count for s in job.spec.pod_sets]) == (6, [1, 4])


def test_a_pod_group_joins_by_the_annotation_of_the_pods() -> None:
    job = pytorch_job().replace(
        "template: {spec", "template: {metadata: {annotations: {scheduling.k8s.io/group-name: my-group}}, spec"
    )
    assert job_of(pod_group("minMember: 2", name="my-group") + job).min_total == 2


def test_what_a_pod_group_asks_for_in_vain_is_named() -> None:
    text = pod_group("minMember: 4\nminResources: {cpu: 1}\nsubGroupPolicy: []") + pytorch_job()
    assert set(unmapped(text)) == {"spec.minResources", "spec.subGroupPolicy"}


@pytest.mark.parametrize(
    ("spec", "name", "head", "job", "reason", "path"),
    [
        ("minMember: 5", "train", "", pytorch_job(), "MIN_OVER_COUNT", "spec.minMember"),
        ("minMember: 0", "train", "", pytorch_job(), "COUNT_OUT_OF_RANGE", "spec.minMember"),
        ("minMember: -1", "train", "", pytorch_job(), "COUNT_OUT_OF_RANGE", "spec.minMember"),
        ("minMember: 4", "trian", "", pytorch_job(), "NO_SUCH_JOB", "metadata.name"),
        ("minMember: 4", "train", "namespace: b", pytorch_job(head="namespace: a"), "NO_SUCH_JOB", "metadata.name"),
        ("minTaskMember: {wroker: 1}", "train", "", pytorch_job(), "UNKNOWN_TASK", "spec.minTaskMember.wroker"),
        ("minTaskMember: {worker: 5}", "train", "", pytorch_job(), "MIN_OVER_COUNT", "spec.minTaskMember.worker"),
        (
            "queue: a",
            "train",
            "",
            pytorch_job(run="schedulingPolicy: {queue: b}"),
            "CONTRADICTION",
            "spec.queue",
        ),
        (
            "priorityClassName: a",
            "train",
            "",
            pytorch_job(run="schedulingPolicy: {priorityClass: b}"),
            "CONTRADICTION",
            "spec.priorityClassName",
        ),
        (
            "minMember: 3",
            "train",
            "",
            pytorch_job(run="schedulingPolicy: {minAvailable: 2}"),
            "CONTRADICTION",
            "spec.minMember",
        ),
    ],
)
def test_a_pod_group_that_contradicts_its_job_is_refused(
    spec: str, name: str, head: str, job: str, reason: str, path: str
) -> None:
    assert refusal(pod_group(spec, name=name, head=head) + job)[:2] == (reason, path)


def test_a_contradiction_names_both_lines() -> None:
    text = pod_group("queue: a") + pytorch_job(run="schedulingPolicy: {queue: b}")
    lines = text.splitlines()
    with pytest.raises(Exception, match=f"line {lines.index('    schedulingPolicy: {queue: b}') + 1}"):
        convert(text)


def test_two_pod_groups_of_one_job_are_refused() -> None:
    assert refusal(pod_group("minMember: 2") + pod_group("minMember: 2") + pytorch_job())[0] == "DUPLICATE"


def test_a_pod_group_alone_is_refused() -> None:
    assert refusal(pod_group("minMember: 2"))[0] == "NO_SUCH_JOB"


def test_a_group_of_two_jobs_is_refused() -> None:
    other = batch_job(template="annotations: {scheduling.k8s.io/group-name: train}").replace(
        "name: train", "name: x", 1
    )
    assert refusal(pod_group("minMember: 1") + pytorch_job() + "\n---\n" + other)[0] == "AMBIGUOUS"


# What runs.


def test_env_literals_are_mapped_and_references_named() -> None:
    env = "[{name: A, value: x}, {name: B, valueFrom: {fieldRef: {fieldPath: p}}}]"
    container = f"{{name: pytorch, image: i, command: [a], args: [b], env: {env}}}"
    text = pytorch_job().replace("containers: [", f"containers: [{{name: side, image: s}}, {container}, ")
    template = job_of(text).spec.pod_sets[0].template
    assert (template.image, template.command, template.args) == ("i", ("a",), ("b",))
    assert [(v.name, v.value) for v in template.env] == [("A", "x")]
    assert set(unmapped(text)) == {"spec.pytorchReplicaSpecs.Worker.template.spec.containers[1].env[1].valueFrom"}


def test_env_with_two_sources_is_refused() -> None:
    text = batch_job("containers: [{name: a, env: [{name: A, value: x, valueFrom: {}}]}]")
    assert refusal(text)[0] == "CONTRADICTION"


def test_fields_that_only_say_what_runs_are_kept_without_a_word() -> None:
    pod = """
    serviceAccountName: trainer
    runtimeClassName: nvidia
    hostNetwork: true
    terminationGracePeriodSeconds: 60
    volumes: [{name: data, persistentVolumeClaim: {claimName: data}}, {name: shm, emptyDir: {medium: Memory}}]
    containers:
    - name: main
      image: i
      ports: [{containerPort: 23456}]
      volumeMounts: [{name: data, mountPath: /data}]
      envFrom: [{configMapRef: {name: c}}]
      securityContext: {capabilities: {add: [IPC_LOCK]}}
    """
    assert unmapped(batch_job(pod)) == {}
