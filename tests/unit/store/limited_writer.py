"""A process that limits its own file size, fills a store, lifts the limit, and goes on.

Prints: how many transactions fitted, the refusal, how many there are after one more.
"""

import asyncio
import resource
import sys
from pathlib import Path

from hanse.kit.clock import SystemClock
from hanse.store.contract import Put, StoreUnavailable, Txn
from hanse.store.sqlite import SqliteStore


async def main(path: Path) -> None:
    store = await SqliteStore.open(path, SystemClock())
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    fitted = 0
    try:
        while True:
            await store.transact(Txn(ops=(Put(f"{fitted:05}", bytes(20_000)),)))
            fitted += 1
    except StoreUnavailable as error:
        print(fitted)
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await store.transact(Txn(ops=(Put("more", b""),)))
    print(len((await store.range("", "z", keys_only=True)).items))
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
