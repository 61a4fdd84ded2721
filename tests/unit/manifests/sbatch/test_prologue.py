"""The prologue, run by a real shell as a pod would run it."""

import os
import subprocess
from pathlib import Path

import pytest

from hanse.manifests import convert
from tests.unit.manifests.sbatch.scripts import script

MASTER = "node-0.train-svc.jobs"


def run(
    tmp_path: Path, body: str, *directives: str, rank: int = 0, world: int = 1, shebang: str = "#!/bin/sh"
) -> subprocess.CompletedProcess[str]:
    """One pod of the script's job."""
    (job,) = convert(script(*directives, body=body, shebang=shebang)).jobs
    (pods,) = job.spec.pod_sets
    env = {
        "PATH": os.environ["PATH"],
        "TMPDIR": str(tmp_path),
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": MASTER if world > 1 else "localhost",
        "HANSE_JOB": "42",
        **{variable.name: variable.value for variable in pods.template.env},
    }
    return subprocess.run(
        [*pods.template.command, *pods.template.args],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_script_sees_what_slurm_would_tell_it(tmp_path: Path) -> None:
    body = 'echo "$SLURM_JOB_ID $SLURM_NNODES $SLURM_NODEID $SLURM_PROCID $SLURM_NTASKS $SLURM_JOB_NODELIST"\n'
    found = run(tmp_path, body, "-N2 --ntasks-per-node=4", rank=1, world=2)
    assert found.stdout == f"42 2 1 4 8 {MASTER},node-1.train-svc.jobs\n", found.stderr


def test_a_pod_alone_on_its_host_counts_the_cpus_there(tmp_path: Path) -> None:
    body = 'echo "$SLURM_CPUS_ON_NODE $SLURM_JOB_CPUS_PER_NODE"\n'
    cpus = len(os.sched_getaffinity(0))
    assert run(tmp_path, body, "-N1 --exclusive").stdout == f"{cpus} {cpus}(x1)\n"
    assert run(tmp_path, body, "-N1 -c 3").stdout == "3 3(x1)\n"


def test_srun_starts_the_tasks_of_this_node(tmp_path: Path) -> None:
    body = "srun --cpu-bind=none sh -c 'echo $SLURM_PROCID $SLURM_LOCALID' | sort -n\n"
    assert run(tmp_path, body, "-N2 --ntasks-per-node=3", rank=1, world=2).stdout == "3 0\n4 1\n5 2\n"


def test_srun_fails_as_a_task_fails(tmp_path: Path) -> None:
    body = "srun sh -c 'exit $SLURM_LOCALID'\n"
    assert run(tmp_path, body, "-N1 --ntasks-per-node=4").returncode == 3


def test_a_step_for_one_node_runs_on_the_first(tmp_path: Path) -> None:
    body = "srun -N1 -n1 echo here\n"
    outputs = [run(tmp_path, body, "-N2", rank=rank, world=2).stdout for rank in range(2)]
    assert outputs == ["here\n", ""]


def test_a_script_finds_its_master(tmp_path: Path) -> None:
    body = (
        'nodes=( $( scontrol show hostnames "$SLURM_JOB_NODELIST" ) )\n'
        'echo "${nodes[0]} ${#nodes[@]} $(srun --nodes=1 --ntasks=1 -w "${nodes[0]}" hostname)"\n'
    )
    found = run(tmp_path, body, "-N3", rank=2, world=3, shebang="#!/bin/bash")
    assert found.stdout == f"{MASTER} 3 {MASTER}\n"


def test_output_and_error_go_to_their_files(tmp_path: Path) -> None:
    body = "echo out; echo err >&2\n"
    found = run(tmp_path, body, "-J train -o logs/%x-%j.out -e logs/%j.err")
    assert (tmp_path / "logs/train-42.out").read_text() == "out\n"
    assert (tmp_path / "logs/42.err").read_text() == "err\n"
    assert found.stdout == "output goes to logs/train-42.out\n"


def test_output_takes_errors_too_and_pods_append(tmp_path: Path) -> None:
    for rank in range(2):
        run(tmp_path, "echo $SLURM_NODEID; echo e >&2\n", "-N2 -o all.out", rank=rank, world=2)
    assert (tmp_path / "all.out").read_text() == "0\ne\n1\ne\n"


def test_a_directory_that_is_not_there_ends_the_job(tmp_path: Path) -> None:
    found = run(tmp_path, "echo never\n", f"-D {tmp_path}/nowhere")
    assert found.returncode != 0
    assert "never" not in found.stdout


@pytest.mark.parametrize(
    ("shebang", "body"), [("#!/usr/bin/env python3", "print(6*7)\n"), ("#!/bin/bash", "echo $((6*7))\n")]
)
def test_the_first_line_says_what_runs_it(tmp_path: Path, shebang: str, body: str) -> None:
    assert run(tmp_path, body, shebang=shebang).stdout == "42\n"
