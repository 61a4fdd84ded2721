"""Folders of the Go modules that the programs of these tests are built from.

CRDs and webhooks of a controller are read there: they are those of the version that runs, and no copy is kept.
"""

import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from tests.arch.tree import ROOT

TOOLS: Final = ROOT / "e2e" / "tools"
GO_TIMEOUT_S: Final = 300
GO_ENV: Final = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}


@cache
def module_folder(group: str, module: str) -> Path:
    """Where a module's files are, which is fetched if it is not there.

    Args:
        group: folder of the `go.mod` that pins it, below e2e/tools.
    """
    go = _said([str(TOOLS / "find-go")], TOOLS)
    found = _told_of(group, module, "Dir")
    if not found:
        _said([go, "mod", "download", module], TOOLS / group)
        found = _told_of(group, module, "Dir")
    return Path(found)


def module_version(group: str, module: str) -> str:
    """Which version of a module its programs are built from."""
    return _told_of(group, module, "Version")


def _told_of(group: str, module: str, what: str) -> str:
    go = _said([str(TOOLS / "find-go")], TOOLS)
    return _said([go, "list", "-m", "-f", f"{{{{.{what}}}}}", module], TOOLS / group)


def documents(path: Path) -> Iterator[dict[str, Any]]:
    """The objects in a file, or in all YAML files of a folder but kustomize's own."""
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    for file in files:
        for found in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            if found and found.get("kind") != "Kustomization" and "kustomiz" not in file.name:
                yield found


def _said(command: list[str], folder: Path) -> str:
    env = {**os.environ, **GO_ENV}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=GO_TIMEOUT_S)
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stderr}"
    return done.stdout.strip()
