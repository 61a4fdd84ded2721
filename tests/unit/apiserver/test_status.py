"""What is degraded, in words; what every replica tells, as figures."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from hanse.api.v1 import server_service_pb2 as pb
from hanse.apiserver.ports import PoolDrain, PoolHealth, PoolLink, PoolView, RootHolder
from hanse.apiserver.status import federation_status
from hanse.model.ids import PoolName, ReplicaId
from hanse.model.vitals import COMMITTED, CONFLICTED, CONFLICTS, PASSED, REFUSED, SUPERSEDED, TAKEN, Vitals
from tests.unit.apiserver.stage import WrittenFleet, pool

R0 = ReplicaId("r0")
COUNTS = {COMMITTED: 900, TAKEN: 2, SUPERSEDED: 1}
WELL = Vitals(R0, True, 600.0, 4, 2, 9, 0, COUNTS, 60.0, {COMMITTED: 600, PASSED: 60})
OSLO = replace(pool("oslo", 1, 1), health=PoolHealth.HEALTHY, summary_age_ms=500, gangs=3)
HELD = RootHolder("queue.a", "r0", alive=True)


class WrittenStanding:
    """A federation that a test wrote down."""

    def __init__(self, vitals: Vitals | None, root: RootHolder, link: PoolLink) -> None:
        self._vitals = vitals
        self._root = root
        self._link = link

    async def vitals(self, *, deadline_s: float) -> Mapping[ReplicaId, Vitals]:
        assert deadline_s <= 1.0
        return {} if self._vitals is None else {R0: self._vitals}

    def roots(self) -> tuple[RootHolder, ...]:
        return (self._root,)

    def links(self) -> Mapping[PoolName, PoolLink]:
        return {PoolName("oslo"): self._link}


async def status(
    vitals: Vitals | None = WELL,
    *,
    root: RootHolder = HELD,
    view: PoolView = OSLO,
    unacknowledged: int = 0,
    awaited: bool = False,
    replicas: int = 1,
) -> pb.FederationStatus:
    info = pb.ServerInfo(replicas=[pb.Replica(id=f"r{n}") for n in range(replicas)])
    standing = WrittenStanding(vitals, root, PoolLink("r0", unacknowledged, awaited))
    return await federation_status(info, WrittenFleet(view), standing)


async def test_a_federation_that_is_well_says_so() -> None:
    found = await status()
    (one,) = found.replicas
    assert not found.degraded
    assert (one.answers, one.agents, one.roots, one.pending_jobs) == (True, 4, 2, 9)
    assert (one.bound_per_s, one.takeovers, one.fenced) == (10.0, 2, 1)
    (told,) = found.pools
    assert (told.state, told.replica, told.summary_age_ms, told.gangs) == ("healthy", "r0", 500, 3)


async def test_fractions_are_of_the_last_minute_and_counts_of_the_whole_life() -> None:
    counts = {f"{CONFLICTS}state": 8, f"{REFUSED}SHAPE": 5}
    lately = {COMMITTED: 100, PASSED: 50, CONFLICTED: 50, f"{REFUSED}SHAPE": 5}
    found = await status(replace(WELL, counts=counts, lately=lately))
    (one,) = found.replicas
    assert (one.conflict_fraction, one.refusal_fraction) == (0.5, 0.05)
    assert (dict(one.conflicts), dict(one.refusals)) == ({"state": 8}, {"SHAPE": 5})
    assert list(found.degraded) == ["replica r0: 50% of its transactions were overtaken by others"]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"vitals": None}, "replica r0 is a member and does not answer"),
        ({"replicas": 0}, "no replica is a member; the store may be away"),
        ({"vitals": replace(WELL, ready=False)}, "replica r0 is not ready"),
        ({"vitals": replace(WELL, unsettled=2)}, "the outcome of 2 transactions is not known yet"),
        ({"vitals": replace(WELL, lately={COMMITTED: 600, f"{REFUSED}SHAPE": 90})}, "agents refused 15%"),
        ({"root": RootHolder("queue.a", "", alive=False)}, "root queue.a is held by nobody"),
        ({"root": RootHolder("queue.a", "r9", alive=False)}, "root queue.a is held by r9, which is gone"),
        (
            {"view": replace(OSLO, health=PoolHealth.STALE, message="too old")},
            "pool oslo is stale: too old",
        ),
        ({"awaited": True}, "nothing is bound before pool oslo has come back"),
        ({"unacknowledged": 900}, "pool oslo: its agent has not answered 900 decisions"),
    ],
)
async def test_what_is_degraded_is_told_in_a_line(changes: dict[str, object], line: str) -> None:
    found = await status(**changes)  # type: ignore[arg-type]
    (told,) = found.degraded
    assert line in told


async def test_a_pool_that_an_operator_has_shut_is_not_degraded() -> None:
    shut = replace(OSLO, cordoned=True)
    for view, word in ((shut, "cordoned"), (replace(shut, drain=PoolDrain(1, 0)), "draining")):
        found = await status(view=view)
        assert ([p.state for p in found.pools], list(found.degraded)) == ([word], [])
