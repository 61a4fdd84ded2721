"""What is wrong with an installation, from what was gathered. Pure; each check stands alone and a part that is not
known is checked by nobody. Codes are promises to scripts: they are never used for something else.
"""

from collections.abc import Callable, Iterator
from typing import Final

from hanse.api.v1 import pool_pb2
from hanse.cli.amounts import counted, duration, first_few
from hanse.cli.doctor.finding import Finding, runbook
from hanse.cli.doctor.gathering import NOBODY, Gathered
from hanse.kit.addresses import is_loopback
from hanse.model import vitals

CLOCK_SKEW_MAX_MS: Final = 5_000
REPLICA_SKEW_MAX_MS: Final = 2_000
"""Replicas are asked within a second."""

STORE_USED_MAX: Final = 0.8
CERTIFICATE_LEFT_MIN: Final = 0.2
"""Of its lifetime: long before that it renews itself."""

SUMMARY_AGE_MAX_MS: Final = 30_000
UNUSABLE_MAX: Final = 0.1
NAMES_TOLD_MAX: Final = 5


def findings(found: Gathered) -> list[Finding]:
    """All of them, what is wrong first."""
    every = [one for check in CHECKS for one in check(found)]
    return sorted(every, key=lambda one: not one.wrong)


# ---- this machine and the way to the server ------------------------------------------------------------------


def _way(found: Gathered) -> Iterator[Finding]:
    host = found.server.rpartition(":")[0]
    error = found.refused.get("server")
    if error is not None and error.reason in NOBODY:
        do = "start a replica there, or name another with --server; a firewall or a wrong TLS setting look the same"
        yield Finding("SERVER_UNREACHABLE", error.message, do, runbook("HanseNoReplica"))
    elif error is not None:
        do = "`hanse whoami` says who the server takes you for; a token or a certificate is missing or over"
        yield Finding("SERVER_REFUSES", error.message, do, "reference/access.md")
    if is_loopback(host):
        return
    if not found.tls:
        what = f"the connection to {found.server} is in clear"
        yield Finding(
            "CONNECTION_IN_CLEAR", what, "serve with TLS, and set ca_file or HANSE_CA_FILE", "reference/tls.md"
        )
    if found.who is not None and found.who.unbounded:
        what = f"{found.server} asks nobody who they are: everybody may do everything"
        yield Finding("NO_ROLES", what, "give it an access_file, and users tokens", "reference/access.md")


def _rights(found: Gathered) -> Iterator[Finding]:
    names = [what for what, error in sorted(found.refused.items()) if what != "server"]
    if names:
        error = found.refused[names[0]]
        what = f"not looked at: {', '.join(names)} ({error.message})"
        yield Finding(
            "NOT_LOOKED_AT",
            what,
            "call it with role viewer of the whole federation",
            "reference/access.md",
            wrong=False,
        )


def _versions(found: Gathered) -> Iterator[Finding]:
    versions = {"this command": found.version}
    if found.info is not None and found.info.version:
        versions["the server"] = found.info.version
    for one in found.status.replicas if found.status is not None else ():
        if one.version:
            versions[f"replica {one.id}"] = one.version
    if len(set(versions.values())) > 1:
        told = ", ".join(f"{who} {version}" for who, version in sorted(versions.items()))
        do = "finish the upgrade; two versions side by side are meant to be passing"
        yield Finding("VERSIONS_DIFFER", told, do, "install.md", wrong=False)


def _clocks(found: Gathered) -> Iterator[Finding]:
    do = "let the machines keep time (chrony, systemd-timesyncd): certificates, tokens and usage rest on it"
    if found.info is not None and found.info.time_ms:
        ahead = max(found.info.time_ms - found.answered_ms, found.asked_ms - found.info.time_ms)
        if ahead > CLOCK_SKEW_MAX_MS:
            yield Finding("CLOCK_SKEW", f"the server's clock and this machine's are {duration(ahead)} apart", do)
    for one in found.status.replicas if found.status is not None else ():
        if abs(one.clock_ahead_ms) > REPLICA_SKEW_MAX_MS:
            apart = duration(abs(one.clock_ahead_ms))
            yield Finding("CLOCK_SKEW", f"the clock of replica {one.id} is {apart} from the others", do)


# ---- replicas ------------------------------------------------------------------------------------------------


def _replicas(found: Gathered) -> Iterator[Finding]:
    if found.status is None:
        return
    replicas = found.status.replicas
    if not replicas:
        yield Finding(
            "NO_REPLICA", "no replica is a member", "look whether they reach the store", runbook("HanseStoreAway")
        )
    for one in replicas:
        if not one.answers:
            do = "look at its process and its log; its address has to be one that the others reach"
            yield Finding(
                "REPLICA_SILENT", f"replica {one.id} at {one.address} does not answer", do, runbook("HanseNoReplica")
            )
        elif not one.ready:
            what = f"replica {one.id} is not ready: its lease or its view of the store is out of date"
            yield Finding(
                "REPLICA_NOT_READY", what, "look whether it reaches the store in time", runbook("HanseStoreAway")
            )
        if one.unsettled:
            what = f"replica {one.id} does not know the outcome of {counted(one.unsettled, 'transaction')}"
            yield Finding("OUTCOMES_UNKNOWN", what, "look at the store's health", runbook("HanseOutcomesUnknown"))
    nobody = [root.root for root in found.status.roots if not root.replica or not root.alive]
    if nobody:
        what = f"nobody admits for {first_few(nobody, NAMES_TOLD_MAX)}: their jobs wait"
        yield Finding(
            "ROOT_UNHELD",
            what,
            "wait a few seconds and ask again; then look at the replicas",
            runbook("HanseNothingHeld"),
        )
    scheduling = {one.id for one in found.status.server.replicas if one.schedules}
    idle = [one.id for one in replicas if one.answers and not one.roots and one.id in scheduling]
    if idle and len(found.status.roots) >= len(replicas):
        what = f"replicas without a root: {first_few(idle, NAMES_TOLD_MAX)}"
        yield Finding(
            "REPLICA_WITHOUT_ROOTS", what, "fine in the first minute; `hanse status` says who holds what", wrong=False
        )


def _processes(found: Gathered) -> Iterator[Finding]:
    for one in found.status.replicas if found.status is not None else ():
        facts, who = one.facts, f"replica {one.id}"
        if facts.get(vitals.ARCHIVE_FAILURES):
            times = counted(facts[vitals.ARCHIVE_FAILURES], "time")
            what = f"{who} could not archive ended jobs, {times} since its start"
            yield Finding(
                "ARCHIVE_FAILS", what, "make room at its archive_dir; nothing is lost", runbook("HanseArchiveFails")
            )
        if facts.get(vitals.AGENTS_TWICE):
            what = f"{who} refused {counted(facts[vitals.AGENTS_TWICE], 'attachment')}: a second agent of a pool"
            yield Finding(
                "AGENT_TWICE", what, "its log names the pool; end one of the two", runbook("HanseAgentTwice")
            )
        if facts.get(vitals.USAGE_UNCOUNTED):
            what = f"{counted(facts[vitals.USAGE_UNCOUNTED], 'job')} left the full store uncounted, by {who}"
            yield Finding("USAGE_INCOMPLETE", what, "the archive's files have what they used", "reference/usage.md")
        for key, value in sorted(facts.items()):
            if key.startswith(vitals.STORE_USED_PPM) and value > STORE_USED_MAX * 1_000_000:
                member = key.removeprefix(vitals.STORE_USED_PPM)
                what = f"{value / 10_000:.0f} % of what etcd's member {member} may have is used"
                yield Finding(
                    "STORE_NEARLY_FULL",
                    what,
                    "defragment it, or keep fewer ended jobs",
                    runbook("HanseStoreNearlyFull"),
                )
        yield from _certificates(who, dict(facts))
        for key, part, loses in _PARTS:
            if facts.get(key) == 0:
                what = f"{who} runs without {part}: {loses}"
                yield Finding("PART_MISSING", what, f"pip install 'hanse[{part}]'", "install.md", wrong=False)


_PARTS: Final = (
    (vitals.HAS_NUMBA, "native", "large gangs are placed by slower code, with the same answers"),
    (vitals.HAS_OTLP, "otlp", "it cannot send traces to a collector"),
)


def _certificates(who: str, facts: dict[str, int]) -> Iterator[Finding]:
    for whose in ("own", "authority"):
        left_s = facts.get(f"{vitals.CERTIFICATE_LEFT_S}{whose}")
        lifetime_s = facts.get(f"{vitals.CERTIFICATE_LIFETIME_S}{whose}", 0)
        if left_s is not None and left_s <= lifetime_s * CERTIFICATE_LEFT_MIN:
            name = "certificate" if whose == "own" else "authority's certificate"
            what = (
                f"the {name} of {who} ends in {duration(left_s * 1_000)}"
                if left_s > 0
                else f"the {name} of {who} is over"
            )
            yield Finding(
                "CERTIFICATE_EXPIRES", what, "let it renew, or bring a new one", runbook("HanseCertificateExpires")
            )


# ---- pools, queues, jobs -------------------------------------------------------------------------------------


def _pools(found: Gathered) -> Iterator[Finding]:
    if found.pools is None:
        return
    if not found.pools:
        yield Finding("NO_POOL", "no pool has joined", "start an agent in a cluster: `hanse agent`", "install.md")
    for one in found.pools:
        if one.health == pool_pb2.POOL_HEALTH_DETACHED:
            what = f"pool {one.name} is detached: {one.message or 'what runs there runs on, and gets no new work'}"
            yield Finding(
                "POOL_DETACHED", what, "look at its agent and the way to a replica", runbook("HanseAgentDetached")
            )
        elif one.health == pool_pb2.POOL_HEALTH_STALE:
            what = f"pool {one.name} is stale: its summary is {duration(one.summary_age_ms)} old"
            yield Finding("POOL_STALE", what, "look at the bus and its agent", runbook("HansePoolStale"))
        elif one.health == pool_pb2.POOL_HEALTH_STARTING:
            yield Finding(
                "POOL_STARTING",
                f"pool {one.name} has not told what it has",
                "wait; then look at its agent's log",
                runbook("HansePoolStale"),
                wrong=False,
            )
        if one.cordoned:
            reason = f": {one.cordon_reason}" if one.cordon_reason else ""
            yield Finding(
                "POOL_CORDONED",
                f"pool {one.name} is cordoned{reason}",
                f"hanse uncordon {one.name}, when it is done",
                wrong=False,
            )
        if one.nodes + one.unusable_nodes and one.unusable_nodes > UNUSABLE_MAX * (one.nodes + one.unusable_nodes):
            what = f"{counted(one.unusable_nodes, 'node')} of pool {one.name} cannot be used"
            yield Finding(
                "NODES_UNUSABLE", what, "`kubectl get nodes` says which are not ready", runbook("HanseNodesUnusable")
            )
    attached = [one for one in found.pools if one.attached]
    if len(attached) > 1 and all(one.summary_age_ms > SUMMARY_AGE_MAX_MS for one in attached):
        what = f"no summary of {counted(len(attached), 'attached pool')} came for {duration(SUMMARY_AGE_MAX_MS)}"
        yield Finding(
            "BUS_SILENT", what, "look at the broker: replicas and agents have to reach it", runbook("HansePoolStale")
        )


def _queues(found: Gathered) -> Iterator[Finding]:
    if found.queues is None or not found.pools:
        return
    there = {flavor.name for pool in found.pools for flavor in pool.flavors}
    for queue in found.queues:
        lacking = sorted({quota.flavor for quota in queue.quotas if quota.flavor and quota.flavor not in there})
        if lacking:
            what = (
                f"queue {queue.name} has quota of {first_few(lacking, NAMES_TOLD_MAX)}, and no pool has nodes of it"
            )
            do = "compare the flavor's requirements with the nodes' labels, or take the quota away"
            yield Finding("QUOTA_WITHOUT_POOL", what, do, "reference/capacity.md")


def _levels(found: Gathered) -> Iterator[Finding]:
    if not found.waiting or not found.pools:
        return
    known = {name for pool in found.pools for level in pool.levels for name in (level.key, level.alias)}
    asked: dict[str, list[str]] = {}
    for job in found.waiting:
        for pod_set in job.spec.pod_sets:
            wanted = {
                pod_set.topology.required_level,
                pod_set.topology.preferred_level,
                pod_set.topology.balanced_level,
            }
            for level in wanted - known - {"", "host"}:
                asked.setdefault(level, []).append(job.name)
    for level, jobs in sorted(asked.items()):
        what = f"level {level} is asked for by {first_few(sorted(set(jobs)), NAMES_TOLD_MAX)}, and no pool has it"
        yield Finding("LEVEL_UNKNOWN", what, "`hanse pool NAME` lists a pool's levels", "reference/placement.md")


CHECKS: Final[tuple[Callable[[Gathered], Iterator[Finding]], ...]] = (
    _way,
    _rights,
    _clocks,
    _replicas,
    _processes,
    _pools,
    _queues,
    _levels,
    _versions,
)
