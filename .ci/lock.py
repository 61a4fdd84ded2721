"""Reads `uv.lock` with the standard library alone, so that a machine without uv installs the very same set.

The set-up runs this before anything is installed. It answers two questions:
- `lock.py requirements DIR` writes `requirements.txt` (what to install) and `constraints.txt` (the locked
  version of everything) for pip into DIR;
- `lock.py wheel NAME DIR` downloads the locked, pure-Python wheel of NAME into DIR, proves its hash and
  prints its path. That is how pip itself arrives on a Python that came without one.

Rejected: a second, exported requirements file in the tree. It would have to be kept equal to the lock.
"""

import hashlib
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOWNLOAD_TIMEOUT_S = 60
EXTRAS = "otlp"


def constraints(lock: dict[str, Any]) -> Iterator[str]:
    """One `name==version` line a locked package, with the lock's marker where a name has two versions."""
    for package in lock["package"]:
        if "registry" not in package["source"]:
            continue
        pin = f"{package['name']}=={package['version']}"
        markers = package.get("resolution-markers", [])
        if markers:
            yield f"{pin} ; {' or '.join(f'({marker})' for marker in markers)}"
        else:
            yield pin


def requirements(project: dict[str, Any]) -> Iterator[str]:
    """The project itself, editable, with the development group."""
    yield f"-e {ROOT}[{EXTRAS}]"
    yield from project["dependency-groups"]["dev"]


def write_requirements(folder: Path) -> None:
    """Writes both files for pip into an existing folder."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (folder / "constraints.txt").write_text("\n".join(constraints(lock)) + "\n", encoding="utf-8")
    (folder / "requirements.txt").write_text("\n".join(requirements(project)) + "\n", encoding="utf-8")


def fetch_wheel(name: str, folder: Path) -> Path:
    """Downloads the locked wheel of a pure-Python package. Raises SystemExit if its hash differs."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    wheel = next(package["wheels"][0] for package in lock["package"] if package["name"] == name)
    with urllib.request.urlopen(wheel["url"], timeout=DOWNLOAD_TIMEOUT_S) as answer:
        body: bytes = answer.read()
    if f"sha256:{hashlib.sha256(body).hexdigest()}" != wheel["hash"]:
        raise SystemExit(f"uv.lock: the download of {name} does not have the locked hash; try again")
    path = folder / str(wheel["url"]).rsplit("/", 1)[-1]
    path.write_bytes(body)
    return path


def main(arguments: list[str]) -> int:
    """Command line; see the module docstring."""
    match arguments:
        case ["requirements", folder]:
            write_requirements(Path(folder))
        case ["wheel", name, folder]:
            print(fetch_wheel(name, Path(folder)))
        case _:
            print("usage: lock.py requirements DIR | lock.py wheel NAME DIR", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
