"""The shell: time, watchers, logs."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from hanse.kit.clock import SystemClock
from hanse.model.errors import FailedPrecondition, InvalidArgument, NotFound, OutOfRange, Unavailable
from hanse.simcluster.build import build_cluster
from hanse.simcluster.cluster import OPS_PER_WRITE_MAX, WATCH_BATCH_MAX, SimCluster
from hanse.simcluster.inputs import Accept, FailNodes, LoseRecord, Program, pack
from hanse.simcluster.pod_lines import LOG_BATCH_MAX, PodName
from hanse.simcluster.spec import Timing
from tests.unit.simcluster.clusters import BEGIN_MS, EPOCH, gang, hold, spec, start

PATIENCE_S = 30.0


@dataclass
class HandClock:
    """A clock that somebody moves by hand, wall and monotonic apart."""

    wall_ms: int = BEGIN_MS
    ran_s: float = 0.0

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic(self) -> float:
        return self.ran_s


def launched(cluster: SimCluster, *programs: Program) -> SimCluster:
    cluster.claim("fed", EPOCH, 1)
    assert cluster.write(EPOCH, [hold([0]), start(gang(), *programs)]) == ["", ""]
    return cluster


async def taken(lines: AsyncIterator[tuple[str, ...]]) -> list[str]:
    return [line async for batch in lines for line in batch]


async def test_a_wall_clock_that_steps_back_stops_nothing() -> None:
    clock = HandClock()
    cluster = launched(build_cluster(spec(), clock))
    clock.wall_ms -= 3_600_000
    clock.ran_s += 0.5
    cluster.sync()
    assert cluster.engine.counts(gang()).running == 1
    assert cluster.engine.now_ms == BEGIN_MS + 500
    cluster.close()


async def test_a_wall_clock_that_steps_forward_is_believed() -> None:
    clock = HandClock()
    cluster = launched(build_cluster(spec(), clock))
    clock.wall_ms += 3_600_000
    cluster.sync()
    assert cluster.engine.counts(gang()).succeeded == 1
    cluster.close()


async def test_what_is_due_happens_without_being_asked() -> None:
    cluster = launched(build_cluster(spec(timing=Timing(start=5, start_jitter=0, run=20, tick=1)), SystemClock()))
    async with asyncio.timeout(PATIENCE_S):
        async for _ in cluster.changes(cluster.engine.version):
            if cluster.engine.counts(gang()).succeeded:
                break
    cluster.close()


async def test_a_closed_cluster_lets_its_watchers_go() -> None:
    cluster = build_cluster(spec(), SystemClock())
    watching = asyncio.ensure_future(anext(cluster.changes(0)))
    await asyncio.sleep(0)
    cluster.close()
    cluster.close()
    with pytest.raises(Unavailable):
        await asyncio.wait_for(watching, PATIENCE_S)
    with pytest.raises(Unavailable):
        cluster.sync()


async def test_many_changes_come_in_bounded_batches() -> None:
    cluster = build_cluster(spec(counts=(5, 10, 50)), SystemClock())
    cluster.operate(FailNodes(pack(cluster.nodes_below("b0"))))
    cluster.operate(FailNodes(pack(cluster.nodes_below("b1"))))
    cluster.operate(FailNodes(pack(cluster.nodes_below("b2"))))
    watch = cluster.changes(0)
    first, second = await anext(watch), await anext(watch)
    assert [len(first[1]), len(second[1])] == [WATCH_BATCH_MAX, 1_500 - WATCH_BATCH_MAX]
    assert first[0] < second[0] == cluster.engine.version
    cluster.close()


@pytest.mark.parametrize("version", [-1, 1_000])
async def test_a_version_of_another_life_is_out_of_range(version: int) -> None:
    cluster = build_cluster(spec(), SystemClock())
    with pytest.raises(OutOfRange, match="list again"):
        await anext(cluster.changes(version))
    cluster.close()


async def test_writes_are_bounded() -> None:
    cluster = launched(build_cluster(spec(), HandClock()))
    with pytest.raises(InvalidArgument, match="at most"):
        cluster.write(EPOCH, [Accept(1)] * (OPS_PER_WRITE_MAX + 1))
    cluster.close()


async def test_what_makes_no_sense_is_refused_to_operators() -> None:
    cluster = build_cluster(spec(), HandClock())
    with pytest.raises(FailedPrecondition, match="no such gang"):
        cluster.operate(LoseRecord(gang()))
    with pytest.raises(NotFound, match="its top domains are b0, b1"):
        cluster.nodes_below("b9")
    cluster.close()


# Logs


async def test_a_log_has_a_line_a_second_and_is_the_same_for_everybody() -> None:
    clock = HandClock()
    cluster = launched(build_cluster(spec(), clock), Program("worker", run_ms=3_000_000, title="img python train.py"))
    pod = PodName(gang(), "worker", 0)
    assert await taken(cluster.logs(pod, follow=False, tail=0)) == []
    clock.ran_s = 3.2
    lines = await taken(cluster.logs(pod, follow=False, tail=0))
    assert lines[0] == "rank 0 of worker on n-b0-r0-h0: img python train.py"
    assert [line.split()[:2] for line in lines[1:]] == [["step", "1"], ["step", "2"], ["step", "3"]]
    assert await taken(cluster.logs(pod, follow=False, tail=2)) == lines[-2:]
    assert await taken(cluster.logs(pod, follow=False, tail=99)) == lines
    clock.ran_s = 2 * LOG_BATCH_MAX
    batches = [batch async for batch in cluster.logs(pod, follow=False, tail=0)]
    assert max(len(batch) for batch in batches) == LOG_BATCH_MAX
    assert [line for batch in batches for line in batch][:4] == lines
    cluster.close()


async def test_the_log_of_an_ended_pod_ends() -> None:
    clock = HandClock()
    cluster = launched(build_cluster(spec(), clock), Program("worker", run_ms=2_500))
    clock.ran_s = 60
    assert len(await taken(cluster.logs(PodName(gang(), "worker", 0), follow=True, tail=0))) == 3
    cluster.close()


@pytest.mark.parametrize(("pod_set", "rank"), [("worker", 1), ("worker", -1), ("leader", 0)])
async def test_a_pod_that_is_not_there_has_no_log(pod_set: str, rank: int) -> None:
    cluster = launched(build_cluster(spec(), HandClock()))
    with pytest.raises(NotFound):
        await taken(cluster.logs(PodName(gang(), pod_set, rank), follow=False, tail=0))
    with pytest.raises(NotFound):
        await taken(cluster.logs(PodName(gang(9), "worker", 0), follow=False, tail=0))
    cluster.close()
