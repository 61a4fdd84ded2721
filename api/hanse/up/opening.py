"""Opens the store and the bus of a process.

etcd is waited for: it may be started after us, or be away for a while, and a process that gives up would only be
started again. Everything else that is wrong is told at once.
"""

import asyncio
import logging
import random
from pathlib import Path
from typing import Final

from hanse.bus.contract import Bus
from hanse.kit.backoff import Backoff, BackoffPolicy
from hanse.kit.clock import Clock
from hanse.model.errors import InvalidArgument, Unavailable
from hanse.store.contract import Store, StoreError, StoreUnavailable
from hanse.store.etcd import EtcdOptions, EtcdStore
from hanse.store.measured import MeasuredStore
from hanse.store.memory import MemoryStore
from hanse.store.sqlite import SqliteStore

log = logging.getLogger(__name__)

RETRY: Final = BackoffPolicy(first_s=0.5, max_s=5.0)


async def opened_store(url: str, clock: Clock, rng: random.Random) -> Store:
    """The store at an address.

    Raises:
        InvalidArgument, Unavailable: it cannot be used.
    """
    backoff = Backoff(RETRY, rng)
    while True:
        try:
            return await _open(url, clock, rng)
        except StoreUnavailable as error:
            if not url.startswith("etcd:"):
                raise Unavailable(str(error), reason="STORE", path="store") from error
            log.warning("store_unavailable", extra={"cause": str(error)})
            await asyncio.sleep(backoff.delay_s())
        except StoreError as error:
            raise Unavailable(str(error), reason="STORE", path="store") from error


async def _open(url: str, clock: Clock, rng: random.Random) -> Store:
    kind, _, rest = url.partition(":")
    match kind:
        case "etcd":
            store: Store = await EtcdStore.open(EtcdOptions.from_url(url), rng=rng)
        case "memory":
            store = MemoryStore(clock)
        case "sqlite" if rest:
            store = await SqliteStore.open(_path(rest), clock)
        case _:
            raise InvalidArgument(f"{url!r} is no store", reason="STORE", path="store")
    return MeasuredStore(store, clock, kind)


def _path(text: str) -> Path:
    return Path(text).expanduser()


def opened_bus(url: str) -> Bus | None:
    """The bus at an address; None for none. Raises InvalidArgument."""
    if not url:
        return None
    raise InvalidArgument(f"{url!r} is no bus", reason="BUS", path="bus")
