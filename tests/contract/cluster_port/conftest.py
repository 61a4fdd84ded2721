from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from hanse.agent.cluster.port import ClusterPort
from tests.contract.cluster_port.acts import FIRST, claimed
from tests.contract.cluster_port.homes import ClusterHome, SimulatedHome, grpc_home


@pytest_asyncio.fixture(params=["memory", "folder", "grpc"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ClusterHome]:
    if request.param == "grpc":
        async with grpc_home(tmp_path / "state") as served:
            yield served
        return
    simulated = SimulatedHome(tmp_path / "state" if request.param == "folder" else None)
    yield simulated
    simulated.close()


@pytest.fixture
def port(home: ClusterHome) -> ClusterPort:
    return home.port()


@pytest_asyncio.fixture
async def agent(port: ClusterPort) -> ClusterPort:
    """The port of an agent that has claimed the cluster with epoch FIRST."""
    await claimed(port, FIRST)
    return port
