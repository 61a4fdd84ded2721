"""Commands in pods, through the agent: what they write, what they read, and how fast."""

import asyncio
from dataclasses import replace

from hanse.model.detail import (
    INPUT_WINDOW,
    REPLY_WINDOW,
    Cancel,
    DetailReply,
    DetailRequest,
    ExecInput,
    ExecQuestion,
    LogQuestion,
    Taken,
)
from hanse.model.report import GangStatus
from tests.unit.agent_shell.stage import Stage, key, play, stopped


def run(*command: str, rank: int = 0, stdin: bool = False, window: int = REPLY_WINDOW) -> ExecQuestion:
    return ExecQuestion(key(), "worker", rank, command, stdin, window=window)


async def running(stage: Stage) -> asyncio.Task[None]:
    stage.puppet.bind(key())
    _, task = stage.start()
    await stage.status(key(), GangStatus.RUNNING)
    return task


def payload(replies: tuple[DetailReply, ...]) -> list[tuple[bytes, int | None]]:
    return [(r.stdout, r.exit_code) for r in replies if r.stdout or r.exit_code is not None]


def test_a_command_writes_and_ends_with_its_code() -> None:
    async def scene(stage: Stage) -> None:
        task = await running(stage)
        replies = await stage.ask(1, run("echo", "hello", "world"))
        assert payload(replies) == [(b"hello world\n", None), (b"", 0)]
        assert all(reply.counted for reply in replies if not reply.end)
        assert payload(await stage.ask(2, run("sh", "-c", "exit 7"))) == [(b"", 7)]
        assert payload(await stage.ask(3, run("hostname", rank=1))) == [(b"worker-1\n", None), (b"", 0)]
        await stopped(task)

    play(scene)


def test_what_cannot_run_is_an_error() -> None:
    async def scene(stage: Stage) -> None:
        task = await running(stage)
        assert "no pod 9" in (await stage.ask(1, run("true", rank=9)))[-1].error
        assert "no placement" in (await stage.ask(2, ExecQuestion(key("k"), "worker", 0, ("true",))))[-1].error
        await stopped(task)

    play(scene)


def test_a_clusters_owner_may_forbid_it() -> None:
    async def scene(stage: Stage) -> None:
        stage.config = replace(stage.config, exec_allowed=False)
        task = await running(stage)
        assert "allows no commands" in (await stage.ask(1, run("true")))[-1].error
        await stopped(task)

    play(scene)


def test_inputs_reach_the_command_and_each_is_told_of() -> None:
    async def scene(stage: Stage) -> None:
        task = await running(stage)
        await stage.puppet.tell(DetailRequest(1, run("cat", stdin=True)))
        for word in (b"one", b"two"):
            await stage.puppet.tell(DetailRequest(1, ExecInput(word)))
        await stage.puppet.tell(DetailRequest(1, ExecInput(end=True)))
        await stage.until(lambda: any(r.end for r in stage.puppet.answers(1)))
        replies = stage.puppet.answers(1)
        assert payload(replies) == [(b"one", None), (b"two", None), (b"", 0)]
        assert sum(reply.inputs_taken for reply in replies) == 3
        await stopped(task)

    play(scene)


def test_more_inputs_than_there_is_room_for_end_the_command() -> None:
    async def scene(stage: Stage) -> None:
        task = await running(stage)
        await stage.puppet.tell(DetailRequest(1, run("sleep", "60", stdin=True)))
        for _ in range(INPUT_WINDOW + 1):
            await stage.puppet.tell(DetailRequest(1, ExecInput(b"x")))
        await stage.until(lambda: any(r.error for r in stage.puppet.answers(1)))
        await stopped(task)

    play(scene)


def test_an_answer_goes_no_faster_than_it_is_taken() -> None:
    async def scene(stage: Stage) -> None:
        task = await running(stage)
        window = 4
        question = LogQuestion(key(), "worker", 0, follow=True, window=window)
        await stage.puppet.tell(DetailRequest(1, question))
        await asyncio.sleep(20)
        assert len(stage.puppet.answers(1)) == window
        await stage.puppet.tell(DetailRequest(1, Taken(2)))
        await asyncio.sleep(20)
        assert len(stage.puppet.answers(1)) == window + 2
        assert not any(reply.end for reply in stage.puppet.answers(1))
        await asyncio.sleep(60)
        assert "nothing was taken" in stage.puppet.answers(1)[-1].error
        await stopped(task)

    play(scene)


def test_a_command_that_nobody_waits_for_is_given_up() -> None:
    async def scene(stage: Stage) -> None:
        task = await running(stage)
        await stage.puppet.tell(DetailRequest(1, run("sleep", "600")))
        await stage.until(lambda: stage.puppet.answers(1))
        await stage.puppet.tell(DetailRequest(1, Cancel()))
        await asyncio.sleep(5)
        assert len(stage.puppet.answers(1)) == 1, "it has begun, and says nothing more"
        await stopped(task)

    play(scene)
