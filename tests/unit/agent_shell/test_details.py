"""What only the agent can answer."""

import asyncio

from hanse.model.detail import (
    Cancel,
    ChoiceQuestion,
    DetailRequest,
    ExplainQuestion,
    LogQuestion,
    NodesQuestion,
    RacksQuestion,
    UnknownQuestion,
)
from hanse.model.ids import FlavorName
from hanse.model.report import GangStatus
from tests.unit.agent_shell.stage import H100, Stage, key, play, spec_bytes, stopped


def test_nodes_of_a_gang_with_ranks_and_paths() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        puppet.bind(key(), pods=3)
        _, task = stage.start()
        await stage.status(key(), GangStatus.RUNNING)
        replies = await stage.ask(1, NodesQuestion(key()))
        places = [place for reply in replies for place in reply.nodes]
        assert [place.ranks for place in places] == [(0,), (1,), (2,)]
        assert sorted({place.path for place in places}) == [("r0",), ("r1",)]
        assert {place.pod_set for place in places} == {"worker"}
        await stopped(task)

    play(scene)


def test_nodes_of_a_gang_that_has_just_gone_are_still_known() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        puppet.bind(key())
        _, task = stage.start()
        await stage.status(key(), GangStatus.FINISHED)
        await puppet.drop(key())
        await stage.until(lambda: not stage.engine.gangs)
        assert (await stage.ask(1, NodesQuestion(key())))[0].nodes
        await stopped(task)

    play(scene)


def test_the_racks_of_the_pool_add_up_and_tell_what_is_held() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        puppet.bind(key(), pods=2)
        _, task = stage.start()
        await stage.status(key(), GangStatus.RUNNING)
        found = [rack for reply in await stage.ask(1, RacksQuestion()) for rack in reply.racks]
        assert [rack.path for rack in found] == sorted({rack.path for rack in found})
        busy = [rack.gpus - rack.free_gpus - rack.held_gpus - rack.broken_gpus for rack in found]
        assert sum(busy) > 0
        assert sum(rack.held_gpus for rack in found) == 0
        await stopped(task)

    play(scene)


def test_unknown_gang_is_an_error() -> None:
    async def scene(stage: Stage) -> None:
        _, task = stage.start()
        await stage.until(lambda: stage.puppet.summaries)
        (reply,) = await stage.ask(1, NodesQuestion(key()))
        assert "no placement" in reply.error
        await stopped(task)

    play(scene)


def test_explanation_names_what_is_missing() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        puppet.bind(key(), pods=5)
        _, task = stage.start()
        await stage.status(key(), GangStatus.RUNNING)
        replies = await stage.ask(1, ExplainQuestion(spec_bytes(4), (H100,)))
        assert any("3" in line for reply in replies for line in reply.lines)
        await stopped(task)

    play(scene)


def test_why_a_gang_is_where_it_is() -> None:
    async def scene(stage: Stage) -> None:
        stage.puppet.bind(key(), pods=2)
        _, task = stage.start()
        await stage.status(key(), GangStatus.RUNNING)
        replies = await stage.ask(1, ChoiceQuestion(key()))
        assert any("rack" in line and "GPUs free" in line for reply in replies for line in reply.lines)
        (reply,) = await stage.ask(2, ChoiceQuestion(key(job="other")))
        assert "no placement" in reply.error
        await stopped(task)

    play(scene)


def test_a_question_of_a_newer_version_is_answered_and_the_stream_goes_on() -> None:
    async def scene(stage: Stage) -> None:
        stage.puppet.bind(key(), pods=2)
        _, task = stage.start()
        await stage.status(key(), GangStatus.RUNNING)
        (reply,) = await stage.ask(1, UnknownQuestion())
        assert "upgrade" in reply.error
        assert (await stage.ask(2, NodesQuestion(key())))[0].nodes
        await stopped(task)

    play(scene)


def test_explanation_of_nonsense_is_an_error() -> None:
    async def scene(stage: Stage) -> None:
        _, task = stage.start()
        await stage.until(lambda: stage.puppet.summaries)
        (reply,) = await stage.ask(1, ExplainQuestion(spec_bytes(4), (H100, FlavorName("x"))))
        assert "flavor" in reply.error
        (reply,) = await stage.ask(2, ExplainQuestion(b"\xff", (H100,)))
        assert reply.error
        await stopped(task)

    play(scene)


def test_log_of_a_pod() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        puppet.bind(key())
        _, task = stage.start()
        await stage.status(key(), GangStatus.RUNNING)
        replies = await stage.ask(1, LogQuestion(key(), "worker", 0, tail_lines=2))
        assert 1 <= sum(len(reply.lines) for reply in replies) <= 2
        await stopped(task)

    play(scene)


def test_log_is_followed_until_its_pod_ends() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        puppet.bind(key())
        _, task = stage.start()
        await stage.status(key(), GangStatus.RUNNING)
        replies = await stage.ask(1, LogQuestion(key(), "worker", 0, follow=True))
        assert len(replies) > 2
        assert puppet.status(key()) is GangStatus.FINISHED
        await stopped(task)

    play(scene)


def test_cancelled_answer_ends() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        puppet.bind(key())
        _, task = stage.start()
        await stage.status(key(), GangStatus.RUNNING)
        await puppet.tell(DetailRequest(1, LogQuestion(key(), "worker", 0, follow=True)))
        await stage.until(lambda: puppet.answers(1))
        await puppet.tell(DetailRequest(1, Cancel()))
        await asyncio.sleep(1)
        said = len(puppet.answers(1))
        await stage.status(key(), GangStatus.FINISHED)
        assert len(puppet.answers(1)) == said
        await stopped(task)

    play(scene)


def test_too_many_questions_at_once_are_turned_away() -> None:
    async def scene(stage: Stage) -> None:
        puppet = stage.puppet
        puppet.bind(key())
        _, task = stage.start()
        await stage.status(key(), GangStatus.RUNNING)
        for number in range(stage.config.details_max):
            await puppet.tell(DetailRequest(number, LogQuestion(key(), "worker", 0, follow=True)))
        (reply,) = await stage.ask(1_000, NodesQuestion(key()))
        assert reply.error
        await stopped(task)

    play(scene)
