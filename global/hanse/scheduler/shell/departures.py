"""What an ended job has to have behind it before it leaves the store, and how it leaves.

A job is dropped when

* its state is terminal, which nothing changes any more (S8);
* no binding of it is left (P12): a part that was told to stop and has not been released is still known by it;
* the record of its submission says *done*, or has run out. While a batch is not stored completely its repetition, or
  a transaction that is still on its way, stores every job whose state key is absent: a job that ran, ended and was
  dropped meanwhile would run again. A record that is done answers for at least a day, whether its jobs are still
  there or not, so a request id means the same job for as long as promised, however early the job is dropped;
* the archive holds it (the caller sees to that): its line is on the disk before the transaction is sent. A crash
  between the two leaves the job in the store, and a second line in the archive later.

It leaves by one transaction for several jobs, each under the guard that its state is as it was read. So two replicas
that both mean to do it archive a job twice and drop it once, and a transaction does no harm whenever it arrives. What
the jobs used is added up in that very transaction (see `rollups`).
"""

import logging
import zlib
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import msgspec
from google.protobuf.message import DecodeError

from hanse.api.v1 import job_spec_pb2
from hanse.kit.telemetry import metrics
from hanse.model.ids import JobId, queue_of
from hanse.scheduler.shell.ended import EndedJob
from hanse.scheduler.shell.rollups import ROLLUPS_PER_TXN, read_rollups, rollup_keys
from hanse.store import keys
from hanse.store.contract import (
    TXN_OPS_MAX,
    Committed,
    Conflict,
    Delete,
    Guard,
    KeyValue,
    ModRevisionIs,
    Op,
    ReadResult,
    Store,
    StoreFull,
    Txn,
)
from hanse.store.moves import JobView, read_jobs
from hanse.store.schema import PastValue, RequestValue, SpecEnvelope, decode, decode_spec

log = logging.getLogger(__name__)

KEYS_PER_JOB: Final = 4
JOBS_PER_TXN: Final = TXN_OPS_MAX // KEYS_PER_JOB
"""Of jobs that used nothing; the sums of others need room too."""

DROP_TRIES_MAX: Final = 3

MISSING_MAX: Final = 4_096
"""Roll-ups that a replica remembers to mark; of more, the log alone tells."""

UNREADABLE_KEPT_MS: Final = 2 * 86_400_000
"""A job whose spec is damaged does not say which request made it; after this time no record of it is left."""


class Archive(Protocol):
    """Where jobs go before they are dropped."""

    async def keep(self, jobs: Sequence[EndedJob]) -> None:
        """Returns when they are safe; the same job may come more than once. Raises ArchiveFailed."""
        ...


class ArchiveFailed(Exception):
    """The archive could not take the jobs; one line for people that says what to do. They stay in the store."""


class NoArchive:
    """For those who have said that they want none."""

    async def keep(self, jobs: Sequence[EndedJob]) -> None:
        return None


async def ready_to_go(store: Store, jobs: Sequence[JobId], *, now_ms: int) -> list[EndedJob]:
    """Those of the jobs that may be archived and dropped, read whole. Raises StoreUnavailable."""
    views = [view for view in (await read_jobs(store, jobs)).values() if view.state.state.terminal and not view.parts]
    read = await store.read([key for view in views for key in (keys.spec(view.job), keys.past(view.job))])
    ended = [_ended_job(view, read) for view in views]
    unfinished = await _unfinished(store, [one.envelope for one in ended if one.envelope is not None])
    return [one for one in ended if _may_go(one, unfinished, now_ms)]


def batches(ended: Sequence[EndedJob]) -> Iterator[list[EndedJob]]:
    """The jobs as single transactions take them, those of one queue together."""
    batch: list[EndedJob] = []
    rollups: set[str] = set()
    for one in sorted(ended, key=lambda one: queue_of(one.job)):
        grown = rollups | rollup_keys(one)
        if batch and (len(grown) > ROLLUPS_PER_TXN or KEYS_PER_JOB * (len(batch) + 1) + len(grown) > TXN_OPS_MAX):
            yield batch
            batch, grown = [], rollup_keys(one)
        batch.append(one)
        rollups = grown
    if batch:
        yield batch


async def drop(store: Store, batch: Sequence[EndedJob], missing: set[str], *, now_ms: int) -> int:
    """Delete one of `batches` by one transaction, and add up what its jobs used; those that somebody else has touched
    are left out.

    Returns how many went. An unknown outcome is not settled: whoever looks again sees.

    Args:
        missing: keys of roll-ups that lack something and do not say so yet; kept by the caller.

    Raises:
        StoreUnavailable: nothing is lost by trying again.
    """
    left, full = list(batch), False
    for _ in range(DROP_TRIES_MAX):
        if not left:
            return 0
        rollups = None if full else await read_rollups(store, left, now_ms=now_ms)
        sums = rollups.with_jobs(left, missing=missing, now_ms=now_ms) if rollups is not None else ((), ())
        try:
            outcome = await store.transact(_drop_txn(left, *sums))
        except StoreFull:
            if full:
                raise
            full = True
            continue
        match outcome:
            case Committed():
                _note_missing(left, missing, full=full)
                return len(left)
            case Conflict(current=current):
                left = [one for one in left if current.get(keys.state(one.job)) == one.state_revision]
            case _:
                return 0
    return 0


def _note_missing(gone: Sequence[EndedJob], missing: set[str], *, full: bool) -> None:
    """What the roll-ups of jobs that have left say now, or lack."""
    touched = {key for one in gone for key in rollup_keys(one)}
    if not full:
        missing -= touched
    elif touched:
        metrics.USAGE_UNCOUNTED.add(len(gone))
        log.error("usage_not_added", extra={"jobs": len(gone), "cause": "the store has no room for sums"})
        missing |= touched if len(missing) < MISSING_MAX else set()


async def _unfinished(store: Store, envelopes: Sequence[SpecEnvelope]) -> set[str]:
    """Keys of the records of those submissions that are not stored completely."""
    wanted = dict.fromkeys(keys.request(one.principal, one.request_id) for one in envelopes)
    items = (await store.read(list(wanted))).items
    return {key for key, kv in items.items() if not decode(kv.value, RequestValue).done}


def _may_go(one: EndedJob, unfinished: set[str], now_ms: int) -> bool:
    if one.envelope is None:
        return now_ms - one.state.submit_ms > UNREADABLE_KEPT_MS
    return keys.request(one.envelope.principal, one.envelope.request_id) not in unfinished


def _ended_job(view: JobView, read: ReadResult) -> EndedJob:
    spec, past = read.items.get(keys.spec(view.job)), read.items.get(keys.past(view.job))
    envelope, message = _read_spec(spec)
    history = decode(past.value, PastValue) if past is not None else None
    return EndedJob(view.job, view.state, view.state_revision, envelope, message, history)


def _read_spec(kv: KeyValue | None) -> tuple[SpecEnvelope | None, job_spec_pb2.JobSpec | None]:
    if kv is None:
        return None, None
    try:
        envelope = decode_spec(kv.value)
        return envelope, job_spec_pb2.JobSpec.FromString(envelope.spec)
    except (zlib.error, msgspec.DecodeError, DecodeError):
        return None, None


def _drop_txn(ended: Sequence[EndedJob], guards: Sequence[Guard], puts: Sequence[Op]) -> Txn:
    ops: list[Op] = [*puts]
    for one in ended:
        job_keys = [keys.spec(one.job), keys.state(one.job), keys.past(one.job)]
        if one.spec is not None:
            job_keys.append(keys.name(one.spec.name, one.job))
        ops.extend(Delete(key) for key in job_keys)
    return Txn((*(ModRevisionIs(keys.state(one.job), one.state_revision) for one in ended), *guards), tuple(ops))
