"""Reads all states of a queue into columns: a million of them in seconds, and in little memory.

What waits and is not on hold stays a row of a column. What has ended is counted. What somebody must look at comes as
it was read: jobs on hold, split gangs that are about to start, jobs that are watched, and what is no record that is
known.
"""

from collections.abc import Collection
from contextlib import aclosing
from dataclasses import dataclass

import numpy as np

from hanse.model.ids import JobId
from hanse.model.lifecycle import State
from hanse.model.state_columns import Mask, Records, ended, held, in_state, is_split, readable, records
from hanse.scheduler.core.waiting_rows import JobIds, Revisions
from hanse.scheduler.shell.loading import load_pages
from hanse.store import keys
from hanse.store.contract import KeyValue, Store, prefix_end


@dataclass(frozen=True, slots=True)
class Loaded:
    """The states of a queue at one revision.

    Attributes:
        jobs, records, revisions: of those that wait and are not on hold, in order of job.
        others: those that are to be looked at one by one.
        ended: how many of the rest have ended.
    """

    revision: int
    jobs: JobIds
    records: Records
    revisions: Revisions
    others: list[KeyValue]
    ended: int


async def load_columns(store: Store, prefix: str, watched: Collection[JobId]) -> Loaded:
    """Every state below a prefix. Raises Compacted, StoreUnavailable."""
    jobs: list[JobIds] = []
    waiting: list[Records] = []
    revisions: list[Revisions] = []
    others: list[KeyValue] = []
    revision = over = 0
    pages = load_pages(store, prefix, prefix_end(prefix), cuts=_cuts(prefix), first_whole=True)
    async with aclosing(pages):
        async for page in pages:
            revision = revision or page.revision
            found = records([kv.value for kv in page.items])
            apart = _apart(page.items, found, watched)
            rows = np.flatnonzero(in_state(found, State.PENDING) & ~apart)
            others += [page.items[at] for at in np.flatnonzero(apart).tolist()]
            over += int((ended(found) & ~apart).sum())
            waiting.append(found[rows])
            kept = [page.items[at] for at in rows.tolist()]
            jobs.append(np.array([keys.job_of(kv.key) for kv in kept], np.bytes_))
            revisions.append(np.array([kv.mod_revision for kv in kept], np.int64))
    return Loaded(revision, np.concatenate(jobs), np.concatenate(waiting), np.concatenate(revisions), others, over)


def _cuts(prefix: str) -> list[str]:
    """Where a long range of a queue's states is cut: the ids are hashes in base 32, behind the queue's uid."""
    uid = prefix.removeprefix(keys.STATES).rstrip("/")
    return [f"{prefix}{uid}-{digit}" for digit in "234567abcdefghijklmnopqrstuvwxyz"]


def _apart(items: Collection[KeyValue], found: Records, watched: Collection[JobId]) -> Mask:
    """Those that somebody must look at."""
    apart: Mask = ~readable(found) | held(found) | (in_state(found, State.STARTING) & is_split(found))
    if watched or not all(kv.key.isascii() for kv in items):
        own = [keys.job_of(kv.key) in watched or not kv.key.isascii() for kv in items]
        apart = apart | np.array(own, np.bool_)
    return apart
