"""Questions about nodes, and their answers ⇄ model."""

from dataclasses import asdict, fields
from typing import Final, assert_never

from hanse.link.v1 import link_pb2 as pb
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
    RackUse,
    Taken,
    UnknownQuestion,
)
from hanse.model.fence import GangKey
from hanse.model.ids import FlavorName, NodeName
from hanse.model.placement import NodePlace
from hanse.wire.parts import key_from_wire, key_to_wire

RACK_FIGURES: Final = tuple(field.name for field in fields(RackUse) if field.name != "path")


def request_to_wire(request: DetailRequest) -> pb.DetailRequest:
    match request.question:
        case NodesQuestion(gang):
            return pb.DetailRequest(id=request.id, nodes=key_to_wire(gang))
        case ExplainQuestion(spec, flavors):
            return pb.DetailRequest(id=request.id, explain=pb.ExplainQuestion(spec=spec, flavors=flavors))
        case ChoiceQuestion(gang):
            return pb.DetailRequest(id=request.id, choice=key_to_wire(gang))
        case RacksQuestion():
            return pb.DetailRequest(id=request.id, racks=pb.RacksQuestion())
        case LogQuestion() as q:
            logs = pb.LogQuestion(
                gang=key_to_wire(q.gang),
                pod_set=q.pod_set,
                rank=q.rank,
                follow=q.follow,
                tail_lines=q.tail_lines,
                window=q.window,
            )
            return pb.DetailRequest(id=request.id, logs=logs)
        case ExecQuestion() as q:
            run = pb.ExecQuestion(
                gang=key_to_wire(q.gang),
                pod_set=q.pod_set,
                rank=q.rank,
                command=q.command,
                stdin=q.stdin,
                tty=q.tty,
                window=q.window,
            )
            return pb.DetailRequest(id=request.id, exec=run)
        case ExecInput(data, end, rows, columns):
            told = pb.ExecInput(data=data, end=end, rows=rows, columns=columns)
            return pb.DetailRequest(id=request.id, input=told)
        case Taken(replies):
            return pb.DetailRequest(id=request.id, taken=pb.Taken(replies=replies))
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
        case "racks":
            return DetailRequest(request.id, RacksQuestion())
        case "logs":
            gang = key_from_wire(request.logs.gang, "detail_request.logs.gang")
            return DetailRequest(request.id, _log_question(request.logs, gang))
        case "exec":
            gang = key_from_wire(request.exec.gang, "detail_request.exec.gang")
            return DetailRequest(request.id, _exec_question(request.exec, gang))
        case "input":
            told = request.input
            return DetailRequest(request.id, ExecInput(told.data, told.end, told.rows, told.columns))
        case "taken":
            return DetailRequest(request.id, Taken(request.taken.replies))
        case "cancel":
            return DetailRequest(request.id, Cancel())
        case _:
            return DetailRequest(request.id, UnknownQuestion())


def _log_question(q: pb.LogQuestion, gang: GangKey) -> LogQuestion:
    return LogQuestion(gang, q.pod_set, q.rank, q.follow, q.tail_lines, max(0, q.window))


def _exec_question(q: pb.ExecQuestion, gang: GangKey) -> ExecQuestion:
    return ExecQuestion(gang, q.pod_set, q.rank, tuple(q.command), q.stdin, q.tty, max(0, q.window))


def reply_to_wire(reply: DetailReply) -> pb.DetailReply:
    return pb.DetailReply(
        id=reply.id,
        end=reply.end,
        error=reply.error,
        nodes=[pb.NodePlace(name=n.name, pod_set=n.pod_set, ranks=n.ranks, path=n.path) for n in reply.nodes],
        lines=reply.lines,
        stdout=reply.stdout,
        stderr=reply.stderr,
        exit_code=reply.exit_code,
        inputs_taken=reply.inputs_taken,
        counted=reply.counted,
        racks=[pb.RackUse(**asdict(one)) for one in reply.racks],
    )


def reply_from_wire(reply: pb.DetailReply) -> DetailReply:
    return DetailReply(
        id=reply.id,
        end=reply.end,
        error=reply.error,
        nodes=tuple(NodePlace(NodeName(n.name), n.pod_set, tuple(n.ranks), tuple(n.path)) for n in reply.nodes),
        lines=tuple(reply.lines),
        stdout=reply.stdout,
        stderr=reply.stderr,
        exit_code=reply.exit_code if reply.HasField("exit_code") else None,
        inputs_taken=max(0, reply.inputs_taken),
        counted=reply.counted,
        racks=tuple(_rack(one) for one in reply.racks),
    )


def _rack(one: pb.RackUse) -> RackUse:
    return RackUse(tuple(one.path), **{name: max(0, getattr(one, name)) for name in RACK_FIGURES})
