"""What gangs need is looked up before they are placed, and a cluster that cannot tell holds nobody up."""

import asyncio
from dataclasses import replace

from hanse.model.beside import Need, NeedKind
from hanse.model.desired import Desired
from hanse.model.detail import ExplainQuestion
from hanse.model.ids import QueueName
from hanse.model.job import JobSpec, PodSet
from hanse.model.reasons import Reason
from hanse.model.report import GangStatus
from hanse.wire.job import spec_to_wire
from tests.unit.agent_shell.flaky import FlakyCluster
from tests.unit.agent_shell.stage import H100, POD, Stage, key, play, stopped

NEEDY = spec_to_wire(
    JobSpec("train", QueueName("q"), (PodSet("worker", 2, 2, POD),), needs=(Need(NeedKind.SECRET, "hf-token"),))
).SerializeToString()


def lacks(stage: Stage, *what: str) -> None:
    """From now on the cluster does not have that, and nothing else is missing."""
    stage.engine.spec = replace(stage.engine.spec, lacks=what)


def test_a_lacking_cluster_refuses_and_one_that_has_it_runs() -> None:
    async def scene(stage: Stage) -> None:
        lacks(stage, "Secret hf-token")
        stage.puppet.bind(key(), spec=NEEDY)
        stage.puppet.bind(key("plain"))
        _, task = stage.start()
        await stage.status(key("plain"), GangStatus.RUNNING)
        report = stage.puppet.reports(key())[-1]
        assert (report.status, report.reason) == (GangStatus.REFUSED, Reason.NEEDS)
        assert "Secret hf-token" in report.message
        assert not [gang for gang in stage.engine.gangs if gang.job == key().job], "nothing of it was created"
        replies = await stage.ask(1, ExplainQuestion(NEEDY, (H100,)))
        assert "there is no Secret hf-token" in replies[0].lines
        lacks(stage)
        binding = stage.puppet.bind(key(attempt=2), spec=NEEDY)
        await stage.puppet.tell(Desired(stage.puppet.epoch, stage.puppet.revision, bindings=(binding,)))
        await stage.status(key(attempt=2), GangStatus.RUNNING)
        await stopped(task)

    play(scene)


def test_a_cluster_that_does_not_tell_is_taken_to_have_it() -> None:
    async def scene(stage: Stage) -> None:
        flaky = FlakyCluster(stage.port)
        flaky.mute = True
        stage.puppet.bind(key(), spec=NEEDY)
        begun_s = asyncio.get_running_loop().time()
        _, task = stage.start(port=flaky)
        await stage.status(key(), GangStatus.RUNNING)
        assert not (await stage.ask(1, ExplainQuestion(NEEDY, (H100,))))[-1].error
        assert asyncio.get_running_loop().time() - begun_s < 10
        await stopped(task)

    play(scene)
