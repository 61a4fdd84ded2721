"""The lock as pip is told it: the same versions that uv would take, and a hash that is really looked at."""

import importlib.util
import re
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def lock() -> ModuleType:
    """The script `.ci/lock.py` as a module; its folder is no package."""
    spec = importlib.util.spec_from_file_location("lock", ROOT / ".ci/lock.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_constraints_name_what_is_installed(lock: ModuleType) -> None:
    told = set(lock.constraints(tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))))
    installed = {re.sub(r"[-_.]+", "-", dist.metadata["Name"]).lower(): dist.version for dist in distributions()}
    pins = {line.partition(" ;")[0] for line in told}
    locked = {pin.partition("==")[0] for pin in pins}
    assert {f"{name}=={version}" for name, version in installed.items() if name in locked} <= pins


def test_package_with_two_versions_gets_its_markers(lock: ModuleType) -> None:
    package = {
        "name": "a",
        "version": "1",
        "source": {"registry": "r"},
        "resolution-markers": ["python_full_version < '3.12'", "python_full_version >= '3.14'"],
    }
    told = list(lock.constraints({"package": [package]}))
    assert told == ["a==1 ; (python_full_version < '3.12') or (python_full_version >= '3.14')"]


def test_project_itself_is_no_constraint(lock: ModuleType) -> None:
    assert list(lock.constraints({"package": [{"name": "hanse", "source": {"editable": "."}}]})) == []


def test_requirements_are_the_project_and_its_development_group(lock: ModuleType, tmp_path: Path) -> None:
    lock.write_requirements(tmp_path)
    told = (tmp_path / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert told[0] == f"-e {ROOT}[otlp]"
    assert "grpcio-tools==1.80.*" in told


def test_wheel_with_another_hash_is_refused(
    lock: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "pip-1-py3-none-any.whl"
    wheel.write_bytes(b"something else")
    text = f'package = [{{name = "pip", wheels = [{{url = "{wheel.as_uri()}", hash = "sha256:00"}}]}}]'
    (tmp_path / "uv.lock").write_text(text, encoding="utf-8")
    monkeypatch.setattr(lock, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match="does not have the locked hash"):
        lock.fetch_wheel("pip", tmp_path)
