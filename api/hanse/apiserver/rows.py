"""Jobs as they are read: keys and values of the store joined by job, in as few reads as there can be.

The state comes from whoever found the job (a range, a watch, a single read); spec, bindings and history are read
beside it. They may be newer than the state: a binding that is gone meanwhile shows as a placement that is not there.
Nothing is decided by what is read here.

Specs are immutable, so what lists need of them (name, queue, labels) is kept for the jobs that were asked for last.
"""

import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec
from google.protobuf.message import DecodeError

from hanse.api.v1 import job_spec_pb2
from hanse.model.ids import JobId, Part, PoolName
from hanse.model.lifecycle import JobState
from hanse.store import keys
from hanse.store.contract import READ_KEYS_MAX, KeyValue, Store
from hanse.store.schema import BindingValue, PastValue, SlotsValue, decode, decode_binding, decode_spec

T = TypeVar("T")

HEADS_KEPT_MAX: Final = 20_000
SPECS_PER_READ_MAX: Final = 128
"""Specs have up to 64 KiB each; this many are read at once."""


@dataclass(frozen=True, slots=True)
class Found:
    """A job's state as somebody found it."""

    job: JobId
    state: JobState
    revision: int


@dataclass(frozen=True, slots=True)
class Head:
    """What a list needs of a spec, the id of the job that it tries again, and who submitted it."""

    name: str
    queue: str
    labels: Mapping[str, str]
    priority_class: str = ""
    retry_of: str = ""
    owner: str = ""


@dataclass(frozen=True, slots=True)
class PartRow:
    """One part of the newest attempt."""

    part: Part
    pool: PoolName
    binding: BindingValue | None


@dataclass(frozen=True, slots=True)
class JobRow:
    """Everything that a view of a job is made of."""

    found: Found
    head: Head
    parts: tuple[PartRow, ...]
    spec: job_spec_pb2.JobSpec | None = None
    past: PastValue | None = None


UNREADABLE: Final = Head("", "", {})
"""Of a job whose spec is gone or damaged: the job is shown all the same."""


class JobReader:
    """Joins what the store holds of jobs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._heads: OrderedDict[JobId, Head] = OrderedDict()

    async def rows(self, found: Sequence[Found], *, specs: bool = False, past: bool = False) -> list[JobRow]:
        """Rows in the given order; `specs` and `past` cost one more key for each job. What was amended since a job's
        submission stands beside its past, which is then read in any case."""
        slots = await self._slots() if any(f.state.pools for f in found) else ()
        binding_keys = {f.job: _binding_keys(f, slots) for f in found}
        wanted = [key for keys_of_job in binding_keys.values() for _, _, key in keys_of_job]
        wanted.extend(keys.past(f.job) for f in found if past or f.state.amended)
        items = await self._read(wanted)
        messages = await self._specs([f.job for f in found]) if specs else {}
        heads = await self.heads([f.job for f in found])
        return [
            JobRow(
                found=f,
                head=heads[f.job],
                parts=tuple(PartRow(part, pool, _binding(items.get(key))) for part, pool, key in binding_keys[f.job]),
                spec=messages.get(f.job),
                past=_decoded(items.get(keys.past(f.job)), PastValue),
            )
            for f in found
        ]

    async def heads(self, jobs: Sequence[JobId]) -> dict[JobId, Head]:
        """What lists need of specs, for every given job."""
        unknown = [job for job in jobs if job not in self._heads]
        await self._specs(unknown)
        return {job: self._heads.get(job, UNREADABLE) for job in jobs}

    async def spec(self, job: JobId) -> job_spec_pb2.JobSpec | None:
        """The spec of one job, None if it is gone or damaged."""
        return (await self._specs([job])).get(job)

    async def _specs(self, jobs: Sequence[JobId]) -> dict[JobId, job_spec_pb2.JobSpec]:
        found: dict[JobId, job_spec_pb2.JobSpec] = {}
        for start in range(0, len(jobs), SPECS_PER_READ_MAX):
            some = jobs[start : start + SPECS_PER_READ_MAX]
            read = await self._store.read([keys.spec(job) for job in some])
            for job in some:
                stored = _spec(read.items.get(keys.spec(job)))
                if stored is not None:
                    found[job] = stored.message
                    self.remember(job, stored.message, stored.retry_of, stored.owner)
        return found

    def remember(self, job: JobId, message: job_spec_pb2.JobSpec, retry_of: str, owner: str) -> None:
        """This is the spec of a job, as it was stored or read a moment ago."""
        labels = dict(message.labels)
        self._heads[job] = Head(message.name, message.queue, labels, message.priority_class, retry_of, owner)
        self._heads.move_to_end(job)
        while len(self._heads) > HEADS_KEPT_MAX:
            self._heads.popitem(last=False)

    async def _slots(self) -> tuple[str, ...]:
        kv = (await self._store.read([keys.SLOTS])).items.get(keys.SLOTS)
        return tuple(decode(kv.value, SlotsValue).pools) if kv is not None else ()

    async def _read(self, wanted: Iterable[str]) -> dict[str, KeyValue]:
        names = list(wanted)
        items: dict[str, KeyValue] = {}
        for start in range(0, len(names), READ_KEYS_MAX):
            items.update((await self._store.read(names[start : start + READ_KEYS_MAX])).items)
        return items


def _binding_keys(found: Found, slots: Sequence[str]) -> list[tuple[Part, PoolName, str]]:
    """Part, pool and key of each binding of the newest attempt; slots that are not known yet are left out."""
    pools = [(Part(i), PoolName(slots[slot])) for i, slot in enumerate(found.state.pools) if slot < len(slots)]
    return [(part, pool, keys.binding(pool, found.job, found.state.attempt, part)) for part, pool in pools]


def _binding(kv: KeyValue | None) -> BindingValue | None:
    return decode_binding(kv.value) if kv is not None else None


def _decoded(kv: KeyValue | None, kind: type[T]) -> T | None:
    return decode(kv.value, kind) if kv is not None else None


@dataclass(frozen=True, slots=True)
class _Spec:
    """A spec as it is stored."""

    message: job_spec_pb2.JobSpec
    retry_of: str
    owner: str


def _spec(kv: KeyValue | None) -> _Spec | None:
    if kv is None:
        return None
    try:
        envelope = decode_spec(kv.value)
        return _Spec(job_spec_pb2.JobSpec.FromString(envelope.spec), envelope.retry_of, envelope.principal)
    except (zlib.error, msgspec.DecodeError, DecodeError):
        return None
