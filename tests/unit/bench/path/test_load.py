"""The gangs of `bench/path`: their sizes, their run times, and that no two are the same."""

import pytest

from bench.equal_pools import GPU, GPUS_PER_NODE, fleet_text
from bench.path.load import DOMAIN_GPUS_MAX, PODS_MAX, RUN_MAX_S, RUN_MIN_S, Gang, Gangs, Load
from hanse.simcluster.spec import hosts_in
from hanse.up.fleet import read_fleet

FLEET_GPUS = 20 * 1_000 * GPUS_PER_NODE


def gangs(skew: float = 1.5, count: int = 20_000) -> list[Gang]:
    return Gangs(Load(queues=8, window=400, batch=50, skew=skew, seed=1)).batch(count)


def runs_s(gang: Gang) -> float:
    return float(gang.spec.pod_sets[0].template.command[1])


def test_gangs_have_1_to_64_pods_run_10_to_30_s_and_are_never_the_same_twice() -> None:
    made = gangs()
    assert {gang.pods for gang in made} == set(range(1, PODS_MAX + 1))
    assert all(RUN_MIN_S <= runs_s(gang) <= RUN_MAX_S for gang in made)
    asked = {tuple(sorted(gang.spec.pod_sets[0].resources.items())) for gang in made}
    assert len(asked) == len(made)


@pytest.mark.parametrize(("skew", "mean"), [(1.5, 6.2), (1.0, 13.5), (0.0, 32.5)])
def test_skew_sets_the_mean_size(skew: float, mean: float) -> None:
    made = gangs(skew)
    assert sum(gang.pods for gang in made) / len(made) == pytest.approx(mean, rel=0.05)


def test_a_thousand_gangs_a_second_fit_the_fleet() -> None:
    made = gangs()
    held = 1_000 * sum(gang.gpus * runs_s(gang) for gang in made) / len(made)
    assert 0.5 * FLEET_GPUS < held < 0.9 * FLEET_GPUS


def test_whoever_asks_for_a_domain_fits_a_rack() -> None:
    asking = [gang for gang in gangs() if gang.spec.pod_sets[0].topology.required_level]
    assert asking
    assert max(gang.gpus for gang in asking) <= DOMAIN_GPUS_MAX < 25 * GPUS_PER_NODE


def test_a_gang_holds_what_its_pods_ask_for() -> None:
    for gang in gangs(count=100):
        (pod_set,) = gang.spec.pod_sets
        assert (gang.pods, gang.gpus) == (pod_set.count, pod_set.count * pod_set.resources[GPU])


def test_the_fleet_is_as_large_as_asked() -> None:
    fleet = read_fleet(fleet_text(20, 1_000, 8, run_s=30.0))
    assert [sum(hosts_in(group.sizes) for group in pool.cluster.groups) for pool in fleet.pools] == [1_000] * 20
    assert [queue.held for queue in fleet.queues] == [False] * 8 + [True]


def test_gangs_can_be_confined_to_the_first_queues() -> None:
    made = Gangs(Load(queues=8, window=400, batch=50, skew=1.5, seed=1))
    made.confine(2)
    assert {gang.spec.queue for gang in made.batch(10)} == {"team-0", "team-1"}
    made.confine(100)
    assert len({gang.spec.queue for gang in made.batch(40)}) == 8
