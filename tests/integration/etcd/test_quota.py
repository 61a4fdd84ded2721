"""A store of bounded size outlives any number of jobs; and what happens to one that is not seen to."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hanse.api.v1 import job_spec_pb2
from hanse.apiserver.failures import told
from hanse.model.errors import HanseError, ResourceExhausted
from hanse.model.ids import ReplicaId
from hanse.scheduler.core.retention import Retention
from hanse.scheduler.shell.departures import Archive, ArchiveFailed
from hanse.scheduler.shell.ended import EndedJob
from hanse.scheduler.shell.replica import Replica, ReplicaConfig
from hanse.store import keys
from hanse.store.contract import StoreFull, prefix_end
from hanse.store.etcd import EtcdStore
from hanse.up.archive import FileArchive
from tests.integration.etcd.ledger import until
from tests.integration.etcd.lives import CLOCK, Lives, lives, noise, small_spec
from tests.services.etcd import EtcdServers, etcd_servers
from tests.services.etcd_admin import Operator
from tests.unit.telling import counting

QUOTA_BYTES = 24 * 1024 * 1024
MANIFEST_BYTES = 24_000
"""Half of it is left when it is compressed."""

FILLS = 3
BATCH = 50
BATCHES_PER_S = 5
KEPT = Retention(age_s=3_600.0, jobs_max=200)


@pytest.fixture
def small() -> Iterator[EtcdServers]:
    with etcd_servers(flags=["--quota-backend-bytes", str(QUOTA_BYTES)]) as servers:
        yield servers


def large_spec(number: int) -> job_spec_pb2.JobSpec:
    return small_spec(number, manifest=noise(random.Random(number), MANIFEST_BYTES))


@asynccontextmanager
async def replica(store: EtcdStore, archive: Archive) -> AsyncIterator[Replica]:
    """One that keeps a second of history; its scheduler knows of no capacity."""
    config = ReplicaConfig(ReplicaId("r0"), history_s=1.0, retention=KEPT)
    made = Replica(config, store, None, CLOCK, random.Random(1), archive=archive)
    task = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def ended(store: EtcdStore) -> set[str]:
    items = (await store.range(keys.STATES, prefix_end(keys.STATES), keys_only=True)).items
    return {item.key.rsplit("/", 1)[-1] for item in items}


async def work(live: Lives, batches: int) -> int:
    """At a steady rate; how many jobs went through their lives."""
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    for batch in range(batches):
        await live.run(BATCH)
        await asyncio.sleep(max(0.0, begun_s + batch / BATCHES_PER_S - loop.time()))
    return batches * BATCH


async def test_jobs_of_several_times_the_quota_go_through_and_are_all_in_the_archive(
    small: EtcdServers, tmp_path: Path
) -> None:
    store = await EtcdStore.open(small.options())
    async with replica(store, FileArchive(tmp_path, "r0", CLOCK)), lives(store, large_spec) as live:
        done = 0
        while done * MANIFEST_BYTES // 2 < FILLS * QUOTA_BYTES:
            done += await work(live, 10)
            with counting() as counted:
                assert counted("hanse.store.size", small.endpoints[0], "file") < QUOTA_BYTES
            assert not store._cluster.full
        await until(lambda: _at_most(store, KEPT.jobs_max))
        left = await ended(store)
    archived = _archived(tmp_path)
    assert len(left | archived) == done, "some jobs are neither in the store nor in the archive"
    await store.close()


def _archived(folder: Path) -> set[str]:
    return {json.loads(line)["id"] for file in folder.iterdir() for line in file.read_bytes().splitlines()}


async def _at_most(store: EtcdStore, jobs: int) -> bool:
    return len(await ended(store)) <= jobs


class FullDisk:
    """An archive that takes nothing until there is room."""

    def __init__(self) -> None:
        self.full = True

    async def keep(self, jobs: Sequence[EndedJob]) -> None:
        if self.full:
            raise ArchiveFailed("the archive's disk is full")


async def test_a_store_that_is_not_seen_to_fills_says_so_and_recovers(
    small: EtcdServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive's disk is full for too long. Then there is room, jobs leave the store although it is full, and the
    operator does what the message says: nothing has to be started anew."""
    monkeypatch.setattr("hanse.scheduler.shell.retention.RETRY_S", 0.2)
    archive, operator = FullDisk(), Operator(small)
    store = await EtcdStore.open(small.options())
    async with replica(store, archive), lives(store, large_spec) as live:
        with pytest.raises(StoreFull):
            await _fill(live)
        with pytest.raises(StoreFull) as caught:
            await live.submit(BATCH)
        _check_words(told(caught.value))
        before = await ended(store)
        archive.full = False
        await until(lambda: _at_most(store, KEPT.jobs_max + BATCH))
        assert len(before) > 2 * KEPT.jobs_max

        def has_room() -> bool:
            """The product compacts what is gone; that goes on after its answer."""
            operator.defragment()
            return small.status(0).db_size < QUOTA_BYTES // 2

        await until(has_room)
        operator.disarm()
        await until(lambda: not store._cluster.full)
        await live.run(BATCH)
    await store.close()


async def _fill(live: Lives) -> None:
    while True:
        await live.run(BATCH)


def _check_words(error: HanseError) -> None:
    assert isinstance(error, ResourceExhausted)
    assert error.reason == "STORE_FULL"
    assert "alarm disarm" in str(error)
    assert "\n" not in str(error)
