"""Reads specs from the store, in the wire form that travels on and in the model form that decisions need."""

import zlib
from collections.abc import Sequence

import msgspec

from hanse.model.errors import HanseError
from hanse.model.ids import JobId
from hanse.model.job import JobSpec
from hanse.store import keys
from hanse.store.contract import Store
from hanse.store.schema import SpecEnvelope, decode_spec
from hanse.wire.specs import spec_from_bytes


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


async def read_specs(store: Store, jobs: Sequence[JobId]) -> dict[JobId, JobSpec | HanseError]:
    """The specs as model values; an error stands for one that is damaged, a missing one is left out."""
    envelopes = await read_envelopes(store, jobs)
    return {job: _parsed(envelope.spec) for job, envelope in envelopes.items()}


def _parsed(data: bytes) -> JobSpec | HanseError:
    try:
        return spec_from_bytes(data)
    except HanseError as error:
        return error
