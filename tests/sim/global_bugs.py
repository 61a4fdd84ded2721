"""Deliberate bugs in what runs globally: commits, quota, settling, the link's half of attach and report."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final

from hanse.apiserver import commits, sight, watches
from hanse.apiserver.access.verbs import Verb
from hanse.model import lifecycle
from hanse.model.ids import Attempt
from hanse.model.lifecycle import Bind, Bindings, Finished, Moved, State
from hanse.scheduler.core import plan as planning
from hanse.scheduler.core import world as core_world
from hanse.scheduler.core.facts import BindingFacts
from hanse.scheduler.core.world import World
from hanse.scheduler.shell import committer, desired, drains, feed, report_writer, states
from hanse.scheduler.shell.bound import binding_facts
from hanse.scheduler.shell.committer import Committer
from hanse.scheduler.shell.departures import NoArchive
from hanse.scheduler.shell.peers import Elsewhere
from hanse.scheduler.shell.reports import ReportBook
from hanse.scheduler.shell.retention import Retainer
from hanse.scheduler.shell.roots import Roots
from hanse.store import keys, moves
from hanse.store.contract import Committed, Event, EventKind, KeyValue, ModRevisionIs, Put, Unknown
from tests.sim.patching import original, swap

ABSENT_KEY: Final = "meta/never-written"

# Any in signatures below: a patch passes arguments through to what it wraps.


def _without_guards(stack: ExitStack, dropped: Callable[[str], bool]) -> None:
    guards_of = original(committer, "guards_of")

    def fewer(*args: Any) -> dict[str, int]:
        return {key: revision for key, revision in guards_of(*args).items() if not dropped(key)}

    swap(stack, committer, "guards_of", fewer)


def no_head_guards(stack: ExitStack) -> None:
    _without_guards(stack, lambda key: keys.head_flavor(key) is not None)


def no_pool_guards(stack: ExitStack) -> None:
    _without_guards(stack, lambda key: key.startswith(keys.POOLS) and key.endswith("/config"))


def no_queue_guards(stack: ExitStack) -> None:
    _without_guards(stack, lambda key: key.startswith(keys.QUEUES))


def no_cohort_guards(stack: ExitStack) -> None:
    """The root of a queue is not compared as far as cohorts decide it."""
    _without_guards(stack, lambda key: key.startswith(keys.COHORTS))


def ignore_who_is_apart(stack: ExitStack) -> None:
    """A queue that is granted apart is admitted by its cohort's holder all the same."""
    root_of = original(core_world, "root_of")
    swap(stack, core_world, "root_of", lambda queue, cohorts: root_of(replace(queue, apart=False), cohorts))


def ignore_who_is_named(stack: ExitStack) -> None:
    """L2: whom an operator names to admit for a root is not asked."""
    swap(stack, Roots, "_winner", lambda self, root, members: core_world.winner(root, members))


def no_grant_guards(stack: ExitStack) -> None:
    _without_guards(stack, lambda key: key.startswith(keys.GRANTS))


def drain_unguarded(stack: ExitStack) -> None:
    """S7: whether the pool is still drained when a job is told to leave it is not compared."""
    move = original(drains, "commit_move")

    async def unguarded(*args: Any, guards: object = (), **kwargs: Any) -> Any:
        return await move(*args, **kwargs)

    swap(stack, drains, "commit_move", unguarded)


def ignore_limits(stack: ExitStack) -> None:
    """A planner lets any number of a queue's jobs run."""
    swap(stack, planning, "jobs_full", lambda *args: False)


def ignore_holds(stack: ExitStack) -> None:
    """A planner does not see which jobs are on hold."""
    decode = original(states, "decode_state")
    swap(stack, states, "decode_state", lambda data: replace(decode(data), held=False))


def count_only_own_bindings(stack: ExitStack) -> None:
    """P2: what comes from the feed is placed in the pool's ledger, but not charged."""
    handlers = feed._HANDLERS
    ours = handlers[keys.BINDINGS]

    uncharged: dict[tuple[int, str], BindingFacts] = {}

    def theirs(world: World, event: Event) -> None:
        known, at = world.has_binding(event.kv.key), (id(world), event.kv.key)
        if event.kind is EventKind.DELETE and at in uncharged:
            world.usage.put(uncharged.pop(at))
        ours(world, event)
        if not known and event.kind is EventKind.PUT:
            uncharged[at] = binding_facts(event.kv)
            world.usage.remove(uncharged[at])

    handlers[keys.BINDINGS] = theirs
    stack.callback(handlers.__setitem__, keys.BINDINGS, ours)


def retry_unknown_blindly(stack: ExitStack) -> None:
    """P3: as if the store had said that nothing was done."""

    async def send(self: Any, decisions: Sequence[Any], seen: dict[str, int]) -> Any:
        begin = self._begin_settling
        unknown: list[frozenset[str]] = []

        def forget(number: int, lost: Any, bound: Any, txn: Any, cause: str) -> None:
            unknown.append(frozenset(guard.key for guard in txn.guards))

        self._begin_settling = forget
        try:
            sent = await real_send(self, decisions, seen)
        finally:
            self._begin_settling = begin
        return committer._Moved(unknown[0]) if unknown else sent

    real_send = original(Committer, "_send")
    swap(stack, Committer, "_send", send)


def settle_by_absence(stack: ExitStack) -> None:
    """P3: one read that finds nothing is believed."""

    async def believe(self: Committer, state_key: str, revision: int) -> bool:
        return True

    swap(stack, Committer, "_cannot_pass_any_more", believe)


def keep_grants(stack: ExitStack) -> None:
    """P4: a grant that names this replica is good, whichever start of it was meant."""

    def held_roots(self: World, nonce: str) -> dict[str, int]:
        return {r: g.revision for r, g in sorted(self.grants.items()) if g.replica == self.replica}

    swap(stack, World, "held_roots", held_roots)


def reuse_attempts(stack: ExitStack) -> None:
    """P5: a refusal is not final for its attempt."""
    transition = original(committer, "transition")

    def again(job: Any, event: Any, *, now_ms: int) -> Any:
        moved = transition(job, event, now_ms=now_ms)
        if isinstance(event, Bind) and isinstance(moved, Moved) and job.attempt > 0:
            return replace(moved, state=replace(moved.state, attempt=Attempt(job.attempt)))
        return moved

    swap(stack, committer, "transition", again)


def send_cached_sets(stack: ExitStack) -> None:
    """P6: a set that was read for an earlier attachment is passed off as fresh."""
    load_range = original(desired, "load_range")
    cache: dict[str, list[KeyValue]] = {}

    async def cached(store: Any, start: str, end: str) -> tuple[list[KeyValue], int]:
        items, revision = await load_range(store, start, end)
        old, cache[start] = cache.get(start, items), items
        return old, revision

    swap(stack, desired, "load_range", cached)


def no_report_fence(stack: ExitStack) -> None:
    """P9: a report's transaction does not compare the agent's epoch."""
    swap(stack, ReportBook, "fence", lambda self: ModRevisionIs(ABSENT_KEY, 0))
    swap(stack, ReportBook, "check_fence", lambda self, conflict: True)


def release_untouched(stack: ExitStack) -> None:
    """P11: what moves only one part leaves the job's state key alone."""
    plan_move = original(report_writer, "plan_move")

    def untouched(view: Any, *args: Any, **kwargs: Any) -> Any:
        plan = plan_move(view, *args, **kwargs)
        if not isinstance(plan, moves.PlannedMove) or plan.state.state is not view.state.state:
            return plan
        state_key = keys.state(view.job)
        return replace(
            plan,
            guards=tuple(g for g in plan.guards if g.key != state_key),
            ops=tuple(op for op in plan.ops if not (isinstance(op, Put) and op.key == state_key)),
        )

    swap(stack, report_writer, "plan_move", untouched)


def drop_at_stop(stack: ExitStack) -> None:
    """P12: stop deletes the binding, as if its pods were gone already."""
    left_of = original(moves, "_left_of")

    def dropped(view: Any, parts: Any, what: Bindings, report: Any, write_id: int) -> Any:
        return left_of(view, parts, Bindings.DROP_ALL if what is Bindings.STOP else what, report, write_id)

    swap(stack, moves, "_left_of", dropped)


def forget_success(stack: ExitStack) -> None:
    """P13: success is no news for a job that is stopping."""
    finished = original(lifecycle, "_finished")

    def pending(job: Any, event: Finished, now_ms: int) -> Any:
        if event.waiting == 0 and job.state is State.STOPPING and job.target is State.PENDING:
            return lifecycle._moved(job, job.target, job.reason, now_ms, Bindings.DROP_ALL)
        return finished(job, event, now_ms)

    swap(stack, lifecycle, "_finished", pending)


def ask_no_peers(stack: ExitStack) -> None:
    """P14: no replica asks another for the summary of a pool that is attached there."""
    swap(stack, Elsewhere, "_wanted", lambda self, addresses: {})


def bind_at_once(stack: ExitStack) -> None:
    """P15: a restored store is taken for one that knows everything."""
    swap(stack, World, "missing", lambda self: ())


def no_attempt_check(stack: ExitStack) -> None:
    """A report is taken for one of the newest attempt."""
    transition = original(moves, "transition")

    def any_attempt(job: Any, event: Any, *, now_ms: int) -> Any:
        if hasattr(event, "attempt"):
            event = replace(event, attempt=job.attempt)
        return transition(job, event, now_ms=now_ms)

    swap(stack, moves, "transition", any_attempt)


def read_what_was(stack: ExitStack) -> None:
    """A server answers a read with what it read for the one before."""
    find = original(sight.Sight, "job")
    known: dict[str, Any] = {}

    async def late(self: Any, access: Any, text: str, *, queue: str = "", verb: Verb = Verb.VIEW) -> Any:
        fresh = await find(self, access, text, queue=queue, verb=verb)
        if verb is not Verb.VIEW:
            return fresh
        before, known[text] = known.get(text, fresh), fresh
        return before

    swap(stack, sight.Sight, "job", late)


def acknowledge_unsettled(stack: ExitStack) -> None:
    """A submission whose outcome nobody knows is acknowledged."""
    settle = original(commits, "_settle")

    def hasty(waiting: Any, outcome: Any) -> None:
        settle(waiting, Committed(1) if isinstance(outcome, Unknown) else outcome)

    swap(stack, commits, "_settle", hasty)


def watch_half(stack: ExitStack) -> None:
    """Of the changes of a batch, who follows jobs is told of all but one."""
    newest = original(watches, "_newest")
    swap(stack, watches, "_newest", lambda batch, scope: newest(batch, scope)[1:] or newest(batch, scope))


def no_quota(stack: ExitStack) -> None:
    """The planner finds that quota always has room."""
    swap(stack, planning, "shortfall", lambda *args: None)


def drop_unarchived(stack: ExitStack) -> None:
    """Ended jobs leave the store before they are in the archive."""
    made = original(Retainer, "__init__")

    def careless(self: Any, store: Any, world: Any, states: Any, clock: Any, archive: Any, **terms: Any) -> None:
        made(self, store, world, states, clock, NoArchive(), **terms)

    swap(stack, Retainer, "__init__", careless)
