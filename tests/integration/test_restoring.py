"""A store that is set back to a backup: what it knows runs on, what it does not know is stopped, before anything else
starts."""

import asyncio
import json
import shutil
from pathlib import Path

from hanse.client import AsyncClient
from tests.integration.parts import HANSE, Parts, federation
from tests.integration.test_process_life import SHORT_LEASE, ended, until
from tests.integration.test_processes import ready, small_fleet
from tests.integration.workload import spec

POOLS = ("oslo", "paris")
LONG_S = 36_000.0
PATIENCE_S = 60.0


def _without_store(parts: Parts) -> Path:
    """Ends the replicas, then etcd; its data."""
    for replica in parts.replicas:
        replica.terminate()
    (member,) = parts.etcd.members
    member.terminate()
    return Path(member._command[member._command.index("--data-dir") + 1])


async def _submitted(client: AsyncClient, name: str) -> str:
    (told,) = (await client.submit(spec(name, 4, LONG_S))).jobs
    return told.id


async def _running(parts: Parts) -> set[str]:
    """Jobs that have pods on nodes."""
    async with parts.auditor() as auditor:
        lives = await auditor.lives()
    return {job for (job, _), found in lives.items() if any(life.ended_ms is None for life in found)}


async def test_what_a_backup_knows_nothing_of_is_stopped_before_anything_starts(tmp_path: Path) -> None:
    fleet = small_fleet(tmp_path)
    with federation(tmp_path, fleet, POOLS, replicas=1, variables=SHORT_LEASE) as parts:
        await ready(parts, fleet, POOLS)
        async with parts.client() as client:
            kept = await _submitted(client, "kept")
            await client.wait(kept, until="running", timeout_s=PATIENCE_S)
        data = _without_store(parts)
        shutil.copytree(data, tmp_path / "backup")
        parts.start()
        async with parts.client() as client:
            unknown = await _submitted(client, "unknown")
            await client.wait(unknown, until="running", timeout_s=PATIENCE_S)
        _without_store(parts)
        for agents in parts.agents:
            agents.freeze()
        shutil.rmtree(data)
        shutil.copytree(tmp_path / "backup", data)
        parts.etcd.members[0].start()
        told = await _restored(parts)
        assert told == {"incarnation": 2, "pools": sorted(POOLS)}
        parts.start()
        async with parts.client() as client:
            fresh = await _submitted(client, "fresh")
            degraded = list((await client.status()).degraded)
            assert sum("after the restore of the store" in line for line in degraded) == len(POOLS)
            for agents in parts.agents:
                agents.thaw()
            job = await client.wait(fresh, until="running", timeout_s=PATIENCE_S)
            assert job.status.attempt == 1
            assert (await client.job(kept)).status.attempt == 1
            assert {job.id async for job in client.jobs()} == {kept, fresh}
            assert await _running(parts) == {kept, fresh}
            assert not (await client.status()).degraded


async def _restored(parts: Parts) -> object:
    process = await asyncio.create_subprocess_exec(
        *HANSE, "restored", "--store", parts.etcd.url, "-o", "json", stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(PATIENCE_S):
        out, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(out)


async def test_a_store_in_use_gets_no_new_life(tmp_path: Path) -> None:
    with federation(tmp_path, small_fleet(tmp_path), (), replicas=1) as parts:
        code, told = await ended("restored", "--store", parts.etcd.url, "--wait", "1s")
        assert code != 0
        assert "r0 of this store still runs" in told
        await until(lambda: parts.replicas[0].running)
