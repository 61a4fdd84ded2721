"""hanse.link.v1 ⇄ model: what an agent and a replica say to each other.

`to_agent`/`from_replica` and `to_replica`/`from_agent` convert whole frames: both ends see only model values.
A frame parses fully or is refused: a field that this version cannot understand (an unknown status, an action that is
not said) is an error of the sender, never a guess. The parts for gangs are here; summaries and details, which travel
on other ways too, are in `wire.summary` and `wire.detail`.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar, assert_never

from hanse.link.v1 import link_pb2 as pb
from hanse.model.attach import Heartbeat, Hello, Refusal, Settings, Tidied, Welcome
from hanse.model.desired import Binding, BoundSet, Desired, DesiredAction
from hanse.model.detail import DetailReply, DetailRequest
from hanse.model.errors import InvalidArgument
from hanse.model.fence import Epoch, GangKey
from hanse.model.ids import Attempt, FlavorName, JobId, Part, PoolName, ReplicaId, is_job_id
from hanse.model.placement import LevelUse
from hanse.model.queue import Flavor
from hanse.model.reasons import Reason
from hanse.model.report import Acknowledged, GangReport, GangStatus, Reports
from hanse.model.selectors import Operator, Requirement
from hanse.model.summary import PoolSummary
from hanse.wire.detail import reply_from_wire, reply_to_wire, request_from_wire, request_to_wire
from hanse.wire.parts import (
    epoch_from_wire,
    epoch_to_wire,
    key_from_wire,
    key_to_wire,
    level_from_wire,
    level_to_wire,
)
from hanse.wire.summary import summary_from_wire, summary_to_wire

LINK_VERSION: Final = 1
"""Raised when an agent of the old version cannot work with a replica of the new one."""

DESIRED_BINDINGS_MAX: Final = 256
"""Bindings in one message."""

DESIRED_SPEC_BYTES_MAX: Final = 1_000_000
"""Specs in one message, in bytes; a single larger one still travels, alone."""

HELLO_BYTES_MAX: Final = 65_536
REPORT_BYTES_MAX: Final = 65_536
"""What an agent says of its pool and of a gang goes into the store, whose transactions have a limit."""

FromAgent = Hello | Reports | PoolSummary | DetailReply | Heartbeat | Tidied
FromReplica = Welcome | Refusal | Desired | Acknowledged | Settings | DetailRequest | Heartbeat

E = TypeVar("E", DesiredAction, GangStatus, Reason, Operator)


_STATUSES: Final = {int(status): status for status in GangStatus if status}
_REASONS: Final = {int(reason): reason for reason in Reason}


def _known(kind: type[E], number: int, path: str, *, said: bool = False) -> E:
    """The member of that number; with `said` the zero is refused too."""
    try:
        member = kind(number)
    except ValueError:
        raise InvalidArgument(f"{number} is no {kind.__name__} of link version {LINK_VERSION}", path=path) from None
    if said and member == 0:
        raise InvalidArgument(f"the {kind.__name__} is not said", path=path)
    return member


# ---- frames -------------------------------------------------------------------------------------------------


def to_replica(value: FromAgent) -> pb.AttachRequest:
    """An agent's frame."""
    match value:
        case Hello():
            return pb.AttachRequest(hello=_hello_to_wire(value))
        case Reports():
            return pb.AttachRequest(reports=reports_to_wire(value))
        case PoolSummary():
            return pb.AttachRequest(summary=summary_to_wire(value))
        case DetailReply():
            return pb.AttachRequest(detail_reply=reply_to_wire(value))
        case Heartbeat():
            return pb.AttachRequest(heartbeat=pb.Heartbeat(sequence=value.sequence))
        case Tidied():
            return pb.AttachRequest(tidied=pb.Tidied(epoch=epoch_to_wire(value.epoch)))
        case _:
            assert_never(value)


def from_agent(frame: pb.AttachRequest) -> FromAgent:
    """What an agent said.

    Raises:
        InvalidArgument: the frame is empty, or a field of it cannot be understood.
    """
    match frame.WhichOneof("body"):
        case "hello":
            return _hello_from_wire(frame.hello)
        case "reports":
            return reports_from_wire(frame.reports)
        case "summary":
            return summary_from_wire(frame.summary)
        case "detail_reply":
            return reply_from_wire(frame.detail_reply)
        case "heartbeat":
            return Heartbeat(frame.heartbeat.sequence)
        case "tidied":
            return Tidied(epoch_from_wire(frame.tidied.epoch))
        case _:
            raise InvalidArgument("the agent's frame has no body that this version knows", path="body")


def to_agent(value: FromReplica) -> pb.AttachResponse:
    """A replica's frame."""
    match value:
        case Welcome():
            return pb.AttachResponse(
                welcome=pb.Welcome(
                    epoch=epoch_to_wire(value.epoch), federation=value.federation, replica=value.replica
                )
            )
        case Refusal():
            refusal = pb.Refusal(reason=value.reason, message=value.message, retry=value.retry)
            return pb.AttachResponse(refusal=refusal)
        case Desired():
            return pb.AttachResponse(desired=desired_to_wire(value))
        case Acknowledged():
            return pb.AttachResponse(reports_acknowledged=pb.ReportsAcknowledged(sequence=value.sequence))
        case Settings():
            return pb.AttachResponse(settings=_settings_to_wire(value))
        case DetailRequest():
            return pb.AttachResponse(detail_request=request_to_wire(value))
        case Heartbeat():
            return pb.AttachResponse(heartbeat=pb.Heartbeat(sequence=value.sequence))
        case _:
            assert_never(value)


def from_replica(frame: pb.AttachResponse) -> FromReplica:
    """What a replica said.

    Raises:
        InvalidArgument: the frame is empty, or a field of it cannot be understood.
    """
    match frame.WhichOneof("body"):
        case "welcome":
            welcome = frame.welcome
            return Welcome(epoch_from_wire(welcome.epoch), welcome.federation, ReplicaId(welcome.replica))
        case "refusal":
            return Refusal(frame.refusal.reason, frame.refusal.message, frame.refusal.retry)
        case "desired":
            return desired_from_wire(frame.desired)
        case "reports_acknowledged":
            return Acknowledged(frame.reports_acknowledged.sequence)
        case "settings":
            return _settings_from_wire(frame.settings)
        case "detail_request":
            return request_from_wire(frame.detail_request)
        case "heartbeat":
            return Heartbeat(frame.heartbeat.sequence)
        case _:
            raise InvalidArgument("the replica's frame has no body that this version knows", path="body")


# ---- meeting ------------------------------------------------------------------------------------------------


def _hello_to_wire(hello: Hello) -> pb.Hello:
    return pb.Hello(
        version=hello.version,
        pool=hello.pool,
        instance=hello.instance,
        cluster_uid=hello.cluster_uid,
        federation=hello.federation,
        epoch=epoch_to_wire(hello.epoch),
        accepted_revision=hello.accepted_revision,
        region=hello.region,
        labels=dict(hello.labels),
        dialect=hello.dialect,
        levels=[level_to_wire(level) for level in hello.levels],
        cost=hello.cost,
    )


def _hello_from_wire(hello: pb.Hello) -> Hello:
    if hello.ByteSize() > HELLO_BYTES_MAX:
        what = f"a hello has {hello.ByteSize()} bytes; at most {HELLO_BYTES_MAX} are kept: give the pool fewer labels"
        raise InvalidArgument(what, path="hello")
    for path in ("pool", "instance", "cluster_uid"):
        if not getattr(hello, path):
            raise InvalidArgument("an agent says who it is: this field is empty", path=f"hello.{path}")
    return Hello(
        version=hello.version,
        pool=PoolName(hello.pool),
        instance=hello.instance,
        cluster_uid=hello.cluster_uid,
        federation=hello.federation,
        epoch=epoch_from_wire(hello.epoch),
        accepted_revision=hello.accepted_revision,
        region=hello.region,
        labels={key: hello.labels[key] for key in sorted(hello.labels)},
        dialect=hello.dialect,
        levels=tuple(level_from_wire(level) for level in hello.levels),
        cost=hello.cost,
    )


def _settings_to_wire(settings: Settings) -> pb.Settings:
    return pb.Settings(
        flavors=[
            pb.Flavor(
                name=flavor.name,
                order=flavor.order,
                requirements=[
                    pb.Requirement(key=r.key, operator=r.operator, values=r.values) for r in flavor.requirements
                ],
            )
            for flavor in settings.flavors
        ],
        revision=settings.revision,
    )


def _settings_from_wire(settings: pb.Settings) -> Settings:
    flavors = tuple(
        Flavor(
            FlavorName(flavor.name),
            flavor.order,
            tuple(
                Requirement(r.key, _known(Operator, r.operator, f"settings.flavors[{i}]", said=True), tuple(r.values))
                for r in flavor.requirements
            ),
        )
        for i, flavor in enumerate(settings.flavors)
    )
    return Settings(flavors, settings.revision)


# ---- desired ------------------------------------------------------------------------------------------------


def desired_to_wire(desired: Desired) -> pb.Desired:
    """One message of a desired set."""
    return pb.Desired(
        epoch=epoch_to_wire(desired.epoch),
        revision=desired.revision,
        complete_begin=desired.complete_begin,
        complete_end=desired.complete_end,
        bindings=[_binding_to_wire(binding) for binding in desired.bindings],
        removed=[key_to_wire(key) for key in desired.removed],
        recovering=desired.recovering,
    )


def desired_from_wire(desired: pb.Desired) -> Desired:
    """The inverse; InvalidArgument for a binding whose action is not known, or that is malformed."""
    return Desired(
        epoch=epoch_from_wire(desired.epoch),
        revision=desired.revision,
        complete_begin=desired.complete_begin,
        complete_end=desired.complete_end,
        bindings=tuple(_binding_from_wire(b, f"desired.bindings[{i}]") for i, b in enumerate(desired.bindings)),
        removed=tuple(key_from_wire(k, f"desired.removed[{i}]") for i, k in enumerate(desired.removed)),
        recovering=desired.recovering,
    )


def _binding_to_wire(binding: Binding) -> pb.Binding:
    key = binding.key
    return pb.Binding(
        job=key.job,
        attempt=key.attempt,
        part=key.part,
        create_revision=binding.create_revision,
        revision=binding.revision,
        action=pb.DesiredAction.ValueType(binding.action),
        sets=[
            pb.BoundSet(name=s.name, count=s.count, first_rank=s.first_rank, flavor=s.flavor) for s in binding.sets
        ],
        spec=binding.spec,
        trace=binding.trace,
        parts=binding.parts,
        order=binding.order,
    )


def _binding_from_wire(binding: pb.Binding, path: str) -> Binding:
    if not binding.job:
        raise InvalidArgument("a binding names its job", path=f"{path}.job")
    return Binding(
        key=GangKey(JobId(binding.job), Attempt(binding.attempt), Part(binding.part)),
        create_revision=binding.create_revision,
        revision=binding.revision,
        action=_known(DesiredAction, binding.action, f"{path}.action", said=True),
        sets=tuple(BoundSet(s.name, s.count, s.first_rank, FlavorName(s.flavor)) for s in binding.sets),
        spec=binding.spec,
        trace=binding.trace,
        parts=binding.parts,
        order=binding.order,
    )


def complete_set(epoch: Epoch, revision: int, bindings: Iterable[Binding]) -> Iterator[Desired]:
    """The messages of a complete set, each within the limits; at least one, also for the empty set."""
    begin = True
    batch: list[Binding] = []
    spec_bytes = 0
    for binding in bindings:
        size = len(binding.spec)
        if batch and (len(batch) >= DESIRED_BINDINGS_MAX or spec_bytes + size > DESIRED_SPEC_BYTES_MAX):
            yield Desired(epoch, revision, complete_begin=begin, bindings=tuple(batch))
            begin, batch, spec_bytes = False, [], 0
        batch.append(binding)
        spec_bytes += size
    yield Desired(epoch, revision, complete_begin=begin, complete_end=True, bindings=tuple(batch))


# ---- reports ------------------------------------------------------------------------------------------------


def reports_to_wire(reports: Reports) -> pb.Reports:
    """One batch of reports."""
    return pb.Reports(
        epoch=epoch_to_wire(reports.epoch),
        sequence=reports.sequence,
        reports=[_report_to_wire(report) for report in reports.reports],
    )


def reports_from_wire(reports: pb.Reports) -> Reports:
    """The inverse; InvalidArgument for a status or reason that is not known."""
    return Reports(
        epoch=epoch_from_wire(reports.epoch),
        sequence=reports.sequence,
        reports=tuple([_report_from_wire(r, i) for i, r in enumerate(reports.reports)]),
    )


def _report_to_wire(report: GangReport) -> pb.Report:
    return pb.Report(
        job=report.job,
        attempt=report.attempt,
        part=report.part,
        status=pb.Status.ValueType(report.status),
        reason=report.reason,
        infrastructure=report.infrastructure,
        message=report.message,
        constraint=report.constraint,
        wanted=report.wanted,
        found=report.found,
        domains=[pb.LevelUse(level=d.level, count=d.count, names=d.names) for d in report.domains],
        held_ms=report.held_ms,
        started_ms=report.started_ms,
        running_ms=report.running_ms,
    )


def _report_from_wire(report: pb.Report, index: int) -> GangReport:
    if not is_job_id(report.job) or report.attempt < 0 or report.part < 0:
        what = "a report names its job by an id, and an attempt and a part of it"
        raise InvalidArgument(what, path=f"reports.reports[{index}].job")
    if report.ByteSize() > REPORT_BYTES_MAX:
        what = f"a report has {report.ByteSize()} bytes; at most {REPORT_BYTES_MAX} are kept"
        raise InvalidArgument(what, path=f"reports.reports[{index}]")
    status, reason = _STATUSES.get(report.status), _REASONS.get(report.reason)
    if status is None or reason is None:
        path = f"reports.reports[{index}]"
        status = _known(GangStatus, report.status, f"{path}.status", said=True)
        reason = _known(Reason, report.reason, f"{path}.reason")
    return GangReport(
        job=JobId(report.job),
        attempt=Attempt(report.attempt),
        part=Part(report.part),
        status=status,
        reason=reason,
        infrastructure=report.infrastructure,
        message=report.message,
        constraint=report.constraint,
        wanted=report.wanted,
        found=report.found,
        domains=tuple([LevelUse(d.level, d.count, tuple(d.names)) for d in report.domains]),
        held_ms=report.held_ms,
        started_ms=report.started_ms,
        running_ms=report.running_ms,
    )
