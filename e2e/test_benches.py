"""The benches that need real control planes, at a small size: everything in them works, and every figure is there."""

from bench import kubernetes, peers


def test_a_gang_is_bound_in_every_way_and_an_agent_is_measured() -> None:
    result = kubernetes.run({"NODES": "40", "PODS": "40", "GANG": "8", "RUNS": "1", "SECONDS": "3"})
    assert None not in result.figures.values(), result.raw
    assert isinstance(result.raw, dict)
    assert set(result.raw["bind_s"]) == {"direct", "pin", "scheduler", "scheduler_stock"}


def test_the_same_jobs_go_through_every_system_and_outlive_its_manager() -> None:
    result = peers.run({"NODES": "32", "GANG": "16", "BURST": "3", "RUNS": "1"})
    assert None not in result.figures.values(), result.raw
    assert isinstance(result.raw, dict)
    dead = result.raw["manager_dead"]
    assert isinstance(dead, dict)
    outages = [dead["hanse_one_replica"], *dead["multikueue"].values()]
    assert [one["still_running"] for one in outages] == [16, 16, 16]
