"""Reads whole ranges of the store, page by page at one revision: the next page is on its way while one is looked at.

So the store's work, the network's and this process's overlap, and no more than two pages are in memory at once.

A long range is read in pieces. etcd counts all keys that are left of a range with every page of it, so pages of one
range of half a million keys cost it minutes, and pieces that are each about a page cost it seconds.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from hanse.store.contract import KeyValue, RangeResult, Store, key_after

PAGE_DEADLINE_S: Final = 30.0
"""For one page: from a busy store it takes longer than any other answer, and all pages before would be lost."""


async def load_pages(
    store: Store, start: str, end: str, *, at_revision: int = 0, cuts: Sequence[str] = (), first_whole: bool = False
) -> AsyncGenerator[RangeResult, None]:
    """Every key of a range, at the revision of the first page or a given one. To be closed when it is left early.

    Args:
        cuts: keys at which it is cut into pieces.
        first_whole: the first page is asked of the whole range: most are one page, and need no pieces.
    """
    bounds = sorted({end, *(cut for cut in cuts if start < cut < end)})
    piece_end = end if first_whole else bounds[0]
    page = await store.range(start, piece_end, at_revision=at_revision, deadline_s=PAGE_DEADLINE_S)
    revision = at_revision or page.revision
    while True:
        if page.more and page.items:
            start = key_after(page.items[-1].key)
        elif piece_end == end:
            break
        else:
            start = piece_end
        piece_end = next(bound for bound in bounds if bound > start)
        after = store.range(start, piece_end, at_revision=revision, deadline_s=PAGE_DEADLINE_S)
        ahead = asyncio.create_task(after, name=f"page-from-{start}")
        try:
            yield page
            page = await ahead
        finally:
            ahead.cancel()
    yield page


async def load_range(store: Store, start: str, end: str, cuts: Sequence[str] = ()) -> tuple[list[KeyValue], int]:
    """Every key of a range, and the revision at which all were read."""
    items: list[KeyValue] = []
    revision = 0
    async for page in load_pages(store, start, end, cuts=cuts):
        items.extend(page.items)
        revision = revision or page.revision
    return items, revision
