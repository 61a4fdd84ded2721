"""Opens the store that an address names; each adapter is imported only when it is asked for.

``memory:`` ends with the process; ``sqlite:PATH`` is one file for one process;
``etcd://[USER:PASSWORD@]HOST:PORT[,HOST:PORT…][?ca=FILE[&cert=FILE&key=FILE]]`` is for any number of them.
"""

import random
from pathlib import Path

from hanse.kit.clock import Clock
from hanse.model.errors import InvalidArgument
from hanse.store.contract import Store


async def open_store(url: str, clock: Clock, *, rng: random.Random | None = None) -> Store:
    """The open store.

    Raises:
        InvalidArgument: the address is wrong, or names a certificate that cannot be read.
        StoreUnavailable: it cannot be opened now: no server answers, or another process has the file.
    """
    kind, _, rest = url.partition(":")
    match kind:
        case "memory" if not rest:
            from hanse.store.memory import MemoryStore

            return MemoryStore(clock)
        case "sqlite" if rest:
            from hanse.store.sqlite import SqliteStore

            return await SqliteStore.open(_path(rest), clock)
        case "etcd":
            from hanse.store.etcd import EtcdOptions, EtcdStore

            return await EtcdStore.open(EtcdOptions.from_url(url), rng=rng)
        case _:
            what = "store address: it names no kind of store: write etcd://HOST:PORT, sqlite:PATH or memory:"
            raise InvalidArgument(what, reason="STORE_ADDRESS")


def _path(text: str) -> Path:
    return Path(text).expanduser()
