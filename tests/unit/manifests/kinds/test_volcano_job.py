"""Volcano Job: tasks, minima, partitions, with the defaults of Volcano's webhook."""

import pytest

from hanse.model.job import Slice
from tests.unit.manifests.texts import job_of, refusal, unmapped

POD = "template: {spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}"


def job(*tasks: str, spec: str = "queue: research") -> str:
    listed = "".join(f"\n  - {{{task}, {POD}}}" for task in tasks)
    head = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: vj}\n"
    return f"{head}spec:\n  {spec}\n  tasks:{listed}\n"


@pytest.mark.parametrize(
    ("tasks", "spec", "total", "minima"),
    [
        (["name: ps, replicas: 1", "name: w, replicas: 8"], "queue: q", 9, [1, 8]),
        (["name: ps, replicas: 2, minAvailable: 1", "name: w, replicas: 8, minAvailable: 2"], "queue: q", 3, [1, 2]),
        (  # the job's own minimum above the sum of the tasks'
            ["name: ps, replicas: 2, minAvailable: 1", "name: w, replicas: 8, minAvailable: 2"],
            "minAvailable: 5",
            5,
            [1, 2],
        ),
        (["name: ps, replicas: 1", "name: w, replicas: 8"], "minAvailable: 3", 3, [1, 2]),
        (["name: w, replicas: 8"], "minAvailable: 0", 8, [8]),
        (["name: w, replicas: 8, partitionPolicy: {totalPartitions: 4, partitionSize: 2}"], "queue: q", 8, [8]),
        (
            ["name: w, replicas: 8, partitionPolicy: {totalPartitions: 4, partitionSize: 2, minPartitions: 3}"],
            "queue: q",
            6,
            [6],
        ),
    ],
)
def test_minima_follow_the_webhook(tasks: list[str], spec: str, total: int, minima: list[int]) -> None:
    found = job_of(job(*tasks, spec=spec))
    assert (found.min_total, [s.min_count for s in found.spec.pod_sets]) == (total, minima)


def test_defaults() -> None:
    found = job_of(job("replicas: 2", "replicas: 1", spec="schedulerName: volcano"))
    assert [s.name for s in found.spec.pod_sets] == ["default0", "default1"]
    assert (found.spec.queue, found.spec.restart.max_retries) == ("default", 3)


def test_queue_priority_and_retries_are_mapped() -> None:
    spec = "queue: research\n  priorityClassName: high\n  maxRetry: 7"
    found = job_of(job("name: w, replicas: 2", spec=spec))
    assert (found.spec.queue, found.spec.priority_class, found.spec.restart.max_retries) == ("research", "high", 7)


def test_partitions_are_slices_of_a_tier() -> None:
    policy = "partitionPolicy: {totalPartitions: 4, partitionSize: 2, networkTopology: {highestTierName: rack}}"
    (pods,) = job_of(job(f"name: w, replicas: 8, {policy}")).spec.pod_sets
    assert pods.topology.slices == (Slice(2, "rack"),)


def test_partitions_with_a_soft_tier_are_preferred_slices() -> None:
    network = "networkTopology: {mode: soft, highestTierName: rack}"
    policy = f"partitionPolicy: {{totalPartitions: 4, partitionSize: 2, {network}}}"
    text = job(f"name: w, replicas: 8, {policy}")
    assert job_of(text).spec.pod_sets[0].topology.slices == (Slice(2, "rack", preferred=True),)
    assert not unmapped(text)


def test_a_network_topology_holds_the_job() -> None:
    spec = "networkTopology: {mode: hard, highestTierAllowed: 2}"
    assert job_of(job("name: w, replicas: 8", spec=spec)).spec.pod_sets[0].topology.required == "tier-2"


def test_what_only_volcano_does_is_named() -> None:
    spec = "schedulerName: volcano\n  policies: []\n  plugins: {svc: []}\n  minSuccess: 1"
    text = job(
        "name: w, replicas: 1, policies: [], maxRetry: 1, topologyPolicy: none, dependsOn: {name: [a]}", spec=spec
    )
    assert set(unmapped(text)) == {
        "spec.schedulerName",
        "spec.policies",
        "spec.minSuccess",
        "spec.tasks[0].policies",
        "spec.tasks[0].maxRetry",
        "spec.tasks[0].topologyPolicy",
        "spec.tasks[0].dependsOn",
    }


@pytest.mark.parametrize(
    ("task", "spec", "reason", "path"),
    [
        ("name: w, replicas: 0", "", "COUNT_OUT_OF_RANGE", "spec.tasks[0].replicas"),
        ("name: w", "", "MISSING", "spec.tasks[0].replicas"),
        ("name: w, replicas: 2, minAvailable: 3", "", "MIN_OVER_COUNT", "spec.tasks[0].minAvailable"),
        ("name: w, replicas: 2", "minAvailable: 3", "MIN_OVER_COUNT", "spec.minAvailable"),
        ("name: w, replicas: 2", "minAvailable: -3", "COUNT_OUT_OF_RANGE", "spec.minAvailable"),
        (
            "name: w, replicas: 8, partitionPolicy: {totalPartitions: 3, partitionSize: 2}",
            "",
            "SLICE_SIZE",
            "spec.tasks[0].partitionPolicy.totalPartitions",
        ),
        (
            "name: w, replicas: 8, partitionPolicy: {totalPartitions: 4}",
            "",
            "MISSING",
            "spec.tasks[0].partitionPolicy.partitionSize",
        ),
        (
            "name: w, replicas: 8, minAvailable: 5, "
            "partitionPolicy: {totalPartitions: 4, partitionSize: 2, minPartitions: 2}",
            "",
            "CONTRADICTION",
            "spec.tasks[0].minAvailable",
        ),
        (
            "name: w, replicas: 8, partitionPolicy: {totalPartitions: 4, partitionSize: 2, minPartitions: 5}",
            "",
            "MIN_OVER_COUNT",
            "spec.tasks[0].partitionPolicy.minPartitions",
        ),
    ],
)
def test_jobs_that_make_no_sense_are_refused(task: str, spec: str, reason: str, path: str) -> None:
    assert refusal(job(task, spec=spec))[:2] == (reason, path)
