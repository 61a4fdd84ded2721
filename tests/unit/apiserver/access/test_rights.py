"""What bindings add up to: queues and patterns, own jobs, the whole federation, and the sentence that refuses."""

import pytest

from hanse.apiserver.access.policy import CLOSED, TRUSTING, Binding, Policy
from hanse.apiserver.access.rights import Access
from hanse.apiserver.access.terms import LAX, STRICT, QueueTerms, matches
from hanse.apiserver.access.verbs import Role, Verb
from hanse.model.errors import PermissionDenied


def bound(role: Role, *queues: str, user: str = "ann", group: str = "", cluster: bool = False) -> Binding:
    return Binding(role, frozenset({user} - {""}), frozenset({group} - {""}), queues, cluster=cluster)


def ann(*bindings: Binding, groups: tuple[str, ...] = (), terms: dict[str, QueueTerms] | None = None) -> Access:
    return Policy(bindings, terms or {}).access("ann", groups)


def test_a_submitter_changes_their_own_jobs_in_their_own_queue() -> None:
    access = ann(bound(Role.SUBMITTER, "vision"))
    assert access.may(Verb.SUBMIT, "vision")
    assert access.may(Verb.CHANGE, "vision", owner="ann")
    assert not access.may(Verb.CHANGE, "vision", owner="bob")
    assert not access.may(Verb.CHANGE, "vision"), "a job without an owner is nobody's own"
    assert not access.may(Verb.CHANGE, "nlp", owner="ann")
    assert not access.may(Verb.SUBMIT, "nlp")


def test_a_viewers_own_jobs_are_not_theirs_to_change() -> None:
    assert not ann(bound(Role.VIEWER, "vision")).may(Verb.CHANGE, "vision", owner="ann")


def test_a_pattern_is_the_beginning_of_names() -> None:
    access = ann(bound(Role.VIEWER, "vision-*"))
    assert access.may(Verb.VIEW, "vision-eu")
    assert not access.may(Verb.VIEW, "vision")
    assert not access.may(Verb.VIEW, "research")
    assert not access.everywhere(Verb.VIEW)
    assert access.names(Verb.VIEW) is None


@pytest.mark.parametrize(("pattern", "name", "expected"), [("*", "x", True), ("a*", "a", True), ("a", "ab", False)])
def test_patterns(pattern: str, name: str, expected: bool) -> None:
    assert matches(pattern, name) is expected


def test_every_queue_is_not_the_whole_federation() -> None:
    access = ann(bound(Role.ADMIN, "*"))
    assert access.everywhere(Verb.CHANGE)
    assert not access.may(Verb.OPERATE)
    assert not access.may(Verb.CONFIGURE)
    assert not access.may(Verb.VIEW_FEDERATION)
    assert not access.may(Verb.AUDIT)
    assert ann(bound(Role.ADMIN, cluster=True)).may(Verb.CONFIGURE)


def test_groups_and_several_bindings_add_up() -> None:
    bindings = (bound(Role.VIEWER, "nlp", user="", group="staff"), bound(Role.SUBMITTER, "vision"))
    access = ann(*bindings, groups=("staff",))
    assert access.names(Verb.VIEW) == ("nlp", "vision")
    assert access.names(Verb.SUBMIT) == ("vision",)
    assert ann(*bindings).names(Verb.VIEW) == ("vision",)


def test_a_user_and_a_group_of_one_name_are_not_the_same() -> None:
    assert not Policy((bound(Role.ADMIN, user="", group="ann", cluster=True),)).access("ann").grants
    assert not Policy((bound(Role.ADMIN, user="staff", cluster=True),)).access("eve", ("staff",)).grants


def test_without_a_policy_all_or_nothing() -> None:
    assert TRUSTING.access("ann").may(Verb.CONFIGURE)
    assert TRUSTING.access("ann").terms_in("vision") == LAX
    assert not CLOSED.access("ann").somewhere(Verb.VIEW)


def test_the_refusal_names_the_role_that_is_missing_and_those_that_are_there() -> None:
    access = ann(bound(Role.VIEWER, "vision"))
    with pytest.raises(PermissionDenied) as refused:
        access.require(Verb.CHANGE, "vision", owner="bob")
    assert refused.value.reason == "ROLE_MISSING"
    assert refused.value.message == (
        'change in queue "vision" needs role queue-admin (submitter for your own jobs); ann has viewer'
        " (`hanse whoami` lists yours; whoever runs the federation gives others)"
    )


@pytest.mark.parametrize(
    ("queue", "expected"), [("vision", "exact"), ("vision-eu", "long"), ("vision-us", "short"), ("nlp", "all")]
)
def test_the_terms_of_the_longest_name_count(queue: str, expected: str) -> None:
    terms = {
        name: QueueTerms(namespaces=(word,))
        for name, word in {"*": "all", "vision*": "short", "vision-e*": "long", "vision": "exact"}.items()
    }
    assert ann(bound(Role.VIEWER, "*"), terms=terms).terms_in(queue).namespaces == (expected,)


def test_a_queue_of_which_nothing_is_said_gets_no_namespace() -> None:
    assert ann(bound(Role.ADMIN, cluster=True)).terms_in("vision") == STRICT


def test_flavors_are_seen_if_some_queue_may_have_them() -> None:
    terms = {"vision": QueueTerms(flavors=("h100",)), "nlp*": QueueTerms(flavors=("a100",))}
    access = ann(bound(Role.VIEWER, "vision"), terms=terms)
    assert access.sees_flavor("h100")
    assert not access.sees_flavor("a100")
    assert ann(bound(Role.VIEWER, "nlp-*"), terms=terms).sees_flavor("a100")
    assert ann(bound(Role.VIEWER, "n*"), terms=terms).sees_flavor("gb200"), "a queue nyx would have every flavor"
    assert ann(bound(Role.VIEWER, cluster=True), terms=terms).sees_flavor("gb200")
