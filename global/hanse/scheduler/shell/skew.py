"""Split gangs start together or not at all (S2): who watches that every part begins in time.

All parts are told to start by one transaction. A part whose agent is away does not hear of it, while the others run
and wait for it at full cost; so when a part has not begun within the job's `start_skew_max_s` of that decision, the
attempt stops everywhere and the job is planned anew. Begun means that its pods were created: how long they then take
to come up (a large image) is not skew, and is never a reason to stop.

What the job allows stands in its spec, and what has begun in its bindings; both are read only for jobs that have been
STARTING for a while, and only a few times in a second.
"""

import logging
from typing import Final

from hanse.kit.clock import Clock
from hanse.model.ids import Attempt, JobId
from hanse.model.job import JobSpec
from hanse.model.lifecycle import State, Stop
from hanse.model.reasons import Reason
from hanse.scheduler.shell.specs import read_specs
from hanse.scheduler.shell.states import States
from hanse.store.contract import Store
from hanse.store.moves import WriteId, commit_move, read_jobs
from hanse.store.schema import Progress

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 0.5
JOBS_PER_LOOK_MAX: Final = 64
"""The longest-starting jobs that are looked at in one go."""


class SkewWatch:
    """Stops split gangs of the queues that this replica follows."""

    def __init__(self, store: Store, states: States, clock: Clock, *, write_id: WriteId) -> None:
        self._store = store
        self._states = states
        self._clock = clock
        self._write_id = write_id
        self._look_s = 0.0
        self._allowed_ms: dict[JobId, int] = {}

    async def look(self) -> None:
        """Stop what is late; nothing if somebody has looked a moment ago."""
        if not self._states.starting:
            self._allowed_ms.clear()
            return
        now_s = self._clock.monotonic()
        if now_s < self._look_s:
            return
        self._look_s = now_s + LOOK_EVERY_S
        for job, attempt in await self._late(await self._overdue()):
            log.warning("start_skew", extra={"job": job, "attempt": attempt})
            stop = Stop(State.PENDING, Reason.START_SKEW, attempt)
            await commit_move(self._store, job, stop, clock=self._clock, write_id=self._write_id)

    async def _overdue(self) -> list[JobId]:
        """Jobs that were told to start longer ago than they allow."""
        now_ms = self._clock.now_ms()
        oldest = sorted(self._states.starting, key=lambda job: (self._states.starting[job].changed_ms, job))
        jobs = oldest[:JOBS_PER_LOOK_MAX]
        unknown = [job for job in jobs if job not in self._allowed_ms]
        for job, spec in (await read_specs(self._store, unknown)).items() if unknown else ():
            if isinstance(spec, JobSpec):
                self._allowed_ms[job] = spec.start_skew_max_s * 1000
        return [
            job
            for job in jobs
            if job in self._allowed_ms
            and (state := self._states.starting.get(job)) is not None
            and now_ms - state.changed_ms > self._allowed_ms[job]
        ]

    async def _late(self, jobs: list[JobId]) -> list[tuple[JobId, Attempt]]:
        """Of these, the ones with a part that has not begun, and in which attempt."""
        if not jobs:
            return []
        views = await read_jobs(self._store, jobs)
        return [
            (job, view.state.attempt)
            for job, view in views.items()
            if view.state.state is State.STARTING
            and any(part.value.progress < Progress.STARTED for part in view.parts.values())
        ]
