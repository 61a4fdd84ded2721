"""A cluster as a function of its spec, its inputs and time.

No clock, no files, no event loop: `apply` takes one input at a time, `advance` lets happen what is due, and both
leave behind facts for the pod log and a growing version for watchers. What is due happens at its due time, however
late somebody looks: whether `advance` is called every millisecond or once a day makes no difference to any fact,
so a cluster that nobody runs goes on, and a journal of inputs restores it to the letter.

Order of things that are due at once: the one that was created first. An expected refusal is a text (the reason),
never an exception. The module is long because it is one thing: all that can happen to a cluster, each in a few lines.
"""

import heapq
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from hanse.model.resources import Resources
from hanse.model.selectors import Effect, Taint
from hanse.simcluster.changes import Changed, ChangeIndex
from hanse.simcluster.facts import Counts, Fact, FactKind
from hanse.simcluster.foreign import ForeignGang, generate
from hanse.simcluster.gang import FOR_EVER_MS, Gang
from hanse.simcluster.inputs import (
    PAYLOAD_BYTES_MAX,
    Accept,
    AddForeign,
    Claim,
    EpochId,
    FailNodes,
    Forget,
    GangId,
    Hold,
    Input,
    LoseRecord,
    MarkNodes,
    RemoveForeign,
    RemovePods,
    RestoreNodes,
    Start,
    Stop,
    pack,
    unpack,
)
from hanse.simcluster.nodes import Indexes, NodeTable
from hanse.simcluster.spec import ClusterSpec

NO_EPOCH: Final = EpochId(0, 0)
NODE_LOST: Final = "NodeLost"
EVICTED: Final = "Evicted"
DELETED: Final = "Deleted"
_STALE_DUES: Final = 1_024  # entries of the heap that may be out of date before it is rebuilt


class Engine:
    """One simulated cluster.

    Attributes:
        now_ms: wall time up to which everything has happened.
        version: grows with every change; also the seq of the last fact.
        serial: of the last gang that was created, ours or not.
        facts: what happened since they were last taken.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        uid: str,
        now_ms: int,
        with_foreign: bool = True,
        ghosts: Sequence[str] = (),
    ) -> None:
        self.spec = spec
        self.uid = uid
        self.now_ms = now_ms
        self.version = 0
        self.nodes_version = 0  # at which a node changed last
        self.nodes = NodeTable(spec, ghosts)
        self.gangs: dict[GangId, Gang] = {}
        self.foreign: dict[str, ForeignGang] = {}
        self.claim = Claim("", NO_EPOCH, 0)
        self.facts: list[Fact] = []
        self.serial = 0
        self._dues: list[tuple[int, int, Gang | ForeignGang]] = []
        self._changes = ChangeIndex()
        if with_foreign:
            for gang in generate(spec, self.nodes):
                self.serial += 1
                gang.serial = self.serial
                self.place_foreign(gang)

    # Time

    def next_wakeup(self) -> int | None:
        """Wall time in ms at which something happens by itself, None if nothing ever will."""
        dues = self._dues
        while dues and dues[0][0] != dues[0][2].due_ms:
            heapq.heappop(dues)
        return dues[0][0] if dues else None

    def advance(self, now_ms: int) -> None:
        """Let everything happen that is due by now. A clock that went back changes nothing."""
        while self._dues and self._dues[0][0] <= now_ms:
            due, _, thing = heapq.heappop(self._dues)
            if due == thing.due_ms:
                self._happen(thing, due)
        self.now_ms = max(self.now_ms, now_ms)

    def _happen(self, thing: Gang | ForeignGang, due_ms: int) -> None:
        if isinstance(thing, ForeignGang):
            self._end_foreign(thing)
            return
        if thing.advance(due_ms, self.nodes):
            self._gang_changed(thing, FactKind.CHANGED, due_ms)
        self._schedule(thing)

    def _schedule(self, thing: Gang | ForeignGang) -> None:
        if thing.due_ms < FOR_EVER_MS:
            heapq.heappush(self._dues, (thing.due_ms, thing.serial, thing))
        if len(self._dues) > 2 * (len(self.gangs) + len(self.foreign)) + _STALE_DUES:
            self._dues = [entry for entry in self._dues if entry[0] == entry[2].due_ms]
            heapq.heapify(self._dues)

    # Inputs

    def may_write(self, epoch: EpochId) -> bool:
        """Whether the epoch is the claimed one."""
        return epoch == self.claim.epoch and epoch != NO_EPOCH

    def may_claim(self, claim: Claim) -> str:
        """Why a claim is refused; "" if it is not."""
        own = self.claim
        if own.federation and claim.federation != own.federation:
            return f"the cluster belongs to federation {own.federation!r}"
        if claim.epoch < own.epoch:
            return f"epoch {tuple(claim.epoch)} is older than the claimed {tuple(own.epoch)}"
        same_life = claim.epoch.incarnation == own.epoch.incarnation
        if same_life and claim.accepted_revision < own.accepted_revision:
            return f"revision {claim.accepted_revision} is older than the accepted {own.accepted_revision}"
        return ""

    def apply(self, change: Input, now_ms: int) -> str:
        """Do one thing, after everything that is due before it.

        Returns:
            "" if it is in effect, else why the cluster refuses it.
        """
        self.advance(now_ms)
        match change:
            case Hold():
                return self._hold(change)
            case Start():
                return self._start(change)
            case Stop():
                return self._stop(change)
            case Forget():
                return self._forget(change.gang)
            case Accept():
                return self._accept(change.revision)
            case Claim():
                return self._claim(change)
            case FailNodes():
                return self._fail_nodes(unpack(change.nodes), change.remove)
            case RestoreNodes():
                return self._restore_nodes(unpack(change.nodes))
            case MarkNodes():
                return self._mark_nodes(unpack(change.nodes), change)
            case AddForeign():
                return self._add_foreign(change)
            case RemoveForeign():
                return self._remove_foreign(change)
            case LoseRecord():
                return self._lose_record(change.gang)
            case RemovePods():
                return self._remove_pods(change)

    def _claim(self, claim: Claim) -> str:
        refused = self.may_claim(claim)
        if refused or claim == self.claim:
            return refused
        self.claim = claim
        self._fact(FactKind.CLAIMED, self.now_ms, epoch=claim.epoch, reason=claim.federation)
        return ""

    def _accept(self, revision: int) -> str:
        own = self.claim
        self.claim = Claim(own.federation, own.epoch, max(own.accepted_revision, revision))
        return ""

    def _hold(self, hold: Hold) -> str:
        present = self.gangs.get(hold.gang)
        if present is not None:
            same = present.recorded and present.hold == hold
            return "" if same else "another record of this gang, or pods without one, exist"
        if len(hold.payload) > PAYLOAD_BYTES_MAX:
            return f"payload of {len(hold.payload)} bytes; at most {PAYLOAD_BYTES_MAX} are kept"
        self.serial += 1
        self.gangs[hold.gang] = Gang(self.serial, hold, self.nodes)
        return ""

    def _start(self, start: Start) -> str:
        gang = self.gangs.get(start.gang)
        if gang is None or not gang.recorded:
            return "no record of this gang"
        first = gang.created
        refused = gang.begin(start, self.nodes, self.spec.timing, self.spec.seed, self.now_ms)
        if not refused and gang.created > first:
            self._started(gang, first)
            self._schedule(gang)
        return refused

    def _started(self, gang: Gang, first: int) -> None:
        self.version += 1
        sets = gang.created_sets(first)
        self.facts.append(
            Fact(
                self.version,
                self.now_ms,
                FactKind.STARTED,
                gang.hold.gang,
                gang.counts,
                sets,
                self.claim.epoch,
            )
        )
        self._changes.touch(gang.hold.gang, self.version)

    def _stop(self, stop: Stop) -> str:
        gang = self.gangs.get(stop.gang)
        if gang is None:
            return ""
        before, was_stopped = gang.counts, gang.stopped
        gang.stop(self.spec.timing, stop.grace_ms, self.now_ms, self.nodes)
        if gang.counts != before or (gang.created and not was_stopped):
            self._gang_changed(gang, FactKind.STOPPING, self.now_ms)
        self._schedule(gang)
        return ""

    def _forget(self, key: GangId) -> str:
        gang = self.gangs.get(key)
        if gang is None:
            return ""
        if gang.counts.occupying:
            return f"{gang.counts.occupying} pods still occupy their nodes"
        del self.gangs[key]
        gang.due_ms = FOR_EVER_MS
        self._changes.drop(key)
        return ""

    def _lose_record(self, key: GangId) -> str:
        gang = self.gangs.get(key)
        if gang is None:
            return "no such gang"
        gang.recorded = False
        if not gang.created:
            return self._forget(key)
        return ""

    def _remove_pods(self, change: RemovePods) -> str:
        gang = self.gangs.get(change.gang)
        if gang is None:
            return "no such gang"
        gone = np.zeros(len(gang.nodes), dtype=np.bool_)
        gone[unpack(change.pods)] = True
        if gang.lose(gone, self.nodes, DELETED, self.now_ms):
            self._gang_changed(gang, FactKind.LOST, self.now_ms)
            self._schedule(gang)
        return ""

    # Nodes

    def _fail_nodes(self, nodes: Indexes, remove: bool) -> str:
        self.nodes.alive[nodes] = False
        self.nodes.ready[nodes] = False
        if remove:
            self.nodes.removed[nodes] = True
        self._fact(FactKind.NODES_FAILED, self.now_ms, nodes=pack(nodes))
        self._lose_pods_on(nodes, NODE_LOST)
        self._lose_foreign_on(nodes)
        self._touch_nodes(nodes)
        return ""

    def _lose_foreign_on(self, nodes: Indexes) -> None:
        for gang in self.foreign.values():
            on = np.isin(gang.nodes, nodes)
            if on.any():
                self.nodes.add_foreign(gang.nodes[on], self.nodes.request(gang.resources), -1)
                gang.nodes = gang.nodes[~on]

    def lose_pods_of_removed(self) -> None:
        """Pods on nodes that do not exist cease to exist too."""
        self._lose_pods_on(np.flatnonzero(self.nodes.removed).astype(np.int32), NODE_LOST)

    def _lose_pods_on(self, nodes: Indexes, reason: str) -> None:
        hit = np.zeros(len(self.nodes), dtype=np.bool_)
        hit[nodes] = True
        for gang in self.gangs.values():
            on = hit[gang.nodes]
            if on.any() and gang.lose(on & gang.occupying, self.nodes, reason, self.now_ms):
                self._gang_changed(gang, FactKind.LOST, self.now_ms)
                self._schedule(gang)

    def _restore_nodes(self, nodes: Indexes) -> str:
        table = self.nodes
        table.alive[nodes] = table.ready[nodes] = table.healthy[nodes] = True
        table.removed[nodes] = table.cordoned[nodes] = False
        table.offer_whole(nodes)
        for node in nodes.tolist():
            table.added_taints.pop(node, None)
        self._fact(FactKind.NODES_RESTORED, self.now_ms, nodes=pack(nodes))
        self._touch_nodes(nodes)
        return ""

    def _mark_nodes(self, nodes: Indexes, mark: MarkNodes) -> str:
        table = self.nodes
        unknown = next((name for name in mark.allocatable if name not in table.column_of), None)
        if unknown is not None:
            return f"no node offers {unknown!r}"
        for flags, value in ((table.cordoned, mark.cordoned), (table.healthy, mark.healthy)):
            if value is not None:
                flags[nodes] = value
        if mark.ready is not None:
            table.ready[nodes] = table.alive[nodes] & mark.ready
        table.offer(nodes, mark.allocatable)
        self._mark_taints(nodes, mark)
        self._touch_nodes(nodes)
        return ""

    def _mark_taints(self, nodes: Indexes, mark: MarkNodes) -> None:
        added = tuple(Taint(t.key, t.value, Effect(t.effect)) for t in mark.add_taints)
        dropped = {*mark.remove_taint_keys, *(taint.key for taint in added)}
        if not dropped:
            return
        for node in nodes.tolist():
            kept = tuple(t for t in self.nodes.added_taints.get(node, ()) if t.key not in dropped)
            self.nodes.added_taints[node] = (*kept, *added)
        if any(taint.effect is Effect.NO_EXECUTE for taint in added):
            self._lose_pods_on(nodes, EVICTED)

    # Pods of somebody else

    def _add_foreign(self, add: AddForeign) -> str:
        if add.name in self.foreign:
            return f"a foreign gang {add.name!r} runs already"
        due = self.now_ms + add.life_ms if add.life_ms else FOR_EVER_MS
        gang = ForeignGang(add.name, unpack(add.nodes), Resources(add.resources), due)
        refused = self.nodes.take(gang.nodes, self.nodes.request(gang.resources))
        if refused:
            return refused
        self.nodes.give(gang.nodes, self.nodes.request(gang.resources))
        self.serial += 1
        gang.serial = self.serial
        self.place_foreign(gang)
        self._touch_nodes(np.unique(gang.nodes))
        return ""

    def place_foreign(self, gang: ForeignGang) -> None:
        """Account for pods of somebody else, whether they fit or not."""
        self.foreign[gang.name] = gang
        self.nodes.add_foreign(gang.nodes, self.nodes.request(gang.resources), 1)
        self._schedule(gang)

    def adopt(self, gang: Gang) -> None:
        """Take over a gang as it was left, with what its pods occupy accounted for already."""
        self.gangs[gang.hold.gang] = gang
        self._schedule(gang)

    def _remove_foreign(self, remove: RemoveForeign) -> str:
        gang = self.foreign.get(remove.name)
        if gang is None:
            return f"no foreign gang {remove.name!r}"
        gang.due_ms = min(gang.due_ms, self.now_ms + remove.grace_ms)
        self._schedule(gang)
        self.advance(self.now_ms)
        return ""

    def _end_foreign(self, gang: ForeignGang) -> None:
        gang.due_ms = FOR_EVER_MS
        del self.foreign[gang.name]
        self.nodes.add_foreign(gang.nodes, self.nodes.request(gang.resources), -1)
        self._touch_nodes(np.unique(gang.nodes))

    # Facts and versions

    def _fact(
        self,
        kind: FactKind,
        at_ms: int,
        *,
        nodes: bytes = b"",
        epoch: EpochId | None = None,
        reason: str = "",
    ) -> None:
        self.version += 1
        self.facts.append(Fact(self.version, at_ms, kind, nodes=nodes, epoch=epoch, reason=reason))

    def _gang_changed(self, gang: Gang, kind: FactKind, at_ms: int) -> None:
        self.version += 1
        ended = gang.created and not gang.counts.occupying
        if ended:
            kind = FactKind.ENDED
        key = gang.hold.gang
        self.facts.append(Fact(self.version, at_ms, kind, key, gang.counts, reason=gang.counts.reason))
        self._changes.touch(key, self.version)

    def _touch_nodes(self, nodes: Indexes) -> None:
        self.version += 1
        self.nodes_version = self.version
        for node in nodes.tolist():
            self._changes.touch(node, self.version)

    def changed_since(self, version: int) -> list[tuple[Changed, int]]:
        """Everything that changed after a version, with the version of its last change, oldest first."""
        return self._changes.since(version)

    def take_facts(self) -> list[Fact]:
        """The facts since the last call, in order."""
        taken, self.facts = self.facts, []
        return taken

    # Reading

    def listed_nodes(self) -> Iterator[int]:
        """Indexes of the nodes that exist."""
        return iter(np.flatnonzero(~self.nodes.removed).tolist())

    def counts(self, key: GangId) -> Counts:
        """Pods of a gang by phase; all zero if there is no such gang."""
        gang = self.gangs.get(key)
        return Counts() if gang is None else gang.counts
