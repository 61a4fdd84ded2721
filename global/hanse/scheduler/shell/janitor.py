"""Keeps the store's history as long as it is promised, and no longer.

Every replica does it; compacting twice to nearly the same revision costs nothing. The revision to compact to is one
that this replica saw `history_s` ago, so a watch can always be resumed from as far back.
"""

import asyncio
import logging
from collections import deque
from typing import Final

from hanse.store import keys
from hanse.store.contract import Compacted, Store, StoreUnavailable

log = logging.getLogger(__name__)

ROUNDS: Final = 10
"""The history is cut in this many steps, so it is at most a tenth longer than promised."""


async def keep_history(store: Store, history_s: float) -> None:
    """Compact until cancelled."""
    seen: deque[int] = deque()
    while True:
        await asyncio.sleep(history_s / ROUNDS)
        try:
            seen.append((await store.read([keys.INCARNATION])).revision)
            if len(seen) > ROUNDS:
                await store.compact(seen.popleft())
        except Compacted:
            continue  # another replica was quicker
        except StoreUnavailable as error:
            log.warning("compact_unavailable", extra={"cause": str(error)})
