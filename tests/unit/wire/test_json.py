"""The JSON of `-o json`: the proto's names, every field, numbers as numbers, states as bare words."""

import json

from hanse.api.v1 import explanation_pb2, job_pb2, job_service_pb2, queue_pb2
from hanse.model.errors import NotFound
from hanse.wire.json import error_to_json, message_to_json


def test_a_job_is_flat_and_complete() -> None:
    domain = job_pb2.LevelUse(level="rack", count=2, names=["b1/r1"])
    status = job_pb2.JobStatus(
        state=job_pb2.JOB_STATE_RUNNING,
        submitted_ms=2**53 + 1,
        placement=[job_pb2.Placement(pool="oslo", flavor="h100", pods=4, domains=[domain])],
        nodes=[job_pb2.NodePlacement(name="n1", pod_set="w", ranks=[0, 1], path=["b1", "r1"], pool="oslo")],
    )
    found = message_to_json(job_pb2.Job(id="x", name="train", status=status))
    assert found["state"] == "RUNNING"
    assert found["submitted_ms"] == 2**53 + 1
    assert found["placement"] == [
        {
            "pool": "oslo",
            "flavor": "h100",
            "pods": 4,
            "domains": [{"level": "rack", "count": 2, "names": ["b1/r1"]}],
            "message": "",
        }
    ]
    assert found["nodes"] == [{"name": "n1", "pod_set": "w", "ranks": [0, 1], "path": ["b1", "r1"], "pool": "oslo"}]
    for name in ("attempt", "reason", "conditions", "attempts", "spec", "queue"):
        assert name in found
    assert (found["spec"], found["target"]) == (None, "UNSPECIFIED")
    json.dumps(found)


def test_a_job_without_a_status_has_every_field_too() -> None:
    assert message_to_json(job_pb2.Job(id="x"))["state"] == "UNSPECIFIED"


def test_the_names_that_scripts_rely_on() -> None:
    response = job_service_pb2.SubmitJobsResponse(jobs=[job_service_pb2.SubmittedJob(id="x", state=1)])  # type: ignore[arg-type]
    explanation = explanation_pb2.Explanation(pools=[explanation_pb2.PoolExplanation(pool="oslo", wanted=3)])
    jobs, pools = message_to_json(response)["jobs"], message_to_json(explanation)["pools"]
    assert isinstance(jobs, list)
    assert isinstance(jobs[0], dict)
    assert isinstance(pools, list)
    assert isinstance(pools[0], dict)
    assert set(jobs[0]) >= {"id", "name", "queue", "state", "reason"}
    assert set(pools[0]) >= {"pool", "fits", "reason", "constraint", "wanted", "found"}


def test_maps_and_optional_fields() -> None:
    quota = queue_pb2.FlavorQuota(flavor="h100", nominal={"nvidia.com/gpu": 2**62, "cpu": 1})
    found = message_to_json(queue_pb2.Queue(quotas=[quota]))
    assert found["quotas"] == [{"flavor": "h100", "nominal": {"cpu": 1, "nvidia.com/gpu": 2**62}}]
    assert (found["held"], found["status"], found["labels"]) == (None, None, {})


def test_a_state_of_a_later_version_is_its_number() -> None:
    message = job_pb2.Job.FromString(job_pb2.Job(status=job_pb2.JobStatus()).SerializeToString())
    message.status.state = 77  # type: ignore[assignment]
    assert message_to_json(message)["state"] == "77"


def test_an_error() -> None:
    error = NotFound("no such\nqueue", reason="QUEUE_NOT_FOUND", path="queue", line=3)
    assert error_to_json(error) == {
        "error": {"reason": "QUEUE_NOT_FOUND", "path": "queue", "line": 3, "message": "no such queue"}
    }
