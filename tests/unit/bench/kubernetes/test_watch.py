"""What `bench/kubernetes` writes down of pods, what it makes of that, and what it refuses."""

import asyncio

import msgspec
import pytest

from bench.contract import BenchArgumentError
from bench.kubernetes import run
from bench.kubernetes.plane import JobShape
from bench.kubernetes.watching import JOB, PodWatch


def pod(name: str, node: str = "", job: str = "gang") -> msgspec.Raw:
    labels = {JOB: job} if job else {}
    return msgspec.Raw(
        msgspec.json.encode(
            {"metadata": {"name": name, "namespace": "bench", "labels": labels}, "spec": {"nodeName": node}}
        )
    )


def test_a_pod_is_bound_when_it_is_first_seen_on_a_node() -> None:
    watch = PodWatch()
    watch.take(pod("a"))
    marks = watch.of("gang")
    assert (list(marks.made_s), list(marks.bound_s), marks.namespace) == (["a"], [], "bench")
    watch.take(pod("a", "node-1"))
    first_s = marks.bound_s["a"]
    watch.take(pod("a", "node-1"))
    assert marks.bound_s == {"a": first_s}
    assert first_s >= marks.last_made_s


def test_pods_of_no_job_are_events_and_nothing_else() -> None:
    watch = PodWatch()
    watch.take(pod("serving", "node-1", job=""))
    assert (watch.events, watch.jobs) == (1, {})


async def test_a_job_is_waited_for_until_its_last_pod() -> None:
    watch = PodWatch()
    waiting = asyncio.ensure_future(watch.until_bound("gang", 2, 5.0))
    for name in "ab":
        assert not waiting.done()
        watch.take(pod(name, "node-1"))
        watch.told()
        await asyncio.sleep(0)
    assert set((await waiting).bound_s) == {"a", "b"}


def test_the_job_that_the_scheduler_gets_differs_by_its_gate_alone() -> None:
    shape = JobShape("gang", 8)
    ours, theirs = shape.body(), shape.body(gate="wait")
    assert theirs["spec"]["template"]["spec"].pop("schedulingGates") == [{"name": "wait"}]
    assert ours == theirs


def test_a_way_that_there_is_not_is_refused() -> None:
    with pytest.raises(BenchArgumentError, match="WAYS=direct,magic"):
        run({"WAYS": "direct,magic"})


def test_without_its_programs_it_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.kubernetes.missing", lambda programs: ["kube-scheduler"])
    result = run({})
    assert set(result.figures.values()) == {None}
    assert isinstance(result.raw, dict)
    assert "kube-scheduler; run `make e2e-tools`" in str(result.raw["reason"])
