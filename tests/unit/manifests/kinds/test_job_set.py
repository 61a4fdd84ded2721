"""JobSet: replicated Jobs are pod sets; an exclusive topology is an exclusive slice per Job."""

from textwrap import indent

import pytest

from hanse.model.job import Slice
from tests.unit.manifests.texts import job_of, refusal, unmapped

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"


def replicated(name: str, job: str, *, replicas: str = "", template: str = "", annotations: str = "") -> str:
    return f"""
- name: {name}
  {replicas}
  template:
    metadata: {{annotations: {{{annotations}}}}}
    spec:
{indent(job, "      ")}
      template:
        metadata: {{annotations: {{{template}}}}}
        spec: {{containers: [{{name: c, resources: {{requests: {{cpu: 1}}}}}}]}}
"""


def job_set(*jobs: str, head: str = "", spec: str = "") -> str:
    return f"""
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: set
  {head}
spec:
  {spec}
  replicatedJobs:
{indent("".join(jobs), "  ")}
"""


def test_a_pod_set_counts_the_pods_of_all_its_jobs() -> None:
    job = job_of(
        job_set(
            replicated("leader", "backoffLimit: 0"),
            replicated("workers", "parallelism: 16\ncompletions: 8", replicas="replicas: 4"),
        )
    )
    assert [(s.name, s.count, s.min_count) for s in job.spec.pod_sets] == [("leader", 1, 1), ("workers", 32, 32)]
    assert (job.kind, job.min_total, job.spec.restart.max_retries) == ("JobSet", 33, 0)


def test_an_exclusive_topology_of_the_set_holds_each_job() -> None:
    text = job_set(
        replicated("workers", "parallelism: 16", replicas="replicas: 4"), head=f"annotations: {{{EXCLUSIVE}: rack}}"
    )
    assert job_of(text).spec.pod_sets[0].topology.slices == (Slice(16, "rack", exclusive=True),)
    assert unmapped(text) == {}


def test_an_exclusive_topology_of_one_job_leaves_the_others() -> None:
    text = job_set(
        replicated("leader", "parallelism: 1"),
        replicated("workers", "parallelism: 16", replicas="replicas: 4", annotations=f"{EXCLUSIVE}: rack"),
    )
    leader, workers = job_of(text).spec.pod_sets
    assert leader.topology.slices == ()
    assert workers.topology.slices == (Slice(16, "rack", exclusive=True),)


def test_slices_are_ordered_coarse_to_fine() -> None:
    kueue = "kueue.x-k8s.io/podset-slice-required-topology: host, kueue.x-k8s.io/podset-slice-size: '4'"
    text = job_set(
        replicated("w", "parallelism: 16", replicas="replicas: 2", template=kueue, annotations=f"{EXCLUSIVE}: rack")
    )
    assert job_of(text).spec.pod_sets[0].topology.slices == (Slice(16, "rack", exclusive=True), Slice(4, "host"))


def test_a_slice_without_a_size_is_refused() -> None:
    text = job_set(replicated("w", "parallelism: 16", template="kueue.x-k8s.io/podset-slice-required-topology: rack"))
    assert refusal(text)[0] == "MISSING"


def test_restarts_and_deadlines_are_mapped() -> None:
    text = job_set(
        replicated("a", "activeDeadlineSeconds: 600"),
        replicated("b", "activeDeadlineSeconds: 60"),
        spec="failurePolicy: {maxRestarts: 3}",
    )
    job = job_of(text)
    assert (job.spec.restart.max_retries, job.spec.duration_s) == (3, 60)


def test_what_the_controller_alone_does_is_named() -> None:
    jobs = replicated("a", "backoffLimit: 1") + replicated("b", "parallelism: 1").replace(
        "- name: b", "- name: b\n  dependsOn: [{name: a, status: Ready}]"
    )
    policies = "failurePolicy: {rules: [], restartStrategy: Recreate}, suspend: true, network: {subdomain: x}"
    text = job_set(jobs).replace(
        "spec:\n  \n",
        "spec:\n  "
        + policies.replace(", suspend", "\n  suspend").replace(", network", "\n  network")
        + "\n  successPolicy: {operator: All}\n  startupPolicy: {}\n",
    )
    assert set(unmapped(text)) == {
        "spec.failurePolicy.rules",
        "spec.failurePolicy.restartStrategy",
        "spec.suspend",
        "spec.successPolicy",
        "spec.startupPolicy",
        "spec.replicatedJobs[0].template.spec.backoffLimit",
        "spec.replicatedJobs[1].dependsOn",
    }


@pytest.mark.parametrize(
    ("text", "reason", "path"),
    [
        (job_set("  []"), "MISSING", "spec.replicatedJobs"),
        (
            job_set(replicated("w", "parallelism: 0")),
            "COUNT_OUT_OF_RANGE",
            "spec.replicatedJobs[0].template.spec.parallelism",
        ),
        (
            job_set(replicated("w", "parallelism: 1", replicas="replicas: 0")),
            "COUNT_OUT_OF_RANGE",
            "spec.replicatedJobs[0].replicas",
        ),
        (
            job_set(replicated("w", "parallelism: 1000", replicas="replicas: 1000")),
            "COUNT_OUT_OF_RANGE",
            "spec.replicatedJobs[0].replicas",
        ),
        (
            job_set(replicated("w", "parallelism: 1"), replicated("w", "parallelism: 1")),
            "DUPLICATE",
            "spec.replicatedJobs[1].name",
        ),
        (
            job_set(replicated("W", "parallelism: 1")),
            "NAME_INVALID",
            "spec.replicatedJobs[0].name",
        ),
        (
            job_set(replicated("w", "parallelism: 1"), head=f"annotations: {{{EXCLUSIVE}: 'a rack'}}"),
            "LEVEL_INVALID",
            f'metadata.annotations["{EXCLUSIVE}"]',
        ),
    ],
)
def test_sets_that_make_no_sense_are_refused(text: str, reason: str, path: str) -> None:
    assert refusal(text)[:2] == (reason, path)
