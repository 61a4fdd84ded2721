"""Safety of the store: what every transaction must have compared, and what no revision may hold.

Checked at every revision, from the revision's own events and the values before it:

* S5  a commit that binds has compared every key that its plan rests on (the job's state, the heads it takes from, the
      grant, the queue, the pools' settings) at the revision that it had, and bumps each of those heads;
* S5, P4  and its grant was written by the very process that commits, since it started;
* S6  live bindings of a queue are within its quota at every revision that adds to them;
* S7  a job is drained only out of a pool that is drained at that very revision; for leaves see `leave_checks`;
* S8  a terminal state stays as it is; a job that was acknowledged leaves the store only whole, after its end, once
      it is archived and nothing of it is bound; and what has left never comes back, whoever repeats himself;
* S3, P5  every attempt is new: its number was never used before, and nothing of an older attempt is bound with it;
* S2  a split gang is told to start by one transaction for all of its parts;
* S4, P9  what an agent reported took effect under the epoch that its pool has now;
* P11, P12  a binding moves only together with its job's state key, unless its attempt is dead.
"""

from collections.abc import Container

from hanse.model.ids import Attempt, JobId
from hanse.model.lifecycle import JobState, State, decode_state
from hanse.model.reasons import Reason
from hanse.store import keys
from hanse.store.contract import EventKind, Put, Txn
from hanse.store.schema import BindingValue, Desired, Progress, decode
from tests.sim.leave_checks import LeaveChecks
from tests.sim.verdict import Court
from tests.sim.view import SeenBinding, StoreView

Author = tuple[str, int]
"""A process: its name, and which start of it."""


class StoreChecks:
    """Fed by the store's hook, after the view."""

    def __init__(self, view: StoreView, court: Court, archived: Container[JobId]) -> None:
        self._view = view
        self._archived = archived
        self._dropped: dict[JobId, None] = {}
        self._accuse = court.accuse
        self._attempts: dict[JobId, Attempt] = {}
        self._acknowledged: dict[JobId, None] = {}
        self._cancelled: dict[JobId, None] = {}
        self._held: dict[JobId, None] = {}
        self._granted: dict[str, Author] = {}
        self._undone: dict[JobId, None] = {}
        self._leaves = LeaveChecks(view, court)

    def restarted(self) -> None:
        """The store was set back: what was acknowledged after the backup is forgotten by the operator's own order."""
        self._attempts = {job: state.attempt for job, state in self._view.states.items()}
        self._dropped = {job: None for job in self._dropped if job not in self._view.states}
        undone = [job for job in self._acknowledged if not self._is_there(job)]
        self._undone.update(dict.fromkeys(undone))
        for job in undone:
            del self._acknowledged[job]
        self._cancelled, self._held, self._granted = {}, {}, {}

    # ---- by every revision

    def revision_made(self) -> None:
        """Whoever made it."""
        for event in self._view.events:
            key = event.kv.key
            if key.startswith(keys.STATES):
                self._check_state(keys.job_of(key), event.kind is EventKind.DELETE)
            elif key.startswith(keys.SPECS):
                self._check_spec(keys.job_of(key), event.kind is EventKind.DELETE)
            elif key.startswith(keys.POOLS):
                self._leaves.key_written(key, event.kind is EventKind.DELETE)
        created = list(self._view.created_bindings())
        if created:
            self._check_quota(created)
            self._check_attempts(created)
        self._check_starts()

    def _check_state(self, job: JobId, deleted: bool) -> None:
        before = self._view.before[keys.state(job)]
        old = decode_state(before.value) if before is not None else None
        if deleted:
            self._check_dropped(job, old)
            return
        new = self._view.states[job]
        if old is None:
            if job in self._dropped:
                self._accuse("S8", f"{job} had ended and was dropped, and waits to run again", job)
            return
        if old.state.terminal and (old.state, old.attempt) != (new.state, new.attempt):
            self._accuse("S8", f"{job} was {old.state.name} and is {new.state.name}", job)
        if job in self._cancelled and new.state is State.PENDING:
            self._accuse("S8", f"{job} was acknowledged as cancelled and waits to run again", job)
        if job in self._held and new.state is State.PENDING and not new.held:
            self._accuse("S8", f"the hold of {job} was acknowledged, and ended before anybody released it", job)
        if old.held and new.state is State.BOUND:
            self._accuse("S5", f"{job} was bound although it is on hold", job)
        if new.held and new.state is not State.PENDING:
            self._accuse("S8", f"{job} is {new.state.name} and on hold", job)
        if new.reason is Reason.DRAINED and old.reason is not Reason.DRAINED:
            self._check_drained(job)
        self._leaves.state_written(job, old, new)
        if new.attempt < old.attempt:
            self._accuse("S3", f"attempt of {job} went back from {old.attempt} to {new.attempt}", job)
        if not _may_follow(old, new):
            self._accuse("S8", f"{job} went from {old.state.name} to {new.state.name}, which no event does", job)

    def _check_drained(self, job: JobId) -> None:
        pools = {binding.key.pool for binding in self._view.bindings_of(job)}
        configs = [self._view.configs.get(pool) for pool in sorted(pools)]
        if not any(config is not None and config.drain is not None for config in configs):
            self._accuse("S7", f"{job} was drained out of {', '.join(sorted(pools))}, where nothing is drained", job)

    def _check_dropped(self, job: JobId, old: JobState | None) -> None:
        if old is None or not old.state.terminal:
            self._accuse("S8", f"{job} was dropped as {old and old.state.name}", job)
        if job not in self._archived:
            self._accuse("S8", f"{job} was dropped and is not in the archive", job)
        if self._view.bindings_of(job):
            self._accuse("S8", f"{job} was dropped and is still bound (P12)", job)
        if any(key in self._view.items for key in (keys.spec(job), keys.past(job))):
            self._accuse("S8", f"of {job} only a part was dropped", job)
        self._dropped[job] = None

    def _check_spec(self, job: JobId, deleted: bool) -> None:
        dropped = deleted and keys.state(job) not in self._view.items
        if self._view.before[keys.spec(job)] is not None and not dropped:
            self._accuse("S8", f"the spec of {job} was changed or deleted", job)

    def _check_quota(self, created: list[SeenBinding]) -> None:
        for queue in dict.fromkeys(binding.queue for binding in created):
            if queue not in self._view.queues:
                self._accuse("S6", f"a binding was created for queue {queue}, which does not exist")
                continue
            name, value = self._view.queues[queue]
            running = {b.key.job for b in self._view.bindings.values() if b.queue == queue}
            most = value.limits.running_jobs_max
            if most and len(running) > most:
                self._accuse("S6", f"queue {name} runs {len(running)} jobs, it may run {most}", *sorted(running))
            nominal = {q.flavor: q.amounts for q in value.quotas}
            touched = {at for binding in created if binding.queue == queue for at in binding.take()}
            for flavor, resource in sorted(touched):
                used = self._view.used[queue][flavor, resource]
                limit = nominal[flavor].get(resource) if flavor in nominal else 0
                if limit is not None and used > limit:
                    jobs = sorted(b.key.job for b in self._view.bindings.values() if b.queue == queue)
                    what = f"queue {name} uses {used} {resource} of {flavor}, its quota is {limit}"
                    self._accuse("S6", what, *jobs)

    def _check_attempts(self, created: list[SeenBinding]) -> None:
        for job in dict.fromkeys(binding.key.job for binding in created):
            mine = self._view.bindings_of(job)
            attempts = {binding.key.attempt for binding in mine}
            attempt = max(attempts)
            if len(attempts) > 1:
                self._accuse("S3", f"{job} has bindings of attempts {sorted(attempts)} at once", job)
            if attempt <= self._attempts.get(job, 0):
                self._accuse("S3", f"attempt {attempt} of {job} is bound a second time", job)
            state = self._view.states.get(job)
            if state is None or state.attempt != attempt or len(mine) != len(state.pools):
                self._accuse("S3", f"{job} has {len(mine)} bindings of attempt {attempt}, its state is {state}", job)
            self._attempts[job] = attempt
            self._check_whole(job, mine)

    def _check_whole(self, job: JobId, parts: list[SeenBinding]) -> None:
        """The parts of an attempt are the whole gang: consecutive ranks from 0, without gap or overlap."""
        ranks: dict[int, list[tuple[int, int]]] = {}
        for part in parts:
            for bound in part.value.sets:
                ranks.setdefault(bound.index, []).append((bound.first_rank, bound.count))
        for index, spans in ranks.items():
            at = 0
            for first, count in sorted(spans):
                if first != at:
                    self._accuse("S2", f"ranks of pod set {index} of {job} are bound as {sorted(spans)}", job)
                at = first + count

    def _check_starts(self) -> None:
        """Hold → start happens to all parts of a gang in one revision."""
        for event in self._view.events:
            binding = self._view.bindings.get(event.kv.key)
            before = self._view.before.get(event.kv.key)
            if binding is None or before is None or binding.value.desired != Desired.START:
                continue
            if decode(before.value, BindingValue).desired == Desired.START:
                continue
            parts = self._view.bindings_of(binding.key.job)
            if len(parts) != binding.value.parts or any(p.value.desired != Desired.START for p in parts):
                self._accuse("S2", f"only a part of {binding.key.job} was told to start", binding.key.job)
            if any(p.value.progress < Progress.HELD for p in parts):
                self._accuse("S2", f"{binding.key.job} starts before every part is held", binding.key.job)

    # ---- by every transaction

    def transaction_made(self, txn: Txn, author: Author) -> None:
        """The last revision was made by this transaction of this process."""
        guarded = {guard.key: guard.revision for guard in txn.guards}
        for key, revision in guarded.items():
            if self._view.revision_of(key) != revision:
                self._accuse("S5", f"{key} was compared with {revision}, it was {self._view.revision_of(key)}")
        created = list(self._view.created_bindings())
        for binding in created:
            self._check_guards(binding, guarded)
        if created:
            self._check_heads(created, txn)
            self._check_grants(created, author)
        for op in txn.ops:
            if op.key.startswith(keys.GRANTS):
                self._granted[op.key] = author
        self._check_moves(guarded, txn)
        self._check_fences(guarded)

    def _check_guards(self, binding: SeenBinding, guarded: dict[str, int]) -> None:
        job, pool, queue = binding.key.job, binding.key.pool, binding.queue
        needed = {keys.state(job): "the job's state", keys.pool_config(pool): "the pool's settings"}
        if queue in self._view.queues:
            needed[keys.queue(self._view.queues[queue][0])] = "the queue"
            needed[keys.grant(self._view.root_of(queue))] = "the grant"
            needed.update({keys.cohort(name): "a cohort above its queue" for name in self._view.cohorts_of(queue)})
        for flavor in dict.fromkeys(binding.value.flavors):
            needed[keys.head(pool, flavor)] = f"the head of {flavor}"
        for key, what in needed.items():
            if key not in guarded:
                self._accuse("S5", f"{job} was bound to {pool} without comparing {what} ({key})", job, pool)
        self._check_allowed(binding)

    def _check_allowed(self, binding: SeenBinding) -> None:
        """What the compared keys say must allow the binding; before and after are the same, they were compared."""
        job, pool = binding.key.job, binding.key.pool
        config = self._view.configs.get(pool)
        if config is None or config.cordoned:
            self._accuse("S5", f"{job} was bound to {pool}, which is cordoned or gone", job, pool)
        queue = self._view.queues.get(binding.queue)
        if queue is not None and queue[1].held:
            self._accuse("S5", f"{job} was bound although queue {queue[0]} is on hold", job)

    def _check_heads(self, created: list[SeenBinding], txn: Txn) -> None:
        written = {op.key for op in txn.ops if isinstance(op, Put)}
        for binding in created:
            for flavor in dict.fromkeys(binding.value.flavors):
                head = keys.head(binding.key.pool, flavor)
                if head not in written:
                    self._accuse("S5", f"{binding.key.job} takes from {head} and does not bump it", binding.key.job)

    def _check_grants(self, created: list[SeenBinding], author: Author) -> None:
        """Who admits has written the grant itself, in this very start (P4)."""
        for binding in created:
            root = keys.grant(self._view.root_of(binding.queue))
            if self._granted.get(root) != author:
                what = f"{author} bound {binding.key.job} by a grant of {self._granted.get(root)} (P4)"
                self._accuse("S5", what, binding.key.job)

    def _check_moves(self, guarded: dict[str, int], txn: Txn) -> None:
        """A binding of the newest attempt moves only with its job's state key compared and written (P11)."""
        written = {op.key for op in txn.ops}
        for event in self._view.events:
            if not event.kv.key.startswith(keys.BINDINGS):
                continue
            key = keys.parse_binding(event.kv.key)
            state_key = keys.state(key.job)
            state = self._view.states.get(key.job)
            dead = (
                state is None or state.attempt != key.attempt or (state.state.terminal and state_key not in written)
            )
            if not dead and not (state_key in guarded and state_key in written):
                self._accuse("S5", f"{event.kv.key} moved without its job's state key (P11)", key.job)

    def _check_fences(self, guarded: dict[str, int]) -> None:
        """What only an agent can know enters the store only under its pool's present epoch (P9)."""
        fenced: dict[JobId, bool] = {}
        for event in self._view.events:
            key, before = event.kv.key, self._view.before[event.kv.key]
            if not key.startswith(keys.BINDINGS) or before is None:
                continue
            at = keys.parse_binding(key)
            old, new = decode(before.value, BindingValue), self._view.bindings.get(key)
            if new is None or new.value.progress != old.progress:
                by_agent = keys.pool_agent(at.pool) in guarded or self._leaves.vouched(at.pool, guarded)
                fenced[at.job] = fenced.get(at.job, False) or by_agent
        for job, by_agent in fenced.items():
            if not by_agent:
                self._accuse("S4", f"a report about {job} took effect without the agent's epoch (P9)", job)

    # ---- what users were told

    def acknowledged(self, job: JobId) -> None:
        """A user was told that this job exists."""
        if not self._is_there(job):
            self._accuse("S8", f"{job} was acknowledged and is not in the store", job)
        self._acknowledged[job] = None
        self._undone.pop(job, None)

    def held(self, job: JobId) -> None:
        """A user was told that this job is on hold: it waits until somebody wants to release it, or it ends."""
        state = self._view.states.get(job)
        if state is not None and not state.held and not state.state.terminal:
            self._accuse("S8", f"{job} was acknowledged as held and is {state.state.name}, not on hold", job)
        self._held[job] = None

    def releasing(self, job: JobId) -> None:
        """Somebody is about to release this job."""
        self._held.pop(job, None)

    def cancelled(self, job: JobId) -> None:
        """A user was told that this job is cancelled: it ends, and is not bound again."""
        state = self._view.states.get(job)
        ends = state is not None and (state.state.terminal or state.state is State.STOPPING)
        if not ends and job not in self._dropped:
            self._accuse("S8", f"{job} was acknowledged as cancelled and is {state and state.state.name}", job)
        self._cancelled[job] = None

    def check_acknowledged(self) -> None:
        """Every acknowledged job is there, with its spec, or was dropped as it may be."""
        for job in self._acknowledged:
            if not self._is_there(job):
                self._accuse("S8", f"{job} was acknowledged and is lost", job)

    def is_dropped(self, job: JobId) -> bool:
        """The job had ended and has left the store, or the store was set back to before it."""
        return job in self._dropped or job in self._undone

    def _is_there(self, job: JobId) -> bool:
        items = self._view.items
        return job in self._dropped or (keys.state(job) in items and keys.spec(job) in items)


def _may_follow(old: JobState, new: JobState) -> bool:
    """Whether the arrow exists in the picture of a job's life."""
    live = {State.BOUND, State.PLACED, State.STARTING, State.RUNNING}
    if old.state == new.state:
        return True
    match old.state:
        case State.PENDING:
            return new.state in {State.BOUND, State.CANCELLED, State.FAILED}
        case State.BOUND | State.PLACED | State.STARTING | State.RUNNING:
            forward = new.state in live and new.state > old.state
            ended = new.state in {State.STOPPING, State.SUCCEEDED, State.FAILED, State.LOST}
            back = new.state is State.PENDING  # refused, or lost with its nodes: nothing of it is left
            return forward or ended or back
        case State.STOPPING:
            return new.state in {old.target, State.SUCCEEDED, State.LOST} or new.state.terminal
        case _:
            return False
