"""The product: the scheduler's core over summaries of pools, and a ledger of nodes in each pool.

What the shells do between them happens here without them: a decision becomes a binding at the next revision, agents
place bindings in that order or refuse them, and publish what they have left, encoded as in production. A summary is
up to SUMMARY_INTERVAL_S old when it is planned with, a different time for each pool: the scheduler learns that late
of what was given back, while what it has bound itself it knows.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from bench.hierarchy.fleet import Pool, flavors, pool_inventory
from bench.hierarchy.stream import TENANTS, Gang, queue_uid
from bench.hierarchy.waiting import waiting
from hanse.agent.core.ledger import NodeLedger, Placed
from hanse.model.desired import BoundSet
from hanse.model.fence import GangKey
from hanse.model.ids import JobId, Part, QueueName, ReplicaId
from hanse.model.queue import Flavor, FlavorQuota, Queue
from hanse.model.request import GangRequest
from hanse.model.resources import EMPTY
from hanse.scheduler.core.backlog import Backlog
from hanse.scheduler.core.facts import BindingFacts, GrantFacts, PoolFacts, SummaryFacts, SummaryOrder
from hanse.scheduler.core.pending import PendingSet
from hanse.scheduler.core.plan import Decision, Plan, run_cycle
from hanse.scheduler.core.snapshot import Limits
from hanse.scheduler.core.world import ReplicaFacts, World
from hanse.shape import decode, encode

SUMMARY_INTERVAL_S: Final = 2.0
"""As agents are set by default."""

DECISIONS_MAX: Final = 3
"""Of one cycle. In production a cycle is made every few milliseconds and has a few jobs at most; here what came in a
round is planned at one moment, in several cycles."""

HEARTBEAT_S: Final = 10.0
"""A summary is repeated that often if nothing changed."""

_REPLICA: Final = ReplicaId("bench")
_NONCE: Final = "only"


def queues(known: Sequence[Flavor]) -> tuple[Queue, ...]:
    """One queue a tenant, which may use all of every flavor: quota is not what is measured."""
    quotas = tuple(FlavorQuota(flavor.name, EMPTY) for flavor in known)
    return tuple(Queue(queue_uid(t), QueueName(t.lower()), "", quotas) for t in TENANTS)


class _Agent:
    """One pool's agent, as far as places go."""

    def __init__(self, pool: Pool, lag_s: float) -> None:
        self.name = pool.name
        self.ledger = NodeLedger(pool_inventory(pool))
        self.summaries = 0
        self.clipped = 0
        self._lag_s = lag_s
        self._told_s = -math.inf
        self._ended: list[tuple[float, GangKey]] = []
        self._changed = True

    def place(self, decision: Decision, key: GangKey) -> bool:
        """Take the places of a binding; whether there were any."""
        part = decision.parts[0]
        sets = [BoundSet(str(i), n, rank, f) for (i, n, rank), f in zip(part.counts, part.flavors, strict=True)]
        self._changed = True
        return isinstance(self.ledger.place(key, part.request, sets), Placed)

    def end(self, key: GangKey, at_s: float) -> None:
        """The gang's pods are gone."""
        self._ended.append((at_s, key))

    def summary(self, revision: int, now_s: float) -> SummaryFacts | None:
        """The newest summary as it is read, None if nothing new is said."""
        self._give(now_s - self._lag_s)
        if not self._changed and now_s < self._told_s + HEARTBEAT_S:
            self._give(now_s)
            return None
        shape = decode(encode(self.ledger.inventory.shape()))
        self.summaries += 1
        self.clipped += not shape.exact
        self._told_s, self._changed = now_s, False
        self._give(now_s)
        order = SummaryOrder(0, 1, self.summaries)
        return SummaryFacts(order, revision, now_s, round(now_s * 1e3), shape, None, settings_revision=1)

    def _give(self, until_s: float) -> None:
        for _, key in (e for e in self._ended if e[0] <= until_s):
            self.ledger.give(key)
            self._changed = True
        self._ended = [e for e in self._ended if e[0] > until_s]


class Federation:
    """See the module.

    Attributes:
        refused: decisions that an agent had no places for.
        cycles: how many were run.
    """

    def __init__(self, fleet: Sequence[Pool], limits: Limits, seed: int) -> None:
        self.refused = 0
        self.cycles = 0
        self._rng = random.Random(seed)
        self._limits = replace(limits, decisions_max=DECISIONS_MAX)
        self._agents = {p.name: _Agent(p, self._rng.uniform(0.0, SUMMARY_INTERVAL_S)) for p in fleet}
        self._world = _world(fleet)
        self._pending = PendingSet()
        self._backlog = Backlog(self._world, self._pending)
        self._requests: dict[int, GangRequest] = {}
        self._held: dict[JobId, tuple[_Agent, GangKey]] = {}

    @property
    def summaries(self) -> tuple[int, int]:
        """How many were made, and how many of these were clipped."""
        return sum(a.summaries for a in self._agents.values()), sum(a.clipped for a in self._agents.values())

    def submit(self, gang: Gang) -> None:
        """See Side."""
        self._requests[gang.class_hash] = gang.request
        self._pending.put(waiting(gang))

    def release(self, gang: Gang, at_s: float) -> None:
        """See Side."""
        agent, key = self._held.pop(gang.job)
        agent.end(key, at_s)
        self._world.remove_binding(str(key))

    def decide(self, now_s: float) -> list[JobId]:
        """See Side."""
        for agent in self._agents.values():
            summary = agent.summary(self._world.revision, now_s)
            if summary is not None:
                self._world.accept_summary(agent.name, summary)
        started: list[JobId] = []
        more = True
        while more:
            plan = self._plan(now_s)
            started += [d.job.job for d in plan.decisions if self._bind(d, now_s)]
            more = plan.exhausted
        return started

    def _plan(self, now_s: float) -> Plan:
        """One cycle, as the shell runs it."""
        self.cycles += 1
        service = self._pending.service(self._backlog.skip(now_s))
        snapshot = self._world.snapshot(now_s=now_s, nonce=_NONCE, avoided=self._backlog.avoided(now_s))
        plan = run_cycle(snapshot, service, self._requests, self._limits, self._rng, self._backlog.before())
        if plan.failed:
            raise RuntimeError(f"a request could not be planned: {next(iter(plan.failed.values()))}")
        self._backlog.remember(plan, now_s)
        return plan

    def _bind(self, decision: Decision, now_s: float) -> bool:
        """Commit, and have it placed; a refused job waits on."""
        job, part = decision.job, decision.parts[0]
        agent = self._agents[part.pool]
        key = GangKey(job.job, job.next_attempt, Part(0))
        self._world.revision += 1
        binding = BindingFacts(
            part.pool, job.job, key.attempt, key.part, self._world.revision, job.queue,
            part.request, part.flavors, part.charges,
        )  # fmt: skip
        self._world.put_binding(str(key), binding)
        self._pending.remove(job.job)
        if agent.place(decision, key):
            self._world.answer_binding(str(key))
            self._held[job.job] = agent, key
            return True
        self.refused += 1
        self._world.remove_binding(str(key))
        self._backlog.refused(job.class_hash, part.pool, now_s)
        self._pending.put(job)
        return False


def _world(fleet: Sequence[Pool]) -> World:
    """What one replica knows that has every root and is alone."""
    world = World(_REPLICA)
    world.revision = 1
    for flavor in flavors():
        world.put_flavor(flavor, 1)
    for queue in queues(flavors()):
        world.put_queue(queue, 1)
    for root in world.roots():
        world.grants[root] = GrantFacts(root, _REPLICA, _NONCE, 1)
    world.replicas[_REPLICA] = ReplicaFacts(_REPLICA, _NONCE, schedules=True)
    for slot, pool in enumerate(fleet):
        world.put_pool(PoolFacts(pool.name, slot, 1))
        world.put_attached(pool.name, _REPLICA)
        world.put_agent(pool.name, 1)
    return world
