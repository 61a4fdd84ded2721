"""Opens the store and the bus of a process.

etcd is waited for: it may be started after us, or be away for a while, and a process that gives up would only be
started again. Everything else that is wrong is told at once.
"""

import asyncio
import logging
import random
from typing import Final

from hanse.bus.contract import Bus
from hanse.bus.opening import open_bus
from hanse.kit.backoff import Backoff, BackoffPolicy
from hanse.kit.clock import Clock
from hanse.model.errors import InvalidArgument, Unavailable
from hanse.store.contract import Store, StoreError, StoreUnavailable
from hanse.store.measured import MeasuredStore
from hanse.store.opening import open_store

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
    store = await open_store(url, clock, rng=rng)
    return MeasuredStore(store, clock, url.partition(":")[0])


def opened_bus(url: str, rng: random.Random) -> Bus | None:
    """The bus at an address; None for none.

    Raises:
        InvalidArgument: it cannot be one that several processes share.
    """
    if url.startswith("inprocess:"):
        what = "inprocess: ends where this process ends; write mqtt://HOST:PORT, or nothing"
        raise InvalidArgument(what, reason="BUS_ADDRESS", path="bus")
    return open_bus(url, rng=rng) if url else None
