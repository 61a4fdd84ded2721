"""All gangs of a pool: the desired set on one side, the cluster on the other, and the ledger between.

Inputs: a relist of the cluster, an accepted desired set or a change of it, pod counts and nodes from the watch,
answers to operations. Outputs: operations (`take_ops`), reports (`outbox`), and what a summary says. Everything is a
plain call that returns at once; the shell only moves bytes. One gang is `core.gang`; here is what lies between gangs:

* **Order.** Bindings are placed in the order in which the store created them, each whole or not at all. They wait in
  a queue, because placing thousands at once would hold up everybody else: the shell calls `place` with a limit.
* **`observed_revision`** (P10) is the last revision up to which every binding is *placed or refused*. While one with
  create revision r waits, it is r - 1. It and the free shape are read in the same instant.
* **Needs.** What a job's pods name must be in the cluster. Only the shell can look, so before it lets gangs be placed
  it is told what those ahead in the queue want, and brings what the cluster lacks of it; a gang of which nobody has
  looked waits, and so do those behind it.
* **Attempts** (S4). Of two attempts of a job, the older one stops whatever its binding says, and the newer one is
  not placed before the older one is gone. What is found in the cluster and is not desired is stopped and forgotten
  first. Later bindings are placed meanwhile; a planner that counts them twice for that while sees less room, never
  more.
* **Strangers.** Pods of ours without a record have nodes that nobody told us. While such pods occupy nodes, nothing
  is placed; they end at once.
* **Doubt.** When a write was not answered, its operations may yet take effect, any time later. Looking cannot settle
  that (P3); only a newer epoch can (P8). So from then on nothing is written, and nothing is concluded about the
  gangs that the write was about, until a new claim and a relist.
* **Acceptance** of a newer revision goes into the cluster with the first operation that rests on it, ahead of it in
  the same write (S4), or alone after a while. A refusal rests on nothing in the cluster: that no older set is obeyed
  after it is what the link promises (P6).

Rejected: deciding by what changed (edges). Every input writes facts and asks the same questions again (`_settle`), so
repeated, late and reordered inputs, a restart and a relist all end in the same place. That all inputs end there is
why this is one module.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from hanse.agent.core.gang import NO_SETS, Failure, Gang
from hanse.agent.core.ledger import Ledger, Placed, Unplaced
from hanse.agent.core.outbox import Outbox
from hanse.agent.core.payload import Payload, decode_payload, encode_payload
from hanse.agent.core.records import (
    PAYLOAD_BYTES_MAX,
    AcceptRevision,
    ClusterEvent,
    ClusterState,
    ClusterWrite,
    ForgetGang,
    GangChanged,
    GangRecord,
    NodeChanged,
    NodeGone,
    PodCounts,
    SetPlace,
    Wanted,
    WriteResult,
)
from hanse.agent.core.terms import part_request, start_op, wanted_of
from hanse.model.desired import Binding, DesiredAction
from hanse.model.errors import HanseError
from hanse.model.fence import GangKey
from hanse.model.ids import Attempt, JobId
from hanse.model.job import JobSpec
from hanse.model.reasons import Reason
from hanse.model.report import GangStatus

ENDED_KEPT_MAX: Final = 1_000
"""Gangs whose placement is remembered after they are gone, for questions and counts that come late."""

ATTEMPTS_KEPT_MAX: Final = 20_000
"""Jobs of which the newest accepted attempt is remembered."""

_BUILDS_UP: Final = frozenset({DesiredAction.HOLD, DesiredAction.START})
_SHOWN: Final = frozenset({GangStatus.HELD, GangStatus.STARTED, GangStatus.RUNNING})

ParseSpec = Callable[[bytes], JobSpec]


@dataclass(frozen=True, slots=True)
class Figures:
    """Gangs by what a summary says of them."""

    held: int
    started: int
    stopping: int


@dataclass(slots=True)
class ByFigure:
    """The gangs that are held, how many run, and those that end."""

    held: list[GangKey] = field(default_factory=list)
    started: int = 0
    stopping: list[GangKey] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Turn:
    """What became of the gangs of one call of `place`: how many have places, and why others have none."""

    placed: int
    refused: tuple[Reason, ...]


class Gangs:
    """See the module.

    Args:
        parse_spec: reads a job's spec; raises HanseError if it cannot.

    Attributes:
        revision: up to which the desired set is known.
        accepted: a complete desired set was accepted; before that, nothing is done.
        recovering: nothing is placed or started that is not in the cluster: what an earlier life of the store knew
            of it may run somewhere else (P15).
        doubted: a write was not answered; nothing is written before the next claim.
        changed: what a summary says changed since somebody cleared this.
    """

    def __init__(self, parse_spec: ParseSpec) -> None:
        self.outbox = Outbox()
        self.revision = 0
        self.accepted = False
        self.recovering = False
        self.doubted = False
        self.changed = False
        self._parse_spec = parse_spec
        self._ledger: Ledger | None = None
        self._gangs: dict[GangKey, Gang] = {}
        self._by_job: dict[JobId, list[Gang]] = {}
        self._waiting: dict[GangKey, Binding] = {}
        self._queue: deque[GangKey] = deque()
        self._blocked: dict[JobId, list[GangKey]] = {}
        self._strangers: dict[GangKey, Gang] = {}
        self._touched: dict[GangKey, None] = {}
        self._in_flight: list[tuple[Gang | None, ClusterWrite]] = []
        self._incarnation = 0
        self._written_revision = 0
        self._newest: dict[JobId, Attempt] = {}
        self._ended: dict[GangKey, tuple[SetPlace, ...]] = {}

    # ---- the cluster is listed ----------------------------------------------------------------------------

    def relist(self, state: ClusterState, ledger: Ledger) -> int:
        """Take over what the cluster has; `ledger` is fresh and knows the listed nodes and foreign usage.

        No write may be under way. After a doubt, the list must be one that was made under a newer claim. To be
        followed by `accept` or `reconcile`.

        Returns how many gangs were not as they were thought to be.
        """
        forgetting = {gang.key for gang, op in self._in_flight if gang is not None and isinstance(op, ForgetGang)}
        self._ledger, self.doubted = ledger, False
        self._take_claim(state)
        self._in_flight.clear()
        self._strangers.clear()
        for gang in self._gangs.values():
            gang.placed = gang.stop_told = gang.blocked = False
        counts = {c.gang: c for c in state.pods}
        surprises = 0
        listed: dict[GangKey, None] = {}
        for record in state.records:
            listed[record.key] = None
            surprises += self._relist_record(record, counts.pop(record.key, None))
        for gang in list(self._gangs.values()):
            if gang.key not in listed:
                lost = gang.stored and gang.key not in forgetting
                surprises += lost
                self._relist_missing(gang, counts.pop(gang.key, None), lost=lost)
        for orphan in counts.values():
            surprises += self._add_orphan(orphan) is not None
        return surprises

    def _take_claim(self, state: ClusterState) -> None:
        self._written_revision = state.claim.accepted_revision
        if state.claim.epoch.incarnation != self._incarnation:
            self._incarnation = state.claim.epoch.incarnation
            self._newest.clear()  # a restored store may count attempts anew

    def _relist_record(self, record: GangRecord, counts: PodCounts | None) -> bool:
        gang = self._gangs.get(record.key)
        of_another_life = gang is not None and gang.create_revision not in (0, record.revision)
        known_from_pods = gang is not None and gang.record is None and gang.binding is None
        if gang is not None and (of_another_life or known_from_pods):
            self._remove(gang)
            gang = None
        counted = counts or PodCounts(record.key)
        same = gang is not None and (gang.busy or _is_like(gang, record, counted))
        if gang is None:
            said = decode_payload(record.payload)
            known = Gang(record.key, record.revision, shown=True, reserved=said.reserved, devices=said.devices)
            gang = self._add(known)
            gang.held_ms = said.held_ms
            gang.started_ms = said.held_ms if record.started and said.at_once else 0
        gang.keep(record)
        gang.stored, gang.started, gang.counts = True, record.started, counted
        gang.answered()
        return not same

    def _relist_missing(self, gang: Gang, counts: PodCounts | None, *, lost: bool) -> None:
        """A gang that we know, and the cluster has no record of."""
        if lost:
            gang.lose_record(counts)
        gang.stored = gang.started = False
        gang.counts = counts
        gang.answered()
        if gang.record is None and counts is not None and counts.existing:
            self._strangers[gang.key] = gang
        elif gang.record is not None and gang.undecided and gang.action in _BUILDS_UP and gang.binding is not None:
            # It had places only here, and the nodes are new: it is placed anew, in its turn.
            self._remove(gang)
            self._waiting[gang.key] = gang.binding

    def _add_orphan(self, counts: PodCounts) -> Gang | None:
        """Pods of ours without a record: nobody can tell where they are, so they end, and are lost if desired."""
        if not counts.existing:
            return None
        lost = Failure(Reason.INFRASTRUCTURE, infrastructure=True, message="its gang record is gone from the cluster")
        gang = self._add(Gang(counts.gang, counts=counts, failure=lost, shown=True))
        gang.binding = self._waiting.pop(counts.gang, None)
        self._strangers[gang.key] = gang
        return gang

    # ---- the desired set ----------------------------------------------------------------------------------

    def accept(self, revision: int, bindings: Sequence[Binding], *, now_ms: int, recovering: bool = False) -> None:
        """A complete desired set passed the fence: what is not in it is not desired."""
        self.accepted, self.revision = True, revision
        self._set_recovering(recovering)
        self._waiting.clear()
        for gang in self._gangs.values():
            gang.binding, gang.outdated = None, False
        for binding in bindings:
            self._desire(binding)
        self.outbox.restart()
        self.reconcile(now_ms=now_ms, again=True)

    def reconcile(self, *, now_ms: int, again: bool = False) -> None:
        """Draw every conclusion anew after a list; `again`: say how every gang is, also what was said before."""
        self.changed = True
        self._blocked.clear()
        self._queue = deque(binding.key for binding in sorted(self._waiting.values(), key=_order))
        for gang in list(self._gangs.values()):
            self._settle(gang, now_ms, again=again)

    def change(
        self,
        revision: int,
        bindings: Sequence[Binding],
        removed: Iterable[GangKey],
        *,
        now_ms: int,
        recovering: bool = False,
    ) -> None:
        """The desired set changed; it is now that of `revision`."""
        self.revision, self.changed = revision, True
        if self._set_recovering(recovering):
            for known in list(self._gangs.values()):
                self._settle(known, now_ms)
        for key in removed:
            self._waiting.pop(key, None)
            gang = self._gangs.get(key)
            if gang is not None:
                gang.binding = None
                self._settle(gang, now_ms)
        for binding in sorted(bindings, key=_order):
            for gang in self._desire(binding):
                self._settle(gang, now_ms)

    def _set_recovering(self, recovering: bool) -> bool:
        """Whether that is news. Orders to start that were not carried out are taken back, and given anew later."""
        news, self.recovering = recovering is not self.recovering, recovering
        if recovering:
            for gang in self._gangs.values():
                gang.start = None
        return news

    @property
    def tidy(self) -> bool:
        """Whether everything that the cluster has of us is desired, as far as is known."""
        if not self.accepted or self.doubted or any(gang.occupies for gang in self._strangers.values()):
            return False
        return not any(g.action is DesiredAction.UNSPECIFIED and g.present for g in self._gangs.values())

    def _desire(self, binding: Binding) -> list[Gang]:
        """Write down that this is desired; returns the gangs that this concerns at once."""
        key = binding.key
        concerned = self._outdate(binding)
        gang = self._gangs.get(key)
        if gang is not None and gang.create_revision in (0, binding.create_revision):
            if gang.binding is None or gang.binding.revision <= binding.revision:
                gang.binding = binding
            gang.outdated = key.attempt < self._newest[key.job]
            return [*concerned, gang]
        if gang is not None:
            gang.binding = None  # an earlier life of the same name, from before a restore of the store
            concerned.append(gang)
        elif binding.action is DesiredAction.STOP:
            self._waiting.pop(key, None)
            return [*concerned, self._add(Gang(key, binding.create_revision, binding))]
        if key not in self._waiting:
            self._queue.append(key)
        self._waiting[key] = binding
        return concerned

    def _outdate(self, binding: Binding) -> list[Gang]:
        """S4: older attempts of the job than the newest that was accepted are not desired to run any more."""
        key = binding.key
        newest = self._newest.pop(key.job, Attempt(0))
        self._newest[key.job] = max(newest, key.attempt)
        if len(self._newest) > ATTEMPTS_KEPT_MAX:
            del self._newest[next(iter(self._newest))]
        if key.attempt <= newest:
            return []
        older = [g for g in self._by_job.get(key.job, ()) if g.key.attempt < key.attempt and g.binding is not None]
        for gang in older:
            gang.outdated = True
        return older

    # ---- placing ------------------------------------------------------------------------------------------

    @property
    def to_place(self) -> bool:
        """Whether bindings wait that `place` would look at."""
        if not self._queue or self.doubted or self.recovering:
            return False
        return not any(gang.occupies for gang in self._strangers.values())

    def wanted(self, limit: int) -> tuple[Wanted, ...]:
        """What the first `limit` waiting gangs need of the cluster, each once."""
        found: dict[Wanted, None] = {}
        for key in islice(self._queue, limit):
            binding = self._waiting.get(key)
            want = self._wants(binding) if binding is not None else None
            if want is not None:
                found[want] = None
        return tuple(found)

    def _wants(self, binding: Binding) -> Wanted | None:
        """What a gang that is to be built up needs; None if it needs nothing, or nobody can tell."""
        if binding.action not in _BUILDS_UP:
            return None
        try:
            want = wanted_of(self._parse_spec(binding.spec))
        except HanseError:
            return None
        return want if want.needs else None

    def place(self, limit: int, *, now_ms: int, lacking: Mapping[Wanted, tuple[str, ...]] | None = None) -> Turn:
        """Place or refuse up to `limit` waiting gangs, in the order of their creation.

        Args:
            lacking: what the cluster lacks of what gangs want, as far as somebody has looked; None to let all pass.
        """
        placed = 0
        refused: list[Reason] = []
        while limit > 0 and self.to_place:
            limit -= 1
            key = self._queue.popleft()
            binding = self._waiting.get(key)
            if binding is None:
                continue
            if self._must_wait(key):
                self._blocked.setdefault(key.job, []).append(key)
                continue
            want = self._wants(binding) if lacking is not None else None
            if lacking is not None and want is not None and want not in lacking:
                self._queue.appendleft(key)
                break
            del self._waiting[key]
            self.changed = True
            lacks = lacking[want] if lacking is not None and want is not None else ()
            gang = self._add(self._lacking(binding, lacks) if lacks else self._placed(binding, now_ms))
            placed += gang.placed
            if gang.refusal is not None:
                refused.append(gang.refusal.reason)
            self._settle(gang, now_ms)
        return Turn(placed, tuple(refused))

    def _must_wait(self, key: GangKey) -> bool:
        """Whether an older attempt, or an earlier life of the same one, is still here."""
        return any(
            gang.key == key or (gang.key.attempt < key.attempt and gang.blocks_newer)
            for gang in self._by_job.get(key.job, ())
        )

    def _lacking(self, binding: Binding, lacks: Sequence[str]) -> Gang:
        said = f"there is no {', no '.join(lacks)}; create it in the cluster"
        gang = Gang(binding.key, binding.create_revision, binding)
        gang.refusal = Unplaced(Reason.NEEDS, said, "needs", wanted=len(lacks))
        return gang

    def _placed(self, binding: Binding, now_ms: int) -> Gang:
        assert self._ledger is not None
        key = binding.key
        gang = Gang(key, binding.create_revision, binding)
        if binding.action is DesiredAction.STOP:
            return gang
        if key.attempt < self._newest.get(key.job, key.attempt):
            gang.refusal = Unplaced(Reason.REFUSED, "a newer attempt of the job was accepted here", "attempt")
            return gang
        try:
            spec = self._parse_spec(binding.spec)
            request = part_request(binding, spec)
        except HanseError as error:
            gang.refusal = Unplaced(Reason.REFUSED, f"its spec cannot be read: {error}", "spec")
            return gang
        match self._ledger.place(key, request, binding.sets):
            case Placed() as places:
                self._place(gang, binding, places, now_ms)
                if binding.action is DesiredAction.START and gang.record is not None:
                    gang.start = start_op(binding, spec)
            case Unplaced() as no:
                gang.refusal = no
        return gang

    def _place(self, gang: Gang, binding: Binding, places: Placed, now_ms: int) -> None:
        at_once = binding.action is DesiredAction.START
        payload = encode_payload(Payload(at_once, now_ms, places.reserved, places.devices))
        if len(payload) > PAYLOAD_BYTES_MAX and self._ledger is not None:
            self._ledger.give(gang.key)
            gang.refusal = Unplaced(Reason.REFUSED, "it would reserve more nodes than a record can name", "record")
            return
        gang.keep(GangRecord(gang.key, binding.create_revision, places.sets, started=False, payload=payload))
        gang.placed, gang.domains, gang.note, gang.held_ms = True, places.domains, places.note, now_ms
        gang.reserved, gang.devices = places.reserved, places.devices

    # ---- conclusions --------------------------------------------------------------------------------------

    def _settle(self, gang: Gang, now_ms: int, *, again: bool = False) -> None:
        """Facts of the gang changed: conclude, give places back, see what to write and what to report."""
        if not self.accepted:
            return
        self._prepare_start(gang)
        gang.settle(now_ms=now_ms)
        self._account(gang)
        if gang.action is DesiredAction.UNSPECIFIED and not gang.present:
            self._remove(gang)
            return
        if gang.next_ops():
            self._touched[gang.key] = None
        self._report(gang, again=again)
        self._unblock(gang.key.job)

    def _prepare_start(self, gang: Gang) -> None:
        """A gang that was only held, or whose start was cut off, is to run: read its spec for the order to start."""
        if self.recovering or not gang.wants_start:
            return
        assert gang.binding is not None
        try:
            gang.start = start_op(gang.binding, self._parse_spec(gang.binding.spec))
        except HanseError as error:
            gang.break_off(f"its spec cannot be read: {error}")

    def _account(self, gang: Gang) -> None:
        holds, ledger = gang.holds_places, self._ledger
        if ledger is None:
            return
        if holds != gang.placed:
            if not holds:
                ledger.give(gang.key)
            elif gang.record is not None:
                taken = ledger.take(gang.key, gang.record.sets, gang.reserved, gang.devices)
                gang.domains = taken or gang.domains
            gang.placed, gang.given, self.changed = holds, NO_SETS, True
        if holds and (ended := gang.ended - gang.given):
            ledger.give_sets(gang.key, ended)
            gang.given, self.changed = gang.given | ended, True

    def _report(self, gang: Gang, *, again: bool) -> None:
        if gang.binding is None:
            self.outbox.drop(gang.key)
            return
        status = gang.status
        if status is GangStatus.UNSPECIFIED or (status is gang.said and not again):
            return
        gang.said = status
        gang.shown = gang.shown or status in _SHOWN
        self.changed = True
        self.outbox.put(gang.report())

    def _unblock(self, job: JobId) -> None:
        if job in self._blocked:
            self._queue.extendleft(reversed(self._blocked.pop(job)))

    def _add(self, gang: Gang) -> Gang:
        self._gangs[gang.key] = gang
        self._by_job.setdefault(gang.key.job, []).append(gang)
        return gang

    def _remove(self, gang: Gang) -> None:
        key = gang.key
        if gang.placed and self._ledger is not None:
            self._ledger.give(key)
        gang.placed, self.changed = False, True
        del self._gangs[key]
        mates = self._by_job[key.job]
        mates.remove(gang)
        if not mates:
            del self._by_job[key.job]
        self._strangers.pop(key, None)
        self._touched.pop(key, None)
        self.outbox.drop(key)
        self._remember(gang)
        self._unblock(key.job)

    def _remember(self, gang: Gang) -> None:
        self._ended.pop(gang.key, None)
        self._ended[gang.key] = gang.record.sets if gang.record is not None else ()
        if len(self._ended) > ENDED_KEPT_MAX:
            del self._ended[next(iter(self._ended))]

    # ---- operations ---------------------------------------------------------------------------------------

    @property
    def to_write(self) -> bool:
        """Whether `take_ops` may have something."""
        return bool(self._touched)

    def take_ops(self, limit: int, *, flush: bool = False) -> tuple[ClusterWrite, ...]:
        """Up to `limit` operations, all in one write, to be answered by `written` or `doubt`; none meanwhile.

        `flush`: also if there is nothing but a newer accepted revision to be written.
        """
        if self.doubted or self._in_flight:
            return ()
        wanted: list[tuple[Gang | None, ClusterWrite]] = []
        while self._touched and len(wanted) < limit - 2:
            key = next(iter(self._touched))
            del self._touched[key]
            gang = self._gangs.get(key)
            ops = gang.next_ops() if gang is not None else ()
            if gang is not None and ops:
                gang.busy = True
                wanted.extend((gang, op) for op in ops)
        if self.revision > self._written_revision and (wanted or flush):
            wanted.insert(0, (None, AcceptRevision(self.revision)))
        self._in_flight = wanted
        return tuple(op for _, op in wanted)

    def written(self, results: Sequence[WriteResult], *, now_ms: int) -> None:
        """The operations that were taken last were answered."""
        answered: dict[GangKey, Gang] = {}
        for (gang, op), result in zip(self._in_flight, results, strict=True):
            if gang is not None:
                gang.wrote(op, result, now_ms=now_ms)
                answered[gang.key] = gang
            elif isinstance(op, AcceptRevision):
                self._written_revision = op.revision
        self._in_flight = []
        for gang in answered.values():
            gang.answered()
            self._settle(gang, now_ms)

    def doubt(self) -> None:
        """The operations that were taken last may or may not take effect."""
        self.doubted = True

    def retry(self) -> None:
        """Try again what the cluster did not let go of."""
        for gang in self._gangs.values():
            if gang.blocked:
                gang.blocked = False
                self._touched[gang.key] = None

    # ---- the watch ----------------------------------------------------------------------------------------

    def observe(self, events: Iterable[ClusterEvent], *, now_ms: int) -> None:
        """Something changed in the cluster."""
        for event in events:
            match event:
                case GangChanged(counts):
                    self._observe_pods(counts, now_ms)
                case NodeChanged(node, foreign):
                    self.changed = True
                    if self._ledger is not None:
                        self._ledger.change_node(node, foreign)
                case NodeGone(name):
                    self.changed = True
                    if self._ledger is not None:
                        self._ledger.remove_node(name)

    def _observe_pods(self, counts: PodCounts, now_ms: int) -> None:
        gang = self._gangs.get(counts.gang)
        if gang is not None:
            gang.observe(counts)
        elif self.accepted and (counts.occupying or counts.gang not in self._ended):
            # Before anything is accepted another agent may be at work, whose records are not known here yet.
            gang = self._add_orphan(counts)
        if gang is not None:
            self._settle(gang, now_ms)

    # ---- what others ask ----------------------------------------------------------------------------------

    @property
    def observed_revision(self) -> int:
        """P10: up to here, every binding is placed or refused."""
        if not self._waiting:
            return self.revision
        return min(self.revision, min(binding.create_revision for binding in self._waiting.values()) - 1)

    @property
    def figures(self) -> Figures:
        """Gangs that are held, run, and end."""
        now = self.by_figure()
        return Figures(len(now.held), now.started, len(now.stopping))

    def by_figure(self) -> "ByFigure":
        """Which gangs that are."""
        found = ByFigure()
        for gang in self._gangs.values():
            if not gang.placed:
                continue
            if gang.action in (DesiredAction.STOP, DesiredAction.UNSPECIFIED):
                found.stopping.append(gang.key)
            elif gang.started:
                found.started += 1
            else:
                found.held.append(gang.key)
        return found

    @property
    def acceptance_behind(self) -> bool:
        """Whether the cluster remembers an older accepted revision than the accepted one."""
        return self.accepted and self.revision > self._written_revision

    def acknowledge(self, sequence: int) -> None:
        """The reports of that batch are in effect."""
        for report in self.outbox.acknowledge(sequence):
            gang = self._gangs.get(report.key)
            if gang is not None and report.domains:
                gang.domains_known = True

    def sets(self, key: GangKey) -> tuple[SetPlace, ...] | None:
        """The placement of a gang that is here, or was lately; None if it is not known."""
        gang = self._gangs.get(key)
        if gang is not None and gang.record is not None:
            return gang.record.sets
        return self._ended.get(key)


def _order(binding: Binding) -> tuple[int, int, GangKey]:
    """Bindings of one transaction have one revision, and the order in which they were planned."""
    return binding.create_revision, binding.order, binding.key


def _is_like(gang: Gang, record: GangRecord, counts: PodCounts) -> bool:
    """Whether the cluster has of the gang what we think it has."""
    thought = (gang.stored, gang.started, gang.counts or PodCounts(gang.key))
    return thought == (True, record.started, counts)
