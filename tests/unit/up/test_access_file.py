"""The access policy as a file: what it says, and where it is wrong."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.apiserver.access.policy import Binding, Policy
from hanse.apiserver.access.terms import QueueTerms
from hanse.apiserver.access.verbs import Role, Verb
from hanse.kit.clock import SystemClock
from hanse.model.errors import FailedPrecondition, InvalidArgument
from hanse.up.access_file import parse_policy, read_policy
from hanse.up.global_access import opened_callers
from tests.arch.tree import ROOT

WHOLE = """
bindings:
  - role: admin
    users: [ana]
    cluster: true
  - role: submitter
    groups: ["oidc:vision"]
    queues: [vision, "vision-*"]
  - role: agent
    users: [oslo-agent]
queues:
  vision:
    namespaces: [vision]
    service_accounts: [trainer]
    priority_classes: [normal]
  "*": {}
"""


def test_a_whole_file() -> None:
    assert parse_policy(WHOLE) == Policy(
        (
            Binding(Role.ADMIN, frozenset({"ana"}), frozenset(), cluster=True),
            Binding(Role.SUBMITTER, frozenset(), frozenset({"oidc:vision"}), ("vision", "vision-*")),
            Binding(Role.AGENT, frozenset({"oslo-agent"}), frozenset(), cluster=True),
        ),
        {"vision": QueueTerms(("vision",), ("trainer",), ("normal",)), "*": QueueTerms()},
    )


def test_the_page_has_a_policy_that_is_one() -> None:
    page = (ROOT / "docs/reference/access.md").read_text(encoding="utf-8")
    example = page.split("```yaml\n")[1].split("```")[0]
    policy = parse_policy(example)
    assert policy.access("ana").may(Verb.CONFIGURE)
    assert policy.access("bob", ("vision",)).may(Verb.SUBMIT, "vision-eu")
    assert policy.access("oslo-agent").may(Verb.ATTACH)
    assert not policy.access("oslo-agent").somewhere(Verb.VIEW)


@pytest.mark.parametrize(
    ("text", "path", "line", "said"),
    [
        ("[]", "", 1, "a mapping with bindings"),
        ("queues: {}", "bindings", 0, "is missing"),
        ("bindings:\n- role: adminn\n  users: [a]\n  cluster: true", "bindings[0].role", 2, 'no role "adminn"'),
        ("bindings:\n- role: viewer\n  users: [a]", "bindings[0]", 2, "either queues, or cluster: true"),
        (
            "bindings:\n- role: viewer\n  users: [a]\n  queues: [x]\n  cluster: true",
            "bindings[0]",
            2,
            "either queues",
        ),
        ("bindings:\n- role: viewer\n  queues: [x]", "bindings[0]", 2, "names nobody"),
        ('bindings:\n- role: viewer\n  users: ["*"]\n  queues: [x]', "bindings[0].users[0]", 3, "one by one"),
        ('bindings:\n- role: viewer\n  users: [""]\n  queues: [x]', "bindings[0].users[0]", 3, "printable"),
        ('bindings:\n- role: viewer\n  users: [a]\n  queues: ["a*b"]', "bindings[0].queues[0]", 4, "neither a name"),
        ('bindings:\n- role: viewer\n  users: [a]\n  queues: ["../x"]', "bindings[0].queues[0]", 4, "neither a name"),
        ("bindings:\n- role: agent\n  users: [a]\n  cluster: true", "bindings[0]", 2, "neither queues nor cluster"),
        ("bindings:\n- role: viewer\n  user: [a]\n  queues: [x]", "bindings[0].user", 3, 'did you mean "users"'),
        ("bindings:\n- role: viewer\n  users: a\n  queues: [x]", "bindings[0].users", 3, "must be a list"),
        ("bindings: []\nqueues:\n  x:\n    namespaces: ['A B']", "queues.x.namespaces[0]", 4, "neither a name"),
        ("bindings: []\nbindings: []", "", 2, ""),
        ("bindings: &a [*a]", "", 1, ""),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, path: str, line: int, said: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse_policy(text)
    assert said in refused.value.message
    assert (refused.value.path, refused.value.line) == (path, line)


def test_a_file_that_is_wrong_says_file_line_and_field(tmp_path: Path) -> None:
    file = tmp_path / "access.yaml"
    file.write_text("bindings:\n- role: king\n  users: [a]\n  cluster: true\n")
    with pytest.raises(InvalidArgument) as refused:
        read_policy(file)
    assert refused.value.path == f"{file}:2: bindings[0].role"
    with pytest.raises(InvalidArgument, match="cannot be read"):
        read_policy(tmp_path / "none")


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=12) | st.sampled_from(["admin", "*", "vision"])
KEYS = st.sampled_from(["bindings", "queues", "role", "users", "groups", "cluster", "namespaces", "vision", "*"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


@settings(max_examples=500, deadline=None)
@given(st.one_of(st.text(max_size=200), st.binary(max_size=200), VALUES.map(repr)))
def test_no_text_is_anything_but_a_policy_or_a_refusal(text: str | bytes) -> None:
    try:
        policy = parse_policy(text)
    except InvalidArgument:
        return
    assert not policy.trusting
    for one in policy.bindings:
        assert one.users | one.groups
        assert one.cluster or one.queues


# ---- put together ---------------------------------------------------------------------------------------------


def opened(tmp_path: Path, listen: str, *, tokens: bool = True, access: bool = False, certificates: bool = False):  # type: ignore[no-untyped-def]
    (tmp_path / "tokens").write_text("ana 0123456789abcdef\n")
    (tmp_path / "access.yaml").write_text(WHOLE)
    return opened_callers(
        listen=listen,
        tokens_file=tmp_path / "tokens" if tokens else None,
        access_file=tmp_path / "access.yaml" if access else None,
        certificates=certificates,
        encrypted=False,
        issuer=None,
        clock=SystemClock(),
    )


async def test_a_policy_that_becomes_wrong_is_told_and_the_old_one_counts(tmp_path: Path) -> None:
    callers = opened(tmp_path, "127.0.0.1:0", access=True)
    assert callers.files_unusable() == 0
    for file in callers.files:
        file._looked_s = float("-inf")  # a second later
    (tmp_path / "access.yaml").write_text("bindings: nobody")
    assert callers.files_unusable() == 1
    assert (await callers.caller(["Bearer 0123456789abcdef"])).may(Verb.CONFIGURE)


async def test_beyond_the_loopback_everything_is_denied_that_no_policy_allows(tmp_path: Path) -> None:
    sent = ["Bearer 0123456789abcdef"]
    assert (await opened(tmp_path, "127.0.0.1:0").caller(sent)).may(Verb.CONFIGURE)
    assert not (await opened(tmp_path, "0.0.0.0:0").caller(sent)).somewhere(Verb.VIEW)
    assert (await opened(tmp_path, "0.0.0.0:0", access=True).caller(sent)).may(Verb.CONFIGURE)
    assert opened(tmp_path, "127.0.0.1:0", tokens=False).open
    with pytest.raises(FailedPrecondition):
        opened(tmp_path, "0.0.0.0:0", tokens=False)
    with pytest.raises(InvalidArgument, match="nothing says who calls"):
        opened(tmp_path, "127.0.0.1:0", tokens=False, access=True)
