"""Who may write (P8): one epoch at a time, in one order, of one federation."""

import pytest

from hanse.agent.cluster.port import (
    AcceptRevision,
    ClusterPort,
    Done,
    Epoch,
    HoldGang,
    StopPods,
    Superseded,
)
from tests.contract.cluster_port.acts import FEDERATION, FIRST, SECOND, key, node_names, record
from tests.contract.cluster_port.homes import ClusterHome


async def test_a_fresh_cluster_is_claimed_by_nobody(port: ClusterPort) -> None:
    claim = await port.read_claim()
    assert (claim.federation, claim.epoch, claim.accepted_revision) == ("", Epoch(), 0)
    assert claim.cluster_uid
    assert (await port.list()).claim == claim


async def test_a_claim_is_kept(port: ClusterPort) -> None:
    claim = await port.claim(FEDERATION, FIRST, 100)
    assert (claim.federation, claim.epoch, claim.accepted_revision) == (FEDERATION, FIRST, 100)
    assert await port.read_claim() == claim


async def test_a_repeated_claim_is_fine(agent: ClusterPort) -> None:
    before = await agent.read_claim()
    assert await agent.claim(FEDERATION, FIRST, 100) == before


@pytest.mark.parametrize(
    ("federation", "epoch", "revision"),
    [
        pytest.param(FEDERATION, Epoch(1, 9), 100, id="an older epoch"),
        pytest.param(FEDERATION, Epoch(0, 999), 100, id="an older incarnation"),
        pytest.param("other", SECOND, 100, id="another federation"),
        pytest.param("other", FIRST, 100, id="another federation with the same epoch"),
        pytest.param(FEDERATION, SECOND, 99, id="an older revision in one incarnation"),
    ],
)
async def test_a_claim_is_refused(agent: ClusterPort, federation: str, epoch: Epoch, revision: int) -> None:
    before = await agent.read_claim()
    with pytest.raises(Superseded):
        await agent.claim(federation, epoch, revision)
    assert await agent.read_claim() == before


async def test_a_new_incarnation_begins_with_any_revision(agent: ClusterPort) -> None:
    claim = await agent.claim(FEDERATION, Epoch(2, 1), 5)
    assert (claim.epoch, claim.accepted_revision) == (Epoch(2, 1), 5)


async def test_nobody_writes_to_an_unclaimed_cluster(port: ClusterPort) -> None:
    with pytest.raises(Superseded):
        await port.write(Epoch(), [AcceptRevision(1)])


@pytest.mark.parametrize("epoch", [Epoch(1, 9), Epoch(1, 11), Epoch(2, 10)], ids=["older", "newer", "other life"])
async def test_only_the_claimed_epoch_writes(agent: ClusterPort, epoch: Epoch) -> None:
    with pytest.raises(Superseded):
        await agent.write(epoch, [HoldGang(record(key(), await node_names(agent)))])
    assert (await agent.list()).records == ()


async def test_a_superseded_agent_changes_nothing_any_more(home: ClusterHome, agent: ClusterPort) -> None:
    gang = record(key(), await node_names(agent))
    await agent.write(FIRST, [HoldGang(gang)])
    await home.port().claim(FEDERATION, SECOND, 100)
    for op in (StopPods(gang.key), AcceptRevision(200), HoldGang(record(key(2), ["node-r0-h0"]))):
        with pytest.raises(Superseded):
            await agent.write(FIRST, [op])
    state = await agent.list()
    assert state.records == (gang,)
    assert state.claim.accepted_revision == 100


async def test_looking_at_a_newer_claim_gives_no_right_to_it(home: ClusterHome, agent: ClusterPort) -> None:
    await home.port().claim(FEDERATION, SECOND, 100)
    assert (await agent.read_claim()).epoch == SECOND
    await agent.list()
    for op in (AcceptRevision(200), HoldGang(record(key(), await node_names(agent))), StopPods(key())):
        with pytest.raises(Superseded):
            await agent.write(FIRST, [op])
    state = await agent.list()
    assert (state.claim.accepted_revision, state.records) == (100, ())


async def test_an_accepted_revision_only_grows(agent: ClusterPort) -> None:
    assert await agent.write(FIRST, [AcceptRevision(150), AcceptRevision(120)]) == (Done(), Done())
    assert (await agent.read_claim()).accepted_revision == 150
