"""Whatever the text, a conversion ends soon, in a job that is valid or in one refusal; numbers survive exactly."""

import json
import re
import time
from collections.abc import Callable
from copy import deepcopy
from decimal import Decimal
from typing import Final, TypeVar

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hanse.manifests import Converted, convert, plain, read_resources, to_json, to_yaml
from hanse.model.errors import HanseError, InvalidArgument
from hanse.model.resources import AMOUNT_MAX, parse_quantity
from hanse.model.validate import validate_spec

SECONDS_MAX: Final = 5.0

T = TypeVar("T")

POD: Final[dict[str, object]] = {
    "metadata": {
        "labels": {"app": "x"},
        "annotations": {
            "kueue.x-k8s.io/podset-required-topology": "block",
            "kueue.x-k8s.io/podset-slice-required-topology": "rack",
            "kueue.x-k8s.io/podset-slice-size": "2",
            "kai.scheduler/segment-size": "2",
        },
    },
    "spec": {
        "schedulerName": "volcano",
        "priorityClassName": "high",
        "nodeSelector": {"a": "x"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["true"]}]}]
                }
            }
        },
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
        "overhead": {"cpu": "10m"},
        "resources": {"requests": {"cpu": "3"}},
        "initContainers": [
            {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": 1}}},
            {"name": "i", "resources": {"limits": {"memory": "1Gi"}}},
        ],
        "containers": [
            {
                "name": "c",
                "image": "i",
                "command": ["a"],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {}}}],
                "ports": [{"containerPort": 1, "hostPort": 1}],
                "resources": {"limits": {"nvidia.com/gpu": 8}, "requests": {"cpu": "500m", "nvidia.com/gpu": 8}},
            }
        ],
    },
}
HEAD: Final[dict[str, object]] = {
    "name": "train",
    "namespace": "ml",
    "labels": {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/max-exec-time-seconds": "60"},
    "annotations": {"kai.scheduler/topology-preferred-placement": "rack"},
}
RUN_POLICY: Final[dict[str, object]] = {
    "backoffLimit": 3,
    "activeDeadlineSeconds": 60,
    "suspend": True,
    "schedulingPolicy": {"minAvailable": 4, "queue": "q", "priorityClass": "high"},
}


def an_object(version: str, kind: str, spec: dict[str, object]) -> dict[str, object]:
    return {"apiVersion": version, "kind": kind, "metadata": HEAD, "spec": spec}


GROUP: Final[dict[str, object]] = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "train"},
    "spec": {"minMember": 4, "queue": "q", "networkTopology": {"mode": "soft", "highestTierName": "rack"}},
}
PLAIN: Final[dict[str, object]] = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": 2}}}]}}
SUBMISSIONS: Final[list[list[dict[str, object]]]] = [
    [
        GROUP,
        an_object(
            "kubeflow.org/v1",
            "PyTorchJob",
            {
                "pytorchReplicaSpecs": {"Worker": {"replicas": 4, "template": POD}},
                "runPolicy": RUN_POLICY,
                "elasticPolicy": {"minReplicas": 2, "maxReplicas": 8, "maxRestarts": 3},
            },
        ),
    ],
    [
        an_object(
            "kubeflow.org/v2beta1",
            "MPIJob",
            {
                "launcherCreationPolicy": "WaitForWorkersReady",
                "mpiReplicaSpecs": {
                    "Launcher": {"template": {"spec": {"containers": [{"name": "c"}]}}},
                    "Worker": {"replicas": 4, "template": POD},
                },
            },
        )
    ],
    [an_object("batch/v1", "Job", {"parallelism": 4, "completions": 4, "backoffLimit": 1, "template": POD})],
    [
        an_object(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {
                "failurePolicy": {"maxRestarts": 3, "rules": []},
                "replicatedJobs": [
                    {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 4, "template": POD}}}
                ],
            },
        )
    ],
    [
        an_object(
            "batch.volcano.sh/v1alpha1",
            "Job",
            {
                "minAvailable": 3,
                "queue": "q",
                "tasks": [
                    {
                        "name": "w",
                        "replicas": 4,
                        "minAvailable": 2,
                        "template": POD,
                        "partitionPolicy": {
                            "totalPartitions": 2,
                            "partitionSize": 2,
                            "networkTopology": {"highestTierAllowed": 1},
                        },
                    }
                ],
            },
        )
    ],
    [{"apiVersion": "v1", "kind": "Pod", **deepcopy(POD), "metadata": HEAD}],
    [
        an_object(
            "trainer.kubeflow.org/v1alpha1",
            "TrainJob",
            {
                "runtimeRef": {"name": "train"},
                "trainer": {"numNodes": 4, "image": "i", "resourcesPerNode": {"limits": {"cpu": 4}}},
                "podTemplateOverrides": [{"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {"zone": "a"}}}],
            },
        ),
        {
            **an_object(
                "trainer.kubeflow.org/v1alpha1",
                "ClusterTrainingRuntime",
                {
                    "mlPolicy": {"numNodes": 2, "mpi": {"runLauncherAsNode": True}},
                    "podGroupPolicy": {"volcano": {"networkTopology": {"highestTierName": "rack"}}},
                    "template": {
                        "spec": {
                            "replicatedJobs": [
                                {"name": "launcher", "template": {"spec": {"template": PLAIN}}},
                                {"name": "node", "template": {"spec": {"template": PLAIN}}},
                            ]
                        }
                    },
                },
            ),
            "metadata": {"name": "train"},
        },
    ],
    [
        an_object(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            {
                "replicas": 2,
                "leaderWorkerTemplate": {
                    "size": 5,
                    "leaderTemplate": PLAIN,
                    "workerTemplate": PLAIN,
                    "subGroupPolicy": {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"},
                },
            },
        )
    ],
    [
        an_object(
            "workload.codeflare.dev/v1beta2",
            "AppWrapper",
            {
                "components": [
                    {"template": an_object("batch/v1", "Job", {"parallelism": 2, "template": PLAIN})},
                    {
                        "template": an_object("example.com/v1", "Solver", {"parts": [PLAIN]}),
                        "podSets": [{"replicas": 3, "path": "template.spec.parts[0]"}],
                    },
                ]
            },
        )
    ],
    [
        an_object("batch/v1", "Job", {"parallelism": 4, "template": PLAIN}),
        {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "Workload",
            "metadata": {"name": "plan"},
            "spec": {
                "controllerRef": {"kind": "Job", "name": "train"},
                "podGroupTemplates": [
                    {
                        "name": "main",
                        "schedulingPolicy": {"gang": {"minCount": 2}},
                        "schedulingConstraints": {"topology": [{"key": "rack"}]},
                    }
                ],
            },
        },
    ],
    [
        an_object("batch/v1", "Job", {"parallelism": 4, "template": PLAIN}),
        {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": "train"},
            "spec": {"minMember": 2, "subGroups": [{"name": "main", "minMember": 2}]},
        },
    ],
    [
        {
            "apiVersion": "hanse/v1",
            "kind": "Job",
            "name": "train",
            "queue": "q",
            "labels": {"a": "x"},
            "duration": "1h",
            "restart": {"max_retries": 1, "on_infrastructure": "requeue"},
            "max_pools": 1,
            "on_pool_lost": "keep",
            "pod_sets": [
                {
                    "name": "w",
                    "count": 4,
                    "min_count": 2,
                    "command": ["a"],
                    "env": {"A": 1},
                    "volumes": [{"name": "v", "kind": "secret", "source": "s"}],
                    "resources": {"cpu": "1500m"},
                    "flavors": ["h100"],
                    "selector": [{"key": "k", "operator": "Exists"}],
                    "tolerations": [{"key": "k", "operator": "Exists"}],
                    "required": "block",
                    "slices": [{"size": 2, "level": "rack", "exclusive": True}],
                }
            ],
        }
    ],
]
RESOURCES: Final[list[dict[str, object]]] = [
    {
        "apiVersion": "hanse/v1",
        "kind": "Queue",
        "name": "q",
        "cohort": "c",
        "held": False,
        "labels": {"a": "x"},
        "quotas": [{"flavor": "h100", "nominal": {"nvidia.com/gpu": 8}}],
    },
    {"apiVersion": "hanse/v1", "kind": "Cohort", "name": "c", "parent": "d"},
    {
        "apiVersion": "hanse/v1",
        "kind": "Flavor",
        "name": "f",
        "order": 1,
        "match": [{"key": "k", "operator": "Exists"}],
    },
    {"apiVersion": "hanse/v1", "kind": "PriorityClass", "name": "p", "value": 3, "default": True},
]

ODD_VALUES: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-3, 9),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["", "0", "-1", "1Gi", "x" * 300, "a/b/c", "true", "rack", "A b", "\0", "\n", "😀", "~"]),
    st.lists(st.none() | st.integers() | st.text(max_size=5), max_size=3),
    st.dictionaries(st.text(max_size=8), st.none() | st.integers() | st.text(max_size=5), max_size=3),
    st.just(deepcopy(POD)),
)


def paths(node: object, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The place of every value below a node."""
    found = [at] if at else []
    if isinstance(node, dict):
        for key, value in node.items():
            found += paths(value, (*at, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            found += paths(value, (*at, index))
    return found


def change(node: object, at: tuple[str | int, ...], value: object, *, remove: bool) -> None:
    """Put a value where the path leads, or remove what is there."""
    for step in at[:-1]:
        node = node[step]  # type: ignore[index]
    if remove:
        del node[at[-1]]  # type: ignore[attr-defined]
    else:
        node[at[-1]] = deepcopy(value)  # type: ignore[index]


@st.composite
def damaged(draw: st.DrawFn, documents: list[dict[str, object]]) -> str:
    """Documents with one to three values replaced or removed, as JSON or YAML."""
    whole: list[dict[str, object]] = deepcopy(documents)
    for _ in range(draw(st.integers(1, 3))):
        places = paths(whole)
        if not places:
            break
        place = places[draw(st.integers(0, len(places) - 1))]
        change(whole, place, draw(ODD_VALUES), remove=draw(st.integers(0, 4)) == 0)
    if draw(st.booleans()):
        return "\n---\n".join(json.dumps(document) for document in whole)
    return yaml.safe_dump_all(whole, allow_unicode=True)


def convert_or_refuse(text: str | bytes) -> Converted | None:
    """What must be done with any text: answer in time, with a value or with a refusal of one line."""
    started = time.process_time()
    found = attempt(convert, text)
    assert time.process_time() - started < SECONDS_MAX
    if isinstance(found, Converted):
        return found
    check_refusal(found, text)
    return None


def attempt(read: Callable[[str | bytes], T], text: str | bytes) -> T | HanseError:
    try:
        return read(text)
    except HanseError as error:
        return error


def check_refusal(error: HanseError, text: str | bytes) -> None:
    raw = text if isinstance(text, bytes) else text.encode(errors="replace")
    lines = len(re.split(b"\r\n|\r|\n", raw))
    assert isinstance(error, InvalidArgument)
    assert error.message
    assert "\n" not in str(error)
    assert error.reason.isupper()
    assert 0 <= error.line <= lines


def check(found: Converted) -> None:
    for job in found.jobs:
        validate_spec(job.spec, lines=job.lines, queue_required=False)
        assert 0 <= job.min_total <= job.spec.pods
        assert sum(pod_set.min_count for pod_set in job.spec.pod_sets) <= job.min_total
    json.dumps(to_json(found), allow_nan=False)


QUICK = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@QUICK
@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_text_is_answered(text: str | bytes) -> None:
    convert_or_refuse(text)
    with pytest.raises(HanseError):
        read_resources(text)


@QUICK
@given(st.text(alphabet="ab:- \n\t{}[],&*!|>'\"%@`#?0~<\\", max_size=120))
def test_any_soup_of_yaml_is_answered(text: str) -> None:
    convert_or_refuse(text)


@pytest.mark.parametrize("number", range(len(SUBMISSIONS)))
def test_the_undamaged_submissions_convert(number: int) -> None:
    found = convert_or_refuse("\n---\n".join(json.dumps(document) for document in SUBMISSIONS[number]))
    assert found is not None
    check(found)


@pytest.mark.parametrize("number", range(len(SUBMISSIONS)))
@QUICK
@given(data=st.data())
def test_a_damaged_submission_is_a_valid_job_or_refused(number: int, data: st.DataObject) -> None:
    found = convert_or_refuse(data.draw(damaged(SUBMISSIONS[number])))
    if found is not None:
        check(found)


@QUICK
@given(damaged(RESOURCES))
def test_a_damaged_operator_file_is_read_or_refused(text: str) -> None:
    found = attempt(read_resources, text)
    if isinstance(found, HanseError):
        check_refusal(found, text)


@QUICK
@given(st.integers(0, len(SUBMISSIONS) - 1))
def test_yaml_and_json_say_the_same(number: int) -> None:
    as_json = convert("\n---\n".join(json.dumps(document) for document in SUBMISSIONS[number]))
    as_yaml = convert(yaml.safe_dump_all(SUBMISSIONS[number]))
    assert to_json(as_json)["jobs"] == to_json(as_yaml)["jobs"]
    assert {u.path for u in as_json.unmapped} == {u.path for u in as_yaml.unmapped}


PLAIN_TEXTS: Final = st.text(st.characters(exclude_categories=("Cs", "Cc"))) | st.from_regex(
    r"[-+]?[0-9][0-9eEoxb._:]{0,5}|[yYnN]|on|Off|~|null", fullmatch=True
)
PLAIN_VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | PLAIN_TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PLAIN_TEXTS, inner, max_size=4),
    max_leaves=10,
)


@QUICK
@given(PLAIN_VALUES)
def test_what_is_written_reads_the_same(value: object) -> None:
    assert plain(to_yaml(value)) == value


@QUICK
@given(st.integers(0, AMOUNT_MAX // 1000), st.sampled_from(["", "k", "M", "G", "Ki", "Mi", "Gi", "Ti"]))
def test_whole_quantities_are_exact(number: int, suffix: str) -> None:
    factor = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}[suffix]
    if number * factor > AMOUNT_MAX:
        with pytest.raises(ValueError, match="over the limit"):
            parse_quantity(f"{number}{suffix}")
    else:
        assert parse_quantity(f"{number}{suffix}") == number * factor


@QUICK
@given(st.integers(0, 10**9))
def test_a_quantity_survives_every_way_to_write_it(milli: int) -> None:
    text = f"{Decimal(milli) / 1000:f}"
    for written in (f"{milli}m", text, f"{milli}e-3", f"{milli * 1000}u"):
        assert parse_quantity(written, scale=1000) == milli


@QUICK
@given(st.integers(1, 100_000), st.integers(0, 64), st.integers(1, 2**40))
def test_any_gang_of_the_demos_kind_is_counted_exactly(workers: int, gpus: int, memory: int) -> None:
    text = f"""
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {{name: train}}
spec: {{minMember: {workers}, queue: q}}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: train}}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: {workers}
      template:
        spec:
          containers:
          - {{name: c, resources: {{limits: {{nvidia.com/gpu: {gpus}, memory: {memory}}}}}}}
"""
    (job,) = convert(text).jobs
    (pods,) = job.spec.pod_sets
    assert (pods.count, pods.min_count, job.min_total) == (workers, workers, workers)
    assert (pods.resources["nvidia.com/gpu"], pods.resources["memory"]) == (gpus, memory)
