"""The Jobs that `bench/peers` gives to everybody, what Hanse makes of them, and what it says without its programs."""

import pytest
import yaml

from bench.kubernetes.plane import JobShape
from bench.peers import NAMES, run
from bench.peers.contest import job_of
from bench.peers.kueue import PLAIN, RACKS
from e2e.federation import RACK
from hanse.manifests import convert
from hanse.model.resources import Resources


@pytest.mark.parametrize(("queue", "level"), [(RACKS, RACK), (PLAIN, "")])
def test_hanse_reads_the_job_that_kueue_gets(queue: str, level: str) -> None:
    (job,) = convert(yaml.safe_dump(job_of(JobShape("gang", 8), queue))).jobs
    (pod_set,) = job.spec.pod_sets
    assert (job.spec.name, job.spec.queue, pod_set.count) == ("gang", queue, 8)
    assert pod_set.resources == Resources({"cpu": 8_000, "memory": 64 << 30, "nvidia.com/gpu": 8})
    assert (pod_set.topology.required, pod_set.topology.preferred) == ("", level)


def test_without_its_programs_it_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.peers.missing", lambda programs: ["kueue"])
    result = run({})
    assert result.figures == dict.fromkeys(NAMES)
    assert isinstance(result.raw, dict)
    assert "not built: kueue; run `make e2e-tools`" in str(result.raw["reason"])
