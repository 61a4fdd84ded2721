"""Safety of the clusters: what runs where, judged from the clusters' own records against the store's.

Checked at every operation that a cluster carries out:

* S1  what our gangs hold on a node never exceeds what the node offers; nothing new goes where inventory shrank;
* S2  a record has a place for every pod of its binding; a gang that was only told to hold starts nothing;
* S3  pods of at most one attempt of a job exist anywhere; every pod is created at most once, so that an attempt that
      was lost is never run again (P7);
* S4  an agent holds and starts only what is bound in its pool, never an older attempt than it has had; a claim's
      complete set is not older than its epoch (P6); a superseded epoch writes nothing (P8);
* P12 a record outlives its pods as long as its binding wants them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from hanse.model.ids import Attempt, JobId, Part, PoolName
from hanse.simcluster.engine import Engine
from hanse.simcluster.facts import Fact, FactKind
from hanse.simcluster.inputs import Claim, EpochId, Forget, GangId, HeldSet, Hold, Input
from hanse.simcluster.spec import ClusterSpec
from hanse.store import keys
from hanse.store.keys import BindingKey
from hanse.store.schema import Desired
from tests.sim import rooms
from tests.sim.verdict import Court
from tests.sim.view import SeenBinding, StoreView

AGENT_LAG_MAX_S: Final = 60.0
"""How long an agent may not know that a node changed; a hold on such a node is a race, not a fault."""


class ClusterObserver(Protocol):
    """Who looks on, at once."""

    def applied(self, engine: "ObservedEngine", change: Input, refused: str) -> None:
        """The cluster did, or refused, one thing."""
        ...

    def noted(self, engine: "ObservedEngine", fact: Fact) -> None:
        """Something happened to pods."""
        ...


class ObservedEngine(Engine):
    """A simulated cluster that is told on. `dead`: what is on its way to it arrives nowhere."""

    def __init__(self, spec: ClusterSpec, observer: ClusterObserver, *, uid: str, now_ms: int) -> None:
        super().__init__(spec, uid=uid, now_ms=now_ms)
        self._observer = observer
        self._seen = 0
        self.dead = False

    @property
    def pool(self) -> PoolName:
        return PoolName(self.spec.name)

    def apply(self, change: Input, now_ms: int) -> str:
        refused = super().apply(change, now_ms)
        self._tell()
        self._observer.applied(self, change, refused)
        return refused

    def advance(self, now_ms: int) -> None:
        super().advance(now_ms)
        self._tell()

    def _tell(self) -> None:
        news = [fact for fact in self.facts if fact.seq > self._seen]
        for fact in news:
            self._seen = fact.seq
            self._observer.noted(self, fact)


@dataclass(slots=True)
class _JobPods:
    """What runs of one job, and what was ever created in which life of the store."""

    occupying: dict[tuple[PoolName, GangId], int] = field(default_factory=dict)
    created: dict[tuple[int, Attempt, Part, str, int], PoolName] = field(default_factory=dict)


class ClusterChecks:
    """Fed by the engines' hooks; `view` is the store as it is at that moment."""

    def __init__(self, view: StoreView, court: Court) -> None:
        self._view = view
        self._accuse = court.accuse
        self._jobs: dict[JobId, _JobPods] = {}
        self._newest: dict[tuple[PoolName, JobId], Attempt] = {}
        self._ever_started: dict[str, None] = {}
        self._parts: dict[tuple[JobId, Attempt], int] = {}
        self._held_in: dict[tuple[PoolName, GangId], int] = {}
        self._node_changed_s: dict[tuple[PoolName, int], float] = {}

    # ---- what others tell

    def restarted(self) -> None:
        """The store was set back; attempts are counted anew."""
        self._newest.clear()
        for binding in self._view.bindings.values():
            self.binding_seen(binding)

    def _is_behind(self, engine: Engine) -> bool:
        """Whether its agent has not attached since the store was set back: it does what was right before (P15)."""
        return engine.claim.epoch.incarnation < self._view.incarnation

    def binding_seen(self, binding: SeenBinding) -> None:
        """A binding was written: what it ever asked for counts, since an agent may act on what it read."""
        self._parts[binding.key.job, binding.key.attempt] = binding.value.parts
        if binding.value.desired == Desired.START:
            self._ever_started[binding.key.text] = None

    def node_changed(self, pool: PoolName, node: int, now_s: float) -> None:
        """Fate or an operator changed what a node offers, or foreign pods came to it."""
        self._node_changed_s[pool, node] = now_s

    def binding_gone(self, key: BindingKey, engine: Engine) -> None:
        """A binding was deleted: its agent has said that nothing of it is left, and nothing may be."""
        gang = engine.gangs.get(GangId(key.job, key.attempt, key.part))
        if gang is not None and gang.counts.occupying:
            name = f"{key.job}/{key.attempt}.{key.part}"
            what = f"{name} was released in {key.pool}, where {gang.counts.occupying} pods run"
            self._accuse("S3", what, key.job, key.pool)

    def requeued(self, job: JobId, attempt: Attempt, engines: Iterable[Engine]) -> None:
        """A job waits again: this attempt of it must not have succeeded (P13)."""
        gangs = [g for e in engines for key, g in e.gangs.items() if (key.job, key.attempt) == (job, attempt)]
        whole = len(gangs) == self._parts.get((job, attempt))
        if whole and all(gang.counts.succeeded == len(gang.nodes) for gang in gangs):
            self._accuse("S8", f"attempt {attempt} of {job} succeeded, and the job waits to run again (P13)", job)

    # ---- operations

    def applied(self, engine: ObservedEngine, change: Input, refused: str, now_s: float) -> None:
        """A cluster carried something out."""
        if refused:
            return
        match change:
            case Hold():
                self._held(engine, change, now_s)
            case Forget():
                if not self._is_behind(engine):
                    self._forgot(engine.pool, change.gang)
            case Claim():
                if not self._is_behind(engine):
                    self._claimed(engine.pool, change)
            case _:
                return

    def wrote(self, pool: PoolName, writer: EpochId, claimed: EpochId) -> None:
        """A batch of an agent took effect."""
        if writer != claimed:
            self._accuse(
                "S4", f"epoch {tuple(writer)} wrote to {pool}, which {tuple(claimed)} had claimed (P8)", pool
            )

    def _held(self, engine: ObservedEngine, hold: Hold, now_s: float) -> None:
        pool, gang = engine.pool, hold.gang
        self._held_in[pool, gang] = engine.claim.epoch.incarnation
        if self._is_behind(engine):
            return
        binding = self._view.bindings.get(keys.binding(pool, gang.job, gang.attempt, gang.part))
        if binding is None:
            self._accuse("S4", f"{pool} holds {_name(gang)}, which is not bound there", gang.job, pool)
            return
        newest = self._newest.get((pool, gang.job), Attempt(0))
        if gang.attempt < newest:
            self._accuse("S4", f"{pool} holds {_name(gang)} after it had attempt {newest}", gang.job, pool)
        self._newest[pool, gang.job] = max(newest, gang.attempt)
        self._check_record(pool, hold, binding)
        self._check_nodes(engine, hold, now_s)

    def _check_record(self, pool: PoolName, hold: Hold, binding: SeenBinding) -> None:
        held = sorted((_pods(s), s.first_rank, s.flavor) for s in hold.sets)
        bound = sorted((s.count, s.first_rank, s.flavor) for s in binding.value.sets)
        if held != bound:
            what = f"{pool} holds {held} of {_name(hold.gang)} (pods, rank, flavor), bound is {bound}"
            self._accuse("S2", what, hold.gang.job, pool)
        if hold.revision != binding.created:
            what = (
                f"{pool} holds {_name(hold.gang)} as of revision {hold.revision}, it was bound at {binding.created}"
            )
            self._accuse("S4", what, hold.gang.job, pool)

    def _check_nodes(self, engine: ObservedEngine, hold: Hold, now_s: float) -> None:
        """No node of the record is over-full by our own gangs, nor taken where inventory is known to have shrunk."""
        held = rooms.held(engine)
        for node in sorted(set(engine.gangs[hold.gang].nodes.tolist())):
            old_news = now_s - self._node_changed_s.get((engine.pool, node), 0.0) > AGENT_LAG_MAX_S
            every = rooms.added(held[node], rooms.foreign(engine, node))
            over = rooms.exceeds(held[node], rooms.whole(engine, node))
            full = rooms.exceeds(every, rooms.offered(engine, node)) or not rooms.usable(engine, node)
            if over or (full and old_news):
                what = (
                    f"{engine.pool} holds {_name(hold.gang)} on {engine.nodes.names[node]}, which has no room for it"
                )
                self._accuse("S1", what, hold.gang.job, engine.pool)

    def _forgot(self, pool: PoolName, gang: GangId) -> None:
        life = self._held_in.get((pool, gang), 0)
        created = any((life, *gang[1:]) == pod[:3] for pod in self._pods_of(gang.job).created)
        binding = self._view.bindings.get(keys.binding(pool, gang.job, gang.attempt, gang.part))
        if created and binding is not None and binding.value.desired != Desired.STOP:
            self._accuse("S3", f"{pool} forgot {_name(gang)} while it is desired (P7, P12)", gang.job, pool)

    def _claimed(self, pool: PoolName, claim: Claim) -> None:
        if claim.accepted_revision < claim.epoch.revision:
            what = f"{pool} was claimed by {tuple(claim.epoch)} with a desired set of {claim.accepted_revision} (P6)"
            self._accuse("S4", what, pool)
        if claim.accepted_revision > self._view.revision:
            what = f"{pool} was claimed with a desired set of {claim.accepted_revision}, which no store has made"
            self._accuse("S4", what, pool)

    # ---- facts

    def noted(self, engine: ObservedEngine, fact: Fact) -> None:
        """A cluster's pods changed."""
        if fact.gang is None or fact.counts is None:
            return
        pods = self._pods_of(fact.gang.job)
        here = (engine.pool, fact.gang)
        if fact.kind == FactKind.STARTED:
            self._check_start(engine, fact.gang, fact.sets, pods)
        if fact.counts.occupying:
            pods.occupying[here] = fact.counts.occupying
        else:
            pods.occupying.pop(here, None)

    def _check_start(self, engine: ObservedEngine, gang: GangId, sets: tuple[HeldSet, ...], pods: _JobPods) -> None:
        pool = engine.pool
        for other_pool, other in pods.occupying:
            if other.attempt != gang.attempt or (other == gang and other_pool != pool):
                what = f"{pool} starts pods of {_name(gang)} while {other_pool} has pods of {_name(other)}"
                self._accuse("S3", what, gang.job, pool, other_pool)
        for held in sets:
            for rank in range(held.first_rank, held.first_rank + _pods(held)):
                pod = (self._held_in.get((pool, gang), 0), gang.attempt, gang.part, held.name, rank)
                before = pods.created.get(pod)
                pods.created[pod] = pool
                if before is not None:
                    what = f"{pool} runs {held.name}-{rank} of {_name(gang)}, which {before} ran before"
                    self._accuse("S3", what, gang.job, pool, before)
        key = keys.binding(pool, gang.job, gang.attempt, gang.part)
        if self._is_behind(engine):
            return
        if key not in self._view.bindings:
            self._accuse("S4", f"{pool} starts {_name(gang)}, which is not bound there", gang.job, pool)
        elif key not in self._ever_started:
            self._accuse("S2", f"{pool} starts {_name(gang)}, which it was told to hold only", gang.job, pool)

    def _pods_of(self, job: JobId) -> _JobPods:
        return self._jobs.setdefault(job, _JobPods())

    def running(self, job: JobId) -> dict[tuple[PoolName, GangId], int]:
        """Pods of a job that occupy nodes, by pool and gang."""
        return self._pods_of(job).occupying


def _pods(held: HeldSet) -> int:
    return len(held.nodes) // 4


def _name(gang: GangId) -> str:
    return f"{gang.job}/{gang.attempt}.{gang.part}"
