"""The link's frames: what is sent is what arrives, and nonsense is refused with its place."""

import pytest

from hanse.link.v1 import link_pb2 as pb
from hanse.model.attach import Heartbeat, Hello, Refusal, Settings, Welcome
from hanse.model.desired import Binding, BoundSet, Desired, DesiredAction
from hanse.model.detail import (
    Cancel,
    ChoiceQuestion,
    DetailReply,
    DetailRequest,
    ExecInput,
    ExecQuestion,
    ExplainQuestion,
    LogQuestion,
    NodesQuestion,
    RacksQuestion,
    Taken,
    UnknownQuestion,
)
from hanse.model.errors import InvalidArgument
from hanse.model.fence import Epoch, GangKey
from hanse.model.ids import Attempt, FlavorName, JobId, NodeName, Part, PoolName, ReplicaId
from hanse.model.placement import Level, LevelUse, NodePlace
from hanse.model.queue import Flavor
from hanse.model.reasons import Reason
from hanse.model.report import Acknowledged, GangReport, GangStatus, Reports
from hanse.model.selectors import Operator, Requirement
from hanse.model.summary import PoolSummary
from hanse.wire.link import (
    DESIRED_BINDINGS_MAX,
    DESIRED_SPEC_BYTES_MAX,
    FromAgent,
    FromReplica,
    complete_set,
    from_agent,
    from_replica,
    to_agent,
    to_replica,
)
from hanse.wire.summary import (
    capacity_topic,
    pool_of_topic,
    presence_topic,
    summary_from_bytes,
    summary_to_bytes,
    summary_topic,
)

EPOCH = Epoch(3, 77)
KEY = GangKey(JobId("abcdefgh-0123456789abcdef"), Attempt(2), Part(1))
LEVELS = (Level("topology/rack", "rack"), Level("kubernetes.io/hostname", "host"))
SUMMARY = PoolSummary(
    pool=PoolName("p0"), epoch=EPOCH, sequence=4, observed_revision=70, published_ms=5, shape=b"s", empty_shape=b"e",
    nodes=9, usable_nodes=8, held_gangs=1, started_gangs=2, stopping_gangs=3, levels=LEVELS, gpus=64, free_gpus=8,
)  # fmt: skip
BINDING = Binding(
    key=KEY, create_revision=60, revision=65, action=DesiredAction.START,
    sets=(BoundSet("worker", 8, 16, FlavorName("h100")),), spec=b"spec", trace="00-ab", parts=2,
)  # fmt: skip
REPORT = GangReport(
    job=KEY.job, attempt=KEY.attempt, part=KEY.part, status=GangStatus.REFUSED, reason=Reason.SHAPE,
    infrastructure=True, message="m", constraint="rack", wanted=8, found=3,
    domains=(LevelUse("rack", 2, ("a", "b")),), held_ms=1, started_ms=2, running_ms=3,
)  # fmt: skip

FRAMES_OF_AGENTS: dict[str, FromAgent] = {
    "hello": Hello(
        version=1, pool=PoolName("p0"), instance="i", cluster_uid="u", federation="f", epoch=EPOCH,
        accepted_revision=76, region="r", labels={"a": "1", "b": "2"}, dialect="d", levels=LEVELS, cost=12,
    ),
    "reports": Reports(EPOCH, 9, (REPORT,)),
    "summary": SUMMARY,
    "summary without the empty shape": PoolSummary(PoolName("p0"), EPOCH, 5, 71, 6, b"s"),
    "exec reply": DetailReply(3, stdout=b"a", stderr=b"b", exit_code=0, inputs_taken=2, counted=True),
    "detail reply": DetailReply(
        3, end=True, error="e", nodes=(NodePlace(NodeName("n"), "w", (1, 2), ("r",)),), lines=("l",)
    ),
    "heartbeat": Heartbeat(5),
}  # fmt: skip
FRAMES_OF_REPLICAS: dict[str, FromReplica] = {
    "welcome": Welcome(EPOCH, "f", ReplicaId("r0")),
    "refusal": Refusal("ALREADY_ATTACHED", "another agent is attached", retry=True),
    "change": Desired(EPOCH, 80, bindings=(BINDING,), removed=(KEY,)),
    "complete and empty": Desired(EPOCH, 80, complete_begin=True, complete_end=True),
    "acknowledged": Acknowledged(9),
    "settings": Settings(
        (Flavor(FlavorName("h100"), 1, (Requirement("gpu", Operator.IN, ("h100",)),)),), revision=4
    ),
    "nodes?": DetailRequest(1, NodesQuestion(KEY)),
    "explain?": DetailRequest(2, ExplainQuestion(b"spec", (FlavorName("h100"),))),
    "a question of a newer version": DetailRequest(2, UnknownQuestion()),
    "why there?": DetailRequest(2, ChoiceQuestion(KEY)),
    "how is it used?": DetailRequest(2, RacksQuestion()),
    "logs?": DetailRequest(3, LogQuestion(KEY, "worker", 4, follow=True, tail_lines=10, window=32)),
    "exec?": DetailRequest(3, ExecQuestion(KEY, "worker", 4, ("ls", "-l"), stdin=True, tty=True, window=32)),
    "input": DetailRequest(3, ExecInput(b"abc", end=True, rows=24, columns=80)),
    "taken": DetailRequest(3, Taken(8)),
    "cancel": DetailRequest(3, Cancel()),
    "heartbeat": Heartbeat(5),
}  # fmt: skip


@pytest.mark.parametrize("value", FRAMES_OF_AGENTS.values(), ids=FRAMES_OF_AGENTS.keys())
def test_what_an_agent_says_arrives(value: FromAgent) -> None:
    assert from_agent(pb.AttachRequest.FromString(to_replica(value).SerializeToString())) == value


@pytest.mark.parametrize("value", FRAMES_OF_REPLICAS.values(), ids=FRAMES_OF_REPLICAS.keys())
def test_what_a_replica_says_arrives(value: FromReplica) -> None:
    assert from_replica(pb.AttachResponse.FromString(to_agent(value).SerializeToString())) == value


NONSENSE_OF_AGENTS = {
    "an empty frame": (pb.AttachRequest(), "body"),
    "a hello without a cluster": (pb.AttachRequest(hello=pb.Hello(pool="p", instance="i")), "hello.cluster_uid"),
    "a status not said": (
        pb.AttachRequest(reports=pb.Reports(reports=[pb.Report(job="abcdefgh-0000000000000001")])),
        "reports.reports[0].status",
    ),
    "an unknown status": (
        pb.AttachRequest(
            reports=pb.Reports(reports=[pb.Report(job="abcdefgh-0000000000000001", status=pb.Status.ValueType(99))])
        ),
        "reports.reports[0].status",
    ),
    "an unknown reason": (
        pb.AttachRequest(
            reports=pb.Reports(
                reports=[pb.Report(job="abcdefgh-0000000000000001", status=pb.STATUS_HELD, reason=999)]
            )
        ),
        "reports.reports[0].reason",
    ),
    "a report of nobody": (
        pb.AttachRequest(reports=pb.Reports(reports=[pb.Report(status=pb.STATUS_HELD)])),
        "reports.reports[0].job",
    ),
    "a summary of no pool": (pb.AttachRequest(summary=pb.Summary(sequence=1)), "summary.pool"),
}
NONSENSE_OF_REPLICAS = {
    "an empty frame": (pb.AttachResponse(), "body"),
    "an action not said": (
        pb.AttachResponse(desired=pb.Desired(bindings=[pb.Binding(job="j")])),
        "desired.bindings[0].action",
    ),
    "a binding of nobody": (
        pb.AttachResponse(desired=pb.Desired(bindings=[pb.Binding(action=pb.DESIRED_ACTION_STOP)])),
        "desired.bindings[0].job",
    ),
    "a removal of nothing": (
        pb.AttachResponse(desired=pb.Desired(removed=[pb.BindingKey()])),
        "desired.removed[0].job",
    ),
}


@pytest.mark.parametrize(("frame", "path"), NONSENSE_OF_AGENTS.values(), ids=NONSENSE_OF_AGENTS.keys())
def test_nonsense_of_an_agent_is_refused(frame: pb.AttachRequest, path: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        from_agent(frame)
    assert refused.value.path == path


@pytest.mark.parametrize(("frame", "path"), NONSENSE_OF_REPLICAS.values(), ids=NONSENSE_OF_REPLICAS.keys())
def test_nonsense_of_a_replica_is_refused(frame: pb.AttachResponse, path: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        from_replica(frame)
    assert refused.value.path == path


def bindings(count: int, spec: bytes = b"") -> list[Binding]:
    return [
        Binding(GangKey(KEY.job, Attempt(n), Part(0)), n, n, DesiredAction.START, spec=spec) for n in range(count)
    ]


def test_empty_complete_set_is_one_message_that_says_so() -> None:
    assert list(complete_set(EPOCH, 5, [])) == [Desired(EPOCH, 5, complete_begin=True, complete_end=True)]


@pytest.mark.parametrize(
    ("count", "spec", "messages"),
    [
        (1, b"", 1),
        (DESIRED_BINDINGS_MAX, b"", 1),
        (DESIRED_BINDINGS_MAX + 1, b"", 2),
        (3, b"x" * (DESIRED_SPEC_BYTES_MAX // 2), 2),
        (2, b"x" * (DESIRED_SPEC_BYTES_MAX + 1), 2),
    ],
)
def test_complete_set_is_cut_into_bounded_messages(count: int, spec: bytes, messages: int) -> None:
    wanted = bindings(count, spec)
    sent = list(complete_set(EPOCH, 5, wanted))
    assert len(sent) == messages
    assert [b for message in sent for b in message.bindings] == wanted
    assert [message.complete_begin for message in sent] == [True] + [False] * (messages - 1)
    assert [message.complete_end for message in sent] == [False] * (messages - 1) + [True]


def test_summary_on_the_bus_is_the_summary_on_the_link() -> None:
    assert summary_from_bytes(summary_to_bytes(SUMMARY)) == SUMMARY


def test_garbage_on_the_bus_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        summary_from_bytes(b"\xff\xff\xff")


def test_topics_name_their_pool() -> None:
    assert pool_of_topic(summary_topic("f", "p0")) == ("p0", "summary")
    assert pool_of_topic(capacity_topic("f", "p0")) == ("p0", "capacity")
    assert pool_of_topic(presence_topic("f", "p0")) == ("p0", "presence")
    assert pool_of_topic("hanse/v1/f/queues/p0/summary") is None
