"""Queues with quota, cohorts, flavors, priority classes: what an operator keeps in files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from hanse.model.ids import FlavorName, QueueName, QueueUid
from hanse.model.resources import EMPTY, Resources
from hanse.model.selectors import Requirement

_NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FlavorQuota:
    """What a queue owns of one flavor: only the resources named here are limited."""

    flavor: FlavorName
    nominal: Resources


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Jobs that a queue may have; 0 is no limit.

    Attributes:
        pending_jobs_max: that wait; more are refused at submit.
        running_jobs_max: with a live attempt; others wait meanwhile.
    """

    pending_jobs_max: int = 0
    running_jobs_max: int = 0


NO_LIMITS: Final = QueueLimits()


@dataclass(frozen=True, slots=True)
class Queue:
    """Ordered pending jobs of one tenant, attached to quota.

    Attributes:
        cohort: name of the cohort; "" makes the queue a root of its own.
        quotas: flavors the queue may use, in order of preference; a flavor that is not listed is not used.
        held: nothing of the queue is bound while true.
        apart: it is a root of its own although it has a cohort: its nominal quota is granted apart from the cohort's.
        aliases: further names that jobs may give for it.
    """

    uid: QueueUid
    name: QueueName
    cohort: str = ""
    quotas: tuple[FlavorQuota, ...] = ()
    held: bool = False
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS)
    limits: QueueLimits = NO_LIMITS
    apart: bool = False
    aliases: tuple[str, ...] = ()

    def nominal(self, flavor: FlavorName) -> Resources | None:
        """The quota for a flavor, None if the queue may not use it."""
        return next((q.nominal for q in self.quotas if q.flavor == flavor), None)


@dataclass(frozen=True, slots=True)
class Cohort:
    """Queues and cohorts that may lend to each other, as a tree; the topmost one is a root."""

    name: str
    parent: str = ""
    quotas: tuple[FlavorQuota, ...] = ()


def cohorts_of(queue: Queue, cohorts: Mapping[str, Cohort]) -> tuple[str, ...]:
    """The cohorts that decide which root a queue belongs to, from its own up; none of a queue that is its own root.

    A cohort that names a missing parent is followed by that parent, which is a root. A cycle is walked once.
    """
    path: list[str] = []
    name = "" if queue.apart else queue.cohort
    while name and name not in path:
        path.append(name)
        name = cohorts[name].parent if name in cohorts else ""
    return tuple(path)


def root_of(queue: Queue, cohorts: Mapping[str, Cohort]) -> str:
    """The root under which a queue's quota is granted: its topmost cohort, or the queue itself.

    A cycle ends at the smallest name on it, so that every replica finds the same root whatever it saw last.
    """
    path = cohorts_of(queue, cohorts)
    if not path:
        return f"queue.{queue.uid}"
    again = cohorts[path[-1]].parent if path[-1] in cohorts else ""
    return f"cohort.{min(path[path.index(again) :]) if again in path else path[-1]}"


@dataclass(frozen=True, slots=True)
class Flavor:
    """One variant of capacity that quota distinguishes. A host belongs to the first flavor that matches it.

    Attributes:
        order: position in the list of flavors; smaller is asked first.
        requirements: conditions on node labels, all of which must hold.
    """

    name: FlavorName
    order: int
    requirements: tuple[Requirement, ...] = ()
    description: str = ""


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A named urgency: a higher value is served first."""

    name: str
    value: int
    default: bool = False
    description: str = ""


@dataclass(frozen=True, slots=True)
class Charge:
    """What a binding takes of one flavor, for quota."""

    flavor: FlavorName
    amount: Resources = EMPTY


PRIORITY_ABS_MAX = 1_000_000_000
FLAVORS_MAX = 256
QUEUE_ALIASES_MAX = 256
