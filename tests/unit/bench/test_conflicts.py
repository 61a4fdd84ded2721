"""The bench of conflicts on a small fleet: what it counts, and what guards on whole pools compare."""

from dataclasses import replace
from random import Random

import pytest

from bench.conflicts.fleet import FILLING, Pool, grow, pools
from bench.conflicts.store import with_versions
from bench.conflicts.virtual import Setting, simulate
from hanse.model.ids import Attempt, FlavorName, JobId, Part, PoolName
from hanse.store import keys
from hanse.store.contract import Delete, Put, Txn

SETTING = Setting(
    replicas=2,
    load=0.5,
    prefer=True,
    whole=False,
    decisions_max=4,
    warm_s=0.5,
    seconds=1.0,
    gang_s=0.02,
    txn_s=0.005,
    interval_s=0.01,
    seed=1,
)
POOL = PoolName("p0")
H100, A100 = FlavorName("h100"), FlavorName("a100")


def filled(load: float) -> list[Pool]:
    found = pools(12, 100)
    grow(found, load, Random(1))
    return found


def test_a_filling_takes_the_share_of_each_accelerator_and_grows() -> None:
    found = filled(0.5)
    shares = [pool.taken[model] / (pool.gpus / 2) for pool in found for model in (H100, A100)]
    assert all(0.5 <= share < 0.7 for share in shares)
    assert all(key.job.startswith(FILLING) for pool in found for key, _ in pool.filling)
    grow(found, 0.75, Random(2))
    assert all(pool.taken[model] >= 0.75 * pool.gpus / 2 for pool in found for model in (H100, A100))


def test_replicas_bind_as_fast_as_their_prices_let_them() -> None:
    alone = simulate(replace(SETTING, replicas=1), filled(0.5))
    assert alone.gangs_per_s == pytest.approx(4 / (4 * 0.02 + 0.005 + 0.01), rel=0.1)
    two = simulate(SETTING, filled(0.5))
    assert two.gangs == pytest.approx(2 * alone.gangs, rel=0.1)
    assert (two.conflicts, two.refused) == (0, 0)


def test_replicas_that_prefer_the_same_pools_collide_at_heads_and_bind_all_the_same() -> None:
    found = simulate(replace(SETTING, replicas=4, prefer=False), filled(0.5))
    assert found.conflicts > 0
    assert set(found.by_guard) == {"pools"}
    assert found.gangs > 0


def test_equal_settings_give_equal_outcomes() -> None:
    first, second = (simulate(replace(SETTING, prefer=False), filled(0.5)) for _ in range(2))
    assert first == second


def test_a_whole_pool_moves_with_every_flavor_of_it_and_with_what_leaves() -> None:
    head = keys.head(POOL, H100)
    took = with_versions(Txn((), (Put(head, b"1"),)))
    assert [op.key for op in took.ops] == [head, keys.head(POOL, A100)]
    binding = keys.binding(POOL, JobId("abcdefgh-0123456789abcdef"), Attempt(1), Part(0))
    left = with_versions(Txn((), (Delete(binding),)))
    assert {op.key for op in left.ops} == {binding, head, keys.head(POOL, A100)}
    neither = Txn((), (Put(keys.pool_config(POOL), b""),))
    assert with_versions(neither).ops == neither.ops
