"""Where the suite gets its buses from. A new adapter adds one home; the tests stay as they are."""

from typing import Protocol

from hanse.bus.contract import Bus
from hanse.bus.inprocess import InProcessBus
from hanse.bus.mqtt import MqttBus
from tests.services.mosquitto import Broker


class BusHome(Protocol):
    async def open(self) -> Bus: ...


class InProcessHome:
    async def open(self) -> Bus:
        return InProcessBus()


class MqttHome:
    """A real broker, shared by all tests."""

    def __init__(self, broker: Broker) -> None:
        self._options = broker.options

    async def open(self) -> Bus:
        return MqttBus(self._options)
