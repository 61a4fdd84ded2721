"""Questions to an agent: nothing is sent faster than it is taken, in either direction."""

import asyncio

import pytest

from hanse.kit.stream import StreamClosed
from hanse.model.detail import INPUT_WINDOW, Cancel, DetailReply, DetailRequest, ExecInput, NodesQuestion, Taken
from hanse.model.fence import GangKey
from hanse.model.ids import Attempt, JobId, Part, PoolName
from hanse.scheduler.shell.asking import TOLD_AFTER, WAITING_MAX, Asking

QUESTION = NodesQuestion(GangKey(JobId("j"), Attempt(1), Part(0)))


class Link:
    """What was put on the stream."""

    def __init__(self) -> None:
        self.sent: list[DetailRequest] = []
        self.closed = False
        self.asking = Asking(PoolName("p"), self.tell, self.put)

    def tell(self, request: DetailRequest) -> None:
        if self.closed:
            raise StreamClosed("it is closed")
        self.sent.append(request)

    async def put(self, request: DetailRequest) -> None:
        self.tell(request)

    def questions(self) -> list[object]:
        return [request.question for request in self.sent[1:]]


async def test_an_agent_that_counts_is_told_of_what_was_taken() -> None:
    link = Link()
    answers = link.asking.ask(QUESTION)
    for _ in range(2 * TOLD_AFTER):
        link.asking.answer(DetailReply(1, lines=("x",), counted=True))
    for _ in range(TOLD_AFTER):
        await answers.next()
    assert link.questions() == [], "the last one may still be looked at"
    await answers.next()
    assert link.questions() == [Taken(TOLD_AFTER)]


async def test_an_agent_that_does_not_count_is_told_nothing_and_never_blocks() -> None:
    link = Link()
    answers = link.asking.ask(QUESTION)
    for _ in range(WAITING_MAX + 10):
        link.asking.answer(DetailReply(1, lines=("x",)))
    for _ in range(WAITING_MAX):
        await answers.next()
    assert link.questions() == []


async def test_inputs_wait_until_the_command_has_read_those_before() -> None:
    link = Link()
    answers = link.asking.ask(QUESTION)
    for _ in range(INPUT_WINDOW):
        await answers.tell(ExecInput(b"x"))
    waiting = asyncio.create_task(answers.tell(ExecInput(b"y")))
    await asyncio.sleep(0)
    assert not waiting.done()
    link.asking.answer(DetailReply(1, inputs_taken=1))
    await waiting
    assert len(link.questions()) == INPUT_WINDOW + 1


async def test_who_leaves_ends_the_answer_and_who_is_left_is_told() -> None:
    link = Link()
    first, second = link.asking.ask(QUESTION), link.asking.ask(QUESTION)
    first.close()
    assert link.questions()[-1] == Cancel()
    link.asking.leave()
    with pytest.raises(StreamClosed):
        await second.next()
    with pytest.raises(StreamClosed):
        await second.tell(ExecInput(b"x"))


async def test_a_question_that_cannot_be_sent_leaves_nothing_behind() -> None:
    link = Link()
    link.closed = True
    with pytest.raises(StreamClosed):
        link.asking.ask(QUESTION)
    link.asking.answer(DetailReply(1, lines=("x",)))
