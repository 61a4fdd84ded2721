"""Spans of jobs for those who know a job's state and not its traceparent, which lies in the store with its spec.

Whoever moves a job tells the stage here and goes on; the traceparents are read a little later, many at a time, and
only of jobs whose state says that they are traced. So no move waits for telemetry, and jobs that are not traced cost
nothing. What cannot be read, or does not fit the queue, is not told.
"""

import asyncio
import logging
import zlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from hanse.kit.telemetry import TRACER, Stage
from hanse.kit.telemetry.tracing import Attribute
from hanse.model.fence import GangKey
from hanse.model.ids import Attempt, JobId, Part
from hanse.model.lifecycle import JobState, State
from hanse.store import keys
from hanse.store.contract import Store, StoreError
from hanse.store.schema import decode_spec

log = logging.getLogger(__name__)

STAGES_WAITING_MAX: Final = 10_000
STAGES_PER_READ_MAX: Final = 64
KNOWN_MAX: Final = 2_000
"""Traceparents that are remembered: one job has several stages in one process."""

_FAILED: Final = frozenset({State.FAILED, State.LOST})


@dataclass(frozen=True, slots=True)
class _Told:
    """One stage, until its traceparent is known."""

    stage: Stage
    gang: GangKey
    scope: str
    start_ms: int
    end_ms: int
    error: str
    attributes: dict[str, Attribute]


class JobTraces:
    """See the module; its `run` must be running while anybody follows traces."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: deque[_Told] = deque(maxlen=STAGES_WAITING_MAX)
        self._known: dict[JobId, str] = {}
        self._arrived = asyncio.Event()

    def stage(
        self,
        state: JobState,
        stage: Stage,
        gang: GangKey,
        /,
        *,
        scope: str,
        start_ms: int,
        end_ms: int,
        error: str = "",
        **attributes: Attribute,
    ) -> None:
        """A stage of a job has ended; nothing if the job is not traced."""
        if TRACER.on and state.traced:
            self._waiting.append(_Told(stage, gang, scope, start_ms, end_ms, error, attributes))
            self._arrived.set()

    def ended(self, job: JobId, state: JobState, *, scope: str, now_ms: int) -> None:
        """The job's terminal state is in effect: its life is told."""
        self.stage(
            state,
            Stage.JOB,
            whole_job(job, state.attempt),
            scope=scope,
            start_ms=state.submit_ms,
            end_ms=now_ms,
            error=state.reason.prose if state.state in _FAILED else "",
            state=state.state.name,
            reason=state.reason.name,
            failures=state.failures,
        )

    async def run(self) -> None:
        """Tell what comes in, until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                some = [self._waiting.popleft() for _ in range(min(len(self._waiting), STAGES_PER_READ_MAX))]
                await self._tell(some)

    async def _tell(self, some: Sequence[_Told]) -> None:
        try:
            await self._learn([one.gang.job for one in some])
        except StoreError as error:
            log.info("traces_unread", extra={"stages": len(some), "cause": str(error)})
            return
        for one in some:
            TRACER.stage(
                self._known.get(one.gang.job, ""),
                one.stage,
                one.gang,
                scope=one.scope,
                start_ms=one.start_ms,
                end_ms=one.end_ms,
                error=one.error,
                **one.attributes,
            )

    async def _learn(self, jobs: Sequence[JobId]) -> None:
        """Read the traceparents that are not known."""
        wanted = [job for job in dict.fromkeys(jobs) if job not in self._known]
        if not wanted:
            return
        read = await self._store.read([keys.spec(job) for job in wanted])
        while len(self._known) + len(wanted) > KNOWN_MAX:
            del self._known[next(iter(self._known))]
        for job in wanted:
            found = read.items.get(keys.spec(job))
            try:
                self._known[job] = decode_spec(found.value).trace if found is not None else ""
            except (zlib.error, msgspec.DecodeError):
                self._known[job] = ""  # whoever needs the spec says that it is damaged


def whole_job(job: JobId, attempt: Attempt) -> GangKey:
    """What a stage is about that concerns all parts of an attempt."""
    return GangKey(job, attempt, Part(0))
