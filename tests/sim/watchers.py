"""A person who follows all jobs: a list, then a watch from the list's revision on, from server to server.

What was shown is compared with what happened: a response that carries revision R has shown, of every job that changed
since the list and until R, at least its newest change until then. Changes come in the order of their revisions, and a
response never promises less than the one before it. At rest the watcher's picture is the store.

A restored store counts its revisions anew, and a watch that goes on would miss what was undone: who follows jobs
lists again after a restore.
"""

import asyncio
from random import Random
from typing import TYPE_CHECKING, Final

from google.protobuf.message import Message

from hanse.api.v1 import job_service_pb2
from hanse.model.errors import HanseError
from hanse.model.ids import JobId
from hanse.store import keys
from tests.sim.liveness import Unsettled

if TYPE_CHECKING:
    from tests.sim.world import World

SILENCE_MAX_S: Final = 40.0
"""A watch that says nothing for so long is opened anew, at whichever server: the one that had it may be dead."""

PAUSE_S: Final = (0.1, 1.5)
PAGE_JOBS: Final = 7
CALL_DEADLINE_S: Final = 8.0


class Watcher:
    """One of them."""

    def __init__(self, world: "World", rng: Random) -> None:
        self._world = world
        self._rng = rng
        self._known: dict[JobId, int] = {}
        self._revision = 0
        self._listed = 0
        self._era = -1

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                if self._era != self._world.store.era:
                    await self._list()
                await self._watch()
            except (HanseError, TimeoutError) as error:
                self._world.story.note(f"follows no jobs: {error}")
                if getattr(error, "reason", "") in ("REVISION_UNKNOWN", "COMPACTED", "OUT_OF_RANGE"):
                    self._era = -1
            await asyncio.sleep(self._rng.uniform(*PAUSE_S))

    async def _list(self) -> None:
        """Page by page; the first page's revision is that of the list."""
        era, known, token, revision = self._world.store.era, dict[JobId, int](), "", 0
        while True:
            request = job_service_pb2.ListJobsRequest(page_size=PAGE_JOBS, page_token=token)
            page = await self._world.call("ListJobs", request, CALL_DEADLINE_S)
            assert isinstance(page, job_service_pb2.ListJobsResponse)
            revision = revision or page.revision
            known.update((JobId(job.id), job.revision) for job in page.jobs)
            token = page.next_page_token
            if not token:
                break
        if era == self._world.store.era:
            self._known, self._revision, self._listed, self._era = known, revision, revision, era
            self._check(revision)

    async def _watch(self) -> None:
        request = job_service_pb2.WatchJobsRequest(after_revision=self._revision)
        era = self._era
        responses = self._world.stream("WatchJobs", request)
        while True:
            async with asyncio.timeout(SILENCE_MAX_S):
                response = await responses.get()
            if era != self._world.store.era:
                return
            if not isinstance(response, Message):
                raise response
            assert isinstance(response, job_service_pb2.WatchJobsResponse)
            self._take(response)

    def _take(self, response: job_service_pb2.WatchJobsResponse) -> None:
        accuse = self._world.court.accuse
        if response.revision < self._revision:
            accuse("S8", f"a watch went back from revision {self._revision} to {response.revision}")
        self._revision = response.revision
        for event in response.events:
            job = JobId(event.job.id)
            if event.kind == job_service_pb2.JOB_EVENT_KIND_REMOVED:
                self._known.pop(job, None)
            else:
                self._known[job] = max(event.job.revision, self._known.get(job, 0))
        self._check(self._revision)

    def _check(self, revision: int) -> None:
        """Whether every job is known as it was at that revision, or later."""
        for job, changed in self._world.changes.newest(self._listed, revision):
            if self._known.get(job, 0) < changed:
                what = f"somebody follows jobs until revision {revision} and was not told of {job} at {changed}"
                self._world.court.accuse("S8", what, job)

    def at_rest(self) -> Unsettled | None:
        """Whether the picture is the store."""
        items = self._world.view.items
        there = {keys.job_of(key): kv.mod_revision for key, kv in items.items() if key.startswith(keys.STATES)}
        for job in dict.fromkeys((*there, *self._known)):
            if there.get(job) != self._known.get(job):
                what = f"{job} is at revision {there.get(job)}, and who follows it knows {self._known.get(job)}"
                return Unsettled("L4", what, (job,))
        return None


class Changes:
    """When each job's state changed, in this life of the store."""

    def __init__(self) -> None:
        self._by_job: dict[JobId, list[int]] = {}

    def restarted(self) -> None:
        """Revisions are given anew."""
        self._by_job.clear()

    def put(self, job: JobId, revision: int) -> None:
        """It was written."""
        self._by_job.setdefault(job, []).append(revision)

    def removed(self, job: JobId) -> None:
        """It left the store: whether anybody still knows it is judged at rest."""
        self._by_job.pop(job, None)

    def newest(self, after: int, until: int) -> list[tuple[JobId, int]]:
        """Jobs that changed in (after, until], each with its newest change there."""
        found = ((job, [r for r in changed if after < r <= until]) for job, changed in self._by_job.items())
        return [(job, changed[-1]) for job, changed in found if changed]
