"""Questions about nodes, and their answers ⇄ model."""

from typing import assert_never

from hanse.link.v1 import link_pb2 as pb
from hanse.model.detail import (
    Cancel,
    ChoiceQuestion,
    DetailReply,
    DetailRequest,
    ExplainQuestion,
    LogQuestion,
    NodesQuestion,
    UnknownQuestion,
)
from hanse.model.ids import FlavorName, NodeName
from hanse.model.placement import NodePlace
from hanse.wire.parts import key_from_wire, key_to_wire


def request_to_wire(request: DetailRequest) -> pb.DetailRequest:
    match request.question:
        case NodesQuestion(gang):
            return pb.DetailRequest(id=request.id, nodes=key_to_wire(gang))
        case ExplainQuestion(spec, flavors):
            return pb.DetailRequest(id=request.id, explain=pb.ExplainQuestion(spec=spec, flavors=flavors))
        case ChoiceQuestion(gang):
            return pb.DetailRequest(id=request.id, choice=key_to_wire(gang))
        case LogQuestion() as q:
            logs = pb.LogQuestion(
                gang=key_to_wire(q.gang), pod_set=q.pod_set, rank=q.rank, follow=q.follow, tail_lines=q.tail_lines
            )
            return pb.DetailRequest(id=request.id, logs=logs)
        case Cancel():
            return pb.DetailRequest(id=request.id, cancel=pb.Cancel())
        case UnknownQuestion():
            return pb.DetailRequest(id=request.id)
        case _:
            assert_never(request.question)


def request_from_wire(request: pb.DetailRequest) -> DetailRequest:
    """InvalidArgument if the question is damaged."""
    match request.WhichOneof("question"):
        case "nodes":
            return DetailRequest(request.id, NodesQuestion(key_from_wire(request.nodes, "detail_request.nodes")))
        case "explain":
            flavors = tuple(FlavorName(name) for name in request.explain.flavors)
            return DetailRequest(request.id, ExplainQuestion(request.explain.spec, flavors))
        case "choice":
            return DetailRequest(request.id, ChoiceQuestion(key_from_wire(request.choice, "detail_request.choice")))
        case "logs":
            q = request.logs
            gang = key_from_wire(q.gang, "detail_request.logs.gang")
            return DetailRequest(request.id, LogQuestion(gang, q.pod_set, q.rank, q.follow, q.tail_lines))
        case "cancel":
            return DetailRequest(request.id, Cancel())
        case _:
            return DetailRequest(request.id, UnknownQuestion())


def reply_to_wire(reply: DetailReply) -> pb.DetailReply:
    return pb.DetailReply(
        id=reply.id,
        end=reply.end,
        error=reply.error,
        nodes=[pb.NodePlace(name=n.name, pod_set=n.pod_set, ranks=n.ranks, path=n.path) for n in reply.nodes],
        lines=reply.lines,
    )


def reply_from_wire(reply: pb.DetailReply) -> DetailReply:
    return DetailReply(
        id=reply.id,
        end=reply.end,
        error=reply.error,
        nodes=tuple(NodePlace(NodeName(n.name), n.pod_set, tuple(n.ranks), tuple(n.path)) for n in reply.nodes),
        lines=tuple(reply.lines),
    )
