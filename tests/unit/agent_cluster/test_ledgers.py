"""The claim and the records against a server that refuses: an outcome or the port's error, never anything else."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from hanse.agent.cluster.kubernetes.api import Api
from hanse.agent.cluster.kubernetes.ledgers import Ledgers
from hanse.agent.cluster.kubernetes.names import ledger_name
from hanse.agent.cluster.kubernetes.settings import KubernetesSettings
from hanse.agent.cluster.kubernetes.stored import Stored
from hanse.agent.cluster.port import PAYLOAD_BYTES_MAX, ClusterUnavailable, GangKey, Superseded
from hanse.model.ids import JobId
from tests.unit.agent_cluster.api_server import Answer, serving, whole
from tests.unit.agent_cluster.objects import EPOCH, FEDERATION, GANG, LATER, record

UID = whole({"metadata": {"uid": "of-the-cluster"}})
NO_CLAIM = whole({"reason": "NotFound"}, 404)
WRITTEN = whole({"metadata": {"resourceVersion": "9"}})
NO_LEDGERS = whole({"metadata": {"resourceVersion": "5"}, "items": []})
OLD_LEDGER = whole(
    {
        "metadata": {"resourceVersion": "5"},
        "items": [{"metadata": {"name": ledger_name(0), "resourceVersion": "4"}, "data": {}}],
    }
)
CLAIMED = (UID, NO_CLAIM, WRITTEN, NO_LEDGERS, WRITTEN)
REFUSALS = (400, 401, 403, 404, 408, 410, 413, 422, 500, 503)


def claim_of(revision: str = "100", epoch: str = "1.10") -> Answer:
    data = {"federation": FEDERATION, "epoch": epoch, "revision": revision, "ledgers": "1"}
    return whole({"metadata": {"resourceVersion": "9"}, "data": data})


def refusal(status: int) -> Answer:
    return whole({"message": "a webhook says no"}, status)


def one_ledger(api: Api) -> Ledgers:
    return Ledgers(api, KubernetesSettings(ledgers=1), "pool")


async def claimed(api: Api) -> Ledgers:
    """Owned under EPOCH; a server has to begin with CLAIMED."""
    ledgers = one_ledger(api)
    await ledgers.claim_for(FEDERATION, EPOCH, 100)
    return ledgers


def gang(number: int) -> GangKey:
    return GANG._replace(job=JobId(f"aaaaaaaa-{number:016d}"))


def held(key: GangKey, payload: bytes = b"payload") -> Stored:
    return Stored(replace(record("n0", started=False), key=key, payload=payload))


@pytest.mark.parametrize("status", REFUSALS)
@pytest.mark.parametrize(
    "before",
    [
        pytest.param((), id="who the cluster is"),
        pytest.param((UID, NO_CLAIM), id="a first claim"),
        pytest.param((UID, claim_of(epoch="1.1")), id="a later claim"),
        pytest.param((UID, NO_CLAIM, WRITTEN), id="the namespace of jobs"),
        pytest.param((UID, NO_CLAIM, WRITTEN), id="the list of ledgers"),
        pytest.param((UID, NO_CLAIM, WRITTEN, NO_LEDGERS), id="a new ledger"),
        pytest.param((UID, NO_CLAIM, WRITTEN, OLD_LEDGER), id="an old ledger"),
    ],
)
async def test_a_claim_that_meets_a_refusal_is_not_known_to_hold(
    tmp_path: Path, before: tuple[Answer, ...], status: int
) -> None:
    async with serving(tmp_path, *before, refusal(status)) as (api, _):
        ledgers = one_ledger(api)
        with pytest.raises(ClusterUnavailable):
            await ledgers.claim_for(FEDERATION, EPOCH, 100)
        assert ledgers.epoch != EPOCH


@pytest.mark.parametrize("status", REFUSALS)
async def test_an_acceptance_that_meets_a_refusal_is_not_known_to_hold(tmp_path: Path, status: int) -> None:
    async with serving(tmp_path, *CLAIMED, refusal(status)) as (api, _):
        ledgers = await claimed(api)
        with pytest.raises(ClusterUnavailable):
            await ledgers.accept(EPOCH, 200)


async def test_a_claim_that_was_only_looked_at_is_not_written(tmp_path: Path) -> None:
    async with serving(tmp_path, *CLAIMED, claim_of(epoch="1.20"), WRITTEN) as (api, script):
        ledgers = await claimed(api)
        assert (await ledgers.read_claim()).epoch == LATER
        before = len(script.asked)
        with pytest.raises(Superseded):
            await ledgers.accept(EPOCH, 200)
        assert len(script.asked) == before


async def test_a_version_that_is_no_number_is_no_answer(tmp_path: Path) -> None:
    ledger = {"metadata": {"name": ledger_name(0), "resourceVersion": "abc"}}
    strange = whole({"metadata": {"resourceVersion": "5"}, "items": [ledger]})
    async with serving(tmp_path, *CLAIMED[:-2], strange) as (api, _):
        with pytest.raises(ClusterUnavailable, match="abc"):
            await claimed(api)


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_one_record_that_is_not_taken_refuses_no_other(tmp_path: Path, status: int) -> None:
    no = refusal(status)
    async with serving(tmp_path, *CLAIMED, no, WRITTEN, no, WRITTEN) as (api, _):
        ledgers = await claimed(api)
        entries = {gang(n): held(gang(n)) for n in range(3)}
        assert await ledgers.change(EPOCH, entries) == {gang(1): "a webhook says no"}
        assert [stored.record.key for stored in ledgers.records()] == [gang(0), gang(2)]


@pytest.mark.parametrize("status", [401, 403, 404, 500])
async def test_a_record_that_is_refused_for_who_we_are_is_not_refused_for_good(tmp_path: Path, status: int) -> None:
    async with serving(tmp_path, *CLAIMED, refusal(status)) as (api, _):
        ledgers = await claimed(api)
        with pytest.raises(ClusterUnavailable):
            await ledgers.change(EPOCH, {GANG: held(GANG)})
        assert ledgers.records() == []


async def test_a_full_ledger_takes_nothing_new_and_lets_go_of_what_it_has(tmp_path: Path) -> None:
    rng = random.Random(1)
    entries = {gang(n): held(gang(n), rng.randbytes(PAYLOAD_BYTES_MAX)) for n in range(900_000 // PAYLOAD_BYTES_MAX)}
    async with serving(tmp_path, *CLAIMED, WRITTEN) as (api, _):
        ledgers = await claimed(api)
        refused = await ledgers.change(EPOCH, entries)
        assert set(refused) < set(entries)
        assert all("full" in why for why in refused.values())
        full = {**dict.fromkeys(refused), gang(0): replace(entries[gang(0)], stopped=True), gang(1): None}
        assert await ledgers.change(EPOCH, full) == {}
        assert await ledgers.change(EPOCH, {next(iter(refused)): held(next(iter(refused)))}) == {}
