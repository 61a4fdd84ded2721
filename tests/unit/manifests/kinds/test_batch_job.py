"""batch/v1 Job: as many pods as run at once."""

import pytest

from tests.unit.manifests.texts import batch_job, job_of, refusal, unmapped


@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        ("", 1),
        ("parallelism: 8", 8),
        ("completions: 8", 1),
        ("parallelism: 8\ncompletions: 3", 3),
        ("parallelism: 3\ncompletions: 8", 3),
        ("parallelism: 8\ncompletions: 8\ncompletionMode: Indexed", 8),
    ],
)
def test_the_gang_is_what_runs_at_once(spec: str, pods: int) -> None:
    job = job_of(batch_job(spec=spec))
    (pod_set,) = job.spec.pod_sets
    assert (pod_set.name, pod_set.count, pod_set.min_count, job.min_total) == ("main", pods, pods, pods)


def test_later_completions_are_named() -> None:
    assert set(unmapped(batch_job(spec="parallelism: 3\ncompletions: 8"))) == {"spec.completions"}


def test_retries_default_as_in_kubernetes() -> None:
    assert job_of(batch_job()).spec.restart.max_retries == 6
    assert job_of(batch_job(spec="backoffLimit: 0")).spec.restart.max_retries == 0


def test_kueues_partial_admission_is_a_minimum() -> None:
    head = 'annotations: {kueue.x-k8s.io/job-min-parallelism: "3"}'
    job = job_of(batch_job(spec="parallelism: 8", head=head))
    assert (job.min_total, job.spec.pod_sets[0].min_count) == (3, 3)


@pytest.mark.parametrize("least", ["8", "9", "0", "-1", "x"])
def test_kueues_minimum_must_be_below_the_count(least: str) -> None:
    head = f'annotations: {{kueue.x-k8s.io/job-min-parallelism: "{least}"}}'
    reason, path, _ = refusal(batch_job(spec="parallelism: 8", head=head))
    assert reason in ("MIN_OVER_COUNT", "COUNT_OUT_OF_RANGE", "TYPE")
    assert path == 'metadata.annotations["kueue.x-k8s.io/job-min-parallelism"]'


def test_kais_minimum_is_one_pod_unless_told() -> None:
    kai = "labels: {kai.scheduler/queue: q}"
    assert job_of(batch_job(spec="parallelism: 8", head=kai)).min_total == 1
    told = kai + '\nannotations: {kai.scheduler/batch-min-member: "5"}'
    assert job_of(batch_job(spec="parallelism: 8", head=told)).min_total == 5


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ("parallelism: 0", "spec.parallelism"),
        ("completions: 0", "spec.completions"),
        ("parallelism: -1", "spec.parallelism"),
    ],
)
def test_a_gang_of_nothing_is_refused(spec: str, path: str) -> None:
    assert refusal(batch_job(spec=spec))[:2] == ("COUNT_OUT_OF_RANGE", path)


def test_what_the_job_controller_does_itself_is_kept_or_named() -> None:
    spec = """
    completionMode: Indexed
    backoffLimitPerIndex: 1
    podReplacementPolicy: Failed
    podFailurePolicy: {rules: []}
    suspend: false
    ttlSecondsAfterFinished: 5
    """
    assert set(unmapped(batch_job(spec=spec))) == {"spec.podFailurePolicy", "spec.ttlSecondsAfterFinished"}


def test_labels_of_other_schedulers_are_named() -> None:
    head = "labels: {kueue.x-k8s.io/queue-name: q, kueue.x-k8s.io/made-up: x, team: a}"
    found = unmapped(batch_job(head=head, template="annotations: {volcano.sh/preemptable: 'true', mine: x}"))
    assert set(found) == {
        'metadata.labels["kueue.x-k8s.io/made-up"]',
        'spec.template.metadata.annotations["volcano.sh/preemptable"]',
    }


@pytest.mark.parametrize(
    ("pod", "path"),
    [
        ("containers: []", "spec.template.spec.containers"),
        ("containers: [null]", "spec.template.spec.containers[0]"),
        ("containers: {}", "spec.template.spec.containers"),
        ("containers: [x]", "spec.template.spec.containers[0]"),
        ("containers: [{name: a, command: ls}]", "spec.template.spec.containers[0].command"),
        ("containers: [{name: a, args: [8]}]", "spec.template.spec.containers[0].args[0]"),
        ("containers: [{name: a, image: 'a b'}]", "spec.template"),
    ],
)
def test_pods_that_make_no_sense_are_refused(pod: str, path: str) -> None:
    _, found, line = refusal(batch_job(pod))
    assert found == path
    assert line > 0
