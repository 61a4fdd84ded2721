"""Commits plans: guarded transactions, verified and sent again on conflict, settled when their outcome is unknown.

A transaction compares, by modification revision (P1): every job's state key, every head it takes from, the settings
of every pool and queue it touches, and the grant of every root it admits for. If all are as the plan saw them, it
writes states and bindings and bumps the heads.

* **Conflict**: the answer names the guards that moved. Decisions that rest on none of them are sent again at once;
  the others wait until the feed shows what moved, are verified against the newer snapshot, and sent again if they
  still hold. After COMMIT_TRIES_MAX rounds a decision is given up; its job is still pending and is planned anew.
* **Unknown** (P3): absence is not an outcome. Until it is settled the decisions count as used, as bindings that are
  newer than any summary. To settle it, a job's state key that the lost transaction compares is touched: either the
  touch passes, and then the lost one never can; or the key has moved, and then the lost one either did it or never
  can either. What the store holds after that is the truth.

Guards are built in the same step as the plan, before anything is awaited, so they are what the plan saw.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hanse.kit.clock import Clock
from hanse.kit.telemetry import metrics
from hanse.model.ids import Part, queue_of
from hanse.model.lifecycle import Bind, Moved, encode_state, transition
from hanse.model.vitals import COMMITTED, CONFLICTED, PASSED
from hanse.scheduler.core.choice import Choice, Standing
from hanse.scheduler.core.facts import BindingFacts
from hanse.scheduler.core.plan import Decision, PartPlan, verify
from hanse.scheduler.core.snapshot import Limits, Snapshot
from hanse.scheduler.core.world import ASSUMED, World
from hanse.scheduler.shell.bound import binding_facts
from hanse.scheduler.shell.counting import count_committed, moved_of, tell_conflict
from hanse.scheduler.shell.feed import Feed
from hanse.scheduler.shell.packing import heads_of, pack
from hanse.scheduler.shell.states import States
from hanse.scheduler.shell.traces import Traces
from hanse.scheduler.shell.views import Views
from hanse.store import keys
from hanse.store.contract import (
    Committed,
    Conflict,
    Guard,
    ModRevisionIs,
    Op,
    Put,
    Store,
    StoreUnavailable,
    Txn,
    Unknown,
)
from hanse.store.moves import JobView, PartView, WriteId, has_past
from hanse.store.schema import (
    Amounts,
    BindingValue,
    BoundSet,
    ChoiceValue,
    Desired,
    PastValue,
    SetRequestValue,
    StandingValue,
    encode,
)

log = logging.getLogger(__name__)

COMMIT_TRIES_MAX: Final = 8
"""Rounds of conflict and verification for one decision before its job is planned anew."""

CATCH_UP_MAX_S: Final = 2.0
"""How long a conflict waits for the feed to show what moved."""

SETTLE_PAUSE_S: Final = 0.5
"""Pause between two attempts to settle an unknown outcome."""

Revisions = dict[str, int]  # key → modification revision that a guard compares


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What became of a plan; `lost` decisions are planned anew."""

    committed: tuple[Decision, ...]
    lost: tuple[Decision, ...]


class Committer:
    """Sends the transactions of one replica.

    Attributes:
        counts: committed, conflicts by kind of guard, unknown outcomes, given up.
    """

    def __init__(
        self,
        store: Store,
        world: World,
        feed: Feed,
        states: States,
        clock: Clock,
        traces: Traces,
        views: Views,
        *,
        nonce: str,
        limits: Limits,
        write_id: WriteId,
    ) -> None:
        self._store = store
        self._views = views
        self._world = world
        self._feed = feed
        self._states = states
        self._clock = clock
        self._traces = traces
        self._nonce = nonce
        self._limits = limits
        self._write_id = write_id
        self._settling: dict[int, asyncio.Task[None]] = {}
        self.counts: Counter[str] = Counter()

    # ---- a plan ----------------------------------------------------------------------------------------------

    async def commit(self, snapshot: Snapshot, decisions: Sequence[Decision]) -> CommitResult:
        """Commit what can be committed of a plan made on this snapshot."""
        seen = guards_of(snapshot, decisions)
        done: list[Decision] = []
        left = list(decisions)
        for _ in range(COMMIT_TRIES_MAX):
            committed, moved = await self._send_all(left, seen)
            done.extend(committed)
            if not moved:
                return CommitResult(tuple(done), ())
            fresh = self._snapshot()
            left = list(verify(fresh, [d for d in moved if self._still_pending(d)], self._limits))
            left = [self._refreshed(d) for d in left]
            seen = guards_of(fresh, left)
            if not left:
                return CommitResult(tuple(done), tuple(moved))
        self.counts["given_up"] += len(left)
        metrics.GIVEN_UP.add(len(left))
        return CommitResult(tuple(done), tuple(left))

    def _snapshot(self) -> Snapshot:
        return self._world.snapshot(now_s=self._clock.monotonic(), nonce=self._nonce)

    def _still_pending(self, decision: Decision) -> bool:
        job = self._states.pending.get(decision.job.job)
        return job is not None and not job.state.held and job.class_hash == decision.job.class_hash

    def _refreshed(self, decision: Decision) -> Decision:
        job = self._states.pending.get(decision.job.job)
        return replace(decision, job=job) if job is not None else decision

    async def _send_all(
        self, decisions: Sequence[Decision], seen: Revisions
    ) -> tuple[list[Decision], list[Decision]]:
        chains = pack(decisions)
        results = await asyncio.gather(*(self._send_chain(chain.packs, dict(seen)) for chain in chains))
        committed = [d for done, _ in results for d in done]
        moved = [d for _, lost in results for d in lost]
        return committed, moved

    async def _send_chain(
        self, packs: Iterable[tuple[Decision, ...]], seen: Revisions
    ) -> tuple[list[Decision], list[Decision]]:
        """Send packs in order; the heads that one has bumped are what the next compares."""
        committed: list[Decision] = []
        moved: list[Decision] = []
        for decisions in packs:
            left = list(decisions)
            while left:
                outcome = await self._send(left, seen)
                if isinstance(outcome, _Sent):
                    committed.extend(left)
                    break
                stays = [d for d in left if not _rests_on(d, outcome.moved, self._world)]
                moved.extend(d for d in left if d not in stays)
                left = stays if len(stays) < len(left) else []
        return committed, moved

    # ---- one transaction -------------------------------------------------------------------------------------

    async def _send(self, decisions: Sequence[Decision], seen: Revisions) -> "_Sent | _Moved":
        number = self._write_id()
        txn, bound, views = build(decisions, seen, self._world, now_ms=self._clock.now_ms(), write_id=number)
        try:
            outcome = await self._store.transact(txn)
        except StoreUnavailable as error:
            log.warning("commit_unavailable", extra={"cause": str(error)})
            metrics.TRANSACTIONS.add(1, "unavailable")
            return _Moved(frozenset(g.key for g in txn.guards))
        match outcome:
            case Committed(revision):
                self._take_in(decisions, bound, seen, revision)
                for view in views:
                    self._views.keep(replace(view, state_revision=revision, revision=revision))
                return _Sent()
            case Conflict():
                return await self._conflict(txn, outcome, len(decisions))
            case Unknown(cause):
                self._begin_settling(number, decisions, bound, txn, cause)
                return _Sent()

    def _take_in(
        self, decisions: Sequence[Decision], bound: Mapping[str, BindingFacts], seen: Revisions, revision: int
    ) -> None:
        """The transaction is in effect: say so at once, the watch will only confirm it.

        If the feed is already past it, the feed knows better: a binding may be gone again.
        """
        ahead = self._world.revision < revision
        if ahead:
            for key, facts in bound.items():
                self._world.put_binding(key, replace(facts, create_revision=revision))
        for decision in decisions:
            self._states.took(decision.job.job, revision)
            for pool, flavor in heads_of(decision):
                seen[_head_key(pool, flavor)] = revision
                if ahead:
                    self._world.put_head(pool, flavor, revision)
        self.counts[COMMITTED] += len(decisions)
        self.counts[PASSED] += 1
        count_committed(decisions, self._clock.now_ms())
        self._traces.bound(decisions, revision)
        log.info("plan_committed", extra={"jobs": len(decisions), "revision": revision})
        if log.isEnabledFor(logging.DEBUG):
            for key in bound:
                name = keys.parse_binding(key)
                said = {"job": name.job, "attempt": name.attempt, "part": name.part, "pool": name.pool}
                log.debug("job_bound", extra={**said, "revision": revision})

    async def _conflict(self, txn: Txn, conflict: Conflict, jobs: int) -> "_Moved":
        moved = moved_of(txn.guards, conflict)
        tell_conflict(moved, jobs)
        self.counts[CONFLICTED] += 1
        for key in sorted(moved):
            self.counts["conflict_" + key.split("/", 1)[0]] += 1
        followed = [conflict.current[key] for key in moved if keys.FOLLOWED_START <= key < keys.FOLLOWED_END]
        if followed and max(followed) > 0:
            try:
                async with asyncio.timeout(CATCH_UP_MAX_S):
                    await self._feed.reached(max(followed))
            except TimeoutError:
                log.warning("commit_feed_behind", extra={"revision": max(followed)})
        return _Moved(moved)

    # ---- unknown outcomes ------------------------------------------------------------------------------------

    def _begin_settling(
        self,
        number: int,
        decisions: Sequence[Decision],
        bound: Mapping[str, BindingFacts],
        txn: Txn,
        cause: str,
    ) -> None:
        """Count the decisions as used, and find out in the background."""
        self.counts["unknown"] += 1
        metrics.TRANSACTIONS.add(1, "unknown")
        log.warning("commit_unknown", extra={"jobs": len(decisions), "cause": cause})
        for key, facts in bound.items():
            self._world.put_binding(key, replace(facts, create_revision=ASSUMED))
        for decision in decisions:
            self._states.pending.remove(decision.job.job)
        task = asyncio.create_task(self._settle(decisions, tuple(bound), txn), name=f"settle-{number}")
        self._settling[number] = task
        task.add_done_callback(lambda _: self._settling.pop(number, None))

    async def _settle(self, decisions: Sequence[Decision], bound: Sequence[str], txn: Txn) -> None:
        """Make sure that the lost transaction can pass no more, then take in what the store holds."""
        first = decisions[0].job
        state_key = keys.state(first.job)
        while True:
            try:
                if await self._cannot_pass_any_more(state_key, first.state_revision):
                    await self._take_in_truth(decisions, bound)
                    return
            except StoreUnavailable as error:
                log.warning("settle_unavailable", extra={"cause": str(error)})
            await asyncio.sleep(SETTLE_PAUSE_S)

    async def _cannot_pass_any_more(self, state_key: str, revision: int) -> bool:
        """Touch the state key that the lost transaction compares; false if this outcome is unknown too."""
        found = (await self._store.read([state_key])).items.get(state_key)
        if found is None or found.mod_revision != revision:
            return True
        outcome = await self._store.transact(
            Txn((ModRevisionIs(state_key, revision),), (Put(state_key, found.value),))
        )
        return not isinstance(outcome, Unknown)

    async def _take_in_truth(self, decisions: Sequence[Decision], bound: Sequence[str]) -> None:
        read = await self._store.read(list(bound))
        for key in bound:
            found = read.items.get(key)
            if found is not None and self._world.revision < read.revision:
                self._world.put_binding(key, binding_facts(found))
            elif self._world.is_assumed(key):
                self._world.remove_binding(key)
        await self._states.refresh([d.job.job for d in decisions])
        self.counts["settled"] += 1
        metrics.SETTLED.add(1)

    @property
    def settling(self) -> int:
        """Transactions whose outcome is being found out."""
        return len(self._settling)

    async def close(self) -> None:
        """Give up settling; what is open is settled by whoever takes the grant next (P2, P4)."""
        tasks = [self._settling[n] for n in sorted(self._settling)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class _Sent:
    """Committed, or counted as if it were until it is settled."""


@dataclass(frozen=True, slots=True)
class _Moved:
    """Nothing was done; these guards did not hold."""

    moved: frozenset[str]


# ---- building ------------------------------------------------------------------------------------------------


def _head_key(pool: str, flavor: str) -> str:
    return f"{keys.POOLS}{pool}/head/{flavor}"


def guards_of(snapshot: Snapshot, decisions: Sequence[Decision]) -> Revisions:
    """Every key that the decisions rest on, with the revision at which the snapshot saw it."""
    pools = {p.name: p.facts for p in snapshot.pools}
    seen: Revisions = {}
    for decision in decisions:
        job = decision.job
        queue = snapshot.queues[job.queue]
        seen[keys.state(job.job)] = job.state_revision
        seen[keys.queue(queue.queue.name)] = queue.revision
        seen[keys.grant(queue.root)] = snapshot.grants[queue.root]
        seen.update((keys.cohort(name), revision) for name, revision in queue.cohorts.items())
        for part in decision.parts:
            facts = pools[part.pool]
            seen[keys.pool_config(part.pool)] = facts.revision
            for flavor in part.flavors:
                seen[keys.head(part.pool, flavor)] = facts.heads.get(flavor, 0)
    return seen


def _keys_of(decision: Decision, world: World) -> list[str]:
    """The guards that one decision rests on."""
    queue = world.queues.get(decision.job.queue)
    found = [keys.state(decision.job.job)]
    if queue is not None:
        found += [keys.queue(queue.queue.name), keys.grant(queue.root), *map(keys.cohort, queue.cohorts)]
    for part in decision.parts:
        found.append(keys.pool_config(part.pool))
        found.extend(keys.head(part.pool, flavor) for flavor in part.flavors)
    return found


def _rests_on(decision: Decision, moved: frozenset[str], world: World) -> bool:
    return any(key in moved for key in _keys_of(decision, world))


def build(
    decisions: Sequence[Decision], seen: Revisions, world: World, *, now_ms: int, write_id: int
) -> tuple[Txn, dict[str, BindingFacts], list[JobView]]:
    """The transaction of some decisions, the bindings it creates by key, and the jobs as it leaves them.

    The revision of bindings and jobs is still open. A job with a history, which is not known here, is left out.
    """
    compared: dict[str, int] = {}
    ops: dict[str, Op] = {}
    bound: dict[str, BindingFacts] = {}
    views: list[JobView] = []
    for order, decision in enumerate(decisions):
        compared.update((key, seen[key]) for key in _keys_of(decision, world) if key in seen)
        moved = transition(decision.job.state, Bind(tuple(p.slot for p in decision.parts)), now_ms=now_ms)
        assert isinstance(moved, Moved)  # a pending job that is not held can always be bound
        state_key = keys.state(decision.job.job)
        state = replace(moved.state, write_id=write_id)
        ops[state_key] = Put(state_key, encode_state(state))
        made: dict[Part, PartView] = {}
        for number, part in enumerate(decision.parts):
            key = keys.BindingKey(part.pool, decision.job.job, state.attempt, Part(number))
            text = key.text
            value = _binding_value(part, len(decision.parts), order, now_ms=now_ms, write_id=write_id)
            ops[text] = Put(text, encode(value))
            bound[text] = _facts(key, part, order)
            made[key.part] = PartView(key, value)
        if not has_past(state):
            views.append(JobView(decision.job.job, state, 0, made, PastValue(), 0))
        for pool, flavor in heads_of(decision):
            head = _head_key(pool, flavor)
            ops[head] = Put(head, str(write_id).encode())
    guards: tuple[Guard, ...] = tuple(ModRevisionIs(key, revision) for key, revision in compared.items())
    return Txn(guards, tuple(ops.values())), bound, views


def _facts(key: keys.BindingKey, part: PartPlan, order: int) -> BindingFacts:
    """What the feed will say of the binding."""
    return BindingFacts(
        pool=key.pool,
        job=key.job,
        attempt=key.attempt,
        part=key.part,
        create_revision=ASSUMED,
        queue=queue_of(key.job),
        request=part.request,
        flavors=part.flavors,
        charges=part.charges,
        order=order,
    )


def _binding_value(part: PartPlan, parts: int, order: int, *, now_ms: int, write_id: int) -> BindingValue:
    return BindingValue(
        desired=int(Desired.HOLD if parts > 1 else Desired.START),
        sets=[
            BoundSet(index, count, first_rank, flavor)
            for (index, count, first_rank), flavor in zip(part.counts, part.flavors, strict=True)
        ],
        request=[SetRequestValue.of(s) for s in part.request.sets],
        charges=[Amounts(c.flavor, dict(c.amount.items())) for c in part.charges],
        parts=parts,
        order=order,
        bound_ms=now_ms,
        write_id=write_id,
        choice=_choice_value(part.choice) if part.choice is not None else None,
    )


def _choice_value(choice: Choice) -> ChoiceValue:
    second = _standing_value(choice.second) if choice.second is not None else None
    return ChoiceValue(_standing_value(choice.won), second, choice.fitting, choice.asked)


def _standing_value(one: Standing) -> StandingValue:
    return StandingValue(one.pool, one.score, one.cost, one.levels, list(one.tight))
