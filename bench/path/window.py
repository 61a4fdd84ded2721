"""A stretch of time in which the client keeps gangs on their way: what was placed, and what it cost whom."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.contract import JsonValue
from bench.path.budget import budget_table
from bench.path.cpu import CpuReading, read_cpu, yardstick_ms
from bench.path.federation import Running
from bench.path.orders import Count, Fill, Look, Rest

CALLS_PER_REPLICA: Final = 2


@dataclass(frozen=True, slots=True)
class Window:
    """What was counted and computed."""

    before: Count
    after: Count
    cpu: CpuReading
    yardstick_ms: float

    @property
    def took_s(self) -> float:
        return self.after.at_s - self.before.at_s

    @property
    def placed(self) -> int:
        return self.after.placed - self.before.placed

    @property
    def gangs_per_s(self) -> float:
        return self.placed / self.took_s

    @property
    def cpu_us_by_process(self) -> dict[str, float]:
        """Processor time for each gang that was placed, in microseconds."""
        return {name: spent * 1e6 / max(self.placed, 1) for name, spent in self.cpu.own_s.items()}

    @property
    def cpu_us_per_gang(self) -> float:
        """Of all processes."""
        return sum(self.cpu_us_by_process.values())

    def raw(self, fleet_gpus: int) -> dict[str, JsonValue]:
        """What a reader of the rate must know: who took what, how full the fleet was, what others computed."""
        by_process = self.cpu_us_by_process
        return {
            "cpu_us_per_gang": {name: round(us, 1) for name, us in by_process.items()},
            "cpu_cores": {name: round(spent / self.took_s, 3) for name, spent in self.cpu.own_s.items()},
            "others_cores": round(self.cpu.others_s / self.took_s, 3),
            "yardstick_ms": round(self.yardstick_ms, 1),
            "budget": budget_table(by_process),
            "window": {name: _plain(count) for name, count in (("before", self.before), ("after", self.after))},
            "fleet": {
                "gpus": fleet_gpus,
                "held_before_pct": 100 * self.before.gpus_held / fleet_gpus,
                "held_after_pct": 100 * self.after.gpus_held / fleet_gpus,
            },
        }


async def sustained_rate(federation: Running, *, warm_s: float, seconds: float) -> Window:
    """Keep the client's window full for some seconds after a warm-up, and count; then let everything be placed."""
    client = federation.client
    await client.ask(Fill(CALLS_PER_REPLICA * len(federation.processes.addresses)), Count)
    await asyncio.sleep(warm_s)
    before, cpu = await client.ask(Look(), Count), read_cpu(federation.pids)
    await asyncio.sleep(seconds)
    after, spent = await client.ask(Look(), Count), read_cpu(federation.pids).since(cpu)
    yardstick = yardstick_ms()  # while everything still runs
    await client.ask(Rest(), Count)
    return Window(before, after, spent, yardstick)


def _plain(count: Count) -> JsonValue:
    return {name: getattr(count, name) for name in count.__struct_fields__}


def quantile(values: Sequence[float], share: float) -> float | None:
    """The value that a share of all is below; None of nothing."""
    if not values:
        return None
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
