"""Numbers, times and amounts as people read them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Final

from hanse.cli.symbols import DASH
from hanse.model.resources import CPU, GPU_RESOURCES, MEMORY

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 86_400_000
_BINARY: Final = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def number(value: int) -> str:
    """`4,096`."""
    return f"{value:,}"


def counted(value: int, one: str, many: str = "") -> str:
    """`1 host`, `4,096 hosts`."""
    return f"{value:,} {one if value == 1 else many or plural(one)}"


def plural(word: str) -> str:
    """`hosts`, `switches`."""
    return f"{word}es" if word.endswith(("s", "x", "ch", "sh")) else f"{word}s"


def percent(part: int, whole: int) -> str:
    """`61 %`, rounded down, so that 100 % means all; a dash of nothing."""
    return f"{100 * part // whole} %" if whole else DASH


def duration(ms: int) -> str:
    """`4 ms`, `1.2 s`, `45 s`, `14 min`, `3 h 12 min`, `2 d 4 h`."""
    ms = max(0, ms)
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 10_000:
        return f"{ms / 1_000:.1f} s"
    if ms < _MINUTE_MS:
        return f"{ms // 1_000} s"
    if ms < _HOUR_MS:
        return f"{ms // _MINUTE_MS} min"
    if ms < _DAY_MS:
        return _two(ms // _HOUR_MS, "h", ms % _HOUR_MS // _MINUTE_MS, "min")
    return _two(ms // _DAY_MS, "d", ms % _DAY_MS // _HOUR_MS, "h")


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large} {unit} {small} {small_unit}" if small else f"{large} {unit}"


def seconds(value: int) -> str:
    """A length that was asked for: `12 h`, `90 s`, exactly."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if value and value % size == 0:
            return f"{value // size} {unit}"
    return f"{value:,} s"


def clock(ms: int, zone: tzinfo | None = None) -> str:
    """`14:02:07` in the zone, None for the local one."""
    return datetime.fromtimestamp(ms / 1_000, zone).strftime("%H:%M:%S")


def amount(resource: str, value: int) -> str:
    """`8 GPUs`, `96 CPUs`, `1 Ti memory`, `1 rdma/hca`."""
    if resource in GPU_RESOURCES:
        return counted(value, "GPU")
    if resource == CPU:
        return f"{bare_amount(resource, value)} CPU{'' if value == 1_000 else 's'}"
    if resource == MEMORY:
        return f"{bare_amount(resource, value)} memory"
    return f"{bare_amount(resource, value)} {resource}"


def bare_amount(resource: str, value: int) -> str:
    """An amount without its unit: `1,000`, `0.5` CPUs, `1Ti`."""
    if resource == CPU:
        return f"{value / 1_000:,.3f}".rstrip("0").rstrip(".")
    return binary(value) if resource == MEMORY else f"{value:,}"


def amounts(resources: Mapping[str, int]) -> str:
    """`8 GPUs, 96 CPUs, 1Ti memory`: accelerators first."""
    order = sorted(resources.items(), key=lambda item: (item[0] not in GPU_RESOURCES, item[0]))
    return ", ".join(amount(name, value) for name, value in order)


def binary(value: int) -> str:
    """`1Ti`, `1536Mi`: exactly, with the largest suffix that divides."""
    for suffix, size in _BINARY:
        if value and value % size == 0:
            return f"{value // size:,}{suffix}"
    return f"{value:,}"


def gpus_of(resources: Mapping[str, int]) -> int:
    """Accelerators of any kind."""
    return sum(resources.get(name, 0) for name in GPU_RESOURCES)


def ranges(values: Iterable[int]) -> str:
    """`0-15, 32-47, 50`, with a dash as people set it."""
    runs = _runs(sorted(values))
    return ", ".join(f"{first:,}" if first == last else f"{first:,}{DASH}{last:,}" for first, last in runs)


def _runs(values: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for value in values:
        if runs and runs[-1][1] + 1 == value:
            runs[-1] = (runs[-1][0], value)
        else:
            runs.append((value, value))
    return runs


def first_few(names: Sequence[str], most: int) -> str:
    """`a, b, c, 4 more`."""
    more = len(names) - most
    shown = [*names[:most], f"{more:,} more"] if more > 0 else names
    return ", ".join(shown)
