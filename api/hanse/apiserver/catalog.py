"""Queues, cohorts, flavors and priority classes as the store has them now, each with its revision.

Read anew for every call that needs them: an operator's change is in effect for the next submission, on every
replica, and no cache can disagree with the store. That costs three small ranges for a batch of jobs. Whatever a
write rests on is guarded by the revision that was read.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from hanse.apiserver.suggest import did_you_mean
from hanse.model.errors import NotFound
from hanse.model.ids import FlavorName, QueueName
from hanse.model.names import quoted
from hanse.model.queue import Cohort, Flavor, PriorityClass
from hanse.store import keys
from hanse.store.contract import KeyValue, Store, key_after, prefix_end
from hanse.store.schema import CohortValue, FlavorValue, PriorityValue, QueueValue, decode

T = TypeVar("T")

QUEUES_MAX: Final = 20_000
COHORTS_MAX: Final = 1_000
PRIORITY_CLASSES_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Stored(Generic[T]):
    """A value and the modification revision of its key."""

    value: T
    revision: int


@dataclass(frozen=True, slots=True)
class Terms:
    """What jobs are measured by: flavors and priority classes by name."""

    flavors: Mapping[FlavorName, Stored[Flavor]]
    priorities: Mapping[str, Stored[PriorityClass]]

    @property
    def default_priority(self) -> PriorityClass | None:
        """The class for jobs that name none: the one marked as default; of several the first by name."""
        marked = (self.priorities[name].value for name in sorted(self.priorities))
        return next((c for c in marked if c.default), None)


async def read_queues(store: Store) -> dict[QueueName, Stored[QueueValue]]:
    """All queues by name."""
    items = await read_all(store, keys.QUEUES)
    return {QueueName(_name(kv)): Stored(decode(kv.value, QueueValue), kv.mod_revision) for kv in items}


async def read_queue(store: Store, name: str) -> Stored[QueueValue]:
    """One queue.

    Raises:
        NotFound: reason QUEUE_NOT_FOUND, with the nearest name.
    """
    key = keys.queue(QueueName(name))
    found = (await store.read([key])).items.get(key)
    if found is None:
        raise queue_not_found(name, await read_queue_names(store))
    return Stored(decode(found.value, QueueValue), found.mod_revision)


async def read_queue_names(store: Store) -> list[str]:
    """The names of all queues."""
    page = await store.range(keys.QUEUES, prefix_end(keys.QUEUES), limit=QUEUES_MAX, keys_only=True)
    return [_name(kv) for kv in page.items]


async def read_aliases(store: Store) -> dict[QueueName, QueueName]:
    """Queues by their aliases; of two that were given one alias at the same moment, the first by name."""
    queues = await read_queues(store)
    return {QueueName(alias): name for name in sorted(queues, reverse=True) for alias in queues[name].value.aliases}


def queue_not_found(name: str, known: list[str], *, path: str = "queue") -> NotFound:
    """The one sentence for a queue that is not there."""
    hint = did_you_mean(name, known)
    return NotFound(
        f"queue {quoted(name)} does not exist{hint} (`hanse queues` lists them)", reason="QUEUE_NOT_FOUND", path=path
    )


async def read_flavors(store: Store) -> dict[FlavorName, Stored[Flavor]]:
    """All flavors by name."""
    return {
        FlavorName(_name(kv)): Stored(decode(kv.value, FlavorValue).flavor(FlavorName(_name(kv))), kv.mod_revision)
        for kv in await read_all(store, keys.FLAVORS)
    }


async def read_priorities(store: Store) -> dict[str, Stored[PriorityClass]]:
    """All priority classes by name."""
    return {
        _name(kv): Stored(decode(kv.value, PriorityValue).priority_class(_name(kv)), kv.mod_revision)
        for kv in await read_all(store, keys.PRIORITIES)
    }


async def read_cohorts(store: Store) -> dict[str, Stored[Cohort]]:
    """All cohorts by name."""
    return {
        _name(kv): Stored(decode(kv.value, CohortValue).cohort(_name(kv)), kv.mod_revision)
        for kv in await read_all(store, keys.COHORTS)
    }


async def read_terms(store: Store) -> Terms:
    """Flavors and priority classes."""
    flavors, priorities = await asyncio.gather(read_flavors(store), read_priorities(store))
    return Terms(flavors, priorities)


async def read_all(store: Store, prefix: str) -> list[KeyValue]:
    """Every key below a prefix, page by page at one revision."""
    found: list[KeyValue] = []
    start, end, revision = prefix, prefix_end(prefix), 0
    while True:
        page = await store.range(start, end, at_revision=revision)
        found.extend(page.items)
        if not page.more:
            return found
        start, revision = key_after(page.items[-1].key), page.revision


def _name(kv: KeyValue) -> str:
    return kv.key.rsplit("/", 1)[1]
