"""Which lines of the shells a run reached: what no seed ever executes is not tested by any of them.

Only lines inside functions count; what runs at import says nothing about a seed. The tracer looks at the shells'
files alone and costs a run about a third of its speed, so a sample of the seeds is enough.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType
from typing import Final

import coverage

ROOT: Final = Path(__file__).resolve().parents[2]
SHELLS: Final = (
    "global/hanse/scheduler/shell",
    "pool_agent/hanse/agent/shell",
    "api/hanse/apiserver",
)
MISSED_SHOWN_MAX: Final = 12

Lines = dict[str, frozenset[int]]
"""Line numbers by file, relative to the root."""


def shell_files() -> list[Path]:
    """The files that are looked at, sorted."""
    return sorted(path for folder in SHELLS for path in (ROOT / folder).rglob("*.py"))


class Reach:
    """Records lines between `start` and `stop`."""

    def __init__(self) -> None:
        self._tracer = coverage.Coverage(data_file=None, include=[str(p) for p in shell_files()], config_file=False)

    def start(self) -> None:
        self._tracer.start()

    def stop(self) -> Lines:
        """What was reached since the first start."""
        self._tracer.stop()
        data = self._tracer.get_data()
        return {
            str(Path(name).relative_to(ROOT)): frozenset(data.lines(name) or ()) for name in data.measured_files()
        }


def joined(parts: Iterable[Lines]) -> Lines:
    """The union."""
    every: dict[str, frozenset[int]] = {}
    for lines in parts:
        for name, numbers in lines.items():
            every[name] = every.get(name, frozenset()) | numbers
    return every


def report(reached: Lines) -> Iterator[str]:
    """One line per file: how much of it was reached, and the first functions' lines that were not."""
    total = hit = 0
    for path in shell_files():
        name = str(path.relative_to(ROOT))
        wanted = function_lines(path)
        got = wanted & reached.get(name, frozenset())
        total, hit = total + len(wanted), hit + len(got)
        missed = spans(wanted - got)
        shown = ", ".join(missed[:MISSED_SHOWN_MAX]) + (" …" if len(missed) > MISSED_SHOWN_MAX else "")
        if wanted:
            yield f"{len(got) * 100 // len(wanted):4d}%  {name}" + (f"  not reached: {shown}" if missed else "")
    if total:
        yield f"{hit * 100 // total:4d}%  of {total} lines in functions of the shells"


def function_lines(path: Path) -> frozenset[int]:
    """Lines of a file that run only when a function of it does."""
    module = compile(path.read_text(encoding="utf-8"), str(path), "exec")
    return frozenset(line for code in _functions(module) for line in _lines(code))


def _functions(code: CodeType) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_flags & 0x2:  # CO_NEWLOCALS: a function's, not a class body's
                yield inner
            yield from _functions(inner)


def _lines(code: CodeType) -> set[int]:
    first = code.co_firstlineno
    return {line for _, _, line in code.co_lines() if line is not None and line != first}


def spans(numbers: Iterable[int]) -> list[str]:
    """`1-3`, `7`: neighbours joined."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return [f"{a}" if a == b else f"{a}-{b}" for a, b in found]
