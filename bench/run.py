"""Runs one bench and leaves its result where a reader, or a later run, finds it.

`python -m bench.run BENCH=NAME [VAR=value ...]` removes the old `bench/out/NAME.json`, so that a failed run
leaves no older answer behind, runs `bench/NAME`, prints its figures as a table and writes
`{"figures": {...}, "raw": ..., "machine": {...}}`. Exit 0; 1 if the bench failed; 2 for wrong use.
"""

import importlib
import json
import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import cast

from rich.console import Console
from rich.table import Table

from bench.contract import Bench, BenchArgumentError, BenchResult, JsonValue

BENCH_ROOT = Path(__file__).resolve().parent
OUT = BENCH_ROOT / "out"
NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]*")
NOT_BENCHES = frozenset({"contract", "drawing", "equal_pools", "plots", "run"})
REPORTED_PACKAGES = ("grpcio", "msgspec", "numpy", "protobuf", "uvloop")


def bench_names() -> list[str]:
    """Names of all benches, sorted."""
    modules = (path.stem for path in BENCH_ROOT.glob("*.py"))
    packages = (path.parent.name for path in BENCH_ROOT.glob("*/__init__.py"))
    names = {*modules, *packages} - NOT_BENCHES
    return sorted(name for name in names if NAME_PATTERN.fullmatch(name))


def parse(arguments: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The bench's name and its own arguments. Raises BenchArgumentError."""
    pairs = [argument.partition("=") for argument in arguments]
    for name, equals, _ in pairs:
        if not equals:
            raise BenchArgumentError(f"{name}: arguments are written NAME=value")
    args = {name: value for name, _, value in pairs}
    bench = args.pop("BENCH", "")
    if bench not in bench_names():
        known = ", ".join(bench_names()) or "none yet"
        raise BenchArgumentError(f"BENCH={bench}: no such bench; there are: {known}")
    return bench, args


def machine() -> dict[str, JsonValue]:
    """What no figure can be read without: processor, memory, Python, packages, commit."""
    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "os": platform.platform(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": {name: version(name) for name in REPORTED_PACKAGES},
        "commit": commit(),
    }


def cpu_model() -> str:
    """The processor's name, or its architecture where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


def commit() -> str | None:
    """The checked-out commit, marked where the tree differs from it; None outside a repository."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, cwd=BENCH_ROOT, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def refuse_unfit(figures: Mapping[str, float | None]) -> None:
    """Raises ValueError naming the first figure that is no finite number: JSON has no word for it."""
    for name, value in figures.items():
        if value is not None and not math.isfinite(value):
            raise ValueError(f"figures.{name}: {value} is no finite number; give None and say why in raw")


def show(bench: str, figures: Mapping[str, float | None]) -> None:
    """Prints the figures as a table."""
    table = Table(title=f"bench {bench}", title_justify="left")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, value in figures.items():
        table.add_row(name, "not measured" if value is None else format_figure(value))
    Console().print(table)


def format_figure(value: float) -> str:
    """Whole numbers whole, others with four significant digits."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def main(arguments: Sequence[str]) -> int:
    """Command line; see the module docstring."""
    try:
        name, args = parse(arguments)
        out = OUT / f"{name}.json"
        out.unlink(missing_ok=True)
        bench = cast(Bench, importlib.import_module(f"bench.{name}"))
        result: BenchResult = bench.run(args)
    except BenchArgumentError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    refuse_unfit(result.figures)
    show(name, result.figures)
    OUT.mkdir(exist_ok=True)
    document = {"figures": dict(result.figures), "raw": result.raw, "machine": machine()}
    out.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
