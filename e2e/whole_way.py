"""A user's job from its submission to its end, and what has to hold on the way.

A gang is in one cluster and whole, its slices are in racks, and each pod is on the node that `hanse job --nodes`
names for its set and rank, as an auditor beside the product has seen it.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from e2e import nodes
from e2e.federation import FLAVOR, QUEUE, RACK, Federation, until
from e2e.pod_log import Seen
from hanse.api.v1 import job_pb2
from hanse.model.resources import Resources
from tests.arch.tree import ROOT

HOSTS_PER_RACK: Final = 16
PATIENCE_S: Final = 420.0
MANIFESTS: Final = ROOT / "e2e" / "manifests" / "whole"
ZONE: Final = {"key": "topology.kubernetes.io/zone", "alias": "zone"}
HOST: Final = Resources({"nvidia.com/gpu": 8, "rdma/hca": 1, "cpu": 96_000, "memory": 1 << 40, "pods": 110})
QUOTA_GPUS: Final = 10_000
CONFIG: Final = FLAVOR + QUEUE % ("team", QUOTA_GPUS) + QUEUE % ("high-priority-training", QUOTA_GPUS)
ENDS: Final = (job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_FAILED, job_pb2.JOB_STATE_CANCELLED)
Places = Mapping[tuple[str, int], str]
Check = Callable[[Places], Any]


def hosts(racks: int) -> Iterator[nodes.Host]:
    """So many racks of machines with eight GPUs."""
    for rack in range(racks):
        for host in range(HOSTS_PER_RACK):
            name = f"gpu-{rack}-{host}"
            labels = {
                "topology.kubernetes.io/zone": "z1",
                RACK: f"r{rack}",
                "kubernetes.io/hostname": name,
                "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
                "feature.node.kubernetes.io/pci-10de.present": "true",
            }
            yield nodes.Host(name, labels, HOST)


async def check_runs(federation: Federation, job: str, count: int, check: Check) -> None:
    """The job runs, with so many pods, where it is said to."""
    running = await federation.until_state(job, job_pb2.JOB_STATE_RUNNING, *ENDS, patience_s=PATIENCE_S)
    assert running.status.state == job_pb2.JOB_STATE_RUNNING, f"{running.name}: {running.status}"
    named = await asyncio.to_thread(federation.named_places, job)
    assert len(named) == count, f"{running.name}: {sorted(named)}"
    check(named)

    async def is_seen() -> bool:
        return seen(federation, job) == named

    await until(is_seen, PATIENCE_S)


async def check_succeeds(federation: Federation, job: str) -> None:
    """It ends well, in its first attempt."""
    done = await federation.until_state(job, *ENDS, patience_s=PATIENCE_S)
    assert (done.status.state, done.status.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1), f"{done.name}: {done.status}"


def seen(federation: Federation, job: str) -> Places:
    """Where an auditor saw the pods of a job; they are all in one cluster."""
    (found,) = [log.of(job) for log in federation.logs.values() if log.of(job)] or [[]]
    return {(one.pod_set, one.rank): one.node for one in found}


def check_alone(federation: Federation, job: str) -> None:
    """While a job that wants its racks for itself was there, nobody else's pods were in them."""
    for log in federation.logs.values():
        own = log.of(job)
        racks = {_rack(one.node) for one in own}
        for other in log.pods.values():
            if other.job != job and _rack(other.node) in racks:
                assert not any(_overlap(one, other) for one in own if _rack(one.node) == _rack(other.node)), other


def _overlap(one: Seen, other: Seen) -> bool:
    assert one.ended_s is not None
    return one.bound_s < (other.ended_s or one.ended_s) and other.bound_s < one.ended_s


def _rack(node: str) -> str:
    return node.split("-")[1]


def slices(pod_set: str, size: int) -> Check:
    """Each so many consecutive ranks of a set in one rack."""

    def check(named: Places) -> None:
        racks = [_rack(node) for (found, _), node in sorted(named.items()) if found == pod_set]
        cut: Sequence[set[str]] = [set(racks[at : at + size]) for at in range(0, len(racks), size)]
        assert all(len(one) == 1 for one in cut), racks

    return check


def whole_hosts(named: Places) -> None:
    """A machine for each pod."""
    assert len(set(named.values())) == len(named), named


def anywhere(_: Places) -> None:
    """Nothing is asked of where its pods are."""
