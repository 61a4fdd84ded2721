"""A folder is a deployable, an import is a domain word, and everything is where architecture.md says."""

import re
import subprocess
import sys
from collections import Counter
from typing import Final

import pytest

from tests.arch.tree import ROOT, project_files

TOP_LEVEL: Final = frozenset(
    ".ci .gitignore CHANGELOG.md CONTRIBUTING.md LICENSE Makefile README.md api bench buf.yaml docs e2e "
    "global helm pool_agent proto pyproject.toml tests uv.lock".split()
)
PACKAGES: Final = {
    "api/hanse": "apiserver bus cli client console kit manifests model shape up wire",
    "global/hanse": "scheduler store",
    "pool_agent/hanse": "agent simcluster",
    "proto/gen/hanse": "api etcd link sim",
}
TEST_RINGS: Final = frozenset("arch chaos contract integration property scenarios services sim unit".split())
NAMELESS: Final = frozenset({"utils.py", "util.py", "common.py", "helpers.py", "misc.py"})
MAKE_TARGETS: Final = frozenset("setup demo test check sim bench proto fmt clean".split())


def relative_paths() -> list[str]:
    """All project files relative to the root, in POSIX form."""
    return [path.relative_to(ROOT).as_posix() for path in project_files()]


def test_top_level_holds_only_what_the_architecture_names() -> None:
    assert {path.partition("/")[0] for path in relative_paths()} - TOP_LEVEL == set()


@pytest.mark.parametrize("folder", PACKAGES)
def test_import_root_holds_the_packages_of_the_architecture(folder: str) -> None:
    inside = [path.removeprefix(f"{folder}/") for path in relative_paths() if path.startswith(f"{folder}/")]
    assert {path.partition("/")[0] for path in inside} == set(PACKAGES[folder].split())


def test_import_root_is_a_namespace_package() -> None:
    assert [path for path in relative_paths() if re.search(r"(^|/)hanse/__init__\.pyi?$", path)] == []


def test_every_package_below_the_import_root_has_an_init() -> None:
    modules = [path for path in relative_paths() if re.match(r"(api|global|pool_agent)/hanse/.*\.py$", path)]
    folders = {path.rpartition("/")[0] for path in modules}
    parents = {parent for folder in folders for parent in ancestors_below_root(folder)}
    assert sorted(folder for folder in parents if f"{folder}/__init__.py" not in modules) == []


def ancestors_below_root(folder: str) -> list[str]:
    """`api/hanse/a/b` gives `api/hanse/a` and `api/hanse/a/b`."""
    parts = folder.split("/")
    return ["/".join(parts[:length]) for length in range(3, len(parts) + 1)]


def test_no_import_name_is_served_from_two_folders() -> None:
    names = [name for packages in PACKAGES.values() for name in packages.split()]
    assert [name for name, times in Counter(names).items() if times > 1] == []


def test_no_module_is_named_after_nothing() -> None:
    assert [path for path in relative_paths() if path.rpartition("/")[2] in NAMELESS] == []


def test_tests_are_in_their_rings() -> None:
    inside = [path.split("/")[1] for path in relative_paths() if re.match(r"tests/.*/", path)]
    assert set(inside) - TEST_RINGS == set()


def test_generated_code_is_what_the_protos_say() -> None:
    command = [sys.executable, str(ROOT / "proto/generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("path", [path for path in relative_paths() if path.startswith("proto/gen/")])
def test_generated_file_says_so(path: str) -> None:
    head = (ROOT / path).read_text(encoding="utf-8")[:200]
    assert path.endswith("py.typed") or re.search(r"@?generated|Generated", head)


def test_generated_leaf_packages_are_typed_and_their_parents_are_namespaces() -> None:
    generated = [path for path in relative_paths() if path.startswith("proto/gen/")]
    leaves = {path.rpartition("/")[0] for path in generated}
    assert all(re.fullmatch(r"proto/gen/hanse/\w+/v\d+", leaf) for leaf in leaves), leaves
    assert {f"{leaf}/{name}" for leaf in leaves for name in ("__init__.py", "py.typed")} <= set(generated)


def test_make_help_describes_every_target() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=30)
    described = {line.split()[0] for line in done.stdout.splitlines() if len(line.split()) > 1}
    assert described >= MAKE_TARGETS
