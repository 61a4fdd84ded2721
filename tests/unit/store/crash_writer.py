"""A process that is made to be killed: writes to a store file and prints every acknowledgement.

Every transaction of writer W with number N puts ``W/a/N``, ``W/b/N`` and ``W/last``, guarded by ``W/last``; the line
``W N REVISION`` is printed only after ``Committed``.
"""

import asyncio
import os
import sys
from pathlib import Path

from hanse.kit.clock import SystemClock
from hanse.store.contract import Committed, ModRevisionIs, Put, Store, Txn
from hanse.store.sqlite import SqliteStore

WRITERS = 6


async def write(store: Store, writer: str) -> None:
    last = (await store.read([f"{writer}/last"])).items.get(f"{writer}/last")
    number, revision = (int(last.value), last.mod_revision) if last else (0, 0)
    while True:
        number += 1
        ops = (
            Put(f"{writer}/a/{number}", os.urandom(200)),
            Put(f"{writer}/b/{number}", b"%d" % number),
            Put(f"{writer}/last", b"%d" % number),
        )
        outcome = await store.transact(Txn((ModRevisionIs(f"{writer}/last", revision),), ops))
        if not isinstance(outcome, Committed):
            raise SystemExit(f"unexpected {outcome}")
        revision = outcome.revision
        os.write(1, f"{writer} {number} {revision}\n".encode())
        if number % 50 == 0:
            await store.compact(max(0, revision - 300))


async def main(path: Path) -> None:
    store = await SqliteStore.open(path, SystemClock())
    await asyncio.gather(*(write(store, f"w{n}") for n in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
