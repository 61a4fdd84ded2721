"""Alerts fire in the fault that they are for, in a real Prometheus over real processes; before and after they do not.

The rules are those of the chart, with time run faster: what they wait for and look back over is a sixtieth, and
limits that are ages or numbers of events shrink with it. Those that are not here (conflicts, refusals, failures of
planning, a cluster that does not answer writes, certificates, forgeries) are fired from series in
tests/unit/operations.
"""

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from hanse.etcd.v3 import rpc_pb2 as etcd_pb
from hanse.etcd.v3 import rpc_pb2_grpc as etcd_grpc
from tests.arch.tree import ROOT
from tests.integration.parts import HANSE
from tests.integration.telemetry.watched import PATIENCE_S, Watched, needs_prometheus, watched_federation
from tests.integration.workload import spec
from tests.services.process import ServerProcess

pytestmark = needs_prometheus

POOLS = ("oslo", "paris")
SILENCE_S = 6.0
LOOK_EVERY_S = 0.5
QUOTA_BYTES = 32 * 2**20
JUNK_BYTES = 2**20
LIMITS = {
    "HansePoolStale": {"> 60": "> 15"},
    "HanseAgentTwice": {"> 30": "> 1", "> 10": "> 2"},
    "HanseArchiveFails": {"[15m]": "[60s]"},
}
"""By alert: a limit, and what it is in a sixtieth of the time. Archiving is tried again after 30 s all the same."""


def hurried(rules: dict[str, Any]) -> dict[str, Any]:
    """The rules, minutes being seconds."""
    for group in rules["groups"]:
        for rule in group["rules"]:
            for was, now in LIMITS.get(rule["alert"], {}).items():
                assert was in rule["expr"], rule["alert"]
                rule["expr"] = rule["expr"].replace(was, now)
            rule["expr"] = re.sub(r"(\[|offset )(\d+)m", r"\1\2s", rule["expr"])
            rule["for"] = rule.get("for", "0m").replace("m", "s")
    return rules


async def until(watched: Watched, holds: Callable[[set[str]], bool]) -> None:
    """Until the alerts that fire are as wanted."""
    firing: set[str] = set()
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not holds(firing := await watched.firing()):  # noqa: ASYNC110 - another process
                await asyncio.sleep(LOOK_EVERY_S)
    except TimeoutError:
        raise AssertionError(f"these fire: {sorted(firing)}") from None


async def fires(watched: Watched, alert: str, *, beside: frozenset[str] = frozenset()) -> None:
    """The alert fires, and none but it and those that the fault also is."""
    await until(watched, lambda firing: alert in firing)
    assert await watched.firing() <= {alert} | beside


async def silent(watched: Watched) -> None:
    await until(watched, lambda firing: not firing)


async def ran(watched: Watched, name: str, pods: int = 2) -> None:
    (job,) = (await watched.client.submit(spec(name, pods, 0.5))).ids
    await watched.client.wait(job, timeout_s=PATIENCE_S)


async def hanse(*words: str) -> None:
    process = await asyncio.create_subprocess_exec(*HANSE, *words, stdout=asyncio.subprocess.DEVNULL)
    assert await process.wait() == 0


async def test_alerts_fire_in_their_fault_and_in_no_other(tmp_path: Path) -> None:
    rules = hurried(yaml.safe_load((ROOT / "helm/hanse/files/alerts.yaml").read_text(encoding="utf-8")))
    archive = tmp_path / "archive"
    flags = ["--set", f"archive_dir={archive}", "--set", "retain_terminal_age_s=1"]
    quota = ["--quota-backend-bytes", str(QUOTA_BYTES)]
    async with watched_federation(tmp_path, POOLS, rules=rules, flags=flags, etcd_flags=quota) as watched:
        for number in range(3):
            await ran(watched, f"before-{number}")
        await silent(watched)
        await _silent_for(watched, SILENCE_S)
        await _a_frozen_agent(watched)
        await _broken_machines(watched)
        await _a_second_agent(watched, tmp_path)
        await _an_archive_on_a_broken_disk(watched, archive)
        await _no_store(watched)
        await _no_replica(watched)
        await _a_store_that_is_nearly_full(watched)


async def _silent_for(watched: Watched, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + seconds
    while loop.time() < ends_s:
        assert await watched.firing() == set()
        await asyncio.sleep(LOOK_EVERY_S)


async def _a_frozen_agent(watched: Watched) -> None:
    watched.parts["agent-oslo"].freeze()
    await fires(watched, "HansePoolStale")
    watched.parts["agent-oslo"].thaw()
    await silent(watched)


async def _broken_machines(watched: Watched) -> None:
    await hanse("sim", "fail", "oslo/r0", "--server", watched.clusters)
    await fires(watched, "HanseNodesUnusable")
    await hanse("sim", "restore", "oslo/r0", "--server", watched.clusters)
    await silent(watched)


async def _a_second_agent(watched: Watched, folder: Path) -> None:
    command = [*HANSE, "agent", "--pool", "oslo", "--cluster", f"sim:{watched.clusters}", "--global", watched.replica]
    second = ServerProcess("second", command, folder, ready=lambda: True)
    second.start()
    try:
        await fires(watched, "HanseAgentTwice", beside=frozenset({"HanseAgentDetached"}))
    finally:
        second.kill()
    await silent(watched)


async def _an_archive_on_a_broken_disk(watched: Watched, archive: Path) -> None:
    kept = archive.with_name("kept")
    os.rename(archive, kept)
    os.symlink("/nowhere/at/all", archive)
    await ran(watched, "to-be-archived")
    await fires(watched, "HanseArchiveFails")
    os.unlink(archive)
    os.rename(kept, archive)
    await silent(watched)


async def _no_store(watched: Watched) -> None:
    (member,) = watched.etcd.members
    member.kill()
    also = {"HanseOutcomesUnknown", "HanseNothingHeld", "HansePoolStale", "HanseAgentDetached", "HanseArchiveFails"}
    await fires(watched, "HanseStoreAway", beside=frozenset(also))
    member.launch()
    await member.wait_ready_async()
    await watched.replica_serves()
    await silent(watched)
    await ran(watched, "after-the-store")


async def _no_replica(watched: Watched) -> None:
    replica = watched.parts["replica"]
    replica.kill()
    await until(watched, lambda firing: {"HanseNoReplica", "HanseAgentDetached"} <= firing)
    assert await watched.firing() == {"HanseNoReplica", "HanseAgentDetached"}
    replica.launch()
    await replica.wait_ready_async()
    await watched.replica_serves()
    await silent(watched)


async def _a_store_that_is_nearly_full(watched: Watched) -> None:
    if not await watched.numbers('hanse_store_size_bytes{hanse_store_part="quota"}'):
        return  # before 3.6, etcd does not say what it may have
    with watched.etcd.channel() as channel:
        stub = etcd_grpc.KVStub(channel)
        for number in range(QUOTA_BYTES * 7 // 8 // JUNK_BYTES):
            put = etcd_pb.PutRequest(key=f"junk/{number}".encode(), value=os.urandom(JUNK_BYTES))
            txn = etcd_pb.TxnRequest(success=[etcd_pb.RequestOp(request_put=put)])
            await asyncio.to_thread(stub.Txn, txn, timeout=5.0)
    await fires(watched, "HanseStoreNearlyFull")
