from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from hanse.store.contract import Store
from tests.contract.store_contract.homes import EtcdHome, MemoryHome, SqliteHome, StoreHome
from tests.services.etcd import EtcdServers, etcd_servers


@pytest.fixture(scope="session")
def etcd() -> Iterator[EtcdServers]:
    with etcd_servers() as servers:
        yield servers


@pytest.fixture(params=["memory", "sqlite", "etcd"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> StoreHome:
    match request.param:
        case "memory":
            return MemoryHome()
        case "sqlite":
            return SqliteHome(tmp_path)
        case _:
            return EtcdHome(request.getfixturevalue("etcd"))


@pytest_asyncio.fixture
async def store(home: StoreHome) -> AsyncIterator[Store]:
    opened = await home.open()
    yield opened
    await opened.close()


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """Every test keeps below its own prefix, so that a server may be shared."""
    return f"{request.node.name}/"
