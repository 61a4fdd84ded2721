"""Reads whole ranges of the store, page by page at one revision: the next page is on its way while one is looked at.

So the store's work, the network's and this process's overlap, and no more than two pages are in memory at once.
"""

import asyncio
from collections.abc import AsyncGenerator

from hanse.store.contract import KeyValue, RangeResult, Store, key_after


async def load_pages(store: Store, start: str, end: str) -> AsyncGenerator[RangeResult, None]:
    """Every key of a range at the revision of the first page. To be closed when it is left early (`aclosing`)."""
    page = await store.range(start, end)
    revision = page.revision
    while page.more and page.items:
        after = store.range(key_after(page.items[-1].key), end, at_revision=revision)
        ahead = asyncio.create_task(after, name=f"page-of-{start}")
        try:
            yield page
            page = await ahead
        finally:
            ahead.cancel()
    yield page


async def load_range(store: Store, start: str, end: str) -> tuple[list[KeyValue], int]:
    """Every key of a range, and the revision at which all were read."""
    items: list[KeyValue] = []
    revision = 0
    async for page in load_pages(store, start, end):
        items.extend(page.items)
        revision = revision or page.revision
    return items, revision
