"""What Prometheus scrapes: the text format 0.0.4, with names as OpenTelemetry maps them.

Dots become underscores, the unit is spelt out at the end, counters end in `_total`. Histograms are cumulative.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from hanse.kit.telemetry.instruments import AnyInstrument, Buckets, Counter, Histogram, Reading

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_UNITS: Final = {"s": "seconds", "By": "bytes", "1": "ratio"}
_ESCAPED: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_HELP_ESCAPED: Final = str.maketrans({"\\": "\\\\", "\n": "\\n"})


def metric_name(instrument: AnyInstrument) -> str:
    """The name of its family: `hanse.cycle.duration` in seconds → `hanse_cycle_duration_seconds`."""
    words = [instrument.name.replace(".", "_")]
    unit = _UNITS.get(instrument.unit, "")
    if unit and not words[0].endswith(unit):
        words.append(unit)
    if isinstance(instrument, Counter):
        words.append("total")
    return "_".join(words)


def exposition(readings: Iterable[Reading], resource: Mapping[str, str]) -> str:
    """The page: every family that has a series, and `target_info` with what the process is."""
    lines = ["# HELP target_info What this process is.", "# TYPE target_info gauge"]
    lines.append(f"target_info{_labels([(_flat(key), value) for key, value in sorted(resource.items())])} 1")
    for reading in readings:
        if reading.series:
            lines.extend(_family(reading))
    return "\n".join(lines) + "\n"


def _family(reading: Reading) -> Iterator[str]:
    instrument = reading.instrument
    name = metric_name(instrument)
    yield f"# HELP {name} {instrument.description.translate(_HELP_ESCAPED)}"
    yield f"# TYPE {name} {instrument.KIND}"
    keys = [_flat(label.name) for label in instrument.labels]
    for values, value in reading.series.items():
        pairs = list(zip(keys, values, strict=True))
        if isinstance(value, Buckets) and isinstance(instrument, Histogram):
            yield from _histogram(name, pairs, instrument.bounds, value)
        elif isinstance(value, int | float):
            yield f"{name}{_labels(pairs)} {_number(value)}"


def _histogram(name: str, pairs: Sequence[tuple[str, str]], bounds: Sequence[float], found: Buckets) -> Iterator[str]:
    below = 0
    for bound, count in zip([*map(_number, bounds), "+Inf"], found.counts, strict=True):
        below += count
        yield f"{name}_bucket{_labels([*pairs, ('le', bound)])} {below}"
    yield f"{name}_sum{_labels(pairs)} {_number(found.total)}"
    yield f"{name}_count{_labels(pairs)} {below}"


def _labels(pairs: Sequence[tuple[str, str]]) -> str:
    if not pairs:
        return ""
    inside = ",".join([f'{key}="{value.translate(_ESCAPED)}"' for key, value in pairs])
    return "{" + inside + "}"


def _flat(name: str) -> str:
    return name.replace(".", "_")


def _number(value: float) -> str:
    whole = int(value)
    return str(whole) if whole == value else repr(float(value))
