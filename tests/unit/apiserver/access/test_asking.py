"""Who am I, and may I: answered by the policy alone."""

import pytest

from hanse.api.v1 import access_service_pb2 as pb
from hanse.apiserver.access.policy import Binding, Policy
from hanse.apiserver.access.verbs import Role
from hanse.apiserver.access_service import AccessService
from hanse.apiserver.context import CallContext
from hanse.model.errors import InvalidArgument

POLICY = Policy(
    (
        Binding(Role.SUBMITTER, frozenset({"ann"}), frozenset(), ("vision",)),
        Binding(Role.VIEWER, frozenset(), frozenset({"staff"}), cluster=True),
        Binding(Role.OPERATOR, frozenset({"olaf"}), frozenset(), cluster=True),
    )
)


def calls(name: str, *groups: str, policy: Policy = POLICY) -> CallContext:
    return CallContext(principal=name, access=policy.access(name, groups, expires_s=7))


async def can(ctx: CallContext, verb: str, queue: str = "") -> str:
    """`yes`, `own`, or why not."""
    answer = await AccessService().check_access(ctx, pb.CheckAccessRequest(verb=verb, queue=queue))
    assert bool(answer.message) is not answer.allowed
    return "own" if answer.own_only else "yes" if answer.allowed else answer.message


async def test_whoever_asks_is_told_the_roles_and_where_they_hold() -> None:
    answer = await AccessService().who_am_i(calls("ann", "staff"), pb.WhoAmIRequest())
    assert (answer.principal, list(answer.groups), answer.unbounded, answer.expires_ms) == (
        "ann",
        ["staff"],
        False,
        7_000,
    )
    assert [(g.role, g.queue, g.cluster) for g in answer.grants] == [
        ("submitter", "vision", False),
        ("viewer", "*", True),
    ]


@pytest.mark.parametrize(
    ("verb", "queue", "expected"),
    [
        ("submit", "vision", "yes"),
        ("sbatch", "vision", "yes"),
        ("cancel", "vision", "own"),
        ("exec", "vision", "own"),
        ("logs", "vision", "yes"),
        ("hold-queue", "vision", 'hold-queue in queue "vision" needs role queue-admin; ann has submitter'),
        ("submit", "nlp", 'submit in queue "nlp" needs role submitter; ann has none there'),
        ("view", "", "view is allowed queue by queue; name one"),
        ("cordon", "", "operate needs role operator; ann has none there"),
        ("cordon", "vision", "operate needs role operator; ann has none there"),
        ("apply", "", "configure needs role admin; ann has none there"),
    ],
)
async def test_what_ann_may(verb: str, queue: str, expected: str) -> None:
    assert (await can(calls("ann"), verb, queue)).startswith(expected)


async def test_the_whole_federation() -> None:
    assert await can(calls("bob", "staff"), "status") == "yes"
    assert await can(calls("bob", "staff"), "view") == "yes"
    assert await can(calls("olaf"), "cancel") == "yes"
    assert await can(calls("olaf"), "audit") == "yes"
    assert await can(CallContext(), "apply") == "yes"


async def test_a_verb_that_nobody_knows() -> None:
    with pytest.raises(InvalidArgument, match='did you mean "submit"'):
        await can(calls("ann"), "submitt", "vision")
    with pytest.raises(InvalidArgument):
        await can(calls("ann"), "submit", "../vision")
