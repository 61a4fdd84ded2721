"""Specs on the wire: what is written is what is read, defaults are filled in once, nothing is ignored silently."""

from collections.abc import Callable

import pytest

from hanse.api.v1 import job_spec_pb2
from hanse.model.beside import Companion, Need, NeedKind
from hanse.model.errors import InvalidArgument
from hanse.model.ids import FlavorName, QueueName
from hanse.model.job import (
    EnvVar,
    JobSpec,
    Manifest,
    OnInfrastructure,
    OnPoolLost,
    PodSet,
    PodTemplate,
    RestartPolicy,
    Slice,
    Topology,
    Volume,
    VolumeKind,
)
from hanse.model.resources import Resources
from hanse.model.selectors import Effect, Operator, Requirement, Selector, Toleration
from hanse.wire.job import spec_from_wire, spec_to_wire

FULL = JobSpec(
    name="llama",
    queue=QueueName("research"),
    priority_class="urgent",
    labels={"team": "a", "b": ""},
    duration_s=3_600,
    restart=RestartPolicy(3, OnInfrastructure.FAIL),
    max_pools=2,
    start_skew_max_s=5,
    manifest=Manifest("PyTorchJob", "kubeflow.org/v1", "ns", "kind: …\n"),
    needs=(Need(NeedKind.SECRET, "token"), Need(NeedKind.RUNTIME_CLASS, "kata")),
    companions=(Companion("ConfigMap", "conf", "{}"),),
    pod_sets=(
        PodSet(
            name="worker",
            count=512,
            min_count=0,
            resources=Resources({"nvidia.com/gpu": 8, "cpu": 1_500, "memory": 2**36}),
            flavors=(FlavorName("h100"), FlavorName("h200")),
            selector=Selector(
                (
                    (Requirement("zone", Operator.IN, ("a", "b")), Requirement("gpu", Operator.EXISTS)),
                    (Requirement("generation", Operator.GT, ("3",)),),
                )
            ),
            tolerations=(Toleration("gpu", True, "", Effect.NO_SCHEDULE), Toleration("", True)),
            topology=Topology("block", "rack", (Slice(64, "rack"), Slice(8, "nvlink", True))),
            template=PodTemplate(
                image="train:1",
                command=("python",),
                args=("train.py", ""),
                env=(EnvVar("A", "1"), EnvVar("B")),
                volumes=(Volume("data", VolumeKind.PERSISTENT_VOLUME_CLAIM, "pvc", "/data", True),),
            ),
        ),
        PodSet("tiny", 1, 1),
    ),
)


def test_a_full_spec_comes_back_as_it_was() -> None:
    message = spec_to_wire(FULL)
    assert spec_from_wire(job_spec_pb2.JobSpec.FromString(message.SerializeToString())) == FULL


def test_what_is_absent_gets_its_default() -> None:
    message = job_spec_pb2.JobSpec(name="a", queue="q", pod_sets=[job_spec_pb2.PodSet(name="w", count=4)])
    spec = spec_from_wire(message)
    assert spec == JobSpec("a", QueueName("q"), (PodSet("w", 4, 4),))
    assert (spec.max_pools, spec.start_skew_max_s, spec.on_pool_lost) == (1, 60, OnPoolLost.KEEP)


def test_a_minimum_of_zero_is_not_an_absent_one() -> None:
    message = job_spec_pb2.JobSpec(pod_sets=[job_spec_pb2.PodSet(name="w", count=4, min_count=0)])
    assert spec_from_wire(message).pod_sets[0].min_count == 0


LATER: dict[str, Callable[[job_spec_pb2.JobSpec], object]] = {
    "array": lambda m: m.array.SetInParent(),
    "dependencies": lambda m: m.dependencies.add(),
    "begin_ms": lambda m: setattr(m, "begin_ms", 1),
    "reservation": lambda m: setattr(m, "reservation", "x"),
    "service": lambda m: setattr(m, "service", True),
    "priority_band": lambda m: setattr(m, "priority_band", -1),
    "pod_sets[1].max_count": lambda m: setattr(m.pod_sets[1], "max_count", 9),
    "on_pool_lost": lambda m: setattr(m, "on_pool_lost", job_spec_pb2.ON_POOL_LOST_MOVE),
}


@pytest.mark.parametrize("path", LATER)
def test_what_comes_later_is_refused_when_it_is_set(path: str) -> None:
    message = spec_to_wire(FULL)
    LATER[path](message)
    with pytest.raises(InvalidArgument) as refused:
        spec_from_wire(message, path="jobs[3]")
    assert (refused.value.reason, refused.value.path) == ("NOT_SUPPORTED_YET", f"jobs[3].{path}")


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("on_pool_lost", lambda m: setattr(m, "on_pool_lost", 9)),
        ("restart.on_infrastructure", lambda m: setattr(m.restart, "on_infrastructure", 9)),
        (
            "pod_sets[0].selector.terms[1][0].operator",
            lambda m: setattr(m.pod_sets[0].selector.terms[1].requirements[0], "operator", 9),
        ),
        ("pod_sets[0].tolerations[1].effect", lambda m: setattr(m.pod_sets[0].tolerations[1], "effect", 9)),
        ("pod_sets[0].volumes[0].kind", lambda m: setattr(m.pod_sets[0].template.volumes[0], "kind", 9)),
    ],
)
def test_an_enum_value_that_is_not_known_is_refused(
    path: str, change: Callable[[job_spec_pb2.JobSpec], object]
) -> None:
    message = spec_to_wire(FULL)
    change(message)
    with pytest.raises(InvalidArgument) as refused:
        spec_from_wire(message)
    assert (refused.value.reason, refused.value.path) == ("ENUM_UNKNOWN", path)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (JobSpec("a", QueueName("q"), (PodSet("w", 2**70, 1),)), "NUMBER_TOO_LARGE"),
        (JobSpec("a\ud800", QueueName("q"), ()), "TEXT_INVALID"),
    ],
)
def test_what_cannot_travel_is_refused(spec: JobSpec, reason: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        spec_to_wire(spec)
    assert refused.value.reason == reason
