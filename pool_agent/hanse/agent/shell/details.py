"""Questions that only the agent can answer: nodes of a gang, the nearest domains for a job, lines of a log.

Each answer is a task of its own with a deadline, a bounded number of them at a time, so that nobody's curiosity holds
up the work. An answer comes in pieces; a log that is followed goes on until its pod ends or the asker does.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Final

from hanse.agent.cluster.port import LOG_LINES_MAX, ClusterUnavailable
from hanse.agent.core.chosen import chosen_lines, small_lines
from hanse.agent.core.explain import explain_nodes
from hanse.agent.core.records import SetPlace
from hanse.agent.core.terms import wanted_of
from hanse.agent.shell.config import AgentConfig
from hanse.agent.shell.pool import Pool
from hanse.kit.stream import StreamClosed
from hanse.kit.tasks import TaskPool, close_iterator
from hanse.model.detail import (
    DETAIL_LINES_PER_REPLY_MAX,
    DETAIL_NODES_PER_REPLY_MAX,
    Cancel,
    ChoiceQuestion,
    DetailReply,
    DetailRequest,
    ExplainQuestion,
    LogQuestion,
    NodesQuestion,
    Question,
    UnknownQuestion,
)
from hanse.model.errors import HanseError, InvalidArgument, NotFound, ResourceExhausted
from hanse.model.fence import GangKey
from hanse.model.ids import FlavorName, NodeName
from hanse.model.placement import NodePlace
from hanse.model.request import gang_request
from hanse.wire.specs import spec_from_bytes

log = logging.getLogger(__name__)

LINE_CHARS_MAX: Final = 8_192
"""Of one log line; the rest of a longer one is cut off."""

Send = Callable[[DetailReply], Awaitable[None]]


class Details:
    """Answers for one attachment; `send` puts a reply on its stream."""

    def __init__(self, config: AgentConfig, pool: Pool, send: Send) -> None:
        self._config = config
        self._pool = pool
        self._send = send
        self._tasks = TaskPool(config.details_max)

    async def ask(self, request: DetailRequest) -> None:
        """Begin to answer, or end an answer."""
        key = f"detail-{request.id}"
        if isinstance(request.question, Cancel):
            self._tasks.cancel(key)
            return
        try:
            self._tasks.start(key, self._answer(request.id, request.question))
        except ResourceExhausted as error:
            await self._send(DetailReply(request.id, end=True, error=str(error)))

    async def close(self) -> None:
        """The attachment is over."""
        await self._tasks.close()

    async def _answer(self, number: int, question: Question) -> None:
        try:
            async for reply in self._pieces(number, question):
                await self._send(reply)
            await self._send(DetailReply(number, end=True))
        except (HanseError, ClusterUnavailable, TimeoutError) as error:
            said = str(error) or f"the cluster did not answer within {self._config.detail_deadline_s:.0f} s"
            await self._refuse(number, said)
        except StreamClosed as error:
            log.info("detail_abandoned", extra={"pool": self._config.pool, "cause": str(error)})

    async def _refuse(self, number: int, why: str) -> None:
        try:
            await self._send(DetailReply(number, end=True, error=why))
        except StreamClosed as error:
            log.info("detail_abandoned", extra={"pool": self._config.pool, "cause": str(error)})

    async def _pieces(self, number: int, question: Question) -> AsyncIterator[DetailReply]:
        match question:
            case NodesQuestion(gang):
                places = tuple(self._places(self._sets(gang)))
                for at in range(0, len(places), DETAIL_NODES_PER_REPLY_MAX):
                    yield DetailReply(number, nodes=places[at : at + DETAIL_NODES_PER_REPLY_MAX])
            case ExplainQuestion(spec, flavors):
                lacks = await self._pool.cluster.lacking(wanted_of(spec_from_bytes(spec)))
                lines = (*(f"there is no {lack}" for lack in lacks), *self._explain(spec, flavors))
                yield DetailReply(number, lines=lines[:DETAIL_LINES_PER_REPLY_MAX])
            case ChoiceQuestion(gang):
                yield DetailReply(number, lines=self._chosen(gang))
            case LogQuestion():
                async for lines in self._logs(question):
                    yield DetailReply(number, lines=lines)
            case UnknownQuestion():
                raise InvalidArgument(f"the agent of pool {self._config.pool} cannot answer this; upgrade it")
            case Cancel():
                return

    def _sets(self, gang: GangKey) -> tuple[SetPlace, ...]:
        sets = self._pool.gangs.sets(gang)
        if sets is None:
            raise NotFound(f"pool {self._config.pool} has no placement of {gang}, and had none lately")
        return sets

    def _places(self, sets: Sequence[SetPlace]) -> Iterator[NodePlace]:
        """The pods of each set by node, in the order of their first ranks."""
        for s in sets:
            ranks: dict[NodeName, list[int]] = {}
            for rank, name in enumerate(s.nodes, s.first_rank):
                ranks.setdefault(name, []).append(rank)
            for name, on_node in ranks.items():
                yield NodePlace(name, s.name, tuple(on_node), self._path(name))

    def _path(self, name: NodeName) -> tuple[str, ...]:
        node = self._pool.ledger.inventory.node(name) if self._pool.ledger is not None else None
        return node.path if node is not None else ()

    def _chosen(self, gang: GangKey) -> tuple[str, ...]:
        sets = self._sets(gang)
        if self._pool.ledger is None:
            return ()
        lines = chosen_lines(self._pool.ledger.inventory, (name for s in sets for name in s.nodes))
        terms = self._pool.ledger.small_terms(gang)
        return lines if terms is None else (*lines, *small_lines(terms))

    def _explain(self, spec: bytes, flavors: Sequence[FlavorName]) -> tuple[str, ...]:
        request = gang_request(spec_from_bytes(spec)).at_least
        if self._pool.ledger is None or len(flavors) != len(request.sets):
            raise InvalidArgument("give one flavor for each pod set", path="flavors")
        found = explain_nodes(self._pool.ledger.inventory, request, tuple(flavors))
        if found.fits:
            return ("the nodes here have room for all of it now",)
        near = tuple(miss.text for miss in found.near)
        return near or ((found.refusal.detail,) if found.refusal is not None else ())

    async def _logs(self, question: LogQuestion) -> AsyncIterator[tuple[str, ...]]:
        self._sets(question.gang)
        batches = self._pool.cluster.logs(
            question.gang,
            pod_set=question.pod_set,
            rank=question.rank,
            follow=question.follow,
            tail=question.tail_lines or LOG_LINES_MAX,
        )
        try:
            while True:
                async with asyncio.timeout(None if question.follow else self._config.detail_deadline_s):
                    lines = await anext(batches, None)
                if lines is None:
                    return
                for at in range(0, len(lines), DETAIL_LINES_PER_REPLY_MAX):
                    yield tuple(line[:LINE_CHARS_MAX] for line in lines[at : at + DETAIL_LINES_PER_REPLY_MAX])
        finally:
            await close_iterator(batches)
