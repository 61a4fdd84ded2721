"""Operator files: queues, cohorts, flavors and priority classes, as `hanse apply FILE` reads them.

A file describes what ought to exist; it never carries what the server assigns. A queue read from a file therefore has
no uid, and is a type of its own (`QueueSpec`) so that nobody stores it as if it had one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from hanse.manifests.documents import Document, naming, read_documents, telling_which
from hanse.manifests.fields import Field, suggestion
from hanse.manifests.native_values import GROUP, VERSIONS, requirements
from hanse.manifests.pod_resources import amounts_of
from hanse.model.ids import FlavorName, QueueName, QueueUid
from hanse.model.names import is_label_value, is_qualified, quoted
from hanse.model.queue import (
    NO_LIMITS,
    PRIORITY_ABS_MAX,
    Cohort,
    Flavor,
    FlavorQuota,
    PriorityClass,
    Queue,
    QueueLimits,
)
from hanse.model.validate import check_name

_NO_LABELS: Mapping[str, str] = MappingProxyType({})
_HEAD: Final = ("apiVersion", "kind", "name")
_QUEUE_LATER: Final = (
    "borrowing",
    "borrowing_limit",
    "fair_share",
    "fungibility",
    "lending_limit",
    "preemption",
    "weight",
)


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """A queue as an operator writes it: `model.queue.Queue` without the uid that the server assigns."""

    name: QueueName
    cohort: str = ""
    quotas: tuple[FlavorQuota, ...] = ()
    held: bool = False
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS)
    limits: QueueLimits = NO_LIMITS
    aliases: tuple[str, ...] = ()

    def to_queue(self, uid: QueueUid) -> Queue:
        """The queue under the uid that the server gave it."""
        return Queue(
            uid, self.name, self.cohort, self.quotas, self.held, self.labels, self.limits, aliases=self.aliases
        )


ResourceSpec = QueueSpec | Cohort | Flavor | PriorityClass


def read_resources(text: str | bytes, *, filename: str = "") -> tuple[ResourceSpec, ...]:
    """What an operator's file says ought to exist, in document order.

    Raises:
        InvalidArgument: with reason, field path, line, and one line of message; a kind that is no operator's
            (a job, say) is refused, and so is the same object twice.
    """
    with naming(filename):
        documents = read_documents(text)
        seen: dict[tuple[str, str], int] = {}
        with telling_which(documents):
            return tuple(_read(document, seen) for document in documents)


def _read(document: Document, seen: dict[tuple[str, str], int]) -> ResourceSpec:
    kind = document.field.need("kind")
    if document.group != GROUP or document.version not in VERSIONS:
        kind.refuse("UNKNOWN_KIND", f"{document.what} is not applied; {', '.join(_READERS)} of hanse/v1 are")
    reader = _READERS.get(document.kind)
    if reader is None:
        hint = "; use `hanse submit` for jobs" if document.kind == "Job" else suggestion(document.kind, _READERS)
        kind.refuse("UNKNOWN_KIND", f"{quoted(document.kind)} is not applied{hint}")
    name = document.field.need("name", f"no name; every {document.kind} needs one")
    check_name(name.text(), path=name.path, line=name.line)
    first = seen.setdefault((document.kind, name.text()), name.line)
    if first != name.line:
        name.refuse("DUPLICATE_NAME", f"the {document.kind} in line {first} has this name too")
    return reader(document.field, name.text())


def _queue(field: Field, name: str) -> QueueSpec:
    field.only((*_HEAD, "cohort", "quotas", "held", "labels", "limits", "aliases"), reserved=_QUEUE_LATER)
    held, labels, limits = field.get("held"), field.get("labels"), field.get("limits")
    aliases = field.get("aliases")
    return QueueSpec(
        name=QueueName(name),
        cohort=_reference(field.get("cohort")),
        quotas=_quotas(field.get("quotas")),
        held=held.boolean() if held else False,
        labels=_labels(labels) if labels else {},
        limits=_limits(limits) if limits else NO_LIMITS,
        aliases=tuple(_reference(item) for item in aliases.items()) if aliases else (),
    )


def _limits(field: Field) -> QueueLimits:
    field.only(("pending_jobs_max", "running_jobs_max"))
    pending, running = field.get("pending_jobs_max"), field.get("running_jobs_max")
    return QueueLimits(_jobs(pending) if pending else 0, _jobs(running) if running else 0)


def _jobs(field: Field) -> int:
    jobs = field.integer()
    if jobs < 0:
        field.refuse("LIMIT_OUT_OF_RANGE", f"{jobs} jobs; write 0 for no limit")
    return jobs


def _cohort(field: Field, name: str) -> Cohort:
    field.only((*_HEAD, "parent", "quotas"), reserved=_QUEUE_LATER)
    parent = field.get("parent")
    if parent and parent.text() == name:
        parent.refuse("CONTRADICTION", "a cohort cannot be its own parent")
    return Cohort(name=name, parent=_reference(parent), quotas=_quotas(field.get("quotas")))


def _reference(field: Field | None) -> str:
    if field is None or not field.text():
        return ""
    check_name(field.text(), path=field.path, line=field.line)
    return field.text()


def _quotas(field: Field | None) -> tuple[FlavorQuota, ...]:
    quotas = [_quota(item) for item in field.items()] if field else []
    for index, quota in enumerate(quotas):
        if field and quota.flavor in (other.flavor for other in quotas[:index]):
            list(field.items())[index].refuse("DUPLICATE", f"flavor {quoted(quota.flavor)} has a quota already")
    return tuple(quotas)


def _quota(field: Field) -> FlavorQuota:
    field.only(("flavor", "nominal"), reserved=_QUEUE_LATER)
    flavor = _reference(field.need("flavor", "no flavor; say what the quota is of"))
    nominal = field.need("nominal", "no nominal; say how much of each resource")
    return FlavorQuota(FlavorName(flavor), amounts_of(nominal))


def _labels(field: Field) -> dict[str, str]:
    for key, value in field.entries():
        if not is_qualified(key) or not is_label_value(value.text()):
            value.refuse("LABEL_INVALID", f"{quoted(key)}: {quoted(value.text())} is not a valid label")
    return field.texts()


def _flavor(field: Field, name: str) -> Flavor:
    field.only((*_HEAD, "order", "labels", "match", "description"))
    order, labels, match = field.get("order"), field.get("labels"), field.get("match")
    conditions = (*(requirements(labels) if labels else ()), *(requirements(match) if match else ()))
    return Flavor(
        name=FlavorName(name),
        order=order.at_least(0, "as an order") if order else 0,
        requirements=conditions,
        description=_description(field),
    )


def _priority_class(field: Field, name: str) -> PriorityClass:
    field.only((*_HEAD, "value", "default", "description"), reserved=("preemption", "preemption_policy"))
    value, default = field.need("value", "no value; say how urgent it is"), field.get("default")
    if abs(value.integer()) > PRIORITY_ABS_MAX:
        value.refuse("OUT_OF_RANGE", f"{value.shown} is beyond {PRIORITY_ABS_MAX:,}")
    return PriorityClass(
        name=name,
        value=value.integer(),
        default=default.boolean() if default else False,
        description=_description(field),
    )


def _description(field: Field) -> str:
    description = field.get("description")
    return description.text() if description else ""


_READERS: Final[Mapping[str, Callable[[Field, str], ResourceSpec]]] = {
    "Queue": _queue,
    "Cohort": _cohort,
    "Flavor": _flavor,
    "PriorityClass": _priority_class,
}
