"""Generates the Python code of every proto of the project into `proto/gen`.

The generated code is committed, so that a checkout runs without a compiler and a review sees what a change of
a proto does to its users. Only this script writes there, and `--check` proves that nobody else did: it
generates into a scratch folder and compares byte by byte.

Rules:
- The output holds nothing but generated files; the code of a proto that is gone is removed.
- Every leaf package gets an `__init__.py` and a `py.typed`; without the latter an SDK user's types are `Any`.
  The folders above it get neither: `hanse` and `hanse.api` are namespace packages that other folders share.
- The plugins run by absolute path, so that the set-up's own are used whatever PATH says.

Rejected: generating at build time. It would need the compiler in every install and hide changes from review.
"""

import argparse
import filecmp
import shutil
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

PROTO_ROOT = Path(__file__).resolve().parent
GENERATED_ROOT = PROTO_ROOT / "gen"
INIT_TEXT = '"""Generated from the protos by proto/generate.py. Do not edit."""\n'


def proto_files() -> list[str]:
    """Paths of all proto sources relative to PROTO_ROOT, sorted."""
    found = (path.relative_to(PROTO_ROOT) for path in PROTO_ROOT.rglob("*.proto"))
    return sorted(path.as_posix() for path in found if path.parts[0] != GENERATED_ROOT.name)


def generate(out: Path) -> None:
    """Writes the code of every proto below `out`, an empty folder. Raises SystemExit if protoc refuses."""
    sources = proto_files()
    if not sources:
        return
    plugins = Path(sys.executable).parent
    arguments = [
        "protoc",
        f"--proto_path={PROTO_ROOT}",
        f"--proto_path={files('grpc_tools') / '_proto'}",
        f"--plugin=protoc-gen-mypy={plugins / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={plugins / 'protoc-gen-mypy_grpc'}",
        f"--python_out={out}",
        f"--grpc_python_out={out}",
        f"--mypy_out=quiet:{out}",
        f"--mypy_grpc_out=quiet:{out}",
        *sources,
    ]
    code = protoc.main(arguments)
    if code != 0:
        raise SystemExit(code)
    drop_empty_service_files(out, sources)
    for folder in sorted({(out / source).parent for source in sources}):
        (folder / "__init__.py").write_text(INIT_TEXT, encoding="utf-8")
        (folder / "py.typed").touch()


def drop_empty_service_files(out: Path, sources: list[str]) -> None:
    """Removes the service modules of protos that declare no service: protoc writes an empty one for each."""
    for source in sources:
        stub = (out / source).with_suffix("")
        code = stub.with_name(f"{stub.name}_pb2_grpc.py")
        if "class " not in code.read_text(encoding="utf-8"):
            code.unlink()
            code.with_suffix(".pyi").unlink(missing_ok=True)


def differences(left: Path, right: Path) -> list[str]:
    """Relative paths of files that are on one side only or differ in bytes, sorted. Caches do not count."""
    names = {path.relative_to(root) for root in (left, right) for path in root.rglob("*") if path.is_file()}
    real = sorted(name for name in names if "__pycache__" not in name.parts)
    return [str(name) for name in real if not same_file(left / name, right / name)]


def same_file(left: Path, right: Path) -> bool:
    """Whether both files exist and hold the same bytes."""
    return left.is_file() and right.is_file() and filecmp.cmp(left, right, shallow=False)


def write() -> int:
    """Puts every changed file in its place, and clears what the type checker remembers of the old ones."""
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        changed = differences(Path(scratch), GENERATED_ROOT)
        for name in changed:
            put_file(Path(scratch) / name, GENERATED_ROOT / name)
    if changed:
        shutil.rmtree(PROTO_ROOT.parent / ".mypy_cache", ignore_errors=True)
    print(f"proto: {len(proto_files())} files, {len(changed)} generated files changed")
    return 0


def put_file(new: Path, old: Path) -> None:
    """Makes `old` hold what `new` holds, and removes it if there is no new one."""
    if not new.is_file():
        old.unlink()
        return
    old.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(new, old)


def check() -> int:
    """0 if the committed tree is what the protos say; else 1, and names every file that is not."""
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        changed = differences(Path(scratch), GENERATED_ROOT)
    for name in changed:
        print(f"proto/gen/{name}: not what the protos say; run `make proto` and commit the result")
    return 1 if changed else 0


def main() -> int:
    """Command line: writes by default, only compares with --check."""
    parser = argparse.ArgumentParser(description="Generates proto/gen from the protos.")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 if a file is out of date")
    return check() if parser.parse_args().check else write()


if __name__ == "__main__":
    sys.exit(main())
