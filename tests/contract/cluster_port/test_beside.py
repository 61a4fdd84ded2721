"""What a cluster lacks, and that it tells so before anything is created."""

import asyncio

from hanse.agent.cluster.port import ClusterPort, Wanted
from hanse.model.beside import Need, NeedKind
from tests.contract.cluster_port.acts import PATIENCE_S
from tests.contract.cluster_port.homes import ClusterHome

MISSING = (
    Need(NeedKind.SECRET, "hf-token"),
    Need(NeedKind.SERVICE_ACCOUNT, "runner"),
    Need(NeedKind.PRIORITY_CLASS, "p9"),
)


async def test_what_is_missing_is_told_until_it_is_there(home: ClusterHome, agent: ClusterPort) -> None:
    wanted = Wanted("default", "team", MISSING)
    await home.withhold(MISSING)
    lacking = await agent.lacking(wanted)
    assert len(lacking) == len(MISSING)
    assert all(str(need) in said for need, said in zip(MISSING, lacking, strict=True))
    for need in MISSING:
        await home.provide(need)
    async with asyncio.timeout(PATIENCE_S):
        while await agent.lacking(wanted):  # noqa: ASYNC110 - an adapter may believe what it saw for a moment
            await asyncio.sleep(0.1)


async def test_nothing_is_lacking_where_nothing_is_needed(agent: ClusterPort) -> None:
    assert await agent.lacking(Wanted("", "team", ())) == ()
