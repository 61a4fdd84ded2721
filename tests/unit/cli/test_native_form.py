"""A native spec that was written reads as the job that it was written from."""

from dataclasses import replace

import pytest

from hanse.cli.native_form import native_documents
from hanse.cli.yaml_form import to_yaml
from hanse.manifests import convert
from hanse.model.beside import Companion, Need, NeedKind
from hanse.model.ids import FlavorName, QueueName
from hanse.model.job import (
    Devices,
    EnvVar,
    Group,
    JobSpec,
    OnInfrastructure,
    PodSet,
    PodTemplate,
    RestartPolicy,
    Slice,
    Spread,
    Topology,
    Volume,
    VolumeKind,
)
from hanse.model.resources import Resources
from hanse.model.selectors import Effect, Operator, Requirement, Selector, Toleration
from tests.arch.tree import ROOT

FULL = JobSpec(
    name="full",
    queue=QueueName("research"),
    priority_class="high",
    labels={"team": "vision"},
    duration_s=5_400,
    restart=RestartPolicy(max_retries=3, on_infrastructure=OnInfrastructure.FAIL),
    max_pools=2,
    start_skew_max_s=30,
    needs=(
        Need(NeedKind.SECRET, "token"),
        Need(NeedKind.PERSISTENT_VOLUME_CLAIM, "claim"),
        Need(NeedKind.RUNTIME_CLASS, "gvisor"),
    ),
    pod_sets=(
        PodSet(
            name="worker",
            count=8,
            min_count=8,
            resources=Resources({"cpu": 1_500, "memory": 3 * 2**30, "nvidia.com/gpu": 8}),
            flavors=(FlavorName("h100"), FlavorName("h200")),
            selector=Selector(
                (
                    (Requirement("zone", Operator.IN, ("a", "b")), Requirement("n", Operator.GT, ("3",))),
                    (Requirement("spot", Operator.DOES_NOT_EXIST),),
                )
            ),
            tolerations=(
                Toleration("gpu", exists=True, effect=Effect.NO_SCHEDULE),
                Toleration("team", value="vision"),
            ),
            topology=Topology(
                required="block",
                slices=(Slice(4, "rack"), Slice(2, "host", exclusive=True)),
                devices=Devices("numa", nic=True),
            ),
            template=PodTemplate(
                image="registry.example/a:1",
                command=("python", "train.py"),
                args=("--lr", "1e-3", "yes"),
                env=(EnvVar("A", "on"), EnvVar("EMPTY", "")),
                volumes=(Volume("data", VolumeKind.PERSISTENT_VOLUME_CLAIM, "claim", "/data", read_only=True),),
            ),
        ),
        PodSet(
            name="eval",
            count=5,
            min_count=5,
            selector=Selector(((Requirement("driver", Operator.VERSION_AT_LEAST, ("550.54",)),),)),
            topology=Topology(
                preferred="rack",
                slices=(Slice(2, "rack", ragged=True, preferred=True),),
                balanced="rack",
                spread=Spread("block", 3),
                same=("example.com/subnet",),
                group=Group("all", "block"),
            ),
        ),
    ),
)


def again(spec: JobSpec) -> JobSpec:
    """The job, written and read."""
    return convert("---\n".join(to_yaml(document) for document in native_documents([spec]))).jobs[0].spec


def test_every_field_survives() -> None:
    assert again(FULL) == FULL


def test_what_travels_with_a_job_is_written_beside_it() -> None:
    text = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"conf"},"data":{"a":"on","b":"1"}}'
    spec = replace(FULL, companions=(Companion("ConfigMap", "conf", text),))
    assert again(spec) == spec


@pytest.mark.parametrize("name", ["llama3-70b.yaml", "native.yaml"])
def test_examples_survive(name: str) -> None:
    spec = convert((ROOT / "docs/examples" / name).read_bytes()).jobs[0].spec
    assert again(spec) == replace(spec, manifest=None)
