"""The checkers' own reading of the store: what every key held before and after the last revision.

It decodes values by the schema and trusts nothing else of the product: no snapshot, no ledger, no cache. It is fed by
the store itself at the moment of the commit, so it is never late.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from hanse.model.ids import JobId, PoolName, QueueName, QueueUid, queue_of
from hanse.model.lifecycle import JobState, decode_state
from hanse.store import keys
from hanse.store.contract import Event, EventKind, KeyValue
from hanse.store.schema import BindingValue, CohortValue, GrantValue, PoolConfigValue, QueueValue, decode

K = TypeVar("K")
V = TypeVar("V")

Take = dict[tuple[str, str], int]
"""Amounts by (flavor, resource)."""


@dataclass(frozen=True, slots=True)
class SeenBinding:
    """One binding as it is."""

    key: keys.BindingKey
    value: BindingValue
    created: int

    @property
    def queue(self) -> QueueUid:
        return queue_of(self.key.job)

    def take(self) -> Take:
        """What its pods are charged, worked out from its pods alone; the charges it carries are not believed."""
        took: Take = {}
        for bound, request in zip(self.value.sets, self.value.request, strict=True):
            for name, amount in request.resources.items():
                at = (bound.flavor, name)
                took[at] = took.get(at, 0) + amount * bound.count
        return took


class StoreView:
    """Everything in the store, decoded; `before` and `events` are those of the last revision."""

    def __init__(self) -> None:
        self.revision = 0
        self.items: dict[str, KeyValue] = {}
        self.before: dict[str, KeyValue | None] = {}
        self.events: tuple[Event, ...] = ()
        self.states: dict[JobId, JobState] = {}
        self.bindings: dict[str, SeenBinding] = {}
        self.queues: dict[QueueUid, tuple[QueueName, QueueValue]] = {}
        self.cohorts: dict[str, CohortValue] = {}
        self.configs: dict[PoolName, PoolConfigValue] = {}
        self.grants: dict[str, GrantValue] = {}
        self.used: dict[QueueUid, Take] = {}

    def apply(self, revision: int, events: tuple[Event, ...]) -> None:
        """Take in one revision."""
        self.revision = revision
        self.events = events
        self.before = {event.kv.key: self.items.get(event.kv.key) for event in events}
        for event in events:
            if event.kind is EventKind.PUT:
                self.items[event.kv.key] = event.kv
            else:
                self.items.pop(event.kv.key, None)
            self._decode(event.kv.key, event.kv if event.kind is EventKind.PUT else None)

    def restart(self, revision: int, items: Iterable[KeyValue]) -> None:
        """The store was set back to this."""
        self.__init__()  # type: ignore[misc]  # the same object, since every checker has it
        self.apply(revision, tuple(Event(EventKind.PUT, kv) for kv in items))
        self.before, self.events = {}, ()

    @property
    def incarnation(self) -> int:
        """Which life of the store this is."""
        kv = self.items.get(keys.INCARNATION)
        return int(kv.value) if kv is not None else 0

    def revision_of(self, key: str) -> int:
        """Modification revision before the last revision was made, 0 if the key was absent."""
        kv = self.before[key] if key in self.before else self.items.get(key)
        return kv.mod_revision if kv is not None else 0

    def bindings_of(self, job: JobId) -> list[SeenBinding]:
        """Every binding of a job, by key."""
        return [self.bindings[key] for key in sorted(self.bindings) if self.bindings[key].key.job == job]

    def created_bindings(self) -> Iterator[SeenBinding]:
        """Bindings that the last revision created."""
        for event in self.events:
            key = event.kv.key
            if key.startswith(keys.BINDINGS) and event.kind is EventKind.PUT and self.before[key] is None:
                yield self.bindings[key]

    def root_of(self, queue: QueueUid) -> str:
        """The root whose grant admits for a queue: its topmost cohort, or itself."""
        path = self.cohorts_of(queue)
        return f"cohort.{path[-1]}" if path else f"queue.{queue}"

    def cohorts_of(self, queue: QueueUid) -> list[str]:
        """The cohorts that decide which root a queue has, from its own up; cohorts here have no cycles."""
        value = self.queues[queue][1]
        path: list[str] = []
        name = "" if value.apart else value.cohort
        while name and name not in path:
            path.append(name)
            name = self.cohorts[name].parent if name in self.cohorts else ""
        return path

    def _decode(self, key: str, kv: KeyValue | None) -> None:
        if key.startswith(keys.BINDINGS):
            self._decode_binding(key, kv)
        elif key.startswith(keys.STATES):
            _put_or_drop(self.states, keys.job_of(key), decode_state(kv.value) if kv else None)
        elif key.startswith(keys.QUEUES):
            self._decode_queue(key, kv)
        elif key.startswith(keys.COHORTS):
            _put_or_drop(self.cohorts, key[len(keys.COHORTS) :], decode(kv.value, CohortValue) if kv else None)
        elif key.startswith(keys.POOLS) and key.endswith("/config"):
            _put_or_drop(self.configs, keys.pool_of(key), decode(kv.value, PoolConfigValue) if kv else None)
        elif key.startswith(keys.GRANTS):
            _put_or_drop(self.grants, key[len(keys.GRANTS) :], decode(kv.value, GrantValue) if kv else None)

    def _decode_queue(self, key: str, kv: KeyValue | None) -> None:
        name = QueueName(key[len(keys.QUEUES) :])
        for uid in [u for u, (n, _) in self.queues.items() if n == name]:
            del self.queues[uid]
        if kv is not None:
            value = decode(kv.value, QueueValue)
            self.queues[QueueUid(value.uid)] = (name, value)

    def _decode_binding(self, key: str, kv: KeyValue | None) -> None:
        old = self.bindings.pop(key, None)
        if old is not None:
            self._charge(old, -1)
        if kv is not None:
            seen = SeenBinding(keys.parse_binding(key), decode(kv.value, BindingValue), kv.create_revision)
            self.bindings[key] = seen
            self._charge(seen, 1)

    def _charge(self, binding: SeenBinding, sign: int) -> None:
        used = self.used.setdefault(binding.queue, {})
        for at, amount in binding.take().items():
            used[at] = used.get(at, 0) + sign * amount


def _put_or_drop(where: dict[K, V], key: K, value: V | None) -> None:
    if value is None:
        where.pop(key, None)
    else:
        where[key] = value
