"""Asks agents for what only they know, through the streams of this replica or, for other pools, of the others."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from hanse.apiserver.ports import ExecPiece, LogEntry, NodesAnswer, PartAt, PodRef
from hanse.kit.stream import StreamClosed
from hanse.kit.tasks import cancelled
from hanse.model.detail import (
    REPLY_WINDOW,
    ChoiceQuestion,
    DetailReply,
    ExecInput,
    ExecQuestion,
    ExplainQuestion,
    LogQuestion,
    NodesQuestion,
    Question,
    RacksQuestion,
    RackUse,
)
from hanse.model.errors import FailedPrecondition, NotFound, Unavailable
from hanse.model.fence import GangKey
from hanse.model.ids import Attempt, FlavorName, JobId, PoolName
from hanse.model.job import JobSpec
from hanse.model.placement import NodePlace
from hanse.model.request import gang_request
from hanse.scheduler.core.plan import flavor_choices
from hanse.scheduler.core.world import World
from hanse.scheduler.shell.peers import Asked, Pieces
from hanse.wire.job import spec_to_wire

FIRST_LINE_DEADLINE_S = 5.0
EXEC_START_DEADLINE_S = 15.0


class Agents(Protocol):
    """Where the agents are."""

    def agent(self, pool: PoolName) -> Asked | None:
        """Who hands questions to the pool's agent: its stream here, or the replica that has it; None if nobody."""
        ...


def _lines(answers: Mapping[PoolName, Sequence[DetailReply]]) -> dict[PoolName, tuple[str, ...]]:
    return {pool: tuple(line for reply in replies for line in reply.lines) for pool, replies in answers.items()}


class Details:
    """The `AgentDetails` of one replica."""

    def __init__(self, agents: Agents, world: World) -> None:
        self._agents = agents
        self._world = world

    async def nodes(self, job: JobId, attempt: Attempt, parts: Sequence[PartAt], *, deadline_s: float) -> NodesAnswer:
        """See ports.AgentDetails."""
        questions: dict[PoolName, Question] = {
            part.pool: NodesQuestion(GangKey(job, attempt, part.part)) for part in parts
        }
        answers = await self._ask_all(questions, deadline_s)
        places: list[tuple[PoolName, NodePlace]] = []
        for part in parts:
            for reply in answers.get(part.pool, ()):
                places.extend((part.pool, place) for place in reply.nodes)
        silent = tuple(part.pool for part in parts if part.pool not in answers)
        return NodesAnswer(tuple(places), silent)

    async def explain_nodes(
        self, job: JobId, spec: JobSpec, pools: Sequence[PoolName], *, deadline_s: float
    ) -> Mapping[PoolName, tuple[str, ...]]:
        """See ports.AgentDetails."""
        wire = spec_to_wire(spec).SerializeToString()
        questions: dict[PoolName, Question] = {
            pool: ExplainQuestion(wire, self._flavors(spec, pool)) for pool in pools
        }
        return _lines(await self._ask_all(questions, deadline_s))

    async def explain_placed(
        self, job: JobId, attempt: Attempt, parts: Sequence[PartAt], *, deadline_s: float
    ) -> Mapping[PoolName, tuple[str, ...]]:
        """See ports.AgentDetails."""
        questions: dict[PoolName, Question] = {
            part.pool: ChoiceQuestion(GangKey(job, attempt, part.part)) for part in parts
        }
        return _lines(await self._ask_all(questions, deadline_s))

    async def racks(self, pool: PoolName, *, deadline_s: float) -> tuple[RackUse, ...] | None:
        """See ports.AgentDetails."""
        replies = await self._ask(pool, RacksQuestion(), deadline_s)
        return None if replies is None else tuple(one for reply in replies for one in reply.racks)

    def _flavors(self, spec: JobSpec, pool: PoolName) -> tuple[FlavorName, ...]:
        """Flavors to explain with: the first choice of which the pool has hosts, else the first choice."""
        facts = self._world.queue_named(spec.queue)
        quotas = [q.flavor for q in facts.queue.quotas] if facts is not None else []
        known = [f.name for f in self._world.ordered_flavors()]
        choices = list(flavor_choices(gang_request(spec), quotas, known))
        summary = self._world.ledger(pool).summary
        here = set(summary.shape.flavors) if summary is not None else set()
        fallback = choices[0] if choices else tuple(FlavorName("") for _ in spec.pod_sets)
        return next((c for c in choices if all(f in here for f in c)), fallback)

    async def _ask_all(
        self, questions: Mapping[PoolName, Question], deadline_s: float
    ) -> dict[PoolName, list[DetailReply]]:
        """The answers that came whole in time."""
        results = await asyncio.gather(
            *(self._ask(pool, question, deadline_s) for pool, question in questions.items())
        )
        return {pool: r for pool, r in zip(questions, results, strict=True) if r is not None}

    async def _ask(self, pool: PoolName, question: Question, deadline_s: float) -> list[DetailReply] | None:
        agent = self._agents.agent(pool)
        if agent is None:
            return None
        answers = None
        try:
            answers = agent.ask(question)
            async with asyncio.timeout(deadline_s):
                replies: list[DetailReply] = []
                while (reply := await answers.next()) is not None:
                    replies.append(reply)
        except (TimeoutError, StreamClosed):
            return None
        finally:
            if answers is not None:
                answers.close()
        return None if any(r.error for r in replies) else replies

    async def logs(self, pod: PodRef, *, tail_lines: int, follow: bool) -> AsyncIterator[tuple[LogEntry, ...]]:
        """See ports.AgentDetails."""
        agent = self._agents.agent(pod.pool)
        if agent is None:
            raise Unavailable(f"the agent of pool {pod.pool} is not attached; try again", reason="POOL_DETACHED")
        gang = GangKey(pod.job, pod.attempt, pod.part)
        question = LogQuestion(gang, pod.pod_set, pod.rank, follow, tail_lines, REPLY_WINDOW)
        answers = None
        first = True
        try:
            answers = agent.ask(question)
            while True:
                async with asyncio.timeout(FIRST_LINE_DEADLINE_S if first or not follow else None):
                    reply = await answers.next()
                if reply is None:
                    return
                if reply.error:
                    raise NotFound(reply.error, reason="POD_NOT_FOUND")
                first = False
                yield tuple(LogEntry(line) for line in reply.lines)
        except TimeoutError:
            raise Unavailable(f"the agent of pool {pod.pool} did not answer in time; try again") from None
        except StreamClosed as error:
            what = f"the agent of pool {pod.pool} is moving to another replica ({error}); try again"
            raise Unavailable(what, reason="POOL_DETACHED") from None
        finally:
            if answers is not None:
                answers.close()

    async def exec(
        self, pod: PodRef, *, command: Sequence[str], tty: bool, inputs: AsyncIterator[ExecInput] | None
    ) -> AsyncIterator[ExecPiece]:
        """See ports.AgentDetails."""
        agent = self._agents.agent(pod.pool)
        if agent is None:
            raise Unavailable(f"the agent of pool {pod.pool} is not attached; try again", reason="POOL_DETACHED")
        gang = GangKey(pod.job, pod.attempt, pod.part)
        wanted = ExecQuestion(
            gang, pod.pod_set, pod.rank, tuple(command), inputs is not None, tty, window=REPLY_WINDOW
        )
        feeding: list[asyncio.Task[object]] = []
        answers = None
        began = False
        try:
            answers = agent.ask(wanted)
            if inputs is not None:
                feeding.append(asyncio.create_task(_feed(inputs, answers), name=f"inputs-{pod.pool}"))
            while True:
                async with asyncio.timeout(None if began else EXEC_START_DEADLINE_S):
                    reply = await answers.next()
                if reply is None:
                    return
                if reply.error:
                    raise FailedPrecondition(reply.error, reason="EXEC_REFUSED")
                began = True
                if reply.stdout or reply.stderr or reply.exit_code is not None:
                    yield ExecPiece(reply.stdout, reply.stderr, reply.exit_code)
        except TimeoutError:
            what = f"the agent of pool {pod.pool} did not begin in time; its command may run all the same"
            raise Unavailable(what, reason="EXEC_UNKNOWN") from None
        except StreamClosed as error:
            what = f"the agent of pool {pod.pool} left ({error}); the command may run on"
            raise Unavailable(what, reason="EXEC_UNKNOWN") from None
        finally:
            await cancelled(feeding)
            if answers is not None:
                answers.close()


async def _feed(inputs: AsyncIterator[ExecInput], answers: Pieces) -> None:
    """Hand inputs on, as fast as the command reads them."""
    try:
        async for value in inputs:
            await answers.tell(value)
    except StreamClosed:
        return  # whoever waits for the answer is told
