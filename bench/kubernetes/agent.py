"""What an agent costs beside a cluster of thousands of nodes and pods that are not ours.

How long a fresh process takes to its first summary, what memory it has, and what it computes while the cluster goes
on: 50 events a second, of which about a third are nodes that tell that they live, and the rest pods whose status
changes, or that come and go.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.kubernetes.binding import NAMESPACE, POOL, Ring
from bench.kubernetes.plane import AT_ONCE, GPU, node_name
from bench.path.cpu import read_cpu
from bench.start.cold import memory_mb
from hanse.agent.cluster.kubernetes.spread import spread
from hanse.api.v1 import pool_pb2
from hanse.client import AsyncClient
from tests.services.process import ServerProcess

EVENTS_PER_S: Final = 50
HEARTBEATS: Final = 16
"""Of those events: 5,000 kubelets that tell their status every five minutes are as many."""

REPLACED: Final = 2
"""Pods in a second that go, and as many that come."""

SUMMARY_MAX_S: Final = 120.0
LOOK_EVERY_S: Final = 0.05
STRATEGIC: Final = "application/strategic-merge-patch+json"
FOLDER: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"


@dataclass(frozen=True, slots=True)
class FirstSummary:
    """One start: seconds to the first summary, of which the agent computed some; memory then, and at most before."""

    seconds: float
    cpu_s: float
    rss_mb: float
    peak_mb: float


@dataclass(frozen=True, slots=True)
class Idle:
    """A while of events; `events_per_s` is how many there really were."""

    cpu_pct: float
    events_per_s: float
    rss_mb: float
    peak_mb: float


async def add_pods(ring: Ring, pods: int, nodes: int) -> None:
    """Pods of somebody else, spread over the nodes."""

    async def one(number: int) -> None:
        await ring.api.post(FOLDER, _pod(number, nodes))

    await spread(range(pods), one, at_once=AT_ONCE)


def _pod(number: int, nodes: int, name: str = "") -> dict[str, Any]:
    asks = {"cpu": "1", "memory": "4Gi", GPU: "1"}
    container = {
        "name": "main",
        "image": "example.com/serve:1",
        "args": ["--port", "8080", "--model", f"/models/{number % 50}"],
        "env": [{"name": f"SETTING_{key}", "value": f"value-{key}"} for key in range(8)],
        "resources": {"requests": asks, "limits": asks},
    }
    labels = {"app": f"serve-{number % 200}", "tier": "inference"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name or f"serve-{number:05}", "labels": labels},
        "spec": {"nodeName": node_name(number % nodes), "containers": [container]},
    }


async def first_summary(ring: Ring, agent: ServerProcess, nodes: int) -> FirstSummary:
    """Start an agent; it runs on."""
    begun_s = time.monotonic()
    agent.start()
    async with AsyncClient(ring.address, token="") as client, asyncio.timeout(SUMMARY_MAX_S):
        while True:
            taken_s = time.monotonic() - begun_s
            age_s = _age_s(await client.pools(), nodes)
            if age_s is not None and age_s < taken_s:
                rss_mb, peak_mb = memory_mb(agent.pid)
                return FirstSummary(taken_s - age_s, agent.cpu_s(), rss_mb, peak_mb)
            await asyncio.sleep(LOOK_EVERY_S)


def _age_s(pools: Sequence[pool_pb2.Pool], nodes: int) -> float | None:
    """How old the newest summary of the pool is; None before there is one of this attachment, with so many nodes."""
    for pool in pools:
        if pool.name == POOL and pool.attached and pool.summary_age_ms >= 0 and pool.nodes == nodes:
            return pool.summary_age_ms / 1e3
    return None


async def idle(ring: Ring, agent: ServerProcess, pods: int, nodes: int, seconds: float) -> Idle:
    """Let the cluster go on for a while, and see what the agent makes of it."""
    seen = ring.watch.events
    before, begun_s = read_cpu({"agent": agent.pid}), time.monotonic()
    for second in range(int(seconds)):
        await _one_second(ring, second, pods, nodes)
        await asyncio.sleep(max(0.0, begun_s + second + 1 - time.monotonic()))
    took_s = time.monotonic() - begun_s
    spent = read_cpu({"agent": agent.pid}).since(before)
    rss_mb, peak_mb = memory_mb(agent.pid)
    events = ring.watch.events - seen + HEARTBEATS * int(seconds)
    return Idle(100 * spent.own_s["agent"] / took_s, events / took_s, rss_mb, peak_mb)


async def _one_second(ring: Ring, second: int, pods: int, nodes: int) -> None:
    """Events of a second, evenly."""
    acts = [("beat", second * HEARTBEATS + n) for n in range(HEARTBEATS)]
    changed = EVENTS_PER_S - HEARTBEATS - 2 * REPLACED
    acts += [("change", second * changed + n) for n in range(changed)]
    acts += [("replace", second * REPLACED + n) for n in range(REPLACED)]
    pause_s = 1 / len(acts) / 2
    for what, number in acts:
        await _act(ring, what, number, pods, nodes, second)
        await asyncio.sleep(pause_s)


async def _act(ring: Ring, what: str, number: int, pods: int, nodes: int, second: int) -> None:
    if what == "beat":
        ready: Mapping[str, Any] = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "lastHeartbeatTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        path = f"/api/v1/nodes/{node_name(number % nodes)}/status"
        await ring.api.patch(path, {"status": {"conditions": [ready]}}, form=STRATEGIC)
    elif what == "change":
        waits = number // pods % 2
        path = f"{FOLDER}/serve-{number % pods:05}/status"
        await ring.api.patch(path, {"status": {"phase": "Pending" if waits else "Running", "message": f"{second}"}})
    else:
        at = pods - 1 - number % (pods // 2)
        name = f"serve-{at:05}"
        await ring.api.delete(f"{FOLDER}/{name}", {"gracePeriodSeconds": 0})
        await ring.api.post(FOLDER, _pod(at, nodes, name))
