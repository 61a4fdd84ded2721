"""From a binding's commit to its agent's acknowledgement, as a watch of the store hears of both.

A binding is created by the commit, and first written again by the link on the agent's word. So what is measured here
includes the transaction that writes this word down, and is never less than what it is called.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from hanse.kit.clock import SystemClock
from hanse.kit.tasks import cancelled
from hanse.store import keys
from hanse.store.contract import Event, EventKind, Store
from hanse.store.opening import open_store

END = keys.BINDINGS[:-1] + chr(ord(keys.BINDINGS[-1]) + 1)


class Acknowledgements:
    """What was heard.

    Attributes:
        took_ms: of every binding whose commit and acknowledgement were heard.
    """

    def __init__(self) -> None:
        self.took_ms: list[float] = []
        self._bound_s: dict[str, float] = {}

    def hear(self, events: Iterable[Event], now_s: float) -> None:
        """Changes of bindings came at a moment."""
        for event in events:
            kv = event.kv
            if event.kind is EventKind.PUT and kv.mod_revision == kv.create_revision:
                self._bound_s[kv.key] = now_s
            elif (bound_s := self._bound_s.pop(kv.key, None)) is not None and event.kind is EventKind.PUT:
                self.took_ms.append((now_s - bound_s) * 1e3)

    async def follow(self, store: Store) -> None:
        """Until cancelled, from now on."""
        begin = (await store.read([])).revision + 1
        async with store.watch(keys.BINDINGS, END, from_revision=begin) as watch:
            async for batch in watch:
                self.hear(batch.events, time.perf_counter())


@asynccontextmanager
async def acknowledgements(store_url: str) -> AsyncIterator[Acknowledgements]:
    """Heard within the block."""
    store = await open_store(store_url, SystemClock())
    heard = Acknowledgements()
    following = asyncio.create_task(heard.follow(store), name="acknowledgements")
    try:
        yield heard
        if following.done():
            following.result()
    finally:
        await cancelled([following])
        await store.close()
