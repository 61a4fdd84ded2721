"""Whole submissions: several objects, lists, what is refused, and what is told."""

import json

import pytest

from hanse.manifests import ConvertedJson, Origin, convert, to_json
from hanse.model.errors import InvalidArgument
from tests.unit.manifests.texts import batch_job, converted, job_of, pod_group, pytorch_job, refusal

JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train"},
    "spec": {"parallelism": 2, "template": {"spec": {"containers": [{"name": "c"}]}}},
}


def listed(*items: object, kind: str = "List", version: str = "v1") -> str:
    return json.dumps({"apiVersion": version, "kind": kind, "items": items}, indent=1)


def test_json_is_read_like_yaml() -> None:
    assert job_of(json.dumps(JOB)).spec.pods == 2


def test_documents_and_lists_may_be_mixed() -> None:
    other = {**JOB, "metadata": {"name": "other"}}
    found = converted(pytorch_job(head="namespace: a") + "\n---\n" + listed(JOB, other))
    assert [(job.spec.name, job.namespace) for job in found.jobs] == [("train", "a"), ("train", ""), ("other", "")]


def test_an_item_of_a_typed_list_inherits_its_kind() -> None:
    item = {key: value for key, value in JOB.items() if key not in ("apiVersion", "kind")}
    assert job_of(listed(item, kind="JobList", version="batch/v1")).kind == "Job"


def test_an_item_is_kept_as_an_object_of_its_own() -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n- " + batch_job().replace("\n", "\n  ")
    manifest = job_of(text).spec.manifest
    assert manifest is not None
    assert job_of(manifest.text).spec.pod_sets == job_of(text).spec.pod_sets


def test_an_item_that_leans_on_an_alias_is_written_out() -> None:
    text = listed(JOB)[:-2] + ', "x": 1}'
    assert refusal(text)[0] == "UNKNOWN_FIELD"
    yaml = """
    apiVersion: v1
    kind: List
    items:
    - &one
      apiVersion: batch/v1
      kind: Job
      metadata: {name: a}
      spec: {template: {spec: {containers: [{name: c, image: "é", args: ["0x10", "on"]}]}}}
    - {<<: *one, metadata: {name: b}}
    """
    one, two = converted(yaml).jobs
    assert two.spec.manifest is not None
    again = job_of(two.spec.manifest.text)
    assert again.spec.name == "b"
    assert again.spec.pod_sets == one.spec.pod_sets


@pytest.mark.parametrize(
    ("text", "reason", "path", "line"),
    [
        ("", "EMPTY", "", 0),
        ("# nothing\n---\n", "EMPTY", "", 0),
        ("hello", "TYPE", "", 1),
        ("[1, 2]", "TYPE", "", 1),
        ("a: 1", "MISSING", "kind", 1),
        ("kind: Job", "MISSING", "apiVersion", 1),
        ("kind: [Job]\napiVersion: v1", "TYPE", "kind", 1),
        ("apiVersion: 1\nkind: Job", "TYPE", "apiVersion", 1),
        ("apiVersion: v1\nkind: Secret\nmetadata: {name: x}", "SECRET", "kind", 2),
        ("apiVersion: apps/v1\nkind: Deployment", "UNKNOWN_KIND", "kind", 2),
        ("apiVersion: hanse/v1\nkind: Queue\nname: x", "UNKNOWN_KIND", "kind", 2),
        (listed(), "EMPTY", "", 0),
        (listed(1), "TYPE", "items[0]", 5),
        (listed({"kind": "Job"}), "MISSING", "items[0].apiVersion", 5),
        (listed(JOB, JOB), "DUPLICATE_NAME", "items[1].metadata.name", 28),
    ],
)
def test_submissions_that_hold_no_job_are_refused(text: str, reason: str, path: str, line: int) -> None:
    assert refusal(text) == (reason, path, line)


def test_the_message_tells_which_document() -> None:
    with pytest.raises(InvalidArgument, match=r"0 workers; a gang needs at least 1 \(document 2\)"):
        convert(pod_group("minMember: 1") + pytorch_job(workers=0))
    with pytest.raises(InvalidArgument, match="no pod template") as caught:
        convert(listed(JOB, {**JOB, "spec": {}}))
    assert (caught.value.path, "document" in caught.value.message) == ("items[1].spec.template", False)


def test_names_are_used_once_in_a_submission() -> None:
    twice = pytorch_job() + "\n---\n" + batch_job()
    reason, path, line = refusal(twice)
    assert (reason, path) == ("DUPLICATE_NAME", "metadata.name")
    assert twice.splitlines()[line - 1].strip() == "name: train"
    apart = pytorch_job(head="namespace: a") + "\n---\n" + batch_job(head="namespace: b")
    assert len(convert(apart).jobs) == 2


def test_the_file_is_named_where_no_line_is() -> None:
    with pytest.raises(InvalidArgument, match=r"^empty\.yaml: "):
        convert("", filename="empty.yaml")


def test_a_field_of_the_model_leads_back_to_the_document() -> None:
    job = job_of(pod_group("minMember: 4\nqueue: research") + pytorch_job())
    assert job.where("queue") == Origin("spec.queue", 8)
    assert job.where("pod_sets[0].count").path == "spec.pytorchReplicaSpecs.Worker.replicas"
    assert job.where("pod_sets[0].resources.cpu").path.endswith("Worker.template.spec.containers")
    assert job.where("pod_sets[0].required").path == "spec.pytorchReplicaSpecs.Worker.template"
    assert job.where("max_pools").path == "kind"
    assert job.lines["pod_sets[0].count"] == job.where("pod_sets[0].count").line


def test_json_has_every_field() -> None:
    text = batch_job(
        "schedulerName: x\n"
        "containers: [{name: a, resources: {requests: {cpu: 1500m, memory: 1Gi, nvidia.com/gpu: 8}}}]",
        spec="parallelism: 8\nactiveDeadlineSeconds: 60",
        head="namespace: ml\nlabels: {kueue.x-k8s.io/queue-name: q, kueue.x-k8s.io/priority-class: p}",
        template="""
        annotations:
          kueue.x-k8s.io/podset-required-topology: block
          kueue.x-k8s.io/podset-slice-required-topology: rack
          kueue.x-k8s.io/podset-slice-size: "4"
        """,
    )
    expected: ConvertedJson = {
        "jobs": [
            {
                "kind": "Job",
                "name": "train",
                "namespace": "ml",
                "queue": "q",
                "priority_class": "p",
                "duration_s": 60,
                "min_total": 8,
                "pod_sets": [
                    {
                        "name": "main",
                        "count": 8,
                        "min_count": 8,
                        "resources": {"cpu": 1500, "memory": 2**30, "nvidia.com/gpu": 8},
                        "required_level": "block",
                        "preferred_level": "",
                        "slices": [{"size": 4, "level": "rack", "exclusive": False}],
                    }
                ],
            }
        ],
        "unmapped": [
            {
                "path": "spec.template.spec.schedulerName",
                "line": text.splitlines().index("      schedulerName: x") + 1,
                "why": "Hanse chooses the nodes of the whole gang; this scheduler is not asked",
            }
        ],
    }
    assert to_json(convert(text)) == expected
    assert json.loads(json.dumps(to_json(convert(text)))) == expected
