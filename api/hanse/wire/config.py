"""Queues, cohorts, flavors and priority classes on the wire; what an operator wrote is checked here, with paths."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hanse.api.v1 import config_pb2, queue_pb2
from hanse.model.errors import InvalidArgument
from hanse.model.ids import FlavorName, QueueName, QueueUid
from hanse.model.names import QUALIFIED_RULE, is_label_value, is_qualified, quoted
from hanse.model.queue import (
    FLAVORS_MAX,
    PRIORITY_ABS_MAX,
    QUEUE_ALIASES_MAX,
    Cohort,
    Flavor,
    FlavorQuota,
    PriorityClass,
    Queue,
    QueueLimits,
)
from hanse.model.resources import AMOUNT_MAX, Resources
from hanse.model.validate import LABELS_MAX, RESOURCE_NAMES_MAX, check_name, check_requirement
from hanse.wire.job import not_supported_yet
from hanse.wire.selectors import requirement_to_wire, requirements_from_wire

REQUIREMENTS_PER_FLAVOR_MAX: Final = 64
DESCRIPTION_CHARS_MAX: Final = 1_024
FLAVOR_ORDER_MAX: Final = 1_000_000
QUEUE_JOBS_MAX: Final = 100_000_000


# ---- queues -------------------------------------------------------------------------------------------------


def queue_to_wire(queue: Queue, *, created_ms: int = 0, revision: int = 0) -> queue_pb2.Queue:
    limits = queue.limits
    return queue_pb2.Queue(
        name=queue.name,
        uid=queue.uid,
        cohort=queue.cohort,
        quotas=_quotas_to_wire(queue.quotas),
        held=queue.held,
        labels=dict(queue.labels),
        created_ms=created_ms,
        revision=revision,
        limits=queue_pb2.QueueLimits(
            pending_jobs_max=limits.pending_jobs_max, running_jobs_max=limits.running_jobs_max
        ),
        apart=queue.apart,
        aliases=queue.aliases,
    )


def queue_from_wire(message: queue_pb2.Queue, *, path: str = "queue") -> Queue:
    """Parse what the caller decides; the uid is empty.

    Raises:
        InvalidArgument: with the path of the field.
    """
    check_name(message.name, path=f"{path}.name")
    if message.cohort:
        check_name(message.cohort, path=f"{path}.cohort")
    return Queue(
        uid=QueueUid(""),
        name=QueueName(message.name),
        cohort=message.cohort,
        quotas=_quotas_from_wire(message.quotas, f"{path}.quotas"),
        held=message.held,
        labels=labels_from_wire(message.labels, f"{path}.labels"),
        limits=_limits_from_wire(message.limits, f"{path}.limits"),
        aliases=_aliases_from_wire(message.aliases, f"{path}.aliases"),
    )


def _aliases_from_wire(names: Sequence[str], path: str) -> tuple[str, ...]:
    if len(names) > QUEUE_ALIASES_MAX:
        raise InvalidArgument(f"{len(names)} aliases, at most {QUEUE_ALIASES_MAX}", reason="TOO_MANY", path=path)
    for index, name in enumerate(names):
        check_name(name, path=f"{path}[{index}]")
    return tuple(sorted(set(names)))


def _limits_from_wire(message: queue_pb2.QueueLimits, path: str) -> QueueLimits:
    for name in ("pending_jobs_max", "running_jobs_max"):
        value: int = getattr(message, name)
        if not 0 <= value <= QUEUE_JOBS_MAX:
            raise InvalidArgument(
                f"{value} is not between 0 (no limit) and {QUEUE_JOBS_MAX:,}",
                reason="LIMIT_OUT_OF_RANGE",
                path=f"{path}.{name}",
            )
    return QueueLimits(message.pending_jobs_max, message.running_jobs_max)


def labels_from_wire(labels: Mapping[str, str], path: str) -> dict[str, str]:
    """Labels in the order of their keys. Raises InvalidArgument."""
    if len(labels) > LABELS_MAX:
        raise InvalidArgument(f"{len(labels)} labels; at most {LABELS_MAX} are allowed", reason="TOO_MANY", path=path)
    for key, value in sorted(labels.items()):
        if not is_qualified(key):
            raise InvalidArgument(
                f"{quoted(key)} is not a valid label key; {QUALIFIED_RULE}", reason="LABEL_INVALID", path=path
            )
        if not is_label_value(value):
            raise InvalidArgument(
                f"{quoted(value)} is not a valid label value", reason="LABEL_INVALID", path=f"{path}[{quoted(key)}]"
            )
    return dict(sorted(labels.items()))


def _quotas_to_wire(quotas: Iterable[FlavorQuota]) -> list[queue_pb2.FlavorQuota]:
    return [queue_pb2.FlavorQuota(flavor=q.flavor, nominal=dict(q.nominal)) for q in quotas]


def _quotas_from_wire(messages: Iterable[queue_pb2.FlavorQuota], path: str) -> tuple[FlavorQuota, ...]:
    quotas: list[FlavorQuota] = []
    for index, message in enumerate(messages):
        at = f"{path}[{index}]"
        check_name(message.flavor, path=f"{at}.flavor")
        if any(q.flavor == message.flavor for q in quotas):
            raise InvalidArgument(
                f"flavor {quoted(message.flavor)} is named twice", reason="DUPLICATE", path=f"{at}.flavor"
            )
        quotas.append(FlavorQuota(FlavorName(message.flavor), _nominal(message.nominal, f"{at}.nominal")))
    if len(quotas) > FLAVORS_MAX:
        raise InvalidArgument(f"{len(quotas)} quotas; at most {FLAVORS_MAX}", reason="TOO_MANY", path=path)
    return tuple(quotas)


def _nominal(amounts: Mapping[str, int], path: str) -> Resources:
    if len(amounts) > RESOURCE_NAMES_MAX:
        raise InvalidArgument(
            f"{len(amounts)} resources; at most {RESOURCE_NAMES_MAX} are allowed", reason="TOO_MANY", path=path
        )
    for name, amount in sorted(amounts.items()):
        at = f"{path}[{quoted(name)}]"
        if not is_qualified(name):
            raise InvalidArgument(f"not a valid resource name; {QUALIFIED_RULE}", reason="RESOURCE_INVALID", path=at)
        if not 1 <= amount <= AMOUNT_MAX:
            raise InvalidArgument(
                f"{amount} is not between 1 and {AMOUNT_MAX}; to forbid a flavor, leave it out",
                reason="AMOUNT_OUT_OF_RANGE",
                path=at,
            )
    return Resources(amounts)


# ---- cohorts ------------------------------------------------------------------------------------------------


def cohort_to_wire(cohort: Cohort, *, revision: int = 0) -> config_pb2.Cohort:
    return config_pb2.Cohort(
        name=cohort.name, parent=cohort.parent, quotas=_quotas_to_wire(cohort.quotas), revision=revision
    )


def cohort_from_wire(message: config_pb2.Cohort, *, path: str = "cohort") -> Cohort:
    """Raises InvalidArgument with the path of the field."""
    check_name(message.name, path=f"{path}.name")
    if message.parent:
        check_name(message.parent, path=f"{path}.parent")
    if message.parent == message.name:
        raise InvalidArgument(
            "a cohort cannot be its own parent; name another or none", reason="COHORT_CYCLE", path=f"{path}.parent"
        )
    return Cohort(message.name, message.parent, _quotas_from_wire(message.quotas, f"{path}.quotas"))


# ---- flavors ------------------------------------------------------------------------------------------------


def flavor_to_wire(flavor: Flavor, *, revision: int = 0) -> config_pb2.Flavor:
    return config_pb2.Flavor(
        name=flavor.name,
        order=flavor.order,
        requirements=[requirement_to_wire(r) for r in flavor.requirements],
        description=flavor.description,
        revision=revision,
    )


def flavor_from_wire(message: config_pb2.Flavor, *, path: str = "flavor") -> Flavor:
    """Raises InvalidArgument with the path of the field."""
    check_name(message.name, path=f"{path}.name")
    if abs(message.order) > FLAVOR_ORDER_MAX:
        raise InvalidArgument(
            f"{message.order} is not between -{FLAVOR_ORDER_MAX} and {FLAVOR_ORDER_MAX}",
            reason="ORDER_OUT_OF_RANGE",
            path=f"{path}.order",
        )
    at = f"{path}.requirements"
    requirements = requirements_from_wire(message.requirements, at)
    if len(requirements) > REQUIREMENTS_PER_FLAVOR_MAX:
        raise InvalidArgument(
            f"{len(requirements)} conditions; at most {REQUIREMENTS_PER_FLAVOR_MAX}", reason="TOO_MANY", path=at
        )
    for index, requirement in enumerate(requirements):
        check_requirement(requirement, path=f"{at}[{index}]")
    description = _description(message.description, f"{path}.description")
    return Flavor(FlavorName(message.name), message.order, requirements, description)


def _description(text: str, path: str) -> str:
    if len(text) > DESCRIPTION_CHARS_MAX:
        raise InvalidArgument(
            f"{len(text)} characters; at most {DESCRIPTION_CHARS_MAX}", reason="TEXT_TOO_LONG", path=path
        )
    return text


# ---- priority classes ---------------------------------------------------------------------------------------


def priority_class_to_wire(priority: PriorityClass, *, revision: int = 0) -> config_pb2.PriorityClass:
    return config_pb2.PriorityClass(
        name=priority.name,
        value=priority.value,
        default=priority.default,
        description=priority.description,
        revision=revision,
    )


def priority_class_from_wire(message: config_pb2.PriorityClass, *, path: str = "priority_class") -> PriorityClass:
    """Raises InvalidArgument with the path of the field."""
    check_name(message.name, path=f"{path}.name")
    if message.band:
        raise not_supported_yet("priority bands are", f"{path}.band")
    if abs(message.value) > PRIORITY_ABS_MAX:
        raise InvalidArgument(
            f"{message.value} is not between -{PRIORITY_ABS_MAX} and {PRIORITY_ABS_MAX}",
            reason="PRIORITY_OUT_OF_RANGE",
            path=f"{path}.value",
        )
    description = _description(message.description, f"{path}.description")
    return PriorityClass(message.name, message.value, message.default, description)
