"""Operator files: queues, cohorts, flavors and priority classes, as `hanse apply FILE` reads them.

A file describes what ought to exist; it never carries what the server assigns. A queue read from a file therefore has
no uid, and is a type of its own (`QueueSpec`) so that nobody stores it as if it had one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from hanse.model.ids import QueueName, QueueUid
from hanse.model.queue import Cohort, Flavor, FlavorQuota, PriorityClass, Queue

_NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """A queue as an operator writes it: `model.queue.Queue` without the uid that the server assigns."""

    name: QueueName
    cohort: str = ""
    quotas: tuple[FlavorQuota, ...] = ()
    held: bool = False
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS)

    def to_queue(self, uid: QueueUid) -> Queue:
        """The queue under the uid that the server gave it."""
        return Queue(uid, self.name, self.cohort, self.quotas, self.held, self.labels)


ResourceSpec = QueueSpec | Cohort | Flavor | PriorityClass
