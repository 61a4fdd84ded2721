"""Where the suite gets its stores from. A new adapter adds one home; the tests stay as they are."""

from pathlib import Path
from typing import ClassVar, Protocol

from hanse.kit.clock import SystemClock
from hanse.store.contract import Store
from hanse.store.etcd import EtcdStore
from hanse.store.memory import MemoryStore
from hanse.store.sqlite import SqliteStore
from tests.services.etcd import EtcdServers


class StoreHome(Protocol):
    """One store's data, and how to get at it."""

    lease_ttl_s: ClassVar[float]
    """The shortest lease that the store grants as asked."""

    async def open(self) -> Store: ...

    async def reopen(self, store: Store) -> Store:
        """Close the store (or this client of it) and open it again on the same data."""
        ...


class MemoryHome:
    """The data dies with the object, so reopening keeps it open: what remains tested is resuming a watch."""

    lease_ttl_s: ClassVar[float] = 0.05

    async def open(self) -> Store:
        return MemoryStore(SystemClock())

    async def reopen(self, store: Store) -> Store:
        return store


class SqliteHome:
    lease_ttl_s: ClassVar[float] = 0.1

    def __init__(self, folder: Path) -> None:
        self._path = folder / "hanse.db"

    async def open(self) -> Store:
        return await SqliteStore.open(self._path, SystemClock())

    async def reopen(self, store: Store) -> Store:
        await store.close()
        return await self.open()


class EtcdHome:
    """A real server, shared by all tests."""

    lease_ttl_s: ClassVar[float] = 1.0

    def __init__(self, servers: EtcdServers) -> None:
        self._options = servers.options()

    async def open(self) -> Store:
        return await EtcdStore.open(self._options)

    async def reopen(self, store: Store) -> Store:
        await store.close()
        return await self.open()
