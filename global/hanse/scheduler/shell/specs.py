"""Reads specs from the store, in the wire form that travels on and in the model form that decisions need."""

import asyncio
import zlib
from collections.abc import Sequence
from typing import Final

import msgspec

from hanse.model.errors import HanseError
from hanse.model.ids import JobId
from hanse.model.job import JobSpec
from hanse.store import keys
from hanse.store.contract import Store
from hanse.store.schema import SpecEnvelope, decode_spec
from hanse.wire.specs import spec_from_bytes

SPECS_PER_READ_MAX: Final = 256
"""Specs have up to 64 KiB each; this many are read at once."""


async def read_envelopes(store: Store, jobs: Sequence[JobId]) -> dict[JobId, SpecEnvelope]:
    """The stored specs of those jobs that have one and can be read."""
    read = await store.read([keys.spec(job) for job in jobs])
    found: dict[JobId, SpecEnvelope] = {}
    for job in jobs:
        kv = read.items.get(keys.spec(job))
        if kv is not None:
            try:
                found[job] = decode_spec(kv.value)
            except (zlib.error, msgspec.DecodeError):
                continue
    return found


class SpecReads:
    """Reads envelopes for many callers at once: while a read is under way, what others ask for gathers.

    Every stream of an agent asks for the specs of what its pool is told to start, mostly one, and a plan sends dozens
    of pools something in the same moment: a read for each would cost more than all that is read.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._wanted: dict[JobId, None] = {}
        self._next: asyncio.Task[dict[JobId, SpecEnvelope]] | None = None
        self._turn = asyncio.Lock()

    async def read(self, jobs: Sequence[JobId]) -> dict[JobId, SpecEnvelope]:
        """As `read_envelopes`, perhaps with others' jobs among them. Raises StoreError as that does."""
        self._wanted.update(dict.fromkeys(jobs))
        if self._next is None:
            self._next = asyncio.create_task(self._gathered(), name="specs")
            self._next.add_done_callback(_looked_at)
        return await asyncio.shield(self._next)

    async def _gathered(self) -> dict[JobId, SpecEnvelope]:
        async with self._turn:
            wanted, self._wanted, self._next = list(self._wanted), {}, None
            found: dict[JobId, SpecEnvelope] = {}
            for start in range(0, len(wanted), SPECS_PER_READ_MAX):
                found.update(await read_envelopes(self._store, wanted[start : start + SPECS_PER_READ_MAX]))
            return found


def _looked_at(read: "asyncio.Task[dict[JobId, SpecEnvelope]]") -> None:
    """Everybody who waits for a read is told how it ended; if all of them went away, nobody needs to know."""
    if not read.cancelled():
        read.exception()


async def read_specs(store: Store, jobs: Sequence[JobId]) -> dict[JobId, JobSpec | HanseError]:
    """The specs as model values; an error stands for one that is damaged, a missing one is left out."""
    envelopes = await read_envelopes(store, jobs)
    return {job: _parsed(envelope.spec) for job, envelope in envelopes.items()}


def _parsed(data: bytes) -> JobSpec | HanseError:
    try:
        return spec_from_bytes(data)
    except HanseError as error:
        return error
