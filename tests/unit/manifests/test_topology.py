"""Topology of every dialect becomes levels and slices, and contradictions are refused where they stand."""

import pytest

from hanse.manifests import ImportedJob
from hanse.model.job import Devices, Group, Slice, Topology
from tests.unit.manifests.texts import batch_job, job_of, pod_group, pytorch_job, refusal, unmapped

KUEUE = "kueue.x-k8s.io/podset-"
KAI = "kai.scheduler/"


def annotated(annotations: dict[str, str]) -> str:
    listed = "".join(f"\n  {key}: '{value}'" for key, value in annotations.items())
    return batch_job(spec="parallelism: 96", template=f"annotations:{listed}")


def topology(job: ImportedJob) -> Topology:
    return job.spec.pod_sets[0].topology


@pytest.mark.parametrize(
    ("annotations", "wanted"),
    [
        ({"required-topology": "cloud.provider.com/rack"}, Topology(required="cloud.provider.com/rack")),
        ({"preferred-topology": "rack"}, Topology(preferred="rack")),
        ({"unconstrained-topology": "true"}, Topology()),
        (
            {"slice-required-topology": "rack", "slice-size": "16"},
            Topology(slices=(Slice(16, "rack"),)),
        ),
        (
            {"required-topology": "block", "slice-required-topology": "rack", "slice-size": "16"},
            Topology(required="block", slices=(Slice(16, "rack"),)),
        ),
        (
            {"slice-required-topology-constraints": '[{"topology":"zone","size":48},{"topology":"rack","size":16}]'},
            Topology(slices=(Slice(48, "zone"), Slice(16, "rack"))),
        ),
    ],
)
def test_kueue_annotations_become(annotations: dict[str, str], wanted: Topology) -> None:
    text = annotated({KUEUE + key: value for key, value in annotations.items()})
    assert topology(job_of(text)) == wanted
    assert not [path for path in unmapped(text) if "kueue" in path]


@pytest.mark.parametrize(
    ("annotations", "reason", "key"),
    [
        ({"required-topology": "rack", "preferred-topology": "rack"}, "CONTRADICTION", "preferred-topology"),
        ({"required-topology": "r", "unconstrained-topology": "true"}, "CONTRADICTION", "unconstrained-topology"),
        ({"unconstrained-topology": "maybe"}, "TYPE", "unconstrained-topology"),
        ({"required-topology": "a rack"}, "LEVEL_INVALID", "required-topology"),
        ({"slice-required-topology": "rack"}, "MISSING", "slice-required-topology"),
        ({"slice-size": "4"}, "MISSING", "slice-size"),
        ({"slice-required-topology": "rack", "slice-size": "5"}, "SLICE_SIZE", "slice-size"),
        ({"slice-required-topology": "rack", "slice-size": "97"}, "SLICE_SIZE", "slice-size"),
        ({"slice-required-topology": "rack", "slice-size": "0"}, "COUNT_OUT_OF_RANGE", "slice-size"),
        ({"slice-required-topology": "rack", "slice-size": "four"}, "TYPE", "slice-size"),
        (
            {"slice-size": "4", "slice-required-topology-constraints": '[{"topology":"a","size":4}]'},
            "CONTRADICTION",
            "slice-required-topology-constraints",
        ),
        ({"slice-required-topology-constraints": "rack"}, "TYPE", "slice-required-topology-constraints"),
        ({"slice-required-topology-constraints": "[]"}, "TYPE", "slice-required-topology-constraints"),
        ({"slice-required-topology-constraints": "[" * 4000}, "TYPE", "slice-required-topology-constraints"),
        (
            {"slice-required-topology-constraints": '[{"topology":"a","size":48},{"topology":"b","size":36}]'},
            "SLICE_SIZE",
            "slice-required-topology-constraints",
        ),
        (
            {"slice-required-topology-constraints": '[{"topology":"a","size":48},{"topology":"a","size":16}]'},
            "DUPLICATE",
            "slice-required-topology-constraints",
        ),
        (
            {"slice-required-topology-constraints": '[{"topology":"a","size":"48"}]'},
            "SLICE_SIZE",
            "slice-required-topology-constraints",
        ),
        (
            {"slice-required-topology-constraints": '[{"topology":"a"}]'},
            "TYPE",
            "slice-required-topology-constraints",
        ),
    ],
)
def test_kueue_contradictions_are_refused_at_the_annotation(
    annotations: dict[str, str], reason: str, key: str
) -> None:
    found, path, line = refusal(annotated({KUEUE + name: value for name, value in annotations.items()}))
    assert (found, path) == (reason, f'spec.template.metadata.annotations["{KUEUE}{key}"]')
    assert line > 0


CPU_POD = "containers: [{name: main, image: a, resources: {limits: {cpu: 2}}}]"
GPU_POD = "containers: [{name: main, image: a, resources: {limits: {nvidia.com/gpu: 2}}}]"


@pytest.mark.parametrize(("text", "wanted"), [("pcie", Devices("pcie")), ("numa+nic", Devices("numa", nic=True))])
def test_devices_of_one_group_are_an_annotation(text: str, wanted: Devices) -> None:
    manifest = batch_job(GPU_POD, template=f"annotations: {{hanse.dev/devices: {text}}}")
    assert topology(job_of(manifest)) == Topology(devices=wanted)
    assert not [path for path in unmapped(manifest) if "devices" in path]


@pytest.mark.parametrize(("pod", "text"), [(GPU_POD, "nic"), (GPU_POD, "pcie+nic+nic"), (CPU_POD, "pcie")])
def test_devices_that_cannot_be_asked_for_are_refused_at_the_annotation(pod: str, text: str) -> None:
    found, path, _ = refusal(batch_job(pod, template=f"annotations: {{hanse.dev/devices: {text}}}"))
    assert (found, path) == ("DEVICES_INVALID", 'spec.template.metadata.annotations["hanse.dev/devices"]')


def test_kueue_annotations_on_the_object_have_no_effect_and_are_named() -> None:
    text = batch_job(head=f"annotations: {{{KUEUE}required-topology: rack}}")
    assert topology(job_of(text)) == Topology()
    assert set(unmapped(text)) == {f'metadata.annotations["{KUEUE}required-topology"]'}


def test_kai_bounds_the_whole_gang_and_aims_inside_it() -> None:
    levels = f"{KAI}topology-required-placement: block, {KAI}topology-preferred-placement: rack"
    head = f"annotations: {{{KAI}topology: t, {levels}}}"
    assert topology(job_of(pytorch_job(head=head))) == Topology(required="block", preferred="rack")
    assert set(unmapped(pytorch_job(head=head))) == {f'metadata.annotations["{KAI}topology"]'}


def test_a_level_for_the_gang_is_one_domain_for_all_pod_sets() -> None:
    head = f"annotations: {{{KAI}topology-required-placement: block}}"
    text = pytorch_job(head=head, master=True)
    sets = job_of(text).spec.pod_sets
    assert [(s.topology.required, s.topology.group) for s in sets] == [("block", Group("gang", "block"))] * 2
    assert unmapped(text) == {}


def test_kueue_groups_share_the_domain_of_their_level() -> None:
    keys = "kueue.x-k8s.io/podset-required-topology: rack, kueue.x-k8s.io/podset-group-name: both"
    template = f"{{metadata: {{annotations: {{{keys}}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}"
    jobs = "".join(
        f"\n  - {{name: {name}, template: {{spec: {{parallelism: {count}, template: {template}}}}}}}"
        for name, count in (("leader", 1), ("workers", 4))
    )
    text = (
        f"apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {{name: s}}\nspec:\n  replicatedJobs:{jobs}\n"
    )
    assert [s.topology.group for s in job_of(text).spec.pod_sets] == [Group("both", "rack")] * 2
    assert unmapped(text) == {}


def segmented(size: int, workers: int, more: str = "") -> str:
    return f"""
    apiVersion: kubeflow.org/v1
    kind: PyTorchJob
    metadata: {{name: train}}
    spec:
      pytorchReplicaSpecs:
        Worker:
          replicas: {workers}
          template:
            metadata:
              annotations:
                kai.scheduler/segment-size: "{size}"
                kai.scheduler/segment-topology-required-placement: rack
                {more}
            spec: {{containers: [{{name: pytorch}}]}}
    """


def test_kai_segments_are_slices_of_the_workers() -> None:
    assert topology(job_of(segmented(4, 16))) == Topology(slices=(Slice(4, "rack"),))


def test_a_shorter_last_segment_is_a_smaller_last_slice() -> None:
    assert topology(job_of(segmented(5, 16))) == Topology(slices=(Slice(5, "rack", ragged=True),))


def test_a_preferred_placement_of_segments_is_a_preferred_layer() -> None:
    text = segmented(4, 16, "kai.scheduler/segment-topology-preferred-placement: nvl")
    assert topology(job_of(text)) == Topology(slices=(Slice(4, "rack"), Slice(4, "nvl", preferred=True)))
    same = segmented(4, 16, "kai.scheduler/segment-topology-preferred-placement: rack")
    assert topology(job_of(same)) == Topology(slices=(Slice(4, "rack"),))


@pytest.mark.parametrize(
    ("network", "wanted"),
    [
        ("{mode: hard, highestTierAllowed: 2}", Topology(required="tier-2")),
        ("{highestTierName: rack}", Topology(required="rack")),
        ("{mode: soft, highestTierName: rack}", Topology(preferred="rack")),
        ("{mode: soft, highestTierAllowed: 1}", Topology(preferred="tier-1")),
        ("{mode: soft}", Topology()),
    ],
)
def test_volcano_tiers_become_levels(network: str, wanted: Topology) -> None:
    assert topology(job_of(pod_group(f"networkTopology: {network}") + pytorch_job())) == wanted


@pytest.mark.parametrize(
    ("network", "reason", "key"),
    [
        ("{mode: hard}", "MISSING", ""),
        ("{mode: firm, highestTierAllowed: 1}", "UNKNOWN_VALUE", ".mode"),
        ("{highestTierAllowed: 1, highestTierName: rack}", "CONTRADICTION", ".highestTierName"),
        ("{highestTierAllowed: -1}", "COUNT_OUT_OF_RANGE", ".highestTierAllowed"),
        ("{highestTierAllowed: one}", "TYPE", ".highestTierAllowed"),
    ],
)
def test_volcano_tiers_that_make_no_sense_are_refused(network: str, reason: str, key: str) -> None:
    found, path, line = refusal(pod_group(f"networkTopology: {network}") + pytorch_job())
    assert (found, path, line) == (reason, f"spec.networkTopology{key}", 7)


def test_two_sources_of_one_level_must_agree() -> None:
    text = annotated({KUEUE + "required-topology": "rack"}).replace(
        "  name: train", f"  name: train\n  annotations: {{{KAI}topology-required-placement: block}}"
    )
    assert refusal(text)[0] == "CONTRADICTION"
