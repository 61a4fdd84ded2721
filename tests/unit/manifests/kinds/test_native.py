"""The native kind says all that the model can say, and refuses everything else by name."""

from pathlib import Path
from textwrap import dedent, indent

import pytest

from hanse.manifests import convert
from hanse.model.beside import Need, NeedKind
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
from tests.unit.manifests.texts import job_of, refusal

EXAMPLE = Path(__file__).parents[4] / "docs/examples/native.yaml"


def native(pod_set: str = "", *, head: str = "") -> str:
    body = dedent(pod_set).strip() or "count: 4"
    return "\n".join(
        (
            "apiVersion: hanse/v1",
            "kind: Job",
            "name: train",
            dedent(head).strip(),
            "pod_sets:",
            "  - name: worker",
            indent(body, "    "),
        )
    )


def only_set(pod_set: str) -> PodSet:
    return job_of(native(pod_set)).spec.pod_sets[0]


def test_the_example_converts() -> None:
    (job,) = convert(EXAMPLE.read_bytes()).jobs
    assert (job.spec.pods, job.spec.gpus, job.spec.duration_s) == (64, 512, 43_200)


def test_every_field_of_the_model_can_be_said() -> None:
    text = """
    apiVersion: hanse/v1
    kind: Job
    name: train
    queue: research
    priority_class: high
    labels: {team: vision}
    duration: 1d6h
    restart: {max_retries: 3, on_infrastructure: fail}
    max_pools: 2
    start_skew_max: 2m
    on_pool_lost: keep
    needs: {secret: [hf-token], service_account: [runner]}
    pod_sets:
    - name: worker
      count: 16
      min_count: 8
      image: registry.example/train:1
      command: [python, train.py]
      args: [--steps, 100]
      env: {A: x, B: 8}
      volumes:
      - {name: data, kind: persistent_volume_claim, source: data, mount_path: /data, read_only: true}
      resources: {cpu: 1500m, memory: 1Gi, nvidia.com/gpu: 8}
      flavors: [h100, h200]
      selector: {zone: z1}
      tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}]
      required: block
      preferred: rack
      slices: [{size: 8, level: rack, exclusive: true, ragged: true}, {size: 4, level: host, preferred: true}]
      balanced: rack
      spread: {level: block, max_pods: 32}
      same: [example.com/subnet]
      group: {name: training, level: fabric}
    - {name: eval, count: 1, group: {name: training, level: fabric}}
    - {name: last, group: {level: fabric}, resources: {nvidia.com/gpu: 2}, devices: {kind: pcie, nic: true}}
    """
    spec = job_of(text).spec
    assert spec == JobSpec(
        name="train",
        queue=spec.queue,
        priority_class="high",
        labels={"team": "vision"},
        duration_s=30 * 3600,
        restart=RestartPolicy(3, OnInfrastructure.FAIL),
        max_pools=2,
        start_skew_max_s=120,
        needs=(
            Need(NeedKind.SECRET, "hf-token"),
            Need(NeedKind.SERVICE_ACCOUNT, "runner"),
            Need(NeedKind.PERSISTENT_VOLUME_CLAIM, "data"),
        ),
        pod_sets=(
            PodSet(
                name="worker",
                count=16,
                min_count=8,
                resources=Resources({"cpu": 1500, "memory": 2**30, "nvidia.com/gpu": 8}),
                flavors=spec.pod_sets[0].flavors,
                selector=Selector(((Requirement("zone", Operator.IN, ("z1",)),),)),
                tolerations=(Toleration("gpu", True, "", Effect.NO_SCHEDULE),),
                topology=Topology(
                    "block",
                    "rack",
                    (Slice(8, "rack", True, ragged=True), Slice(4, "host", preferred=True)),
                    "rack",
                    Spread("block", 32),
                    ("example.com/subnet",),
                    Group("training", "fabric"),
                ),
                template=PodTemplate(
                    image="registry.example/train:1",
                    command=("python", "train.py"),
                    args=("--steps", "100"),
                    env=(EnvVar("A", "x"), EnvVar("B", "8")),
                    volumes=(Volume("data", VolumeKind.PERSISTENT_VOLUME_CLAIM, "data", "/data", True),),
                ),
            ),
            PodSet("eval", 1, 1, topology=Topology(group=Group("training", "fabric"))),
            PodSet(
                "last",
                1,
                1,
                Resources({"nvidia.com/gpu": 2}),
                topology=Topology(group=Group("gang", "fabric"), devices=Devices("pcie", nic=True)),
            ),
        ),
    )
    assert (spec.queue, spec.pod_sets[0].flavors) == ("research", ("h100", "h200"))
    assert job_of(text).min_total == 10


@pytest.mark.parametrize(
    ("written", "selector"),
    [
        ("selector: {}", Selector()),
        ("selector: []", Selector()),
        (
            "selector: {a: x, b: z}",
            Selector(((Requirement("a", Operator.IN, ("x",)), Requirement("b", Operator.IN, ("z",))),)),
        ),
        ("selector: [{key: a, operator: Exists}]", Selector(((Requirement("a", Operator.EXISTS),),))),
        (
            "selector: [[{key: a, operator: Exists}], [{key: b, operator: NotIn, values: [x]}]]",
            Selector(((Requirement("a", Operator.EXISTS),), (Requirement("b", Operator.NOT_IN, ("x",)),))),
        ),
    ],
)
def test_a_selector_is_a_mapping_a_list_or_alternatives(written: str, selector: Selector) -> None:
    assert only_set(f"count: 1\n{written}").selector == selector


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90", 90), ("90s", 90), ("12h", 43_200), ("1d6h30m5s", 109_805), ("2m", 120), ('"5m"', 300), ("0", 0)],
)
def test_a_duration_is(written: str, seconds: int) -> None:
    assert job_of(native(head=f"duration: {written}")).spec.duration_s == seconds


def test_variables_are_a_mapping_or_a_list() -> None:
    wanted = (EnvVar("A", "x"), EnvVar("B", "1.50"), EnvVar("C", ""))
    assert only_set("env: {A: x, B: 1.50, C: }").template.env == wanted
    assert only_set("env: [{name: A, value: x}, {name: B, value: 1.50}, {name: C}]").template.env == wanted


def test_the_only_pod_set_needs_no_name() -> None:
    text = "apiVersion: hanse/v1\nkind: Job\nname: t\npod_sets: [{count: 2}]\n"
    assert job_of(text).spec.pod_sets[0].name == "main"
    assert refusal(text.replace("[{count: 2}]", "[{count: 2}, {count: 1}]"))[:2] == ("MISSING", "pod_sets[0].name")


def test_several_native_jobs_in_one_file() -> None:
    found = convert(native() + "\n---\n" + native().replace("name: train", "name: other"))
    assert [job.spec.name for job in found.jobs] == ["train", "other"]
    assert found.unmapped == ()


@pytest.mark.parametrize(
    ("head", "pod_set", "reason", "path"),
    [
        ("quueue: q", "", "UNKNOWN_FIELD", "quueue"),
        ("array: 1-10", "", "NOT_SUPPORTED", "array"),
        ("dependencies: []", "", "NOT_SUPPORTED", "dependencies"),
        ("begin: tomorrow", "", "NOT_SUPPORTED", "begin"),
        ("reservation: r", "", "NOT_SUPPORTED", "reservation"),
        ("elastic: {}", "", "NOT_SUPPORTED", "elastic"),
        ("service: true", "", "NOT_SUPPORTED", "service"),
        ("preemption: {}", "", "NOT_SUPPORTED", "preemption"),
        ("borrowing: {}", "", "NOT_SUPPORTED", "borrowing"),
        ("on_pool_lost: move", "", "NOT_SUPPORTED", "on_pool_lost"),
        ("on_pool_lost: drop", "", "UNKNOWN_VALUE", "on_pool_lost"),
        ("duration: soon", "", "DURATION", "duration"),
        ('duration: ""', "", "DURATION", "duration"),
        ("duration: -1", "", "DURATION_OUT_OF_RANGE", "duration"),
        ("duration: 999999d", "", "DURATION_OUT_OF_RANGE", "duration"),
        ("max_pools: 0", "", "POOLS_OUT_OF_RANGE", "max_pools"),
        ("max_pools: 9", "", "POOLS_OUT_OF_RANGE", "max_pools"),
        ("start_skew_max: 0", "", "START_SKEW_OUT_OF_RANGE", "start_skew_max"),
        ("labels: {team: 1}", "", "TYPE", "labels.team"),
        ("labels: {team: a b}", "", "LABEL_INVALID", "labels.team"),
        ("restart: {max_retry: 1}", "", "UNKNOWN_FIELD", "restart.max_retry"),
        ("queue: A", "", "NAME_INVALID", "queue"),
        ("priority_class: A", "", "NAME_INVALID", "priority_class"),
        ("spec: {}", "", "UNKNOWN_FIELD", "spec"),
        ("", "cuont: 4", "UNKNOWN_FIELD", "pod_sets[0].cuont"),
        ("", "count: 0", "COUNT_OUT_OF_RANGE", "pod_sets[0].count"),
        ("", "count: -1", "COUNT_OUT_OF_RANGE", "pod_sets[0].count"),
        ("", "count: 100001", "COUNT_OUT_OF_RANGE", "pod_sets[0].count"),
        ("", "count: 4\nmin_count: 5", "MIN_COUNT_OUT_OF_RANGE", "pod_sets[0].min_count"),
        ("", "count: 4\nresources: {nvidia.com/gpu: -1}", "QUANTITY", 'pod_sets[0].resources["nvidia.com/gpu"]'),
        ("", "count: 4\nresources: {nvidia.com/gpu: 0.5}", "QUANTITY", 'pod_sets[0].resources["nvidia.com/gpu"]'),
        ("", "count: 4\nresources: {gpus: 8x}", "QUANTITY", "pod_sets[0].resources.gpus"),
        ("", "count: 4\nslices: [{size: 3, level: rack}]", "SLICE_SIZE", "pod_sets[0].slices[0].size"),
        (
            "",
            "count: 8\nslices: [{size: 4, level: rack}, {size: 3, level: host}]",
            "SLICE_SIZE",
            "pod_sets[0].slices[1].size",
        ),
        ("", "count: 8\nslices: [{size: 0, level: rack}]", "SLICE_SIZE", "pod_sets[0].slices[0].size"),
        ("", "count: 8\nslices: [{size: 8}]", "MISSING", "pod_sets[0].slices[0].level"),
        ("", "count: 8\nspread: {level: rack}", "MISSING", "pod_sets[0].spread.max_pods"),
        ("", "count: 8\nspread: {level: rack, max_pods: 0}", "COUNT_OUT_OF_RANGE", "pod_sets[0].spread.max_pods"),
        ("", "count: 8\nspread: {level: rack, skew: 1}", "UNKNOWN_FIELD", "pod_sets[0].spread.skew"),
        ("", "count: 8\nslices: [{size: 8, level: a rack}]", "LEVEL_INVALID", "pod_sets[0].slices[0].level"),
        (
            "",
            "count: 8\nslices: [{size: 8, level: a}, {size: 4, level: b}, {size: 2, level: c}, {size: 1, level: d}]",
            "TOO_MANY",
            "pod_sets[0].slices",
        ),
        ("", "count: 8\nrequired: a b", "LEVEL_INVALID", "pod_sets[0].required"),
        ("", "count: 8\nflavors: [h100, h100]", "DUPLICATE", "pod_sets[0].flavors[1]"),
        ("", "count: 8\nflavors: [H100]", "NAME_INVALID", "pod_sets[0].flavors[0]"),
        ("", "count: 8\nselector: {zone: NO}", "TYPE", "pod_sets[0].selector.zone"),
        ("", "count: 8\nselector: [[]]", "SELECTOR_INVALID", "pod_sets[0].selector"),
        ("", "count: 8\ntolerations: [{value: x}]", "TOLERATION_INVALID", "pod_sets[0].tolerations[0]"),
        ("", "count: 8\ncommand: python train.py", "TYPE", "pod_sets[0].command"),
        ("", "count: 8\nenv: {A: yes}", "TYPE", "pod_sets[0].env.A"),
        ("", "count: 8\nenv: [{name: A, valueFrom: {}}]", "NOT_SUPPORTED", "pod_sets[0].env[0].valueFrom"),
        ("", "count: 8\nvolumes: [{name: v, kind: nfs}]", "UNKNOWN_VALUE", "pod_sets[0].volumes[0].kind"),
        ("", "count: 8\nvolumes: [{name: v, kind: secret}]", "VOLUME_INVALID", "pod_sets[0].volumes[0]"),
        ("", "count: 8\nimage: a b", "IMAGE_INVALID", "pod_sets[0].image"),
    ],
)
def test_what_the_format_does_not_say_is_refused(head: str, pod_set: str, reason: str, path: str) -> None:
    text = native(pod_set, head=head)
    found, where, line = refusal(text)
    assert (found, where) == (reason, path)
    assert 0 < line <= len(text.splitlines())


def test_a_pod_set_is_named_once() -> None:
    text = native() + "\n  - name: worker\n    count: 1\n"
    assert refusal(text)[:2] == ("DUPLICATE", "pod_sets[1].name")


def test_a_slip_of_the_pen_is_guessed() -> None:
    with pytest.raises(Exception, match='did you mean "count"'):
        convert(native("cuont: 4"))
