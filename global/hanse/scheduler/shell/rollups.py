"""What jobs used that leave the store, added up where it stays: by month and queue (see `store.usage`).

A roll-up is written by the very transaction that deletes the jobs, under the guard of its revision as it was read. So
a job is either still there, or in the sums, and never in both; whoever drops it, and however often somebody tries.

Sums must not keep jobs from leaving. A roll-up that cannot be read is put aside, byte by byte. A store without room
takes deletes, and no sums: jobs then leave without, or it would never have room again; what they used is in the
archive alone. Either is told, and the roll-up says that something is missing.
"""

import logging
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from hanse.model.ids import PoolName, queue_of
from hanse.scheduler.shell.ended import EndedJob
from hanse.store import keys
from hanse.store.contract import READ_KEYS_MAX, Guard, KeyValue, ModRevisionIs, Op, Put, Store, StoreUnavailable, Txn
from hanse.store.schema import PoolConfigValue, UsageValue, decode, encode
from hanse.store.usage import MONTHS_PER_JOB_MAX, OTHER, Amount, UsageKey, Used, added, used_by_month

log = logging.getLogger(__name__)

ROLLUPS_PER_TXN: Final = MONTHS_PER_JOB_MAX
"""So many of the largest ones fit into one transaction, and one job never needs more."""


def rollup_keys(one: EndedJob) -> set[str]:
    """The roll-ups that a job is added to."""
    uid = queue_of(one.job)
    return {keys.usage(used.month, uid) for used in _used(one, {})}


@dataclass(frozen=True, slots=True)
class Rollups:
    """Those that some jobs are added to, as they were read.

    Attributes:
        found: by key, those that are there.
        prices: of pools as they are now, for what was bound without one.
    """

    found: Mapping[str, KeyValue]
    prices: Mapping[str, int]

    def with_jobs(
        self, ended: Sequence[EndedJob], *, missing: Container[str], now_ms: int
    ) -> tuple[tuple[Guard, ...], tuple[Op, ...]]:
        """Guards and operations that add these jobs; `missing`: keys of roll-ups that lack something."""
        sums: dict[str, _Sum] = {}
        for one in ended:
            uid, seen = queue_of(one.job), set[str]()
            for used, amount in _used(one, self.prices).items():
                key = keys.usage(used.month, uid)
                sums.setdefault(key, _Sum(_queue(one))).add(one, used, amount, counts=key not in seen)
                seen.add(key)
        guards = tuple(ModRevisionIs(key, self.found[key].mod_revision if key in self.found else 0) for key in sums)
        lost = {key: now_ms if key in missing else 0 for key in sums}
        return guards, tuple(Put(key, encode(self._grown(key, one, lost[key]))) for key, one in sums.items())

    def _grown(self, key: str, more: "_Sum", lost_ms: int) -> UsageValue:
        kv = self.found.get(key)
        value = decode(kv.value, UsageValue) if kv is not None else UsageValue("")
        told = msgspec.structs.replace(value, queue=more.queue or value.queue, lost_ms=lost_ms or value.lost_ms)
        return added(told, more.amounts, jobs=more.jobs)


@dataclass(slots=True)
class _Sum:
    """What one roll-up grows by."""

    queue: str
    jobs: int = 0
    amounts: dict[UsageKey, Amount] = field(default_factory=dict)

    def add(self, one: EndedJob, used: Used, amount: Amount, *, counts: bool) -> None:
        """What a job used; it counts once."""
        key = UsageKey(one.envelope.principal if one.envelope is not None else OTHER, used.flavor, used.pool)
        self.amounts[key] = self.amounts.get(key, Amount()) + amount
        self.jobs += int(counts)


async def read_rollups(store: Store, ended: Sequence[EndedJob], *, now_ms: int) -> Rollups:
    """The roll-ups of some jobs, at most ROLLUPS_PER_TXN; those that cannot be read are put aside before.

    Raises:
        StoreUnavailable: nothing is lost by trying again.
    """
    wanted = sorted({key for one in ended for key in rollup_keys(one)})
    configs = {keys.pool_config(PoolName(pool)): pool for pool in _without_price(ended)}
    asked = [*wanted, *sorted(configs)][:READ_KEYS_MAX]
    read = (await store.read(asked)).items if asked else {}
    found = {key: read[key] for key in wanted if key in read}
    for kv in list(found.values()):
        if not _readable(kv):
            await _put_aside(store, kv, now_ms=now_ms)
            found.update((await store.read([kv.key])).items)
            if not _readable(found[kv.key]):
                raise StoreUnavailable(f"{kv.key} cannot be read and was not put aside; tried again later")
    prices = {pool: _price(read[key]) for key, pool in configs.items() if key in read}
    return Rollups(found, prices)


async def _put_aside(store: Store, kv: KeyValue, *, now_ms: int) -> None:
    month, uid = keys.usage_of(kv.key)
    fields = {"month": month, "queue": uid, "kept": keys.usage_damaged(month, uid)}
    log.error("usage_rollup_damaged", extra=fields)
    ops = (Put(keys.usage_damaged(month, uid), kv.value), Put(kv.key, encode(UsageValue("", lost_ms=now_ms))))
    await store.transact(Txn((ModRevisionIs(kv.key, kv.mod_revision),), ops))


def _readable(kv: KeyValue) -> bool:
    try:
        decode(kv.value, UsageValue)
    except msgspec.DecodeError:
        return False
    return True


def _price(kv: KeyValue) -> int:
    try:
        return decode(kv.value, PoolConfigValue).cost
    except msgspec.DecodeError:
        return 0


def _used(one: EndedJob, prices: Mapping[str, int]) -> dict[Used, Amount]:
    return used_by_month(one.past, prices) if one.past is not None else {}


def _without_price(ended: Iterable[EndedJob]) -> set[str]:
    pasts = (one.past for one in ended if one.past is not None)
    parts = (part for past in pasts for attempt in past.attempts for part in attempt.parts)
    return {part.pool for part in parts if part.price is None and part.milli_gpus}


def _queue(one: EndedJob) -> str:
    return one.spec.queue if one.spec is not None else ""
