"""Whether a query of Prometheus asks for what there is."""

import re
from functools import cache

from hanse.kit.telemetry import metrics
from hanse.kit.telemetry.exposition import metric_name
from hanse.kit.telemetry.instruments import Histogram

SCRAPED = {"instance", "job", "le"}
_METRIC = re.compile(r"\b((?:hanse|db|rpc)_[a-z_]+)(?:\{([^}]*)\})?")
_GROUPED = re.compile(r"by \(([^)]*)\)")


@cache
def names() -> dict[str, set[str]]:
    """Labels by every name that a scrape may have."""
    found: dict[str, set[str]] = {}
    for instrument in (reading.instrument for reading in metrics.REGISTRY.collect()):
        labels = {label.name.replace(".", "_") for label in instrument.labels}
        ends = ("_bucket", "_sum", "_count") if isinstance(instrument, Histogram) else ("",)
        found.update({metric_name(instrument) + end: labels for end in ends})
    return found


def check_asked(expr: str) -> None:
    """Each metric is of the catalogue, each label that is compared its own, each that is grouped by one of them."""
    asked = _METRIC.findall(_GROUPED.sub("", expr))
    assert asked, expr
    labels = set(SCRAPED)
    for name, matchers in asked:
        assert name in names(), f"{name} is no metric"
        assert set(re.findall(r"(\w+)\s*=", matchers)) <= names()[name], f"{name} has no such label: {matchers}"
        labels |= names()[name]
    for grouped in _GROUPED.findall(expr):
        assert {word.strip() for word in grouped.split(",")} <= labels, f"nothing is grouped by {grouped}"
