"""What the doctor finds wrong, one thing at a time; of an installation that is well, nothing."""

from dataclasses import replace

import pytest

from hanse.api.v1 import access_service_pb2, job_pb2, job_spec_pb2, pool_pb2, queue_pb2
from hanse.api.v1 import server_service_pb2 as pb
from hanse.cli.doctor.checks import findings
from hanse.cli.doctor.gathering import Gathered
from hanse.cli.paper import PLAIN_PAPER
from hanse.cli.show.doctor import doctor_page
from hanse.model.errors import PermissionDenied, Unavailable
from tests.arch.tree import ROOT

NOW = 1_796_000_000_000


def well() -> Gathered:
    """Two replicas, a pool, a queue, a job that waits; nothing is wrong."""
    members = [pb.Replica(id=f"r{n}", address=f"10.0.0.{n}:7311", schedules=True) for n in range(2)]
    info = pb.ServerInfo(version="1.0", federation="f", store="etcd", replica="r0", replicas=members, time_ms=NOW)
    facts = {"archive_failures": 0, "has_numba": 1, "has_otlp": 1, "store_used_ppm_e:2379": 100_000}
    replicas = [
        pb.ReplicaStatus(id=f"r{n}", answers=True, ready=True, roots=1, version="1.0", facts=facts) for n in range(2)
    ]
    roots = [pb.RootStatus(root=f"q{n}", replica=f"r{n}", alive=True) for n in range(2)]
    topology = job_spec_pb2.Topology(required_level="rack")
    spec = job_spec_pb2.JobSpec(pod_sets=[job_spec_pb2.PodSet(topology=topology)])
    return Gathered(
        "1.0",
        "hanse.example:7311",
        tls=True,
        asked_ms=NOW - 10,
        answered_ms=NOW + 10,
        info=info,
        status=pb.FederationStatus(server=info, replicas=replicas, roots=roots),
        who=access_service_pb2.WhoAmIResponse(principal="ann"),
        pools=[
            pool_pb2.Pool(
                name="oslo",
                health=pool_pb2.POOL_HEALTH_HEALTHY,
                attached=True,
                nodes=100,
                flavors=[pool_pb2.PoolFlavor(name="h100")],
                levels=[pool_pb2.PoolLevel(key="topology/rack", alias="rack")],
            )
        ],
        queues=[queue_pb2.Queue(name="research", quotas=[queue_pb2.FlavorQuota(flavor="h100")])],
        flavors=[],
        waiting=[job_pb2.Job(name="train", spec=spec)],
    )


def spoilt(what: str) -> Gathered:
    """The same with one thing wrong."""
    found = well()
    assert found.info is not None
    assert found.status is not None
    assert found.who is not None
    assert found.pools
    assert found.queues
    assert found.waiting
    one, pool = found.status.replicas[1], found.pools[0]
    match what:
        case "CONNECTION_IN_CLEAR":
            found.tls = False
        case "NO_ROLES":
            found.who.unbounded = True
        case "CLOCK_SKEW":
            found.info.time_ms += 60_000
        case "CLOCK_SKEW of a replica":
            one.clock_ahead_ms = -9_000
        case "VERSIONS_DIFFER":
            one.version = "0.9"
        case "NO_REPLICA":
            del found.status.replicas[:]
        case "REPLICA_SILENT":
            one.answers = False
        case "REPLICA_NOT_READY":
            one.ready = False
        case "OUTCOMES_UNKNOWN":
            one.unsettled = 3
        case "ROOT_UNHELD":
            found.status.roots[0].alive = False
        case "REPLICA_WITHOUT_ROOTS":
            one.roots = 0
        case "ARCHIVE_FAILS":
            one.facts["archive_failures"] = 4
        case "AGENT_TWICE":
            one.facts["agents_twice"] = 1
        case "USAGE_INCOMPLETE":
            one.facts["usage_uncounted"] = 30
        case "STORE_NEARLY_FULL":
            one.facts["store_used_ppm_e:2379"] = 910_000
        case "CERTIFICATE_EXPIRES":
            one.facts["certificate_left_s_own"] = 50
            one.facts["certificate_lifetime_s_own"] = 3_600
        case "PART_MISSING":
            one.facts["has_numba"] = 0
        case "NO_POOL":
            found.pools = []
        case "POOL_DETACHED":
            pool.health = pool_pb2.POOL_HEALTH_DETACHED
        case "POOL_STALE":
            pool.health = pool_pb2.POOL_HEALTH_STALE
        case "POOL_STARTING":
            pool.health = pool_pb2.POOL_HEALTH_STARTING
        case "POOL_CORDONED":
            pool.cordoned, pool.cordon_reason = True, "new switches"
        case "NODES_UNUSABLE":
            pool.unusable_nodes = 40
        case "BUS_SILENT":
            pool.summary_age_ms = 90_000
            found.pools = [pool, pool]
        case "QUOTA_WITHOUT_POOL":
            found.queues[0].quotas.add(flavor="b300")
        case "LEVEL_UNKNOWN":
            found.waiting[0].spec.pod_sets[0].topology.required_level = "nvlink"
        case "NOT_LOOKED_AT":
            found.refused["pools"], found.pools = (
                PermissionDenied("view needs role viewer", reason="ROLE_MISSING"),
                None,
            )
        case "SERVER_UNREACHABLE":
            gone = Unavailable("no Hanse server answers at hanse.example:7311", reason="SERVER_UNREACHABLE")
            return Gathered("1.0", "hanse.example:7311", tls=True, refused={"server": gone})
        case "SERVER_REFUSES":
            found.refused["server"] = PermissionDenied("who are you?", reason="UNAUTHENTICATED")
        case _:
            raise AssertionError(what)
    return found


NOTES = {
    "VERSIONS_DIFFER",
    "REPLICA_WITHOUT_ROOTS",
    "PART_MISSING",
    "POOL_STARTING",
    "POOL_CORDONED",
    "NOT_LOOKED_AT",
}
CODES = (
    *("CONNECTION_IN_CLEAR", "NO_ROLES", "CLOCK_SKEW", "CLOCK_SKEW of a replica", "VERSIONS_DIFFER", "NO_REPLICA"),
    *("REPLICA_SILENT", "REPLICA_NOT_READY", "OUTCOMES_UNKNOWN", "ROOT_UNHELD", "REPLICA_WITHOUT_ROOTS"),
    *("ARCHIVE_FAILS", "AGENT_TWICE", "USAGE_INCOMPLETE", "STORE_NEARLY_FULL", "CERTIFICATE_EXPIRES", "PART_MISSING"),
    *("NO_POOL", "POOL_DETACHED", "POOL_STALE", "POOL_STARTING", "POOL_CORDONED", "NODES_UNUSABLE", "BUS_SILENT"),
    *("QUOTA_WITHOUT_POOL", "LEVEL_UNKNOWN", "NOT_LOOKED_AT", "SERVER_UNREACHABLE", "SERVER_REFUSES"),
)


def test_of_an_installation_that_is_well_nothing_is_found() -> None:
    assert findings(well()) == []
    assert "nothing is wrong" in doctor_page(well(), [], PLAIN_PAPER)


@pytest.mark.parametrize("what", CODES)
def test_one_thing_is_found_and_nothing_else(what: str) -> None:
    (found,) = findings(spoilt(what))
    code = what.split(" ")[0]
    assert (found.code, found.wrong) == (code, code not in NOTES)
    assert found.do
    assert not found.page or (ROOT / "docs" / found.page).is_file()
    page = doctor_page(spoilt(what), [found], PLAIN_PAPER)
    assert code in page
    assert f"`{code}`" in (ROOT / "docs/reference/doctor.md").read_text(encoding="utf-8")


def test_on_the_loopback_nobody_needs_certificates_or_roles() -> None:
    found = replace(spoilt("NO_ROLES"), server="127.0.0.1:7311", tls=False)
    assert findings(found) == []


def test_an_older_server_that_tells_less_is_not_accused() -> None:
    found = well()
    assert found.status is not None
    for one in found.status.replicas:
        one.ClearField("facts")
        one.ClearField("version")
    assert findings(found) == []


def test_what_is_wrong_comes_first() -> None:
    found = spoilt("PART_MISSING")
    assert found.pools
    found.pools[0].health = pool_pb2.POOL_HEALTH_STALE
    assert [one.wrong for one in findings(found)] == [True, False]
