"""One gang on the agent's ledger: what is desired, what the cluster has, and what follows from the two.

    (waiting) --place--> placed --HoldGang--> held --StartPods--> started --> running --> finished
        |                  |  rejected: taken back                  |  a pod failed, or pods are missing
        +--> refused <-----+------------------> broken <------------+
                                                   stop desired, and nothing occupies a node: released

A gang is a *level*: whatever happens, facts are written into it (what is desired, what an operation answered, how its
pods count), `settle` draws the conclusions that never go back, and the next operation, the report and whether it
still has its places follow from the facts alone. So nothing depends on the order in which messages come.

Conclusions, strongest first:

* **finished**: every pod succeeded and nothing occupies a node, whatever is desired (P13).
* **released**: stop is desired, and nothing occupies a node or may yet come to occupy one.
* **refused**: it could not be placed, or the cluster rejected it when nothing of it existed and nobody had been told
  that it is held. Final for the attempt (P5).
* **failure**: it cannot go on (reported as broken). Pods that the cluster no longer has although they were started
  are a loss, never a reason to run them again (P7). What is left of a gang that was only half created ends at once;
  of a whole one, when stop is desired.

Places are given back at the moment when nothing occupies a node and one of these is true, or the gang is not desired.
A gang of several sets gives them back set by set: once all of a set has ended, in whatever way, its places are free
although the other sets run on. What the set took is known from the record all the same.

The record, and with it the finished pods, stays until the binding is gone (P12): from then on it is a tombstone that
holds no places. A record of which no pod was ever created is the exception: it would hold places for ever in the eyes
of the cluster, so a stop forgets it. An agent that restarts comes to the same conclusions from records and counts.

While an operation is under way (`busy`) nothing that depends on its outcome is concluded: the gang may have pods.
"""

from dataclasses import dataclass, replace
from typing import Final

from hanse.agent.core.ledger import Devices, Reserved, Unplaced
from hanse.agent.core.records import (
    DEADLINE_EXCEEDED,
    ClusterWrite,
    Done,
    ForgetGang,
    GangRecord,
    HoldGang,
    PodCounts,
    Rejected,
    StartPods,
    StopPods,
    WriteResult,
)
from hanse.model.desired import Binding, DesiredAction
from hanse.model.fence import GangKey
from hanse.model.placement import LevelUse
from hanse.model.reasons import Reason
from hanse.model.report import GangReport, GangStatus

MESSAGE_CHARS_MAX: Final = 500
"""Of a report."""

NO_SETS: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a gang cannot go on."""

    reason: Reason
    infrastructure: bool
    message: str


@dataclass(slots=True, eq=False)
class Gang:
    """Facts and conclusions about one gang; see the module.

    Attributes:
        create_revision: of its binding, which tells two lives of one key apart; 0 if that is not known.
        binding: what is desired; None if nothing is.
        outdated: a newer attempt of the job was accepted, so this one stops whatever its binding says (S4).
        record, pods: its record in the cluster, written or about to be, and the pods of that.
        stored, started: the cluster has the record; its pods were all told to run.
        counts: of its pods.
        reserved: what it takes beside its pods, set by set.
        devices: those that its shares of GPUs are of, set by set and rank by rank.
        placed: it has places on the ledger.
        ended: positions in the record of the sets of which nothing occupies a node, nor will again.
        given: those of them whose places were given back before the others'.
        start: the order to run it, from when it is known until it is carried out.
        shown: somebody was told that it is held or more; it cannot be refused then.
        rejection: the cluster's reason for taking the whole gang back, "" if there is none.
        stop_told: the cluster has begun to end its pods.
        blocked: the cluster did not let go of it; tried again when its pods change, or later.
        busy: operations are under way.
        ran: all of its pods ran at one time.
        said: the status that was last reported; one never comes back for another reason.
        note: what else there is to say of its places, for people.
        domains_known: a replica has acknowledged a report with its domains.
    """

    key: GangKey
    create_revision: int = 0
    binding: Binding | None = None
    outdated: bool = False
    record: GangRecord | None = None
    pods: int = 0
    stored: bool = False
    started: bool = False
    counts: PodCounts | None = None
    reserved: tuple[Reserved, ...] = ()
    devices: tuple[Devices, ...] = ()
    placed: bool = False
    ended: frozenset[int] = NO_SETS
    given: frozenset[int] = NO_SETS
    start: StartPods | None = None
    shown: bool = False
    rejection: str = ""
    stop_told: bool = False
    blocked: bool = False
    busy: bool = False
    ran: bool = False
    finished: bool = False
    released: bool = False
    refusal: Unplaced | None = None
    failure: Failure | None = None
    domains: tuple[LevelUse, ...] = ()
    note: str = ""
    domains_known: bool = False
    held_ms: int = 0
    started_ms: int = 0
    running_ms: int = 0
    said: GangStatus = GangStatus.UNSPECIFIED

    # ---- what is ------------------------------------------------------------------------------------------

    @property
    def action(self) -> DesiredAction:
        """What is desired; UNSPECIFIED if the gang is not desired at all."""
        if self.binding is None:
            return DesiredAction.UNSPECIFIED
        return DesiredAction.STOP if self.outdated else self.binding.action

    def keep(self, record: GangRecord) -> None:
        """This is its record, written or about to be."""
        self.record = record
        self.pods = sum([len(s.nodes) for s in record.sets])

    @property
    def occupies(self) -> bool:
        """Whether a pod still occupies its node."""
        return self.counts is not None and self.counts.occupying > 0

    @property
    def complete(self) -> bool:
        """Whether every pod was created; a crash may have left a start half done."""
        counts = self.counts
        return self.started and counts is not None and counts.existing + counts.missing >= self.pods

    @property
    def lingers(self) -> bool:
        """Whether its record still promises pods that were never created."""
        return self.stored and not self.complete and not self.stop_told

    @property
    def ever_created(self) -> bool:
        """Whether any pod of it is known to have existed."""
        return self.counts is not None and self.counts.existing + self.counts.missing > 0

    @property
    def present(self) -> bool:
        """Whether the cluster has, or may have, anything of it."""
        return self.stored or self.busy or (self.counts is not None and self.counts.existing > 0)

    @property
    def wants_start(self) -> bool:
        """Whether the order to start it is missing."""
        if self.busy or self.complete or self.start is not None or self.record is None:
            return False
        return self.action is DesiredAction.START and self.undecided

    @property
    def undecided(self) -> bool:
        """Whether no conclusion stands against building it up."""
        return not (self.failure or self.refusal or self.rejection or self.finished or self.released)

    @property
    def holds_places(self) -> bool:
        """Whether its places are its own still."""
        if self.busy or self.rejection:
            return self.placed or self.stored
        if self.refusal or self.finished or self.released:
            return False
        if self.failure or self.action in (DesiredAction.UNSPECIFIED, DesiredAction.STOP):
            return self.occupies or self.lingers
        return self.record is not None

    @property
    def blocks_newer(self) -> bool:
        """Whether a newer attempt of the job must wait: this one may have pods, or is still to be cleared away."""
        if self.action is DesiredAction.UNSPECIFIED:
            return self.present
        return self.busy or self.occupies or bool(self.rejection) or self.placed

    # ---- facts come in ------------------------------------------------------------------------------------

    def observe(self, counts: PodCounts) -> None:
        """The pods are counted like that.

        A count that knows fewer pods than were created for certain was taken before that, and says nothing.
        """
        if self.complete and counts.existing + counts.missing < self.pods:
            return
        self.counts = counts
        self.blocked = False

    def wrote(self, op: ClusterWrite, result: WriteResult, *, now_ms: int) -> None:
        """An operation was answered; `answered` follows when all of this gang's are."""
        match op, result:
            case HoldGang(), Done():
                self.stored = True
            case StartPods(), Done():
                self._was_started(now_ms)
            case StopPods(), Done():
                self.stop_told = True
            case ForgetGang(), Done():
                self.counts = self.start = None
                self.stored = self.started = False
            case ((HoldGang() | StartPods()), Rejected(reason)):
                self.rejection = self.rejection or reason or "no reason given"
                self.stop_told = False
            case ((StopPods() | ForgetGang()), Rejected(reason)):
                self._would_not_go(reason)
            case _:
                raise AssertionError(f"a gang does not write {op}")

    def _was_started(self, now_ms: int) -> None:
        self.stored = self.started = True
        self.start = None
        self.started_ms = self.started_ms or now_ms
        if not self.complete:
            self.counts = PodCounts(self.key, pending=self.pods)

    def _would_not_go(self, reason: str) -> None:
        """The cluster does not let go of it: there are pods, whatever the counts say. To be tried again."""
        self.blocked, self.stop_told = True, False
        if self.rejection:
            self.break_off(f"{self.rejection}; then {reason}")

    def answered(self) -> None:
        """Nothing is under way any more: judge a rejection by what is left of the gang."""
        self.busy = False
        if self.rejection and (self.shown or self.ever_created):
            self.break_off(self.rejection)
        elif self.rejection and not self.stored:
            self.refusal = Unplaced(Reason.REFUSED, f"the cluster rejected it: {self.rejection}", "cluster")
            self.rejection, self.record, self.start = "", None, None

    def break_off(self, message: str) -> None:
        """It cannot go on, through no fault of its own."""
        self.rejection, self.start = "", None
        self.failure = self.failure or Failure(Reason.INFRASTRUCTURE, infrastructure=True, message=message)

    # ---- conclusions --------------------------------------------------------------------------------------

    def settle(self, *, now_ms: int) -> None:
        """Draw the conclusions that never go back."""
        if self.counts is not None and self.counts.ended_sets:
            self._settle_sets(self.counts.ended_sets)
        if self.busy or self.refusal or self.rejection:
            return
        if self.started and self.counts is not None:
            self._settle_pods(self.counts, now_ms)
        gone = not (self.occupies or self.lingers)
        if self.action is DesiredAction.STOP and gone and not self.finished:
            self.released = True

    def _settle_sets(self, names: tuple[str, ...]) -> None:
        """No pod of a whole gang is created any more: what has ended has ended for good, whatever is under way."""
        if self.record is not None and self.complete:
            self.ended |= {i for i, s in enumerate(self.record.sets) if s.name in names}

    def _settle_pods(self, counts: PodCounts, now_ms: int) -> None:
        total = self.pods
        if not self.ran and counts.running + counts.succeeded == total:
            self.ran, self.running_ms = True, self.running_ms or now_ms
        if self.released:
            return
        if counts.succeeded == total and counts.occupying == 0:
            self.finished = True
        elif self.failure is None and self.action in (DesiredAction.HOLD, DesiredAction.START):
            self.failure = _failure(counts, total)

    def lose_record(self, counts: PodCounts | None) -> None:
        """Somebody removed the record, perhaps not the pods. It is not made again."""
        self.stored = self.started = False
        self.counts = counts
        if not (self.finished or self.released):
            self.break_off("its gang record is gone from the cluster")

    # ---- what follows -------------------------------------------------------------------------------------

    def next_ops(self) -> tuple[ClusterWrite, ...]:
        """What the cluster should be told now."""
        if self.busy or self.blocked:
            return ()
        if self.rejection:
            return StopPods(self.key), ForgetGang(self.key)
        match self.action:
            case DesiredAction.UNSPECIFIED:
                return self._remove()
            case DesiredAction.STOP:
                return self._wind_down()
            case DesiredAction.HOLD | DesiredAction.START if self.failure:
                return (StopPods(self.key),) if self.lingers else ()
            case DesiredAction.HOLD | DesiredAction.START:
                return self._build_up()

    def _build_up(self) -> tuple[ClusterWrite, ...]:
        if self.record is None or self.finished:
            return ()
        start = (self.start,) if self.start is not None and not self.complete else ()
        return start if self.stored else (HoldGang(self.record), *start)

    def _wind_down(self) -> tuple[ClusterWrite, ...]:
        if self.occupies or (self.lingers and self.ever_created):
            return () if self.stop_told else (StopPods(self.key),)
        return (ForgetGang(self.key),) if self.lingers else ()

    def _remove(self) -> tuple[ClusterWrite, ...]:
        if self.occupies:
            return () if self.stop_told else (StopPods(self.key),)
        return (ForgetGang(self.key),) if self.present else ()

    @property
    def status(self) -> GangStatus:
        """How far it is; UNSPECIFIED while there is nothing to say."""
        if self.finished:
            return GangStatus.FINISHED
        if self.released:
            return GangStatus.RELEASED
        if self.refusal:
            return GangStatus.REFUSED
        if self.failure:
            return GangStatus.BROKEN
        if self.rejection or not self.stored:
            return GangStatus.UNSPECIFIED
        if not self.started:
            return GangStatus.HELD
        return GangStatus.RUNNING if self.ran else GangStatus.STARTED

    def report(self) -> GangReport:
        """What a replica is to know, unless the status is UNSPECIFIED."""
        status = self.status
        key = self.key
        report = GangReport(
            key.job,
            key.attempt,
            key.part,
            status,
            domains=() if self.domains_known else self.domains,
            held_ms=self.held_ms,
            started_ms=self.started_ms,
            running_ms=self.running_ms,
        )
        if status is GangStatus.REFUSED and (no := self.refusal):
            said = replace(report, reason=no.reason, message=_cut(no.message))
            return replace(said, constraint=no.constraint, wanted=no.wanted, found=no.found)
        if status is GangStatus.BROKEN and (why := self.failure):
            return replace(report, reason=why.reason, infrastructure=why.infrastructure, message=_cut(why.message))
        return replace(report, message=_cut(self.note)) if self.note and not self.domains_known else report


def _cut(text: str) -> str:
    """One line of bounded length; clusters say long things at times."""
    line = " ".join(text.split())
    return line if len(line) <= MESSAGE_CHARS_MAX else line[: MESSAGE_CHARS_MAX - 1] + "…"


def _failure(counts: PodCounts, total: int) -> Failure | None:
    """What the counts say against going on, if anything."""
    if counts.failure:
        return _whole_failure(counts)
    if counts.missing:
        message = f"{counts.missing} of {total} pods are gone from the cluster"
        return Failure(Reason.INFRASTRUCTURE, infrastructure=True, message=message)
    if not counts.failed:
        return None
    said = f": {counts.reason}" if counts.reason else ""
    if counts.infrastructure:
        message = f"{counts.failed} of {total} pods failed with their node{said}"
        return Failure(Reason.INFRASTRUCTURE, infrastructure=True, message=message)
    if not counts.exit_code and not counts.reason:
        message = f"{counts.failed} of {total} pods were ended, and nobody who is asked here had ordered it"
        return Failure(Reason.INFRASTRUCTURE, infrastructure=True, message=message)
    if counts.reason == DEADLINE_EXCEEDED:
        return Failure(Reason.DURATION_EXCEEDED, infrastructure=False, message="it ran longer than its limit")
    message = f"{counts.failed} of {total} pods failed, exit code {counts.exit_code}{said}"
    return Failure(Reason.POD_FAILED, infrastructure=False, message=message)


def _whole_failure(counts: PodCounts) -> Failure:
    """What the cluster says of the gang as a whole; an exit code says more than that something exited."""
    if counts.infrastructure:
        return Failure(Reason.INFRASTRUCTURE, infrastructure=True, message=counts.failure)
    if DEADLINE_EXCEEDED in (counts.failure, counts.reason):
        return Failure(Reason.DURATION_EXCEEDED, infrastructure=False, message="it ran longer than its limit")
    if counts.exit_code:
        message = f"a pod failed, exit code {counts.exit_code}: {counts.reason}; {counts.failure}"
        return Failure(Reason.POD_FAILED, infrastructure=False, message=message)
    return Failure(Reason.POD_FAILED, infrastructure=False, message=counts.failure)
