"""A replica that drops ended jobs, an archive that remembers them, and jobs that have ended."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from hanse.model.ids import JobId
from hanse.model.lifecycle import State, Stop, decode_state, encode_state
from hanse.model.reasons import Reason
from hanse.scheduler.core.retention import Retention
from hanse.scheduler.shell.departures import Archive, ArchiveFailed
from hanse.scheduler.shell.ended import EndedJob
from hanse.scheduler.shell.replica import Replica
from hanse.scheduler.shell.retention import Retainer
from hanse.store import keys
from hanse.store.contract import Put, Store, Txn, prefix_end
from hanse.store.moves import commit_move
from tests.unit.scheduler_shell.puppet import CLOCK, stage, submit, until

ALL_AT_ONCE = Retention(age_s=0, drop_per_s=100_000)


@dataclass
class KeptJobs:
    """An archive that can be told to fail, and looks whether the job is in the store when it is handed over."""

    store: Store
    jobs: list[EndedJob] = field(default_factory=list)
    trouble: str = ""

    async def keep(self, jobs: Sequence[EndedJob]) -> None:
        if self.trouble:
            raise ArchiveFailed(self.trouble)
        there = (await self.store.read([keys.state(one.job) for one in jobs])).items
        assert len(there) == len(jobs)
        self.jobs.extend(jobs)

    @property
    def ids(self) -> list[JobId]:
        return [one.job for one in self.jobs]


@dataclass
class Keeper:
    """A retainer of a replica that holds every root, and what it has archived."""

    store: Store
    archive: KeptJobs
    replica: Replica

    def retainer(self, retention: Retention = ALL_AT_ONCE, archive: Archive | None = None) -> Retainer:
        world, states = self.replica.world, self.replica.states
        archive = archive or self.archive
        return Retainer(self.store, world, states, CLOCK, archive, nonce=self.replica.nonce, retention=retention)

    async def keys(self) -> list[str]:
        """All that is left of jobs."""
        ranges = (keys.SPECS, keys.STATES, keys.PASTS, keys.NAMES, keys.BINDINGS)
        pages = [await self.store.range(prefix, prefix_end(prefix)) for prefix in ranges]
        return [kv.key for page in pages for kv in page.items]


@asynccontextmanager
async def keeper(store: Store | None = None) -> AsyncIterator[Keeper]:
    async with stage(store) as found:
        replica = await found.replica()
        await until(lambda: bool(replica.world.held_roots(replica.nonce)))
        yield Keeper(found.store, KeptJobs(found.store), replica)


async def end(store: Store, job: JobId, *, ended_ms: int = 1) -> None:
    """The job is cancelled, at that time."""
    await commit_move(
        store, job, Stop(State.CANCELLED, Reason.CANCELLED_BY_USER), clock=CLOCK, write_id=lambda: ended_ms
    )
    kv = (await store.read([keys.state(job)])).items[keys.state(job)]
    state = replace(decode_state(kv.value), submit_ms=0, changed_ms=ended_ms)
    await store.transact(Txn((), (Put(keys.state(job), encode_state(state)),)))


async def ended(store: Store, count: int) -> list[JobId]:
    """So many ended jobs, the oldest first."""
    jobs = [await submit(store, number, 1) for number in range(1, count + 1)]
    for number, job in enumerate(jobs, start=1):
        await end(store, job, ended_ms=number)
    return jobs
