"""When the pods of each Job were there, were bound and were gone: a watch that writes down arrival times.

Times are of this process's clock, so what is compared is compared as one onlooker sees it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final

import msgspec

from hanse.agent.cluster.kubernetes.api import Api
from hanse.agent.cluster.kubernetes.objects import POD, read
from hanse.agent.cluster.kubernetes.watching import Follower, list_pages
from hanse.kit.tasks import cancelled

PODS: Final = "/api/v1/pods"
JOB: Final = "batch.kubernetes.io/job-name"


@dataclass(slots=True)
class Marks:
    """Pods of one Job by name: when they were first seen, first seen on a node, and gone.

    Attributes:
        namespace: of its pods.
        api: the server that has them.
    """

    namespace: str = ""
    api: Api | None = None
    made_s: dict[str, float] = field(default_factory=dict)
    bound_s: dict[str, float] = field(default_factory=dict)
    gone_s: dict[str, float] = field(default_factory=dict)

    @property
    def last_made_s(self) -> float:
        return max(self.made_s.values())

    @property
    def last_bound_s(self) -> float:
        return max(self.bound_s.values())


class PodWatch:
    """See the module.

    Attributes:
        jobs: what was seen, by the name of the Job.
        events: how many objects were told of, also pods of no Job.
    """

    def __init__(self) -> None:
        self.events = 0
        self.jobs: dict[str, Marks] = {}
        self._news = asyncio.Event()

    def of(self, job: str) -> Marks:
        """What was seen of a Job's pods."""
        return self.jobs.setdefault(job, Marks())

    async def until(self, holds: Callable[[], bool], patience_s: float) -> None:
        """Wait until what was seen fulfils a condition. Raises TimeoutError."""
        async with asyncio.timeout(patience_s):
            while not holds():
                await self._news.wait()
                self._news.clear()

    async def until_made(self, job: str, pods: int, patience_s: float) -> Marks:
        """Once so many are there. Raises TimeoutError."""
        marks = self.of(job)
        await self.until(lambda: len(marks.made_s) >= pods, patience_s)
        return marks

    async def until_bound(self, job: str, pods: int, patience_s: float) -> Marks:
        """Once so many are on nodes. Raises TimeoutError."""
        marks = self.of(job)
        await self.until(lambda: len(marks.bound_s) >= pods, patience_s)
        return marks

    async def until_gone(self, job: str, patience_s: float) -> None:
        """Once none is left. Raises TimeoutError."""
        marks = self.of(job)
        await self.until(lambda: len(marks.gone_s) >= len(marks.made_s), patience_s)

    def take(self, item: msgspec.Raw, gone: bool = False, api: Api | None = None) -> None:
        """An object of the watch."""
        self.events += 1
        pod = read(POD, item)
        job, now_s = pod.metadata.labels.get(JOB), time.monotonic()
        if job is None:
            return
        marks, name = self.of(job), pod.metadata.name
        marks.namespace, marks.api = pod.metadata.namespace, api
        marks.made_s.setdefault(name, now_s)
        if pod.spec.node_name:
            marks.bound_s.setdefault(name, now_s)
        if gone:
            marks.gone_s.setdefault(name, now_s)

    def told(self) -> None:
        """A batch of objects was taken."""
        self._news.set()


@asynccontextmanager
async def pod_watch(*apis: Api) -> AsyncIterator[PodWatch]:
    """One of these servers that is up to date from here on."""
    watch = PodWatch()
    following: list[asyncio.Task[object]] = []
    for api in apis:
        take = partial(watch.take, api=api)
        follower = Follower(api, PODS, await list_pages(api, PODS, take), Random(), take=take, told=watch.told)
        following.append(asyncio.create_task(follower.run(), name="pod-watch"))
    try:
        yield watch
    finally:
        await cancelled(following)
