from collections.abc import Iterator

import pytest
import pytest_asyncio

from hanse.bus.contract import Bus
from tests.contract.bus_contract.homes import BusHome, InProcessHome, MqttHome
from tests.services.mosquitto import Broker, mosquitto


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with mosquitto() as started:
        yield started


@pytest.fixture(params=["inprocess", "mqtt"])
def home(request: pytest.FixtureRequest) -> BusHome:
    return InProcessHome() if request.param == "inprocess" else MqttHome(request.getfixturevalue("broker"))


@pytest_asyncio.fixture
async def bus(home: BusHome) -> Bus:
    return await home.open()


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """Every test keeps below its own topics and client ids, so that a broker may be shared and keep its
    retained messages."""
    return str(request.node.name).translate(str.maketrans("+#/", "___"))
