"""An agent's rights: its role has exactly what it asks for, as a real API server has written it down.

Everything that an agent does is done once, under the very role that users are told to give. A request that was
refused fails the test, and so does a right that nothing asked for.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest_asyncio
import yaml

from e2e.agent_access import ROLE, account_token, kubeconfig
from e2e.control_plane import ControlPlane
from e2e.home import HASTY, KubernetesHome
from e2e.test_companions import config_map, service
from e2e.test_objects import PODS, manifest, pods_manifest
from e2e.test_objects import begin as job_begins
from e2e.test_objects import gang as job_gang
from e2e.test_ownership import call
from hanse.agent.cluster.kubernetes.api import Kubeconfig
from hanse.agent.cluster.kubernetes.cluster import KubernetesCluster
from hanse.agent.cluster.port import (
    ClusterPort,
    Done,
    GangKey,
    HoldGang,
    PodCommand,
    Rejected,
    StopPods,
    Wanted,
    WriteResult,
)
from hanse.model.beside import Need, NeedKind
from tests.contract.cluster_port.acts import (
    FEDERATION,
    FIRST,
    PATIENCE_S,
    SET,
    forgotten,
    key,
    node_names,
    record,
    start,
    until_counts,
)
from tests.contract.cluster_port.homes import FOR_LONG_S, SMALL_POD

QUEUE: Final = "rights"
JOBS_PATH: Final = f"/apis/batch/v1/namespaces/hanse-jobs-{QUEUE}/jobs"
QUOTAS_PATH: Final = f"/api/v1/namespaces/hanse-jobs-{QUEUE}/resourcequotas"
NEEDED_WITH: Final = {("apps", "statefulsets"): ("leaderworkerset.x-k8s.io", "leaderworkersets")}
"""Rights that only gangs of another kind need."""

DENIED: Final = frozenset({401, 403})
UPGRADE_CHECK: Final = ("", "pods/exec", "create")
"""Asked of the authorizer for a session, beside the request's own verb; the log has one verb for a request."""

WATCHED: Final = ("batch", "jobs", "watch")
LOOK_EVERY_S: Final = 0.1

Right = tuple[str, str, str]


@pytest_asyncio.fixture
async def ports(home: KubernetesHome, plane: ControlPlane, tmp_path: Path) -> AsyncIterator[list[KubernetesCluster]]:
    """Ports of the agent's account: one that pins, and one that binds."""
    token = await asyncio.to_thread(account_token, plane)
    access = Kubeconfig(kubeconfig(plane, tmp_path / "config", {"token": token}))
    found = [KubernetesCluster(access, "pool", replace(HASTY, direct=direct)) for direct in (False, True)]
    yield found
    for port in found:
        await port.close()


def granted() -> set[Right]:
    """What the role gives."""
    rules = yaml.safe_load(ROLE.read_text(encoding="utf-8"))["rules"]
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def usable(plane: ControlPlane, rights: set[Right]) -> set[Right]:
    """Those that are about what the server has; kinds whose controllers are not here are only looked for."""
    here = served(plane, {group for group, _, _ in rights})
    return {(g, r, verb) for g, r, verb in rights if NEEDED_WITH.get((g, r), (g, r)) in here}


def served(plane: ControlPlane, groups: set[str]) -> set[tuple[str, str]]:
    """The resources of these groups that the server has."""
    known = plane.call("GET", "/apis")["groups"]
    paths = {"": "/api/v1"} | {
        one["name"]: f"/apis/{version['groupVersion']}" for one in known for version in one["versions"]
    }
    return {
        (group, one["name"]) for group in groups & set(paths) for one in plane.call("GET", paths[group])["resources"]
    }


def asked(plane: ControlPlane, since: int) -> Iterator[tuple[Right, dict[str, Any]]]:
    """What the agent has asked for."""
    for line in plane.audit_log.read_text(encoding="utf-8").splitlines()[since:]:
        event = json.loads(line)
        about = event.get("objectRef")
        if about is not None:
            resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
            yield (about.get("apiGroup", ""), resource, event["verb"]), event


async def begin(
    home: KubernetesHome, port: ClusterPort, gang: GangKey, nodes: list[str], seconds: float
) -> WriteResult:
    """Start a gang that brings something."""
    order = start(gang, home.run(SET, seconds=seconds))
    order = replace(order, queue=QUEUE, companions=(config_map(lr="1"), service()))
    _, started = await port.write(FIRST, [HoldGang(record(gang, nodes, resources=SMALL_POD)), order])
    return started


async def pods(home: KubernetesHome, port: ClusterPort) -> None:
    """Native gangs."""
    nodes = await node_names(port)
    needs = tuple(Need(kind, "missing") for kind in NeedKind if kind is not NeedKind.UNSPECIFIED)
    assert len(await port.lacking(Wanted("", QUEUE, needs))) == len(needs)
    runs, ends, refused = key(1), key(2), key(3)
    assert await begin(home, port, runs, nodes[:2], FOR_LONG_S) == Done()
    assert await begin(home, port, ends, nodes[:2], 0) == Done()
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
    theirs = {
        "metadata": {"name": f"{refused.job}-1-0-{SET}"},
        "spec": {"suspend": True, "template": {"spec": pod}},
    }
    await call(home, "POST", JOBS_PATH, theirs)
    assert isinstance(await begin(home, port, refused, nodes[:2], 0), Rejected)
    await until_counts(port, runs, lambda c: c.running == 2)
    await until_counts(port, ends, lambda c: c.succeeded == 2)
    assert [line async for line in port.logs(ends, pod_set=SET, rank=0, follow=False, tail=1)]
    session = port.exec(PodCommand(runs, SET, 0, ("true",)), None)
    assert [out.exit_code async for out in session][-1] == 0
    assert len(await port.pods(runs)) == 2
    assert await port.write(FIRST, [StopPods(runs), StopPods(refused)]) == (Done(), Done())
    await until_counts(port, runs, lambda c: c.occupying == 0)
    for gang in (runs, ends, refused):
        await forgotten(port, gang)
    await port.list()


async def late(home: KubernetesHome, port: ClusterPort) -> None:
    """A gang whose pods its controller may not all make."""
    held = key(9)
    await call(home, "POST", QUOTAS_PATH, {"metadata": {"name": "cpus"}, "spec": {"hard": {"requests.cpu": "1"}}})
    assert await begin(home, port, held, (await node_names(port))[:2], FOR_LONG_S) == Done()
    told = await until_counts(port, held, lambda c: bool(c.failure))
    assert "exceeded quota" in told.failure
    assert await port.write(FIRST, [StopPods(held)]) == (Done(),)
    await until_counts(port, held, lambda c: c.occupying == 0)
    await forgotten(port, held)


async def objects(plane: ControlPlane, port: ClusterPort, number: int, text: str) -> None:
    """A gang that is an object of its owner's, whose controller makes the pods."""
    held = await job_gang(port, number, text.count("example.com/train:1") if '"Pod"' in text else PODS)
    await job_begins(port, held, text)
    await until_counts(port, held.key, lambda c: c.running == len(held.sets[0].nodes))
    async with asyncio.timeout(PATIENCE_S):
        while WATCHED not in {right for right, _ in asked(plane, 0)}:  # noqa: ASYNC110 - the API server's doing
            await asyncio.sleep(LOOK_EVERY_S)
    assert await port.write(FIRST, [StopPods(held.key)]) == (Done(),)
    await until_counts(port, held.key, lambda c: c.occupying == 0)
    await forgotten(port, held.key)
    await port.list()


async def test_the_role_has_what_an_agent_asks_for_and_nothing_else(
    home: KubernetesHome, plane: ControlPlane, ports: list[KubernetesCluster]
) -> None:
    since = len(plane.audit_log.read_text(encoding="utf-8").splitlines())
    pins, binds = ports
    await pins.claim(FEDERATION, FIRST, 100)
    await pods(home, pins)
    await objects(plane, pins, 4, manifest(name="rights-4", seconds=FOR_LONG_S))
    await objects(plane, pins, 5, pods_manifest(2))
    await late(home, pins)
    await pins.close()
    await binds.claim(FEDERATION, FIRST, 100)
    await objects(plane, binds, 6, manifest(name="rights-6", seconds=FOR_LONG_S))
    seen = list(asked(plane, since))
    codes = [(right, event.get("responseStatus", {}).get("code")) for right, event in seen]
    assert [right for right, code in codes if code in DENIED] == []
    used, given = {right for right, _ in seen}, granted()
    assert sorted(used - given) == [], "asked for, and not in the role"
    given = await asyncio.to_thread(usable, plane, given)
    assert sorted(given - used) == [UPGRADE_CHECK], "in the role, and never asked for"
