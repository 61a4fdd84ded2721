"""Pods of one group are one gang."""

import pytest

from tests.unit.manifests.texts import converted, job_of, refusal, unmapped

GROUP = "kueue.x-k8s.io/pod-group-name"
TOTAL = "kueue.x-k8s.io/pod-group-total-count"


def pod(
    name: str, *, group: str = "gang", total: int | None = 3, cpu: int = 1, labels: str = "", notes: str = ""
) -> str:
    named = f"{GROUP}: {group}" if group else "app: x"
    counted = f'{TOTAL}: "{total}"' if total is not None else "note: x"
    return f"""
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {{{named}{labels}}}
  annotations: {{{counted}{notes}}}
spec: {{containers: [{{name: c, resources: {{requests: {{cpu: {cpu}}}}}}}]}}
"""


def test_pods_of_one_group_are_one_job_with_a_set_per_template() -> None:
    queue = ", kueue.x-k8s.io/queue-name: research"
    text = "---".join((pod("a", labels=queue), pod("b", cpu=2, labels=queue), pod("c", labels=queue)))
    job = job_of(text)
    assert (job.kind, job.spec.name, job.spec.queue, job.min_total) == ("Pod", "gang", "research", 3)
    assert [(s.name, s.count, s.resources["cpu"]) for s in job.spec.pod_sets] == [
        ("main-0", 2, 1000),
        ("main-1", 1, 2000),
    ]
    assert unmapped(text) == {}


def test_all_pods_are_kept_as_written() -> None:
    manifest = job_of("---".join(pod(name) for name in "abc")).spec.manifest
    assert manifest is not None
    assert job_of(manifest.text).spec.pods == 3


def test_groups_and_lone_pods_are_jobs_of_their_own() -> None:
    text = "---".join((pod("x", total=1), pod("alone", group="", total=None), pod("z", group="other", total=1)))
    assert [job.spec.name for job in converted(text).jobs] == ["gang", "alone", "other"]


def test_the_group_may_be_an_annotation() -> None:
    text = "---".join(pod(n, group="", total=2, notes=f", {GROUP}: gang") for n in "ab")
    assert job_of(text).spec.pods == 2


def test_ranks_are_kept() -> None:
    text = "---".join(pod(n, total=2, labels=f', kueue.x-k8s.io/pod-group-pod-index: "{n}"') for n in "01")
    assert unmapped(text.replace("name: 0", "name: a").replace("name: 1", "name: b")) == {}


def test_topology_tells_templates_apart() -> None:
    rack = ", kueue.x-k8s.io/podset-required-topology: rack"
    sets = job_of("---".join((pod("a", notes=rack), pod("b"), pod("c", notes=rack)))).spec.pod_sets
    assert [(s.count, s.topology.required) for s in sets] == [(2, "rack"), (1, "")]


@pytest.mark.parametrize("names", [["a"], ["a", "b"], ["a", "b", "c", "d"]])
def test_a_group_must_be_whole(names: list[str]) -> None:
    reason, path, line = refusal("---".join(pod(name) for name in names))
    assert (reason, path, line) == ("CONTRADICTION", f'metadata.annotations["{TOTAL}"]', 7)


def test_pods_that_disagree_on_their_queue_are_refused() -> None:
    text = "---".join(pod(n, total=2, labels=f", kueue.x-k8s.io/queue-name: {n}") for n in "ab")
    assert refusal(text)[0] == "CONTRADICTION"
