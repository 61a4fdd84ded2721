from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

pytest.register_assert_rewrite("tests.contract.cluster_port")

from e2e.control_plane import ControlPlane, control_plane  # noqa: E402
from e2e.home import KubernetesHome, hosts  # noqa: E402
from e2e.nodes import add_nodes  # noqa: E402
from hanse.agent.cluster.port import ClusterPort  # noqa: E402
from tests.contract.cluster_port.acts import FIRST, claimed  # noqa: E402


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """A control plane with the nodes of the contract suite."""
    with control_plane() as running:
        add_nodes(running, hosts())
        yield running


@pytest_asyncio.fixture
async def home(plane: ControlPlane) -> AsyncIterator[KubernetesHome]:
    home = KubernetesHome(plane)
    await home.wipe()
    yield home
    await home.close()


@pytest.fixture
def port(home: KubernetesHome) -> ClusterPort:
    return home.port()


@pytest_asyncio.fixture
async def agent(port: ClusterPort) -> ClusterPort:
    """The port of an agent that has claimed the cluster with epoch FIRST."""
    await claimed(port, FIRST)
    return port
