"""Records of an audit log on the wire between replicas and to users."""

from dataclasses import fields
from typing import Any

from hanse.api.v1 import audit_service_pb2
from hanse.link.v1 import peer_pb2 as pb
from hanse.model.audit import AUDIT_RECORDS_MAX, AuditKind, AuditPage, AuditQuery, AuditRecord
from hanse.model.errors import InvalidArgument
from hanse.model.ids import QueueUid


def audit_query_to_wire(federation: str, query: AuditQuery) -> pb.FetchAuditRequest:
    return pb.FetchAuditRequest(
        federation=federation,
        since_ms=query.since_ms,
        before_ms=query.before_ms,
        who=query.who,
        job=query.job,
        queue=query.queue,
        verb=query.verb,
        records_max=query.limit,
        queues=[pb.AuditQueue(name=name, uid=uid) for name, uid in sorted((query.queues or {}).items())],
        only_queues=query.queues is not None,
    )


def audit_query_from_wire(request: pb.FetchAuditRequest) -> AuditQuery:
    """InvalidArgument if too many are asked for."""
    if not 1 <= request.records_max <= AUDIT_RECORDS_MAX:
        what = f"{request.records_max} records; ask for 1 to {AUDIT_RECORDS_MAX}"
        raise InvalidArgument(what, path="records_max")
    queues = {one.name: QueueUid(one.uid) for one in request.queues} if request.only_queues else None
    return AuditQuery(
        request.since_ms,
        request.before_ms,
        request.who,
        request.job,
        request.queue,
        request.verb,
        queues,
        request.records_max,
    )


def audit_page_to_wire(page: AuditPage) -> pb.FetchAuditResponse:
    return pb.FetchAuditResponse(
        notes=[pb.AuditNote(**_fields(record)) for record in page.records], through_ms=page.through_ms
    )


def audit_page_from_wire(response: pb.FetchAuditResponse) -> AuditPage:
    """InvalidArgument for what a newer replica knows and this one does not."""
    return AuditPage(tuple(_record(note) for note in response.notes), response.through_ms)


def _record(note: pb.AuditNote) -> AuditRecord:
    try:
        kind = AuditKind(note.kind)
    except ValueError:
        raise InvalidArgument(f"no kind of record {note.kind[:32]!r}", path="kind") from None
    said = {field.name: getattr(note, field.name) for field in fields(AuditRecord)}
    return AuditRecord(**{**said, "kind": kind, "jobs": tuple(note.jobs)})


def audit_record_to_wire(record: AuditRecord) -> audit_service_pb2.AuditRecord:
    """As users see it."""
    return audit_service_pb2.AuditRecord(**_fields(record))


def _fields(record: AuditRecord) -> dict[str, Any]:
    """Both messages have the record's own fields: what replicas tell each other is what users are told."""
    return {field.name: getattr(record, field.name) for field in fields(record)}
