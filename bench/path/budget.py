"""What a gang may cost at 1,000 gangs a second on two cores, in microseconds of CPU, and what it costs.

The budget counts by part; a process has several parts, and some parts are in several processes. A part stands with
the process that has most of it, so a row is comparable roughly, and the total exactly.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bench.contract import JsonValue


@dataclass(frozen=True, slots=True)
class Share:
    """Processes whose names begin so, and what they may cost: microseconds of CPU per gang, by part."""

    names: tuple[str, ...]
    parts: Mapping[str, int]

    @property
    def budget_us(self) -> int:
        return sum(self.parts.values())


BUDGET: Final = (
    Share(("etcd",), {"etcd, about 8 keys a gang": 115}),
    Share(
        ("r",),
        {
            "store clients, watches, decoding": 220,
            "decision": 150,
            "link": 60,
            "telemetry": 50,
            "event loops, garbage collection": 150,
        },
    ),
    Share(("agents", "clusters"), {"agents, clusters": 350}),
    Share(("mosquitto",), {"MQTT": 100}),
    Share(("client",), {"load generator and API": 60}),
)


def budget_table(cpu_us_per_gang: Mapping[str, float]) -> list[JsonValue]:
    """Rows of processes, what they cost per gang, and what they may cost; the total last.

    Raises:
        KeyError: a process that belongs to no row.
    """
    rows: list[JsonValue] = []
    left = dict(cpu_us_per_gang)
    for share in BUDGET:
        own = {name: us for name, us in cpu_us_per_gang.items() if _kind(name) in share.names}
        rows.append(_row(", ".join(sorted(own)), sum(own.values()), share.budget_us, dict(share.parts)))
        for name in own:
            del left[name]
    if left:
        raise KeyError(f"no budget for {', '.join(sorted(left))}")
    total = sum(share.budget_us for share in BUDGET)
    return [*rows, _row("total", sum(cpu_us_per_gang.values()), total, None)]


def _kind(name: str) -> str:
    """`etcd-m0` is an etcd, `r2` a replica, `agents-1` a process of agents."""
    return name.partition("-")[0].rstrip("0123456789")


def _row(processes: str, measured_us: float, budget_us: int, parts: JsonValue) -> JsonValue:
    return {"processes": processes, "measured_us": round(measured_us, 1), "budget_us": budget_us, "parts": parts}
