"""Where the suite gets its buses from. A new adapter adds one home; the tests stay as they are."""

from typing import Protocol

from hanse.bus.contract import Bus
from hanse.bus.inprocess import InProcessBus


class BusHome(Protocol):
    async def open(self) -> Bus: ...


class InProcessHome:
    async def open(self) -> Bus:
        return InProcessBus()
