"""AppWrapper: the pods of all components are one gang."""

from textwrap import indent

import pytest

from tests.unit.manifests.texts import batch_job, job_of, refusal

SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {}\n"
UNKNOWN = """
apiVersion: example.com/v1
kind: Solver
metadata: {name: s}
spec:
  parts:
  - pod: {spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 2}}}]}}
"""
QUEUE = "labels: {kueue.x-k8s.io/queue-name: research}"


def wrapper(*components: tuple[str, str], head: str = QUEUE) -> str:
    listed = "".join(
        f"  - {extra or 'annotations: {}'}\n    template:\n{indent(text, '      ')}\n" for text, extra in components
    )
    return (
        f"apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nmetadata:\n  name: wrapped\n  {head}\n"
        f"spec:\n  components:\n{listed}"
    )


def test_a_job_in_it_is_the_gang() -> None:
    job = job_of(wrapper((batch_job(spec="parallelism: 4"), ""), (SERVICE, "")))
    assert (job.kind, job.spec.name, job.spec.queue) == ("AppWrapper", "wrapped", "research")
    assert [(s.name, s.count) for s in job.spec.pod_sets] == [("main", 4)]


def test_sets_of_several_jobs_are_told_apart() -> None:
    second = batch_job(spec="parallelism: 2").replace("name: train", "name: eval", 1)
    job = job_of(wrapper((batch_job(spec="parallelism: 4"), ""), (second, "")))
    assert [(s.name, s.count) for s in job.spec.pod_sets] == [("train-main", 4), ("eval-main", 2)]
    assert job.min_total == 6


def test_a_queue_inside_counts_if_none_is_outside() -> None:
    inner = batch_job(head="labels: {kueue.x-k8s.io/queue-name: inner}")
    assert job_of(wrapper((inner, ""), head="labels: {}")).spec.queue == "inner"
    assert job_of(wrapper((inner, ""))).spec.queue == "research"


def test_an_unknown_kind_counts_by_its_pod_sets() -> None:
    declared = "podSets: [{replicas: 3, path: 'template.spec.parts[0].pod'}]"
    job = job_of(wrapper((UNKNOWN, declared)))
    assert [(s.name, s.count, s.resources["cpu"]) for s in job.spec.pod_sets] == [("solver", 3, 2000)]


@pytest.mark.parametrize(
    ("path", "reason"),
    [("template.spec.parts[1].pod", "MISSING"), ("template..spec", "PATH_INVALID")],
)
def test_a_path_that_leads_nowhere_is_refused(path: str, reason: str) -> None:
    found = refusal(wrapper((UNKNOWN, f"podSets: [{{path: '{path}'}}]")))
    assert found[:2] == (reason, "spec.components[0].podSets[0].path")


def test_nothing_to_place_is_refused() -> None:
    assert refusal(wrapper((SERVICE, "")))[:2] == ("MISSING", "spec.components")


def test_a_fault_inside_is_told_where_it_stands() -> None:
    reason, path, _ = refusal(wrapper((batch_job(spec="parallelism: -1"), "")))
    assert (reason, path) == ("COUNT_OUT_OF_RANGE", "spec.components[0].template.spec.parallelism")
