"""Looking over all pools of a large fleet at once changes what a cycle costs, and nothing that it decides."""

import random
from dataclasses import replace

import pytest

from hanse.model.ids import FlavorName, PoolName
from hanse.model.job import Slice
from hanse.model.reasons import Reason
from hanse.model.request import GangRequest
from hanse.model.resources import Resources
from hanse.scheduler.core.explain import explain
from hanse.scheduler.core.plan import Decision, Plan, run_cycle
from hanse.scheduler.core.sieve import POOLS_MIN
from hanse.scheduler.core.snapshot import Limits, Snapshot
from hanse.scheduler.core.world import World
from hanse.shape import Shape
from tests.unit.scheduler.worlds import A100, H100, NONCE, QUEUE, inventory, job, pending, request, summary, world

LIMITS = Limits(unacknowledged_max=6, uncertain_max=2, comparisons_max=10**6, ranked_max=10**6)
PASSING = {Reason.REFUSED, Reason.LAGGING, Reason.CORDONED}
CYCLES = 6


def _shape(rng: random.Random, flavor: FlavorName) -> Shape:
    racks = {f"r{r}": rng.randint(1, 5) for r in range(rng.randint(1, 4))}
    used = {f"{rack}-{n}": rng.choice((0, 1, 4, 8, 8, 8)) for rack, hosts in racks.items() for n in range(hosts)}
    return inventory(racks, name=flavor, used={node: gpus for node, gpus in used.items() if gpus}).shape()


def _fleet(rng: random.Random) -> World:
    shapes = {f"p{i}": _shape(rng, rng.choice((H100, A100))) for i in range(POOLS_MIN + rng.randint(0, 20))}
    found = world(shapes, {H100: rng.choice((64, 100_000)), A100: 100_000})
    for name in rng.sample(list(shapes), 3):
        facts = found.pool_facts(PoolName(name))
        assert facts is not None
        found.put_pool(replace(facts, cordoned=True))
    return found


def _gang(rng: random.Random) -> GangRequest:
    size = rng.choice((1, 1, 2, 3))
    slices = (Slice(size, "rack"),) if size > 1 else ()
    required = rng.choice(("", "", "rack", "zone"))
    flavors = rng.choice(((), (H100,), (A100, H100)))
    split = rng.choice((1, 1, 3))
    count = size * rng.choice((1, 2, 4, 7))
    return request(count, rng.choice((1, 3, 8)), required=required, slices=slices, flavors=flavors, max_pools=split)


def _with_memory(rng: random.Random, want: GangRequest) -> GangRequest:
    """Within the share of the GPUs that a pod takes, or beyond it."""
    (asked,) = want.sets
    memory = Resources({"memory": rng.choice((2**30, 2**31, 2**38))})
    return replace(want, sets=(replace(asked, resources=asked.resources.plus(memory)),))


def _plan(snapshot: Snapshot, wants: list[GangRequest]) -> Plan:
    jobs = [job(i, want) for i, want in enumerate(wants, 1)]
    requests = {j.class_hash: want for j, want in zip(jobs, wants, strict=True)}
    return run_cycle(snapshot, pending(jobs).service({}), requests, LIMITS, random.Random(7))


def _places(decision: Decision) -> object:
    """A decision without the number of pools that were asked for it."""
    return decision.job.job, [
        (p.pool, p.counts, p.request, p.flavors, p.charges, p.choice and (p.choice.won, p.choice.second))
        for p in decision.parts
    ]


def _waits(plan: Plan) -> object:
    """Why classes wait, and what they wait for that passes by itself."""
    return {c: (b.reason, {v.reason for v in b.verdicts} & PASSING) for c, b in plan.blocked.items()}


@pytest.mark.parametrize("seed", range(12))
def test_a_cycle_decides_the_same_with_and_without_it(seed: int) -> None:
    rng = random.Random(seed)
    found = _fleet(rng)
    blocked = decided = 0
    for number in range(2, 2 + CYCLES):
        wants = [like for want in [_gang(rng) for _ in range(6)] for like in (want, want, _with_memory(rng, want))]
        some = [want for want in wants if rng.random() < 0.3]
        avoided = {(job(1, want).class_hash, PoolName(f"p{rng.randrange(20)}")): Reason.REFUSED for want in some}
        snapshot = found.snapshot(now_s=0.0, nonce=NONCE, avoided=avoided)
        sieved, asked = _plan(snapshot, wants), _plan(replace(snapshot, fleet=None), wants)
        assert [_places(d) for d in sieved.decisions] == [_places(d) for d in asked.decisions]
        assert _waits(sieved) == _waits(asked)
        assert not sieved.failed
        blocked, decided = blocked + len(sieved.blocked), decided + len(sieved.decisions)
        for name in rng.sample([p.name for p in snapshot.pools], 4):
            found.accept_summary(name, summary(_shape(rng, rng.choice((H100, A100))), number, 10))
    assert blocked > CYCLES
    assert decided > CYCLES


@pytest.mark.parametrize("seed", range(12, 20))
def test_the_reason_of_a_class_is_that_of_its_explanation(seed: int) -> None:
    rng = random.Random(seed)
    found = _fleet(rng)
    for _ in range(20):
        want = _gang(rng)
        number = job(1, want).class_hash
        avoided = {(number, p): Reason.REFUSED for p in found.pool_names() if rng.random() < 0.2}
        snapshot = found.snapshot(now_s=0.0, nonce=NONCE, avoided=avoided)
        plan = _plan(snapshot, [want])
        if number in plan.blocked:
            assert plan.blocked[number].reason is explain(snapshot, QUEUE, want, LIMITS).reason
