"""Every rule of a spec, one broken at a time: reason and path say which."""

from dataclasses import replace

import pytest

from hanse.model.errors import InvalidArgument
from hanse.model.ids import FlavorName, QueueName
from hanse.model.job import (
    PODS_PER_JOB_MAX,
    Devices,
    EnvVar,
    Group,
    JobSpec,
    OnPoolLost,
    PodSet,
    PodTemplate,
    RestartPolicy,
    Slice,
    Spread,
    Topology,
    Volume,
    VolumeKind,
)
from hanse.model.resources import AMOUNT_MAX, GPU_MILLI, Resources
from hanse.model.selectors import Operator, Requirement, Selector, Toleration
from hanse.model.validate import check_name, check_requirement, validate_spec

SET = PodSet("worker", 8, 8, Resources({"cpu": 1000, "nvidia.com/gpu": 8}))
SPEC = JobSpec("train", QueueName("research"), (SET,))


def refused(spec: JobSpec) -> tuple[str, str]:
    with pytest.raises(InvalidArgument) as caught:
        validate_spec(spec)
    assert caught.value.message
    return caught.value.reason, caught.value.path


def with_set(pod_set: PodSet) -> JobSpec:
    return replace(SPEC, pod_sets=(pod_set,))


def test_a_plain_spec_is_valid() -> None:
    validate_spec(SPEC)


def test_a_ragged_first_layer_need_not_divide() -> None:
    layers = (Slice(6, "rack", ragged=True), Slice(3, "host"))
    validate_spec(with_set(replace(SET, count=16, topology=Topology(slices=layers))))


def test_a_full_spec_is_valid() -> None:
    full = replace(
        SET,
        min_count=0,
        flavors=(FlavorName("h100"), FlavorName("h200")),
        selector=Selector(((Requirement("a/b", Operator.IN, ("x",)),), (Requirement("c", Operator.GT, ("-7",)),))),
        tolerations=(Toleration(exists=True), Toleration("k", value="v")),
        topology=Topology("block", "rack", (Slice(8, "x"), Slice(4, "y", True), Slice(2, "z"))),
        template=PodTemplate(
            "registry.example/a:1",
            ("sh",),
            ("-c", "true"),
            (EnvVar("A", ""),),
            (Volume("v", VolumeKind.EMPTY_DIR), Volume("s", VolumeKind.SECRET, "s", "/s")),
        ),
    )
    spec = replace(
        SPEC,
        pod_sets=(full, replace(SET, name="eval")),
        labels={"team": "a", "x.y/z": ""},
        duration_s=60,
        max_pools=8,
    )
    validate_spec(spec)


@pytest.mark.parametrize(
    ("spec", "reason", "path"),
    [
        (replace(SPEC, name=""), "NAME_INVALID", "name"),
        (replace(SPEC, name="a/b"), "NAME_INVALID", "name"),
        (replace(SPEC, queue=QueueName("")), "QUEUE_MISSING", "queue"),
        (replace(SPEC, queue=QueueName("Q")), "NAME_INVALID", "queue"),
        (replace(SPEC, priority_class="P"), "NAME_INVALID", "priority_class"),
        (replace(SPEC, labels={"a b": ""}), "LABEL_INVALID", 'labels["a b"]'),
        (replace(SPEC, labels={"a": "b c"}), "LABEL_INVALID", "labels.a"),
        (replace(SPEC, labels={f"a{i}": "" for i in range(65)}), "TOO_MANY", "labels"),
        (replace(SPEC, duration_s=-1), "DURATION_OUT_OF_RANGE", "duration_s"),
        (replace(SPEC, duration_s=10**9), "DURATION_OUT_OF_RANGE", "duration_s"),
        (replace(SPEC, restart=RestartPolicy(-1)), "RETRIES_OUT_OF_RANGE", "restart.max_retries"),
        (replace(SPEC, max_pools=0), "POOLS_OUT_OF_RANGE", "max_pools"),
        (replace(SPEC, max_pools=9), "POOLS_OUT_OF_RANGE", "max_pools"),
        (replace(SPEC, start_skew_max_s=0), "START_SKEW_OUT_OF_RANGE", "start_skew_max_s"),
        (replace(SPEC, on_pool_lost=OnPoolLost.MOVE), "NOT_SUPPORTED", "on_pool_lost"),
        (replace(SPEC, pod_sets=()), "POD_SETS_MISSING", "pod_sets"),
        (replace(SPEC, pod_sets=(SET, SET)), "DUPLICATE", "pod_sets[1].name"),
        (
            replace(SPEC, pod_sets=tuple(replace(SET, name=f"s{i}") for i in range(17))),
            "TOO_MANY",
            "pod_sets",
        ),
        (
            replace(SPEC, pod_sets=(replace(SET, count=PODS_PER_JOB_MAX), replace(SET, name="x"))),
            "COUNT_OUT_OF_RANGE",
            "pod_sets",
        ),
    ],
)
def test_a_broken_job_is_refused(spec: JobSpec, reason: str, path: str) -> None:
    assert refused(spec) == (reason, path)


@pytest.mark.parametrize(
    ("pod_set", "reason", "path"),
    [
        (replace(SET, name=""), "NAME_INVALID", "name"),
        (replace(SET, name="a.b"), "NAME_INVALID", "name"),
        (replace(SET, count=0), "COUNT_OUT_OF_RANGE", "count"),
        (replace(SET, count=-1), "COUNT_OUT_OF_RANGE", "count"),
        (replace(SET, count=PODS_PER_JOB_MAX + 1), "COUNT_OUT_OF_RANGE", "count"),
        (replace(SET, min_count=9), "MIN_COUNT_OUT_OF_RANGE", "min_count"),
        (replace(SET, min_count=-1), "MIN_COUNT_OUT_OF_RANGE", "min_count"),
        (replace(SET, resources=Resources({"cpu": -1})), "AMOUNT_OUT_OF_RANGE", "resources.cpu"),
        (replace(SET, resources=Resources({"cpu": AMOUNT_MAX + 1})), "AMOUNT_OUT_OF_RANGE", "resources.cpu"),
        (replace(SET, resources=Resources({"a b": 1})), "RESOURCE_INVALID", 'resources["a b"]'),
        (replace(SET, resources=Resources({f"r{i}": 1 for i in range(33)})), "TOO_MANY", "resources"),
        (replace(SET, flavors=(FlavorName("H"),)), "NAME_INVALID", "flavors[0]"),
        (replace(SET, flavors=(FlavorName("h"), FlavorName("h"))), "DUPLICATE", "flavors[1]"),
        (replace(SET, selector=Selector(((),))), "SELECTOR_INVALID", "selector.terms[0]"),
        (
            replace(SET, selector=Selector(((Requirement("a", Operator.UNSPECIFIED),),))),
            "SELECTOR_INVALID",
            "selector.terms[0][0]",
        ),
        (replace(SET, tolerations=(Toleration(),)), "TOLERATION_INVALID", "tolerations[0]"),
        (replace(SET, tolerations=(Toleration("a", True, "x"),)), "TOLERATION_INVALID", "tolerations[0]"),
        (replace(SET, tolerations=(Toleration("a b", True),)), "TOLERATION_INVALID", "tolerations[0].key"),
        (replace(SET, topology=Topology(required="a b")), "LEVEL_INVALID", "required"),
        (replace(SET, topology=Topology(preferred="/")), "LEVEL_INVALID", "preferred"),
        (replace(SET, topology=Topology(slices=(Slice(3, "rack"),))), "SLICE_SIZE", "slices[0].size"),
        (replace(SET, topology=Topology(slices=(Slice(16, "rack"),))), "SLICE_SIZE", "slices[0].size"),
        (replace(SET, topology=Topology(slices=(Slice(0, "rack"),))), "SLICE_SIZE", "slices[0].size"),
        (replace(SET, topology=Topology(slices=(Slice(-2, "rack"),))), "SLICE_SIZE", "slices[0].size"),
        (replace(SET, topology=Topology(slices=(Slice(8, ""),))), "LEVEL_INVALID", "slices[0].level"),
        (
            replace(SET, topology=Topology(slices=(Slice(4, "a"), Slice(3, "b", ragged=True)))),
            "SLICE_SIZE",
            "slices[1].size",
        ),
        (
            replace(SET, topology=Topology(slices=(Slice(4, "a", exclusive=True, preferred=True),))),
            "CONTRADICTION",
            "slices[0].preferred",
        ),
        (replace(SET, topology=Topology(balanced="a b")), "LEVEL_INVALID", "balanced"),
        (replace(SET, topology=Topology(same=("a b",))), "LABEL_INVALID", "same[0]"),
        (replace(SET, topology=Topology(same=("a", "a"))), "DUPLICATE", "same[1]"),
        (replace(SET, topology=Topology(same=("a", "b", "c", "d", "e"))), "TOO_MANY", "same"),
        (replace(SET, topology=Topology(devices=Devices("numa,pcie"))), "DEVICES_INVALID", "devices.kind"),
        (
            replace(SET, resources=Resources({"cpu": 1000}), topology=Topology(devices=Devices("pcie"))),
            "DEVICES_INVALID",
            "devices",
        ),
        (replace(SET, topology=Topology(group=Group("all", "a b"))), "LEVEL_INVALID", "group.level"),
        (replace(SET, topology=Topology(group=Group("all", ""))), "LEVEL_INVALID", "group.level"),
        (replace(SET, topology=Topology(group=Group("A b", "rack"))), "NAME_INVALID", "group.name"),
        (replace(SET, topology=Topology("rack", group=Group("all", "block"))), "GROUP_INVALID", "group"),
        (replace(SET, topology=Topology(spread=Spread("a b", 1))), "LEVEL_INVALID", "spread.level"),
        (replace(SET, topology=Topology(spread=Spread("", 1))), "LEVEL_INVALID", "spread.level"),
        (replace(SET, topology=Topology(spread=Spread("rack", 0))), "COUNT_OUT_OF_RANGE", "spread.max_pods"),
        (
            replace(SET, topology=Topology(slices=(Slice(4, "a"), Slice(8, "b")))),
            "SLICE_SIZE",
            "slices[1].size",
        ),
        (replace(SET, topology=Topology(slices=(Slice(4, "a"), Slice(4, "a")))), "DUPLICATE", "slices[1]"),
        (
            replace(SET, topology=Topology(slices=tuple(Slice(1, f"l{i}") for i in range(4)))),
            "TOO_MANY",
            "slices",
        ),
        (replace(SET, template=PodTemplate(image="a b")), "IMAGE_INVALID", "image"),
        (replace(SET, template=PodTemplate(command=("a\0",))), "TEXT_INVALID", "command[0]"),
        (replace(SET, template=PodTemplate(args=("a" * 40_000,))), "TEXT_TOO_LONG", "args[0]"),
        (replace(SET, template=PodTemplate(env=(EnvVar("A=B"),))), "ENV_INVALID", "env[0].name"),
        (replace(SET, template=PodTemplate(env=(EnvVar(""),))), "ENV_INVALID", "env[0].name"),
        (
            replace(SET, template=PodTemplate(volumes=(Volume("v", VolumeKind.UNSPECIFIED),))),
            "VOLUME_INVALID",
            "volumes[0].kind",
        ),
        (
            replace(SET, template=PodTemplate(volumes=(Volume("v", VolumeKind.SECRET),))),
            "VOLUME_INVALID",
            "volumes[0].source",
        ),
    ],
)
def test_a_broken_pod_set_is_refused(pod_set: PodSet, reason: str, path: str) -> None:
    assert refused(with_set(pod_set)) == (reason, f"pod_sets[0].{path}")


def test_sums_over_all_pods_stay_within_64_bits() -> None:
    huge = replace(SET, count=2, min_count=2, resources=Resources({"memory": AMOUNT_MAX}))
    assert refused(with_set(huge)) == ("AMOUNT_OUT_OF_RANGE", "pod_sets")


def test_the_line_is_that_of_the_nearest_known_field() -> None:
    spec = with_set(replace(SET, topology=Topology(slices=(Slice(3, "rack"),))))
    for lines, line in [
        ({}, 0),
        ({"": 1}, 1),
        ({"": 1, "pod_sets[0]": 5}, 5),
        ({"pod_sets[0].slices[0].size": 7}, 7),
    ]:
        with pytest.raises(InvalidArgument) as caught:
            validate_spec(spec, lines=lines)
        assert caught.value.line == line


def test_the_queue_may_be_named_later() -> None:
    validate_spec(replace(SPEC, queue=QueueName("")), queue_required=False)


def test_names_and_requirements_are_checked_alone() -> None:
    check_name("a.b")
    check_requirement(Requirement("a", Operator.EXISTS), path="match[0]")
    with pytest.raises(InvalidArgument) as caught:
        check_name("", path="x", line=3)
    assert (caught.value.path, caught.value.line) == ("x", 3)
    with pytest.raises(InvalidArgument) as caught:
        check_requirement(Requirement("a", Operator.IN), path="match[0]", line=4)
    assert (caught.value.reason, caught.value.path, caught.value.line) == ("SELECTOR_INVALID", "match[0]", 4)


@pytest.mark.parametrize("beside", [{}, {"cpu": 500}, {"nvidia.com/mig-1g.5gb": 1}, {"nvidia.com/gpu.shared": 2}])
def test_a_share_is_of_one_device(beside: dict[str, int]) -> None:
    for milli in (1, 300, 1000):
        validate_spec(with_set(replace(SET, resources=Resources({GPU_MILLI: milli, **beside}))))


@pytest.mark.parametrize(
    "wrong", [{GPU_MILLI: 1001}, {GPU_MILLI: 300, "nvidia.com/gpu": 1}, {GPU_MILLI: 500, "amd.com/gpu": 4}]
)
def test_a_share_of_several_devices_is_refused(wrong: dict[str, int]) -> None:
    path = f'pod_sets[0].resources["{GPU_MILLI}"]'
    assert refused(with_set(replace(SET, resources=Resources(wrong)))) == ("SHARE_INVALID", path)
