"""What processes, and the whole machine, have computed: read from /proc, so only where there is one.

Where a machine is shared, a second of its processors is not always worth the same. So there is a yardstick beside:
the CPU time of a fixed piece of work.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_IDLE: Final = (3, 4)
"""Of a `cpu` line of /proc/stat: idle, and waiting for disks."""

YARDSTICK_STEPS: Final = 500_000
YARDSTICK_MASK: Final = 0xFFFF

_GUEST: Final = 8
"""From here on the fields are contained in earlier ones."""


@dataclass(frozen=True, slots=True)
class CpuReading:
    """Processor seconds up to a moment: of each process by name, and of everybody on the machine."""

    own_s: Mapping[str, float]
    machine_s: float

    def since(self, before: "CpuReading") -> "CpuReading":
        """What was computed between two moments."""
        own_s = {name: spent - before.own_s[name] for name, spent in self.own_s.items()}
        return CpuReading(own_s, self.machine_s - before.machine_s)

    @property
    def others_s(self) -> float:
        """What others than these processes computed."""
        return max(0.0, self.machine_s - sum(self.own_s.values()))


def yardstick_ms() -> float:
    """CPU time that this thread needs for a fixed piece of work in Python, in milliseconds; about 100 ms of it."""
    begun_s = time.thread_time()
    kept: dict[int, str] = {}
    for number in range(YARDSTICK_STEPS):
        kept[number & YARDSTICK_MASK] = f"gang-{number}"
    return (time.thread_time() - begun_s) * 1e3


def read_cpu(pids: Mapping[str, int]) -> CpuReading:
    """Of processes that run. Raises FileNotFoundError if one does not."""
    own_s = {name: process_s(Path(f"/proc/{pid}/stat").read_text(encoding="ascii")) for name, pid in pids.items()}
    return CpuReading(own_s, machine_s(Path("/proc/stat").read_text(encoding="ascii")))


def process_s(stat: str) -> float:
    """User and system time of a process, all its threads. The name, in brackets, may hold anything."""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def machine_s(stat: str) -> float:
    """Time in which processors of the machine were busy."""
    fields = [int(field) for field in stat.partition("\n")[0].split()[1:]]
    busy = sum(ticks for number, ticks in enumerate(fields[:_GUEST]) if number not in _IDLE)
    return busy / TICKS_PER_S
