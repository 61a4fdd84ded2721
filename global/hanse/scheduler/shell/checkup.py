"""What a replica tells of its process for `hanse doctor`: figures that are right or wrong whatever the load.

They are read off the instruments that are exported too, so a check and an alert see the same.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final

from hanse.kit.telemetry import metrics
from hanse.model import vitals

_PPM: Final = 1_000_000


def facts() -> dict[str, int]:
    """By the words of `model.vitals`; what is not known is not there."""
    metrics.REGISTRY.collect()
    return dict(_facts())


def _facts() -> Iterator[tuple[str, int]]:
    yield vitals.ARCHIVE_FAILURES, round(metrics.ARCHIVE_FAILURES.series.get((), 0))
    yield vitals.AGENTS_TWICE, round(metrics.AGENTS_REFUSED.series.get(("ALREADY_ATTACHED",), 0))
    yield vitals.USAGE_UNCOUNTED, round(metrics.USAGE_UNCOUNTED.series.get((), 0))
    yield vitals.HAS_NUMBA, int(find_spec("numba") is not None)
    yield vitals.HAS_OTLP, int(find_spec("opentelemetry") is not None)
    for (whose,), left_s in metrics.CERTIFICATE_LEFT.series.items():
        yield f"{vitals.CERTIFICATE_LEFT_S}{whose}", round(left_s)
    for (whose,), lifetime_s in metrics.CERTIFICATE_LIFETIME.series.items():
        yield f"{vitals.CERTIFICATE_LIFETIME_S}{whose}", round(lifetime_s)
    sizes = metrics.STORE_SIZE.series
    for member in sorted({member for member, _ in sizes}):
        used, quota = sizes.get((member, "file"), 0), sizes.get((member, "quota"), 0)
        if quota:
            yield f"{vitals.STORE_USED_PPM}{member}", round(used * _PPM / quota)
