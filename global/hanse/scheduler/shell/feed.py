"""Follows the store into the world: settings, pools with their heads, grants, replicas and every live binding.

One watch over one range (`keys.FOLLOWED_START` to `FOLLOWED_END`), so all of it is seen in order of revision: a
planner never sees a head that was bumped without the binding that bumped it. Nothing is decided before the first
load is complete. When history was compacted away beneath the watch, everything is read again and what is no longer
there is taken out: also bindings that the feed has never shown, since a commit brings its own into the world at once
and one that was committed and released again within the gap is in no batch.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from typing import Final

import msgspec

from hanse.kit.clock import Clock
from hanse.kit.process import collector_off
from hanse.model.ids import FlavorName, PoolName, QueueName, ReplicaId
from hanse.model.placement import Level
from hanse.scheduler.core.facts import BindingFacts, DrainFacts, GrantFacts, LeaveFacts, PoolFacts
from hanse.scheduler.core.world import ReplicaFacts, World
from hanse.scheduler.shell.bound import binding_facts
from hanse.scheduler.shell.loading import load_pages, load_range
from hanse.store import keys
from hanse.store.contract import Compacted, Event, EventKind, KeyValue, Store, StoreUnavailable, prefix_end
from hanse.store.schema import (
    AttachedValue,
    BarredValue,
    CohortValue,
    FlavorValue,
    GrantValue,
    HolderValue,
    LeaveValue,
    PoolConfigValue,
    PriorityValue,
    QueueValue,
    ReplicaValue,
    SlotsValue,
    decode,
)

log = logging.getLogger(__name__)

RETRY_S: Final = 0.5
"""Pause after the store could not be reached."""


class Feed:
    """Keeps a world up to date with the store.

    Attributes:
        loaded: set once the world holds everything up to some revision.
        on_news: told of every change that is followed, before the world has it.
        on_gap: told that there may have been changes which were not followed.
    """

    def __init__(self, store: Store, world: World, clock: Clock, on_change: Callable[[], None]) -> None:
        self._store = store
        self._world = world
        self._clock = clock
        self._on_change = on_change
        self._known: set[str] = set()  # keys that are not of bindings
        self._begun = False
        self._moved = asyncio.Event()
        self.loaded = asyncio.Event()
        self.on_news: Callable[[Event], None] = lambda event: None
        self.on_gap: Callable[[], None] = lambda: None

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                await self._load()
                await self._follow()
            except Compacted:
                log.info("feed_reload", extra={"revision": self._world.revision})
            except StoreUnavailable as error:
                log.warning("feed_unavailable", extra={"cause": str(error)})
                await asyncio.sleep(RETRY_S)

    async def reached(self, revision: int) -> None:
        """Wait until the world holds everything up to a revision that changed a followed key."""
        while self._world.revision < revision:
            self._moved.clear()
            await self._moved.wait()

    async def _load(self) -> None:
        if self._begun or self._world.binding_keys():
            await self._load_anew()
        else:
            self._begun = True
            with collector_off():
                await self._load_first()
        if self.loaded.is_set():
            self.on_gap()
        self.loaded.set()

    async def _load_first(self) -> None:
        """Fill an empty world, page by page: nobody decides from it before it is full."""
        revision, bindings_end = 0, prefix_end(keys.BINDINGS)
        for start, end in ((keys.FOLLOWED_START, keys.BINDINGS), (bindings_end, keys.FOLLOWED_END)):
            async with aclosing(load_pages(self._store, start, end, at_revision=revision)) as pages:
                async for page in pages:
                    revision = revision or page.revision
                    self._apply([Event(EventKind.PUT, kv) for kv in page.items])
        bindings = load_pages(
            self._store, keys.BINDINGS, bindings_end, at_revision=revision, cuts=self._pool_by_pool()
        )
        async with aclosing(bindings) as pages:
            async for page in pages:
                self._world.put_bindings(self._facts(page.items))
        self._advance(revision)

    def _pool_by_pool(self) -> list[str]:
        """Where the bindings of each pool begin."""
        return [keys.bindings(name) for name in self._world.pool_names()]

    def _facts(self, bindings: Iterable[KeyValue]) -> Iterator[tuple[str, BindingFacts, bool]]:
        for kv in bindings:
            try:
                yield kv.key, binding_facts(kv), kv.mod_revision > kv.create_revision
            except (msgspec.DecodeError, ValueError) as error:
                _tell_bad(kv.key, error)

    async def _load_anew(self) -> None:
        """Bring a world up to date in one step, and take out what is no longer there."""
        items, revision = await load_range(self._store, keys.FOLLOWED_START, keys.FOLLOWED_END, self._pool_by_pool())
        present = {kv.key for kv in items}
        gone = sorted(self._known.union(self._world.bindings_until(revision)) - present)
        self._apply([Event(EventKind.DELETE, KeyValue(key, b"", 0, revision)) for key in gone])
        self._apply([Event(EventKind.PUT, kv) for kv in items])
        self._advance(revision)

    async def _follow(self) -> None:
        watch = self._store.watch(keys.FOLLOWED_START, keys.FOLLOWED_END, from_revision=self._world.revision + 1)
        async with watch:
            async for batch in watch:
                self._apply(batch.events, self.on_news)
                self._advance(batch.revision)

    def _advance(self, revision: int) -> None:
        self._world.revision = max(self._world.revision, revision)
        self._moved.set()
        self._on_change()

    def _apply(self, events: Iterable[Event], told: Callable[[Event], None] = lambda event: None) -> None:
        for event in events:
            told(event)
            try:
                apply_event(self._world, event)
            except (msgspec.DecodeError, ValueError) as error:
                _tell_bad(event.kv.key, error)
            if event.kv.key.startswith(keys.BINDINGS):
                continue  # the world knows which there are
            if event.kind is EventKind.PUT:
                self._known.add(event.kv.key)
            else:
                self._known.discard(event.kv.key)


def _tell_bad(key: str, error: Exception) -> None:
    """A foreign or damaged value must not stop the federation; it is left out and named."""
    log.error("feed_bad_value", extra={"key": key, "cause": str(error)})


# ---- one event ----------------------------------------------------------------------------------------------


def apply_event(world: World, event: Event) -> None:
    """Bring one change into the world."""
    prefix = event.kv.key.split("/", 1)[0] + "/"
    handler = _HANDLERS.get(prefix)
    if handler is not None:
        handler(world, event)


def _on_binding(world: World, event: Event) -> None:
    kv = event.kv
    if event.kind is EventKind.DELETE:
        world.remove_binding(kv.key)
        return
    if not world.has_binding(kv.key) or world.is_assumed(kv.key):
        world.put_binding(kv.key, binding_facts(kv))
    if kv.mod_revision > kv.create_revision:
        world.answer_binding(kv.key)


def _on_pool(world: World, event: Event) -> None:
    kv = event.kv
    name = keys.pool_of(kv.key)
    gone = event.kind is EventKind.DELETE
    flavor = keys.head_flavor(kv.key)
    if flavor is not None:
        world.put_head(name, flavor, 0 if gone else kv.mod_revision)
    elif kv.key == keys.pool_agent(name):
        world.put_agent(name, kv.mod_revision)
    elif kv.key == keys.pool_returned(name):
        world.put_returned(name, 0 if gone else int(kv.value))
    elif kv.key == keys.pool_left(name):
        (world.left.discard if gone else world.left.add)(name)
    elif kv.key == keys.pool_config(name):
        if gone:
            world.remove_pool(name)
        else:
            world.put_pool(_pool_facts(name, decode(kv.value, PoolConfigValue), kv.mod_revision))


def _pool_facts(name: PoolName, value: PoolConfigValue, revision: int) -> PoolFacts:
    return PoolFacts(
        name=name,
        slot=value.slot,
        revision=revision,
        cordoned=value.cordoned,
        cordon_reason=value.cordon_reason,
        region=value.region,
        cost=value.cost,
        labels=value.labels,
        levels=tuple(Level(level.key, level.alias) for level in value.levels),
        dialect=value.dialect,
        drain=DrainFacts(value.drain.since_ms, value.drain.deadline_ms) if value.drain is not None else None,
        leave=_leave_facts(value.leave) if value.leave is not None else None,
    )


def _leave_facts(value: LeaveValue) -> LeaveFacts:
    return LeaveFacts(value.since_ms, value.force, value.vouched, value.incarnation)


def _on_attached(world: World, event: Event) -> None:
    gone = event.kind is EventKind.DELETE
    replica = "" if gone else decode(event.kv.value, AttachedValue).replica
    world.put_attached(keys.pool_of(event.kv.key), replica)


def _on_barred(world: World, event: Event) -> None:
    if event.kind is EventKind.DELETE:
        world.barred.pop(event.kv.key, None)
    else:
        world.barred[event.kv.key] = decode(event.kv.value, BarredValue).until_ms


def _on_queue(world: World, event: Event) -> None:
    name = QueueName(event.kv.key.removeprefix(keys.QUEUES))
    if event.kind is EventKind.DELETE:
        world.remove_queue(name)
    else:
        world.put_queue(decode(event.kv.value, QueueValue).queue(name), event.kv.mod_revision)


def _on_cohort(world: World, event: Event) -> None:
    name = event.kv.key.removeprefix(keys.COHORTS)
    if event.kind is EventKind.DELETE:
        world.remove_cohort(name)
    else:
        world.put_cohort(decode(event.kv.value, CohortValue).cohort(name), event.kv.mod_revision)


def _on_flavor(world: World, event: Event) -> None:
    name = FlavorName(event.kv.key.removeprefix(keys.FLAVORS))
    if event.kind is EventKind.DELETE:
        world.remove_flavor(name, event.kv.mod_revision)
    else:
        world.put_flavor(decode(event.kv.value, FlavorValue).flavor(name), event.kv.mod_revision)


def _on_priority(world: World, event: Event) -> None:
    name = event.kv.key.removeprefix(keys.PRIORITIES)
    if event.kind is EventKind.DELETE:
        world.priorities.pop(name, None)
    else:
        world.priorities[name] = decode(event.kv.value, PriorityValue).priority_class(name)


def _on_grant(world: World, event: Event) -> None:
    root = event.kv.key.removeprefix(keys.GRANTS)
    if event.kind is EventKind.DELETE:
        world.grants.pop(root, None)
    else:
        value = decode(event.kv.value, GrantValue)
        world.grants[root] = GrantFacts(root, value.replica, value.nonce, event.kv.mod_revision)


def _on_holder(world: World, event: Event) -> None:
    root = event.kv.key.removeprefix(keys.HOLDERS)
    if event.kind is EventKind.DELETE:
        world.wanted.pop(root, None)
    else:
        world.wanted[root] = ReplicaId(decode(event.kv.value, HolderValue).replica)


def _on_replica(world: World, event: Event) -> None:
    replica = ReplicaId(event.kv.key.removeprefix(keys.REPLICAS))
    if event.kind is EventKind.DELETE:
        world.replicas.pop(replica, None)
    else:
        value = decode(event.kv.value, ReplicaValue)
        world.replicas[replica] = ReplicaFacts(replica, value.nonce, value.schedules, value.address)


def _on_meta(world: World, event: Event) -> None:
    if event.kind is EventKind.DELETE:
        return
    if event.kv.key == keys.INCARNATION:
        world.incarnation = int(event.kv.value)
    elif event.kv.key == keys.SLOTS:
        world.slots = tuple(PoolName(p) for p in decode(event.kv.value, SlotsValue).pools)


_HANDLERS: Final[dict[str, Callable[[World, Event], None]]] = {
    keys.BINDINGS: _on_binding,
    keys.POOLS: _on_pool,
    keys.ATTACHED: _on_attached,
    keys.BARRED: _on_barred,
    keys.QUEUES: _on_queue,
    keys.COHORTS: _on_cohort,
    keys.FLAVORS: _on_flavor,
    keys.PRIORITIES: _on_priority,
    keys.GRANTS: _on_grant,
    keys.HOLDERS: _on_holder,
    keys.REPLICAS: _on_replica,
    "meta/": _on_meta,
}
