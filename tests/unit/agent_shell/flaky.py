"""A cluster that a test can make fail, lose its answers, or lose its watches."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from hanse.agent.cluster.port import (
    Claim,
    ClusterEvent,
    ClusterPort,
    ClusterState,
    ClusterUnavailable,
    ClusterWrite,
    Epoch,
    ExecInput,
    ExecOutput,
    GangKey,
    NodeFacts,
    PodCommand,
    PodStatus,
    Wanted,
    WatchLost,
    WriteResult,
)


class FlakyCluster:
    """A port in front of another one.

    Attributes:
        down: every call fails.
        lose_answers: of so many writes that do take effect, the answers are lost.
        drop_writes: so many writes fail, and take no effect.
        fail_lists: so many lists fail.
        deaf: watches tell nothing any more.
        mute: what the cluster lacks is never answered.
        writes: all operations that were asked for, by call.
    """

    def __init__(self, inner: ClusterPort) -> None:
        self.down = False
        self.lose_answers = 0
        self.drop_writes = 0
        self.fail_lists = 0
        self.deaf = False
        self.mute = False
        self.lists = 0
        self.writes: list[tuple[ClusterWrite, ...]] = []
        self._inner = inner
        self._lost = asyncio.Event()

    def lose_watches(self) -> None:
        """Every watch that is open breaks."""
        self._lost.set()
        self._lost = asyncio.Event()

    def _check(self) -> None:
        if self.down:
            raise ClusterUnavailable("the test took it down")

    async def read_claim(self) -> Claim:
        self._check()
        return await self._inner.read_claim()

    async def claim(self, federation: str, epoch: Epoch, revision: int) -> Claim:
        self._check()
        return await self._inner.claim(federation, epoch, revision)

    async def list(self) -> ClusterState:
        self._check()
        self.lists += 1
        if self.fail_lists > 0:
            self.fail_lists -= 1
            raise ClusterUnavailable("the test failed the list")
        return await self._inner.list()

    async def nodes(self) -> tuple[NodeFacts, ...]:
        return (await self.list()).nodes

    async def watch(self, version: int) -> AsyncIterator[tuple[ClusterEvent, ...]]:
        lost = self._lost
        events: asyncio.Queue[tuple[ClusterEvent, ...]] = asyncio.Queue()

        async def pump() -> None:
            async for batch in self._inner.watch(version):
                await events.put(batch)

        tasks = [asyncio.create_task(pump(), name="pump"), asyncio.create_task(lost.wait(), name="lost")]
        try:
            while not lost.is_set():
                taking = asyncio.create_task(events.get(), name="take")
                await asyncio.wait([taking, tasks[1]], return_when=asyncio.FIRST_COMPLETED)
                if taking.done() and not self.deaf:
                    yield taking.result()
                taking.cancel()
            raise WatchLost("the test broke it")
        finally:
            for task in tasks:
                task.cancel()

    async def write(self, epoch: Epoch, ops: Sequence[ClusterWrite]) -> tuple[WriteResult, ...]:
        self._check()
        self.writes.append(tuple(ops))
        if self.drop_writes > 0:
            self.drop_writes -= 1
            raise ClusterUnavailable("the test dropped the request")
        results = await self._inner.write(epoch, ops)
        if self.lose_answers > 0:
            self.lose_answers -= 1
            raise ClusterUnavailable("the test lost the answer")
        return results

    def exec(self, command: PodCommand, stdin: AsyncIterator[ExecInput] | None) -> AsyncIterator[ExecOutput]:
        return self._inner.exec(command, stdin)

    async def lacking(self, wanted: Wanted) -> tuple[str, ...]:
        self._check()
        if self.mute:
            await asyncio.Event().wait()
        return await self._inner.lacking(wanted)

    async def pods(self, key: GangKey) -> tuple[PodStatus, ...]:
        self._check()
        return await self._inner.pods(key)

    def logs(
        self, key: GangKey, *, pod_set: str, rank: int, follow: bool, tail: int
    ) -> AsyncIterator[tuple[str, ...]]:
        return self._inner.logs(key, pod_set=pod_set, rank=rank, follow=follow, tail=tail)
