"""A list and an explanation say the same: the planner's one reason for a class is that of `explain`."""

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.model.ids import FlavorName, PoolName
from hanse.model.reasons import Reason
from hanse.model.request import GangRequest
from hanse.scheduler.core.explain import explain
from hanse.scheduler.core.plan import run_cycle
from hanse.scheduler.core.snapshot import Limits, Snapshot
from hanse.scheduler.core.world import World
from tests.unit.scheduler.worlds import A100, H100, NONCE, QUEUE, inventory, job, pending, request, world

LIMITS = Limits(summary_age_max_s=30.0, unacknowledged_max=1)
STANDINGS = ("usable", "cordoned", "detached", "refused")

pools = st.lists(
    st.tuples(st.sampled_from([H100, A100]), st.integers(1, 4), st.integers(0, 8), st.sampled_from(STANDINGS)),
    max_size=4,
)
quotas = st.fixed_dictionaries({}, optional={H100: st.integers(8, 64), A100: st.integers(8, 64)})
requests = st.builds(
    request,
    st.integers(1, 5),
    st.sampled_from([4, 8]),
    required=st.sampled_from(["", "rack", "zone"]),
    flavors=st.sampled_from([(), (H100,), (A100, H100)]),
)


def fleet(drawn: list[tuple[FlavorName, int, int, str]], quota: dict[FlavorName, int]) -> World:
    shapes = {
        f"p{number}": inventory({"r1": hosts, "r2": 1}, name=name, used={"r1-0": used} if used else {}).shape()
        for number, (name, hosts, used, _) in enumerate(drawn)
    }
    found = world(shapes, quota)
    for number, (_, _, _, standing) in enumerate(drawn):
        name = PoolName(f"p{number}")
        facts = found.pool_facts(name)
        assert facts is not None
        if standing == "cordoned":
            found.put_pool(replace(facts, cordoned=True))
        if standing == "detached":
            found.put_attached(name, "")
    return found


def snapshot_of(found: World, want: GangRequest, drawn: list[tuple[FlavorName, int, int, str]]) -> Snapshot:
    number = job(1, want).class_hash
    avoided = {(number, PoolName(f"p{i}")): Reason.REFUSED for i, pool in enumerate(drawn) if pool[3] == "refused"}
    return found.snapshot(now_s=0.0, nonce=NONCE, avoided=avoided)


@settings(max_examples=300, deadline=None)
@given(pools, quotas, requests)
def test_the_planner_and_the_explanation_give_one_reason(
    drawn: list[tuple[FlavorName, int, int, str]], quota: dict[FlavorName, int], want: GangRequest
) -> None:
    snapshot = snapshot_of(fleet(drawn, quota), want, drawn)
    waiting = job(1, want)
    plan = run_cycle(snapshot, pending([waiting]).service({}), {waiting.class_hash: want}, LIMITS, random.Random(1))
    answer = explain(snapshot, QUEUE, want, LIMITS)
    if plan.decisions:
        assert answer.reason is Reason.WAITING
    else:
        assert plan.blocked[waiting.class_hash].reason is answer.reason
