"""Questions that only the agent can answer: nodes of a gang, the nearest domains for a job, lines of a log, commands.

Each answer is a task of its own with a deadline, a bounded number of them at a time, so that nobody's curiosity holds
up the work. An answer comes in pieces; a log that is followed goes on until its pod ends or the asker does.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from hanse.agent.cluster.port import LOG_LINES_MAX, ClusterUnavailable, ExecOutput, PodCommand
from hanse.agent.core.chosen import chosen_lines, small_lines
from hanse.agent.core.explain import explain_nodes
from hanse.agent.core.racks import racks
from hanse.agent.core.records import SetPlace
from hanse.agent.core.terms import wanted_of
from hanse.agent.shell.config import AgentConfig
from hanse.agent.shell.flow import Inputs, Room, batches_of
from hanse.agent.shell.needs import look
from hanse.agent.shell.pool import Pool
from hanse.kit.stream import StreamClosed
from hanse.kit.tasks import TaskPool, close_iterator
from hanse.model.detail import (
    DETAIL_LINES_PER_REPLY_MAX,
    DETAIL_NODES_PER_REPLY_MAX,
    DETAIL_RACKS_PER_REPLY_MAX,
    INPUT_WINDOW,
    Cancel,
    ChoiceQuestion,
    DetailReply,
    DetailRequest,
    ExecInput,
    ExecQuestion,
    ExplainQuestion,
    LogQuestion,
    NodesQuestion,
    Question,
    RacksQuestion,
    RackUse,
    Taken,
    UnknownQuestion,
)
from hanse.model.errors import HanseError, InvalidArgument, NotFound, PermissionDenied, ResourceExhausted
from hanse.model.fence import GangKey
from hanse.model.ids import FlavorName, NodeName
from hanse.model.placement import NodePlace
from hanse.model.request import gang_request
from hanse.wire.specs import spec_from_bytes

log = logging.getLogger(__name__)

Send = Callable[[DetailReply], Awaitable[None]]


class Details:
    """Answers for one attachment; `send` puts a reply on its stream."""

    def __init__(self, config: AgentConfig, pool: Pool, send: Send) -> None:
        self._config = config
        self._pool = pool
        self._send = send
        self._tasks = TaskPool(config.details_max)
        self._rooms: dict[int, Room] = {}
        self._inputs: dict[int, Inputs] = {}

    async def ask(self, request: DetailRequest) -> None:
        """Begin to answer, or end an answer."""
        key = f"detail-{request.id}"
        match request.question:
            case Cancel():
                self._tasks.cancel(key)
            case Taken(replies):
                if (room := self._rooms.get(request.id)) is not None:
                    room.make(replies)
            case ExecInput() as value:
                if (inputs := self._inputs.get(request.id)) is not None and not inputs.put(value):
                    self._tasks.cancel(key)
                    await self._refuse(request.id, f"more than {INPUT_WINDOW} inputs are ahead of the command")
            case question:
                if isinstance(question, ExecQuestion) and question.stdin:
                    self._inputs[request.id] = Inputs(partial(self._took, request.id))
                try:
                    self._tasks.start(key, self._answer(request.id, question))
                except ResourceExhausted as error:
                    self._inputs.pop(request.id, None)
                    await self._send(DetailReply(request.id, end=True, error=str(error)))

    async def _took(self, number: int, inputs: int) -> None:
        await self._send(DetailReply(number, inputs_taken=inputs))

    async def close(self) -> None:
        """The attachment is over."""
        await self._tasks.close()

    async def _answer(self, number: int, question: Question) -> None:
        window = question.window if isinstance(question, LogQuestion | ExecQuestion) else 0
        room = self._rooms[number] = Room(window)
        pieces = self._pieces(number, question)
        try:
            async for reply in pieces:
                await room.take()
                await self._send(replace(reply, counted=bool(window)))
            await self._send(DetailReply(number, end=True))
        except (HanseError, ClusterUnavailable, TimeoutError) as error:
            said = str(error) or f"the cluster did not answer within {self._config.detail_deadline_s:.0f} s"
            await self._refuse(number, said)
        except StreamClosed as error:
            log.info("detail_abandoned", extra={"pool": self._config.pool, "cause": str(error)})
        finally:
            self._rooms.pop(number, None)
            self._inputs.pop(number, None)
            await close_iterator(pieces)

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
                lines = (*await self._missing(spec), *self._explain(spec, flavors))
                yield DetailReply(number, lines=lines[:DETAIL_LINES_PER_REPLY_MAX])
            case ChoiceQuestion(gang):
                yield DetailReply(number, lines=self._chosen(gang))
            case RacksQuestion():
                found = self._racks()
                for at in range(0, len(found), DETAIL_RACKS_PER_REPLY_MAX):
                    yield DetailReply(number, racks=found[at : at + DETAIL_RACKS_PER_REPLY_MAX])
            case LogQuestion():
                async for lines in self._logs(question):
                    yield DetailReply(number, lines=lines)
            case ExecQuestion():
                async for output in self._exec(number, question):
                    yield DetailReply(number, stdout=output.stdout, stderr=output.stderr, exit_code=output.exit_code)
            case UnknownQuestion():
                raise InvalidArgument(f"the agent of pool {self._config.pool} cannot answer this; upgrade it")
            case Cancel() | Taken() | ExecInput():
                return

    async def _missing(self, spec: bytes) -> tuple[str, ...]:
        """What the cluster lacks of what a job needs; nothing where nobody can tell."""
        want = wanted_of(spec_from_bytes(spec))
        found = await look(self._pool.cluster, self._config.pool, [want]) if want.needs else {}
        return tuple(f"there is no {lack}" for lacks in found.values() for lack in lacks)

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

    def _racks(self) -> tuple[RackUse, ...]:
        ledger = self._pool.ledger
        if ledger is None:
            return ()
        now = self._pool.gangs.by_figure()
        held = [places for key in now.held if (places := ledger.held(key)) is not None]
        releasing = [places for key in now.stopping if (places := ledger.held(key)) is not None]
        return racks(ledger.inventory, held, releasing)

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
                for batch in batches_of(lines):
                    yield batch
        finally:
            await close_iterator(batches)

    async def _exec(self, number: int, question: ExecQuestion) -> AsyncIterator[ExecOutput]:
        if not self._config.exec_allowed:
            raise PermissionDenied(f"the owner of pool {self._config.pool} allows no commands in its pods")
        self._sets(question.gang)
        said = {"pool": self._config.pool, "gang": str(question.gang), "pod_set": question.pod_set}
        log.info("exec_began", extra={**said, "rank": question.rank, "program": question.command[:1]})
        command = PodCommand(question.gang, question.pod_set, question.rank, question.command, tty=question.tty)
        outputs = self._pool.cluster.exec(command, self._inputs.get(number))
        try:
            async for output in outputs:
                yield output
        finally:
            await close_iterator(outputs)
