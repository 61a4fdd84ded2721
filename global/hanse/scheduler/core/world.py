"""Everything a replica knows, kept by deltas, from which each cycle takes its immutable snapshot.

The world is fed from two sides: by the store's watch (settings, bindings, grants, replicas: the truth, in order of
revision) and by the pools' summaries (lossy, newest wins). It decides nothing; it keeps sums.

Bindings that this replica has just committed, or whose outcome it does not know yet, are put in under the same key
as the watch will use, so they are never counted twice.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from hanse.model.ids import FlavorName, PoolName, QueueName, QueueUid, ReplicaId
from hanse.model.placement import Level
from hanse.model.queue import Cohort, Flavor, PriorityClass, Queue, cohorts_of, root_of
from hanse.model.reasons import Reason
from hanse.scheduler.core.facts import BindingFacts, GrantFacts, PoolFacts, QueueFacts, SummaryFacts, SummaryOrder
from hanse.scheduler.core.ledger import PoolLedger
from hanse.scheduler.core.quota import Usage
from hanse.scheduler.core.snapshot import NOTHING_AVOIDED, PoolView, Snapshot
from hanse.shape import Shape
from hanse.shape.fleet import Fleet

FIRST_INCARNATION: Final = 1
"""Of a store that was never restored."""

ASSUMED: Final = 2**62
"""Create revision of a binding whose transaction has no known outcome: newer than every summary."""


@dataclass(slots=True)
class _Pool:
    ledger: PoolLedger
    facts: PoolFacts | None = None
    heads: dict[FlavorName, int] = field(default_factory=dict)
    told: PoolFacts | None = None  # `facts` with `heads` as they are now, once somebody asked for it
    attached: str = ""


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """A replica that is alive; `address`: where it listens, "" if nowhere."""

    replica: ReplicaId
    nonce: str
    schedules: bool
    address: str = ""


class World:
    """A replica's view; single-threaded, changed only between cycles."""

    def __init__(self, replica: ReplicaId) -> None:
        self.replica = replica
        self.revision = 0
        self.incarnation = 0
        self.returned: dict[PoolName, int] = {}  # life of the store in which each pool was last found in order
        self.usage = Usage()
        self.queues: dict[QueueUid, QueueFacts] = {}
        self.flavors: dict[FlavorName, Flavor] = {}
        self.priorities: dict[str, PriorityClass] = {}
        self.cohorts: dict[str, Cohort] = {}
        self.grants: dict[str, GrantFacts] = {}
        self.wanted: dict[str, ReplicaId] = {}  # by root: the replica that an operator wants to admit for it
        self._cohort_revisions: dict[str, int] = {}
        self.replicas: dict[ReplicaId, ReplicaFacts] = {}
        self.slots: tuple[PoolName, ...] = ()
        self.flavors_revision = 0
        self.growth = 0  # stamp of the last growth of any pool's capacity, or of the usability of a pool
        self.freed = 0  # stamp of the last time when any queue's quota may have got room
        self.settings_changed = 0  # counts up when a queue, flavor or pool setting changes
        self.agents: dict[PoolName, int] = {}  # revision of each pool's newest attach: the epoch that counts
        self.agents_changed = 0  # counts up with every attach
        self._queue_values: dict[QueueName, tuple[Queue, int]] = {}
        self._pools: dict[PoolName, _Pool] = {}
        self._leaving: set[PoolName] = set()
        self.left: set[PoolName] = set()  # pools that have left and may not join again
        self.barred: dict[str, int] = {}  # by key: until when certificates began that are believed no more
        self.heard = 0  # summaries that came
        self.released: dict[
            PoolName, int
        ] = {}  # answered bindings of each pool that went away: places were given back
        self._unanswered: set[str] = set()
        self._pool_of: dict[str, PoolName] = {}
        self._assumed: set[str] = set()
        self._quota_freed: dict[QueueUid, int] = {}
        self._fleet = Fleet()

    # ---- settings --------------------------------------------------------------------------------------------

    def put_queue(self, queue: Queue, revision: int) -> None:
        """A queue exists with these settings."""
        self._queue_values[queue.name] = (queue, revision)
        self._free_quota(queue.uid)
        self._derive_queues()

    def remove_queue(self, name: QueueName) -> None:
        """A queue is gone."""
        self._queue_values.pop(name, None)
        self._derive_queues()

    def put_cohort(self, cohort: Cohort, revision: int) -> None:
        """A cohort exists; which root a queue belongs to may change by it."""
        self.cohorts[cohort.name] = cohort
        self._cohort_revisions[cohort.name] = revision
        self._derive_queues()

    def remove_cohort(self, name: str) -> None:
        """A cohort is gone."""
        self.cohorts.pop(name, None)
        self._cohort_revisions.pop(name, None)
        self._derive_queues()

    def _derive_queues(self) -> None:
        self.settings_changed += 1
        self.queues = {
            queue.uid: self._queue_facts(queue, revision) for queue, revision in self._queue_values.values()
        }

    def _queue_facts(self, queue: Queue, revision: int) -> QueueFacts:
        path = cohorts_of(queue, self.cohorts)
        above = {name: self._cohort_revisions.get(name, 0) for name in path}
        return QueueFacts(queue, revision, root_of(queue, self.cohorts), above)

    def queue_named(self, name: QueueName) -> QueueFacts | None:
        """The queue of that name."""
        found = self._queue_values.get(name)
        return self.queues[found[0].uid] if found is not None else None

    def put_flavor(self, flavor: Flavor, revision: int) -> None:
        """A flavor exists."""
        self.flavors[flavor.name] = flavor
        self.flavors_revision = max(self.flavors_revision, revision)
        self.settings_changed += 1

    def remove_flavor(self, name: FlavorName, revision: int) -> None:
        """A flavor is gone."""
        self.flavors.pop(name, None)
        self.flavors_revision = max(self.flavors_revision, revision)
        self.settings_changed += 1

    def ordered_flavors(self) -> tuple[Flavor, ...]:
        """Flavors in the order in which hosts are matched with them."""
        return tuple(sorted(self.flavors.values(), key=lambda f: (f.order, f.name)))

    # ---- pools -----------------------------------------------------------------------------------------------

    def _pool(self, name: PoolName) -> _Pool:
        pool = self._pools.get(name)
        if pool is None:
            pool = self._pools[name] = _Pool(PoolLedger(self._grow))
        return pool

    def _grow(self) -> int:
        self.growth += 1
        return self.growth

    def put_pool(self, facts: PoolFacts) -> None:
        """A pool has joined, or its settings changed."""
        pool = self._pool(facts.name)
        if pool.facts is None or (pool.facts.cordoned and not facts.cordoned):
            pool.ledger.look_again()
        pool.facts, pool.told = facts, None
        (self._leaving.discard if facts.leave is None else self._leaving.add)(facts.name)
        self.settings_changed += 1

    def remove_pool(self, name: PoolName) -> None:
        """A pool was removed; its bindings, if any are left, stay counted for quota."""
        pool = self._pool(name)
        pool.facts = pool.told = None
        pool.ledger.forget_summary()
        self._leaving.discard(name)
        self.settings_changed += 1

    def put_head(self, name: PoolName, flavor: FlavorName, revision: int) -> None:
        """Somebody took from a flavor of the pool at this revision, or an operator bumped it (0: removed)."""
        pool = self._pool(name)
        pool.heads[flavor], pool.told = revision, None

    def put_agent(self, name: PoolName, revision: int) -> None:
        """An agent has attached at this revision, or none may speak for the pool since then: what an older one still
        says counts for nothing."""
        self.agents[name] = revision
        self.agents_changed += 1

    def put_returned(self, name: PoolName, incarnation: int) -> None:
        """In this life of the store the pool's agent has said that everything which runs there is desired."""
        self.returned[name] = incarnation

    def missing(self) -> tuple[PoolName, ...]:
        """The pools that have not come back since the store was restored, by name (P15).

        While there is one, a job that is pending here may run there, so nothing is bound or started anywhere. A store
        in its first life has nothing behind it. What a replica does not know yet errs on the safe side. A pool whose
        machines somebody has vouched for as dead, in this life of the store, is not waited for; one that is only
        taken out by force may run on.
        """
        if self.incarnation <= FIRST_INCARNATION:
            return ()
        late = (name for name in self.pool_names() if self.returned.get(name) != self.incarnation)
        return tuple(name for name in late if not self._is_vouched(name))

    def _is_vouched(self, name: PoolName) -> bool:
        facts = self._pool(name).facts
        leave = facts.leave if facts is not None else None
        return leave is not None and leave.vouched and leave.incarnation == self.incarnation

    def put_attached(self, name: PoolName, replica: str) -> None:
        """The pool's agent has a stream to that replica; empty for none."""
        self._pool(name).attached = replica

    def accept_summary(self, name: PoolName, summary: SummaryFacts) -> bool:
        """Take a pool's summary if it is newer and of this life of the store; whether it was taken."""
        if summary.order.incarnation != self.incarnation:
            return False
        self.heard += 1
        return self._pool(name).ledger.accept(summary)

    def accept_empty(self, name: PoolName, order: SummaryOrder, shape: Shape) -> bool:
        """Take the shape of the empty pool if it is newer and of this life of the store; whether it was taken."""
        if order.incarnation != self.incarnation:
            return False
        return self._pool(name).ledger.accept_empty(order, shape)

    def ledger(self, name: PoolName) -> PoolLedger:
        """The capacity ledger of a pool."""
        return self._pool(name).ledger

    def pool_facts(self, name: PoolName) -> PoolFacts | None:
        """Settings of a pool with its heads; None if it has not joined."""
        pool = self._pools.get(name)
        if pool is None or pool.facts is None:
            return None
        if pool.told is None:
            pool.told = replace(pool.facts, heads=dict(pool.heads))
        return pool.told

    def drained(self) -> list[PoolFacts]:
        """The pools whose jobs are to be moved elsewhere, by name."""
        drained = (pool.facts for _, pool in sorted(self._pools.items()))
        return [facts for facts in drained if facts is not None and facts.drain is not None]

    def leaving(self) -> list[PoolFacts]:
        """The pools that leave, by name."""
        leaving = (self._pools[name].facts for name in sorted(self._leaving))
        return [facts for facts in leaving if facts is not None]

    def attached_to(self, name: PoolName) -> str:
        """The replica that has the pool's stream, empty for none."""
        pool = self._pools.get(name)
        return pool.attached if pool is not None else ""

    def pool_names(self) -> tuple[PoolName, ...]:
        """Pools that have joined, by name."""
        return tuple(sorted(name for name, pool in self._pools.items() if pool.facts is not None))

    # ---- bindings --------------------------------------------------------------------------------------------

    def put_binding(self, key: str, binding: BindingFacts) -> None:
        """A binding is live: committed, or assumed (create revision ASSUMED) until its outcome is known."""
        if key in self._pool_of:
            if not self.is_assumed(key) or binding.create_revision == ASSUMED:
                return
            self.remove_binding(key)
        if binding.create_revision == ASSUMED:
            self._assumed.add(key)
        self._unanswered.add(key)
        self._pool_of[key] = binding.pool
        self._pool(binding.pool).ledger.put(key, binding)
        self.usage.put(binding)

    def put_bindings(self, found: Iterable[tuple[str, BindingFacts, bool]]) -> None:
        """Many live bindings that are not known yet: key, facts, whether it was written again since it was made."""
        by_pool: dict[PoolName, dict[str, BindingFacts]] = {}
        for key, binding, answered in found:
            if not answered:
                self._unanswered.add(key)
            self._pool_of[key] = binding.pool
            by_pool.setdefault(binding.pool, {})[key] = binding
            self.usage.put(binding)
        for name, bindings in by_pool.items():
            self._pool(name).ledger.put_many(bindings)

    def answer_binding(self, key: str) -> None:
        """A live binding was written again: it was not refused, so it has places until it is gone."""
        self._unanswered.discard(key)

    def remove_binding(self, key: str) -> None:
        """A binding is gone."""
        name = self._pool_of.pop(key, None)
        if name is None:
            return
        self._assumed.discard(key)
        if key in self._unanswered:
            self._unanswered.discard(key)
        else:
            self.released[name] = self.released.get(name, 0) + 1
        binding = self._pool(name).ledger.remove(key)
        if binding is not None:
            self.usage.remove(binding)
            self._free_quota(binding.queue)

    def binding_keys(self) -> tuple[str, ...]:
        """Keys of all live bindings."""
        return tuple(self._pool_of)

    def bindings_until(self, revision: int) -> tuple[str, ...]:
        """Keys of the live bindings that were created until this revision; assumed ones are not known to be."""
        return tuple(key for pool in self._pools.values() for key in pool.ledger.created_until(revision))

    def is_assumed(self, key: str) -> bool:
        """Whether the binding is counted because the outcome of its transaction is not known (P3)."""
        return key in self._assumed

    def has_binding(self, key: str) -> bool:
        """Whether the binding is counted."""
        return key in self._pool_of

    # ---- snapshots -------------------------------------------------------------------------------------------

    def held_roots(self, nonce: str) -> Mapping[str, int]:
        """Roots whose grant names this start of this replica, with the grant's revision."""
        return {
            root: grant.revision
            for root, grant in sorted(self.grants.items())
            if grant.replica == self.replica and grant.nonce == nonce
        }

    def roots(self) -> tuple[str, ...]:
        """Every root that a queue belongs to, by name."""
        return tuple(sorted({facts.root for facts in self.queues.values()}))

    def snapshot(
        self, *, now_s: float, nonce: str, avoided: Mapping[tuple[int, PoolName], Reason] = NOTHING_AVOIDED
    ) -> Snapshot:
        """The world as it is now, immutable as far as a cycle reads it."""
        return Snapshot(
            replica=self.replica,
            revision=self.revision,
            growth=self.growth,
            pools=tuple(self._view(name, now_s) for name in self.pool_names()),
            queues=self.queues,
            grants=self.held_roots(nonce),
            usage=self.usage,
            flavors=tuple(f.name for f in self.ordered_flavors()),
            schedulers=frozenset(r.replica for r in self.replicas.values() if r.schedules),
            avoided=avoided,
            fleet=self._fleet,
        )

    def _view(self, name: PoolName, now_s: float) -> PoolView:
        pool = self._pools[name]
        facts = self.pool_facts(name)
        assert facts is not None  # pool_names() lists joined pools only
        summary = pool.ledger.summary
        return PoolView(
            facts=facts,
            attached=bool(pool.attached),
            planned=pool.ledger.planned(),
            empty_shape=self.empty_shape(name),
            age_s=now_s - summary.received_s if self._speaks(name, pool) and summary is not None else float("inf"),
            grown=pool.ledger.grown,
            unacknowledged=pool.ledger.unacknowledged(),
            takes=pool.ledger.takes,
        )

    def levels(self, name: PoolName) -> tuple[Level, ...]:
        """The levels of a pool, coarse to fine; none if it has not joined."""
        facts = self._pools[name].facts if name in self._pools else None
        return facts.levels if facts is not None else ()

    def empty_shape(self, name: PoolName) -> Shape | None:
        """What the pool could hold if it were empty; None while that is not known for the flavors as they are now."""
        summary = self._pools[name].ledger.summary if name in self._pools else None
        current = summary is not None and summary.settings_revision >= self.flavors_revision
        return summary.empty_shape if summary is not None and current else None

    def _free_quota(self, queue: QueueUid) -> None:
        self.freed += 1
        self._quota_freed[queue] = self.freed

    def _speaks(self, name: PoolName, pool: _Pool) -> bool:
        """Whether the newest summary is of the agent that is attached: what one before it said may be long past."""
        summary = pool.ledger.summary
        return summary is not None and summary.order.epoch_revision >= self.agents.get(name, 0)

    def quota_stamp(self, queue: QueueUid) -> int:
        """Stamp of the last time when the queue's quota may have got room, or its settings changed."""
        return self._quota_freed.get(queue, 0)


def winner(root: str, replicas: Iterable[ReplicaFacts]) -> ReplicaId | None:
    """The rendezvous winner of a root, or of what else one replica sees to, among the replicas that schedule; None if
    there is none."""
    candidates = [r.replica for r in replicas if r.schedules]
    return max(candidates, key=lambda r: (_weight(root, r), r), default=None)


def _weight(root: str, replica: ReplicaId) -> bytes:
    return hashlib.blake2b(f"{root}\0{replica}".encode(), digest_size=8).digest()
