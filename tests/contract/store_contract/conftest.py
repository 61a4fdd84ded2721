from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from hanse.store.contract import Store
from tests.contract.store_contract.homes import MemoryHome, SqliteHome, StoreHome


@pytest.fixture(params=["memory", "sqlite"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> StoreHome:
    return MemoryHome() if request.param == "memory" else SqliteHome(tmp_path)


@pytest_asyncio.fixture
async def store(home: StoreHome) -> AsyncIterator[Store]:
    opened = await home.open()
    yield opened
    await opened.close()


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """Every test keeps below its own prefix, so that a server may be shared."""
    return f"{request.node.name}/"
