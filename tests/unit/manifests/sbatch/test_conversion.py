"""A script becomes a job: nodes are pods, options are what a native file would say."""

import pytest

from hanse.manifests import convert
from hanse.manifests.sbatch.options import OPTIONS, Fate, Takes
from hanse.model.job import OnInfrastructure, Slice, Spread
from hanse.model.resources import CPU, MEMORY
from hanse.model.selectors import Operator
from tests.unit.manifests.sbatch.scripts import converted, env, job, noted, pods, refusal, script

GPU = "nvidia.com/gpu"
MI = 2**20


@pytest.mark.parametrize(
    ("lines", "count", "least"),
    [
        ([], 1, 1),
        (["-N16"], 16, 16),
        (["-N 8-16"], 16, 8),
        (["-n 64 --ntasks-per-node=8"], 8, 8),
        (["-n 60 --ntasks-per-node=8"], 8, 8),
        (["-n 5"], 5, 5),
        (["-G 32"], 4, 4),
        (["-G 3"], 1, 1),
    ],
)
def test_nodes_are_pods(lines: list[str], count: int, least: int) -> None:
    assert (pods(*lines).count, pods(*lines).min_count) == (count, least)


@pytest.mark.parametrize(
    ("lines", "amounts"),
    [
        (["-N2"], {CPU: 1000}),
        (["-N2 -c 12"], {CPU: 12_000}),
        (["-N2 --ntasks-per-node=8 -c 12"], {CPU: 96_000}),
        (["-N2 -n 6 -c 2"], {CPU: 6000}),
        (["-N2 --gpus-per-node=8"], {CPU: 1000, GPU: 8}),
        (["-N2 --gres=gpu:4"], {CPU: 1000, GPU: 4}),
        (["-N2 -G 16"], {CPU: 1000, GPU: 8}),
        (["-N2 --ntasks-per-node=4 --gpus-per-task=2"], {CPU: 4000, GPU: 8}),
        (["-N2 --gpus-per-node=4 --cpus-per-gpu=8"], {CPU: 32_000, GPU: 4}),
        (["-N2 --gpus-per-node=4 --ntasks-per-gpu=2"], {CPU: 8000, GPU: 4}),
        (["--mem=64G"], {CPU: 1000, MEMORY: 64 * 1024 * MI}),
        (["--ntasks-per-node=4 --mem-per-cpu=100"], {CPU: 4000, MEMORY: 400 * MI}),
        (["--gpus-per-node=2 --mem-per-gpu=1G"], {CPU: 1000, GPU: 2, MEMORY: 2048 * MI}),
        (["--tmp=1G"], {CPU: 1000, "ephemeral-storage": 1024 * MI}),
        (["#HANSE --gpu-resource=amd.com/gpu", "--gpus-per-node=8"], {CPU: 1000, "amd.com/gpu": 8}),
    ],
)
def test_what_a_node_has(lines: list[str], amounts: dict[str, int]) -> None:
    assert dict(pods(*lines).resources) == amounts


def test_a_type_of_gpu_is_a_flavor() -> None:
    assert pods("--gpus-per-node=h100:8").flavors == ("h100",)


def test_nodes_are_different_hosts() -> None:
    assert pods("-N4").topology.spread == Spread("host", 1)
    assert pods("-N1").topology.spread is None


def test_a_pod_with_a_host_for_itself_has_all_of_its_cpus() -> None:
    found = pods("-N2 --exclusive --gpus-per-node=8 --ntasks-per-node=8 -c 4")
    assert dict(found.resources) == {GPU: 8}
    assert "SLURM_CPUS_ON_NODE" not in {variable.name for variable in found.template.env}
    assert dict(pods("-N2 --mem=0 -c 4").resources) == {CPU: 4000}


@pytest.mark.parametrize("line", ["--exclusive", "--exclusive=user", "--mem=0"])
def test_a_whole_node_is_a_host_of_its_own(line: str) -> None:
    topology = pods(f"-N4 {line}").topology
    assert (topology.slices, topology.spread) == ((Slice(1, "host", exclusive=True),), None)


def test_segments_are_slices_of_a_block() -> None:
    assert pods("-N16 --segment=4 --exclusive").topology.slices == (
        Slice(4, "block"),
        Slice(1, "host", exclusive=True),
    )
    named = pods("-N16 --segment=4", "#HANSE --block-level=nvl-domain").topology
    assert named.slices == (Slice(4, "nvl-domain"),)
    assert env("-N16 --segment=4")["SLURM_JOB_SEGMENT_SIZE"] == "4"


def test_a_segment_that_holds_all_is_ignored_as_in_slurm() -> None:
    assert pods("-N4 --segment=4").topology.slices == ()
    assert "--segment" in noted("-N4 --segment=4")


def test_segments_apart_and_together() -> None:
    apart = pods("-N16 --segment=4 --spread-segments --exclusive").topology
    assert apart.spread == Spread("block", 4)
    together = pods("-N16 --segment=4 --consolidate-segments", "#HANSE --upper-level=superpod").topology
    assert together.required == "superpod"


def test_the_whole_topology_segment_for_one_job() -> None:
    assert pods("-N16 --exclusive=topo").topology.slices == (Slice(16, "block", exclusive=True),)


def test_one_switch_is_preferred() -> None:
    assert pods("-N4 --switches=1").topology.preferred == "rack"
    assert pods("-N4 --switches=1", "#HANSE --switch-level=leaf").topology.preferred == "leaf"
    assert "--switches" in noted("-N4 --switches=2@10:00")


def test_conditions_on_nodes() -> None:
    selector = pods("-N2 -C 'disk=ssd&(zone=a|zone=b)' -w n[1-4] -x n3").selector
    told = [[(r.key, r.operator, r.values) for r in term] for term in selector.terms]
    hosts = [
        ("kubernetes.io/hostname", Operator.IN, ("n1", "n2", "n3", "n4")),
        ("kubernetes.io/hostname", Operator.NOT_IN, ("n3",)),
    ]
    ssd = ("disk", Operator.IN, ("ssd",))
    assert told == [
        [ssd, ("zone", Operator.IN, ("a",)), *hosts],
        [ssd, ("zone", Operator.IN, ("b",)), *hosts],
    ]


def test_what_the_job_is() -> None:
    found = job("-J My_Job -p research -A team --qos=high -t 90 --no-requeue")
    spec = found.spec
    assert (spec.name, spec.queue, spec.priority_class, spec.duration_s) == ("my-job", "research", "high", 5400)
    assert spec.restart.on_infrastructure is OnInfrastructure.FAIL
    assert spec.labels == {"slurm.hanse.dev/account": "team"}
    assert found.where("duration_s").line in {0, 1, 2}


def test_pods_run_the_script_with_its_environment() -> None:
    found = env("-N4 --ntasks-per-node=8 --gpus-per-node=8 -o /logs/%x-%j.out --export=ALL,LR=3 -D /work")
    wanted = {
        "SLURM_NNODES": "4",
        "SLURM_NTASKS": "32",
        "SLURM_NTASKS_PER_NODE": "8",
        "SLURM_GPUS_ON_NODE": "8",
        "LR": "3",
        "HANSE_STDOUT": "/logs/sbatch-%j.out",
        "HANSE_CHDIR": "/work",
    }
    assert found.items() >= wanted.items()
    assert "srun true" in found["HANSE_SCRIPT"]


def test_containers() -> None:
    found = pods("--container-image=nvcr.io#nvidia/pytorch:24 --container-mounts=/data,/home/me:/root:ro").template
    assert found.image == "nvcr.io/nvidia/pytorch:24"
    assert [(v.source, v.mount_path, v.read_only) for v in found.volumes] == [
        ("/data", "/data", False),
        ("/home/me", "/root", True),
    ]


@pytest.mark.parametrize(
    ("filename", "lines", "name"),
    [("jobs/train_8.sh", [], "train-8"), ("", [], "sbatch"), ("a.sh", ["-J B"], "b"), ("_.sh", [], "sbatch")],
)
def test_a_job_without_a_name_has_that_of_its_file(filename: str, lines: list[str], name: str) -> None:
    assert convert(script(*lines), filename=filename).jobs[0].spec.name == name


def test_an_array_is_a_job_for_each_task() -> None:
    found = convert(script("-J sweep -a 0-8:4%2 -o out-%a.txt")).jobs
    variables = [{v.name: v.value for v in one.spec.pod_sets[0].template.env} for one in found]
    assert [one.spec.name for one in found] == ["sweep-0", "sweep-4", "sweep-8"]
    assert [(v["SLURM_ARRAY_TASK_ID"], v["SLURM_ARRAY_TASK_COUNT"], v["HANSE_STDOUT"]) for v in variables] == [
        ("0", "3", "out-0.txt"),
        ("4", "3", "out-4.txt"),
        ("8", "3", "out-8.txt"),
    ]
    assert "--array" in noted("-a 0-8%2")


def test_components_are_pod_sets_and_carry_what_slurm_carries() -> None:
    found = job("-J mix -t 60 -N1 --mem=1G -G4", "hetjob", "-N3 -c2").spec
    first, second = found.pod_sets
    assert (first.name, first.count, first.resources.gpus) == ("node-0", 1, 4)
    assert (second.name, second.count, second.resources.gpus) == ("node-1", 3, 0)
    assert second.resources[MEMORY] == 1024 * MI
    assert {v.name: v.value for v in second.template.env}["HANSE_FIRST_RANK"] == "1"
    assert found.duration_s == 3600


@pytest.mark.parametrize(
    ("lines", "reason", "option", "line"),
    [
        (["-N10 --segment=4"], "SLICE_SIZE", "--segment", 2),
        (["-N1", "--mem=1 --mem-per-cpu=2"], "CONTRADICTION", "--mem-per-cpu", 3),
        (["--gres=gpu:1 --gpus-per-node=1"], "CONTRADICTION", "--gpus-per-node", 2),
        (["-N3 -G 8"], "COUNT_OUT_OF_RANGE", "--gpus", 2),
        (["--mem-per-gpu=1"], "CONTRADICTION", "--mem-per-gpu", 2),
        (["-N4 -w a,b"], "CONTRADICTION", "--nodelist", 2),
        (["-N4 --segment=2 --consolidate-segments"], "MISSING", "--consolidate-segments", 2),
        (["-N1", "hetjob", "-N2-4"], "NOT_SUPPORTED", "--nodes", 4),
        (["--begin=now+1hour"], "NOT_SUPPORTED", "--begin", 2),
        (["--dependency=afterok:1"], "NOT_SUPPORTED", "--dependency", 2),
        (["--export=PATH"], "NOT_SUPPORTED", "--export", 2),
        (["-C 'a b'"], "SELECTOR_INVALID", "--constraint", 2),
        (["-C a*2"], "NOT_SUPPORTED", "--constraint", 2),
        (["-C '(a'"], "SELECTOR_INVALID", "--constraint", 2),
        (["--exclusive=all"], "UNKNOWN_VALUE", "--exclusive", 2),
        (["--container-mounts=data"], "TYPE", "--container-mounts", 2),
        (["-N1", "-p 'no such'"], "QUEUE_INVALID", "--partition", 3),
    ],
)
def test_refusals_name_the_option_and_its_line(lines: list[str], reason: str, option: str, line: int) -> None:
    found = refusal(script(*lines))
    assert found[1:] == (option, line)
    assert found[0] == reason or reason == "QUEUE_INVALID"


@pytest.mark.parametrize(
    "name", [name for name, kind in OPTIONS.items() if kind.fate is not Fate.MAPPED and kind.why]
)
def test_every_option_without_a_meaning_is_named_or_refused(name: str) -> None:
    line = f"--{name}" if OPTIONS[name].takes is Takes.NOTHING else f"--{name}=1"
    if OPTIONS[name].fate is Fate.REFUSED:
        assert refusal(script(line))[:2] == ("NOT_SUPPORTED", f"--{name}")
    else:
        assert noted(line)[f"--{name}"] == OPTIONS[name].why


def test_directives_after_the_first_command_are_told() -> None:
    text = script("-N1", body="true\n#SBATCH -N9\n")
    assert [(one.path, one.line) for one in convert(text).unmapped] == [("#SBATCH", 4)]


def test_a_queue_of_the_caller_is_for_scripts_that_name_none() -> None:
    assert convert(script("-N1"), default_queue="q").jobs[0].spec.queue == "q"
    assert converted("-p r").jobs[0].spec.queue == "r"
