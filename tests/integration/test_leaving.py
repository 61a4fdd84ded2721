"""A pool that leaves while its agent is there: drained, gone, refused and let in again, as users order and see it."""

from pathlib import Path

import pytest

from hanse.model.errors import FailedPrecondition, NotFound
from tests.integration.test_draining import PATIENCE_S, placed, running, spec, until, where


async def test_a_pool_is_drained_and_gone_and_may_join_again(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        (job,) = await placed(client, spec("job", 2))
        with pytest.raises(FailedPrecondition) as reachable:
            await client.leave("old", force=True, vouch_dead=True)
        assert reachable.value.reason == "POOL_ATTACHED"
        ordered = await client.leave("old", reason="contract ends")
        assert (ordered.cordoned, ordered.leave.force, ordered.HasField("drain")) == (True, False, True)
        assert await where(client, job) == ("RUNNING", 1, "old"), "there is no room yet"
        assert next(one.state for one in (await client.status()).pools if one.name == "old") == "leaving"
        await client.uncordon("new")

        async def gone() -> bool:
            return [pool.name for pool in await client.pools()] == ["new"]

        await until(gone)
        await client.wait(job, until="running", timeout_s=PATIENCE_S)
        assert await where(client, job) == ("RUNNING", 2, "new")
        assert (await client.leave("old")).leave.left_ms > 0, "asked again, it says so"
        with pytest.raises(NotFound):
            await client.uncordon("old")
        told = [event.message async for page in client.events(pool="old") for event in page.events]
        assert any("leaves: drained first, then gone: contract ends" in message for message in told)
        assert "left the federation" in told


async def test_a_pool_that_is_to_stay_after_all_takes_work_again(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        (job,) = await placed(client, spec("job", 2))
        await client.leave("old")
        stays = await client.uncordon("old")
        assert (stays.cordoned, stays.HasField("leave"), stays.HasField("drain")) == (False, False, False)
        (fresh,) = await placed(client, spec("fresh", 1))
        assert {(await where(client, one))[:2] for one in (job, fresh)} == {("RUNNING", 1)}
