"""The configuration for kind, as far as it can be looked at without Docker: kind itself reads it, and asks a stand-in
for Docker for the containers that a cluster of it is made of."""

import os
import subprocess
from pathlib import Path
from typing import Final

from e2e.control_plane import tool
from tests.arch.tree import ROOT

CONFIG: Final = ROOT / "e2e" / "kind" / "cluster.yaml"
TIMEOUT_S: Final = 60
DOCKER: Final = """#!/bin/sh
echo "$*" >>{log}
case $1 in
    info) echo '{{"CgroupVersion":"2","MemoryLimit":true,"PidsLimit":true,"CPUShares":true,"SecurityOptions":[]}}' ;;
    -v) echo 'Docker version 28.0.0' ;;
    ps | inspect | network | run) ;;
    *) exit 1 ;;
esac
"""


def test_kind_reads_it_and_asks_for_a_control_plane_and_four_workers(tmp_path: Path) -> None:
    log = tmp_path / "log"
    docker = tmp_path / "docker"
    docker.write_text(DOCKER.format(log=log))
    docker.chmod(0o755)
    told = [f"--config={CONFIG}", f"--kubeconfig={tmp_path / 'kubeconfig'}", "--name=x"]
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "KIND_EXPERIMENTAL_PROVIDER": "docker"}
    done = subprocess.run(
        [tool("kind"), "create", "cluster", *told], env=env, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert "Preparing nodes" in done.stderr, done.stderr
    roles = [
        word.partition("role=")[2]
        for line in log.read_text().splitlines()
        if line.startswith("run ")
        for word in line.split()
        if word.startswith("io.x-k8s.kind.role=")
    ]
    assert sorted(roles) == ["control-plane"] + ["worker"] * 4
