"""Flags mean what the same words mean in a file."""

import pytest

from hanse.cli.flag_job import FlagJob, blamed, name_of, native_text
from hanse.manifests import convert
from hanse.model.errors import HanseError, InvalidArgument
from hanse.model.job import JobSpec


def spec_of(job: FlagJob) -> JobSpec:
    """The job that the flags stand for."""
    return convert(native_text(job), default_queue="research").jobs[0].spec


def test_the_example_of_the_readme() -> None:
    spec = spec_of(
        FlagJob(gpus=64, per_pod=8, flavors=("h100",), required="rack", command=("python", "train.py", "--lr", "1"))
    )
    pod_set = spec.pod_sets[0]
    assert (spec.name, pod_set.count, pod_set.resources["nvidia.com/gpu"]) == ("train", 8, 8)
    assert (pod_set.flavors, pod_set.topology.required) == (("h100",), "rack")
    assert pod_set.template.command == ("python", "train.py", "--lr", "1")


def test_everything_else() -> None:
    spec = spec_of(
        FlagJob(
            pods=4,
            per_pod=1,
            gpu_resource="amd.com/gpu",
            preferred="block",
            slices=("2:rack",),
            name="n",
            image="i",
            env=("A=b=c", "E="),
            cpus="1500m",
            memory="64Gi",
            duration="12h",
            max_pools=2,
            labels=("team=vision",),
        )
    )
    pod_set = spec.pod_sets[0]
    assert dict(pod_set.resources) == {"amd.com/gpu": 1, "cpu": 1_500, "memory": 64 * 2**30}
    assert [(one.name, one.value) for one in pod_set.template.env] == [("A", "b=c"), ("E", "")]
    assert [(one.size, one.level) for one in pod_set.topology.slices] == [(2, "rack")]
    assert (spec.duration_s, spec.max_pools, dict(spec.labels)) == (43_200, 2, {"team": "vision"})


@pytest.mark.parametrize(
    ("job", "count", "each"),
    [
        (FlagJob(gpus=64), 8, 8),
        (FlagJob(gpus=4), 1, 4),
        (FlagJob(gpus=64, pods=16), 16, 4),
        (FlagJob(gpus=64, pods=16, per_pod=4), 16, 4),
        (FlagJob(pods=3), 3, 0),
    ],
)
def test_pods_and_gpus_follow_from_each_other(job: FlagJob, count: int, each: int) -> None:
    pod_set = spec_of(job).pod_sets[0]
    assert (pod_set.count, pod_set.resources["nvidia.com/gpu"]) == (count, each)


@pytest.mark.parametrize(
    ("job", "flag"),
    [
        (FlagJob(gpus=63, per_pod=8), "--per-pod"),
        (FlagJob(gpus=-8), "--gpus"),
        (FlagJob(gpus=0), "--gpus"),
        (FlagJob(gpus=8, per_pod=0), "--per-pod"),
        (FlagJob(pods=0), "--pods"),
        (FlagJob(gpus=64, pods=7), "--pods"),
        (FlagJob(gpus=64, pods=4, per_pod=8), "--pods"),
        (FlagJob(gpus=8, env=("A",)), "--env"),
        (FlagJob(gpus=8, labels=("=b",)), "--label"),
        (FlagJob(gpus=8, slices=("rack:16",)), "--slice"),
        (FlagJob(gpus=8, memory="12Qi"), "--memory"),
        (FlagJob(gpus=8, cpus="many"), "--cpus"),
        (FlagJob(gpus=8, duration="soon"), "--duration"),
        (FlagJob(gpus=64, slices=("7:rack",)), "--slice"),
        (FlagJob(gpus=8, name="No Name"), "--name"),
        (FlagJob(gpus=8, max_pools=0), "--max-pools"),
        (FlagJob(gpus=10**12), "--gpus"),
    ],
)
def test_what_is_wrong_is_blamed_on_its_flag(job: FlagJob, flag: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        spec_of(job)
    assert blamed(caught.value).path == flag
    assert blamed(caught.value).line == 0


def test_what_only_the_server_knows_is_blamed_on_its_flag_too() -> None:
    error: HanseError = InvalidArgument("no such level", path="pod_sets[0].topology.required_level", line=1)
    assert blamed(error).path == "--required"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "train.py"], "train"),
        (["python", "-m", "train.loop"], "python"),
        (["torchrun", "--nnodes=2", "src/My_Train.py"], "my-train"),
        (["/usr/bin/sleep", "10"], "sleep"),
        (["--weird"], "job"),
        ([], "job"),
        (["___"], "job"),
    ],
)
def test_name_of_a_command(command: list[str], name: str) -> None:
    assert name_of(command) == name
