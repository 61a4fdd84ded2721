"""Every method that a server of the product could offer is in the table, and asks for something that a role gives."""

from itertools import pairwise

import pytest
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import reflection_pb2  # type: ignore[import-untyped]

from hanse.api.v1 import (
    access_service_pb2,
    audit_service_pb2,
    config_service_pb2,
    event_service_pb2,
    job_service_pb2,
    pool_service_pb2,
    queue_service_pb2,
    server_service_pb2,
    trust_service_pb2,
    usage_service_pb2,
)
from hanse.apiserver.access.policy import CLOSED, Policy
from hanse.apiserver.access.rights import unbounded
from hanse.apiserver.access.rules import RULES, Scope
from hanse.apiserver.access.verbs import QUEUE_VERBS, ROLES, Role, Verb, least_role
from hanse.link.v1 import join_pb2, link_pb2, peer_pb2
from hanse.model.errors import PermissionDenied
from hanse.sim.v1 import sim_pb2
from tests.arch.tree import ROOT

FILES = (
    access_service_pb2,
    audit_service_pb2,
    config_service_pb2,
    event_service_pb2,
    job_service_pb2,
    pool_service_pb2,
    queue_service_pb2,
    server_service_pb2,
    trust_service_pb2,
    usage_service_pb2,
    join_pb2,
    link_pb2,
    peer_pb2,
    sim_pb2,
    health_pb2,
    reflection_pb2,
)


def declared() -> set[str]:
    """Every method of every service, as `Service/Method`."""
    return {
        f"{service.full_name}/{method.name}"
        for file in FILES
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }


def test_every_method_has_a_rule_and_every_rule_a_method() -> None:
    assert declared() == set(RULES)


def test_no_proto_with_a_service_is_left_out() -> None:
    protos = [p for p in (ROOT / "proto" / "hanse").rglob("*.proto") if "\nservice " in p.read_text()]
    known = {file.DESCRIPTOR.name for file in FILES}
    ours = {str(p.relative_to(ROOT / "proto")) for p in protos if "etcd" not in p.parts}
    assert ours <= known


def test_only_probes_and_clusters_that_join_need_no_credentials() -> None:
    assert {name for name, rule in RULES.items() if rule.scope is Scope.ANYBODY} == {
        "grpc.health.v1.Health/Check",
        "grpc.health.v1.Health/Watch",
        "hanse.link.v1.JoinService/Join",
    }


@pytest.mark.parametrize(
    "name", sorted(n for n in RULES if n.startswith("hanse.api.") and not n.split("/")[1].startswith(("Get", "List")))
)
def test_what_is_no_reading_is_marked_as_writing(name: str) -> None:
    reads = {"WhoAmI", "CheckAccess", "WatchJobs", "WatchPools", "ExplainJob", "TailLogs", "TailEvents", "ReadUsage"}
    assert RULES[name].writes is (name.split("/")[1] not in reads)


def test_somebody_without_a_role_gets_nothing_but_who_they_are() -> None:
    nobody = CLOSED.access("eve")
    open_to_her = set()
    for name, rule in RULES.items():
        if rule.verb is None:
            rule.check(nobody)
            open_to_her.add(name.split("/")[1])
            continue
        with pytest.raises(PermissionDenied, match="eve has none there"):
            rule.check(nobody)
    assert open_to_her == {"Check", "Watch", "Join", "ServerReflectionInfo", "GetServerInfo"} | KNOWN_TO_ALL


KNOWN_TO_ALL = {"WhoAmI", "CheckAccess"}


def test_whoever_is_trusted_may_call_everything() -> None:
    for rule in RULES.values():
        rule.check(unbounded("ann"))
        rule.check(Policy(trusting=True).access("ann"))


@pytest.mark.parametrize("verb", list(Verb))
def test_every_verb_is_given_by_a_role(verb: Verb) -> None:
    assert verb in ROLES[least_role(verb)]


def test_roles_of_people_grow_and_those_of_parts_open_nothing_of_the_api() -> None:
    people = [Role.VIEWER, Role.SUBMITTER, Role.QUEUE_ADMIN, Role.OPERATOR, Role.ADMIN]
    for less, more in pairwise(people):
        assert ROLES[less] < ROLES[more]
    for part in (Role.AGENT, Role.REPLICA):
        assert ROLES[part].isdisjoint(ROLES[Role.ADMIN] | QUEUE_VERBS)
