"""What one change of a node costs, from the message to a shape that could be published."""

import time
from collections.abc import Mapping

from bench.contract import JsonValue
from bench.placement.clock import quantile
from bench.placement.pool import BusyPool


def measure(nodes: int, load: float, events: int, seed: int) -> tuple[float | None, JsonValue]:
    """Microseconds of one event at the median, and for `raw` the same by kind of event."""
    pool = BusyPool(nodes, load, seed)
    pool.inventory.shape()
    by_kind: dict[str, list[int]] = {}
    for _ in range(events):
        kind, tell = pool.event()
        start = time.thread_time_ns()
        tell()
        pool.inventory.shape()
        by_kind.setdefault(kind, []).append(time.thread_time_ns() - start)
    every = [ns for own in by_kind.values() for ns in own]
    told: Mapping[str, JsonValue] = {
        kind: {"n": len(own), "p50": quantile(own, 0.5, 1e3), "p99": quantile(own, 0.99, 1e3)}
        for kind, own in {**by_kind, "all": every}.items()
    }
    return quantile(every, 0.5, 1e3), told
