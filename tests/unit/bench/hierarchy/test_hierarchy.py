"""The comparison of 20 pools with one tree: what both sides share, and that neither gives what is not there."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import hierarchy
from bench.hierarchy.federation import Federation
from bench.hierarchy.fleet import POOL_LEVEL, Pool, tree_inventory
from bench.hierarchy.one_tree import OneTree, in_one_pool
from bench.hierarchy.race import Side, gpu_seconds, run_side, waits_s
from bench.hierarchy.stream import TENANTS, Stream, make_stream
from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.placement import Placement, place
from hanse.model.ids import FlavorName, NodeName, PoolName
from hanse.model.job import Topology
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import CPU, MEMORY, NVIDIA_GPU, PODS, Resources
from hanse.model.selectors import Selector
from hanse.scheduler.core.snapshot import Limits
from hanse.shape import NoFit

HOST = Resources({NVIDIA_GPU: 8, CPU: 192_000, MEMORY: 2 * 2**40, PODS: 110})
HORIZON_S = 1_800.0


def pool(name: str, racks: int, hosts: int, flavor: str = "h100") -> Pool:
    labels = {"nvidia.com/gpu.product": flavor, "topology.kubernetes.io/block": "b"}
    nodes = [
        NodeFacts(NodeName(f"{name}-{r}-{h}"), {**labels, "topology.kubernetes.io/rack": str(r)}, (), HOST)
        for r in range(racks)
        for h in range(hosts)
    ]
    return Pool(PoolName(name), FlavorName(flavor), tuple(nodes))


FLEET = (pool("big", 4, 8), pool("small", 2, 4), pool("old", 2, 8, "a100"), pool("odd", 3, 5, "h800"))
GPUS = sum(p.gpus for p in FLEET)


@pytest.fixture
def params(tmp_path: Path) -> Path:
    sizes = {"1": 0.5, "8": 0.3, "32": 0.15, "64": 0.04, "4096": 0.01}
    times = {"1": 0.05, "8": 0.25, "32": 0.4, "64": 0.2, "4096": 0.1}
    found = {
        "size_pmf": dict.fromkeys(TENANTS, sizes),
        "gputime_share_by_size": dict.fromkeys(TENANTS, times),
        "duration_lognormal": {tenant: {"mu": 5.0, "sigma": 1.0} for tenant in TENANTS},
        "arrival": {"gpu_jobs_per_10min": {"index_of_dispersion": 5.0}},
    }
    file = tmp_path / "gangs.json"
    file.write_text(json.dumps(found), encoding="utf-8")
    return file


def stream(params: Path, seed: int = 3, load: float = 0.95) -> Stream:
    fits = hierarchy.fits_some_pool(FLEET)
    return make_stream(params, seed, gpus=load * GPUS, horizon_s=HORIZON_S, fits=fits)


def test_a_seed_gives_the_same_stream_again_and_another_seed_another(params: Path) -> None:
    assert stream(params) == stream(params)
    assert stream(params) != stream(params, seed=4)


def test_the_stream_offers_the_load_that_was_asked_for_and_leaves_out_what_never_fits(params: Path) -> None:
    found = stream(params)
    assert found.offered_gpus(HORIZON_S) == pytest.approx(0.95 * GPUS, rel=0.15)
    assert found.left_out > 0
    assert max(g.gpus for g in found.gangs) == 64


@pytest.mark.parametrize("side", [lambda: Federation(FLEET, Limits(), 1), lambda: OneTree(FLEET)])
def test_a_side_never_holds_more_than_there_is_and_starts_all_once_there_is_room(
    params: Path, side: Callable[[], Side]
) -> None:
    gangs = stream(params, load=1.3).gangs
    course = run_side(side(), gangs, 6 * HORIZON_S)
    assert 0.5 * GPUS < max(held for _, held in course.allocated) <= GPUS
    assert course.allocated[-1][1] == 0
    assert len(course.started_s) == len(gangs)


def test_a_run_gives_the_same_course_again(params: Path) -> None:
    gangs = stream(params).gangs
    first, second = (run_side(Federation(FLEET, Limits(), 1), gangs, HORIZON_S) for _ in range(2))
    assert first == second


def test_the_one_tree_keeps_a_gang_inside_one_pool() -> None:
    def ask(hosts: int) -> Placement | NoFit:
        flavor = FlavorName("h100")
        one = SetRequest(hosts, hosts, Resources({NVIDIA_GPU: 8}), (flavor,), Selector(), (), Topology())
        return place(tree_inventory(FLEET), in_one_pool(GangRequest((one,))), (flavor,))

    found = ask(32)
    assert isinstance(found, Placement)
    assert {use.level: use.count for use in found.part.domains}[POOL_LEVEL.alias] == 1
    assert isinstance(ask(33), NoFit)


def test_what_waits_at_the_end_has_waited_until_then_and_used_nothing(params: Path) -> None:
    gangs = stream(params).gangs
    nothing = run_side(Federation((FLEET[2],), Limits(), 1), gangs, HORIZON_S)
    left = [g for g in gangs if g.job not in nothing.started_s and g.gpus >= 64]
    assert left
    assert max(waits_s(nothing, gangs, 0.0, HORIZON_S, 64)) == HORIZON_S - left[0].arrival_s
    assert gpu_seconds(nothing, left, 0.0, HORIZON_S) == 0.0


def test_without_data_nothing_is_measured_and_the_reason_is_told(tmp_path: Path) -> None:
    result = hierarchy.run({"DATA": str(tmp_path)})
    assert set(result.figures.values()) == {None}
    assert isinstance(result.raw, dict)
    assert "DATA=DIR" in str(result.raw["reason"])
