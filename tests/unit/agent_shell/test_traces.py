"""The agent's stages: each once, with the times that reports carry, and only what ended while this agent lived."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from hanse.agent.shell.traces import GangTraces
from hanse.model.desired import Binding, BoundSet, DesiredAction
from hanse.model.fence import GangKey
from hanse.model.ids import Attempt, FlavorName, JobId, Part, PoolName
from hanse.model.reasons import Reason
from hanse.model.report import GangReport, GangStatus
from tests.unit.telling import TRACE, Told, telling

KEY = GangKey(JobId("abcdefgh-0123456789abcdef"), Attempt(1), Part(0))


@dataclass
class HandClock:
    """Goes when it is told to."""

    ms: int = 1_000

    def monotonic(self) -> float:
        return self.ms / 1e3

    def now_ms(self) -> int:
        return self.ms


@dataclass
class Agent:
    clock: HandClock
    traces: GangTraces
    told: Told

    def desire(self, action: DesiredAction, trace: str = TRACE) -> None:
        sets = (BoundSet("worker", 4, 0, FlavorName("h100")),)
        self.traces.desired([Binding(KEY, 7, 7, action, sets, b"", trace)])

    def report(self, status: GangStatus, *times_ms: int, **more: object) -> None:
        """Times: held, started, running."""
        held_ms, started_ms, running_ms = (*times_ms, 0, 0, 0)[:3]
        times = {"held_ms": held_ms, "started_ms": started_ms, "running_ms": running_ms}
        self.traces.reported([GangReport(KEY.job, KEY.attempt, KEY.part, status, **times, **more)])  # type: ignore[arg-type]

    def spans(self) -> list[tuple[str, int, int]]:
        return [
            (stage, span.start_ms, span.end_ms) for stage, span in zip(self.told.stages, self.told.spans, strict=True)
        ]


@pytest.fixture
def agent() -> Iterator[Agent]:
    clock = HandClock()
    with telling() as told:
        yield Agent(clock, GangTraces(PoolName("p0"), clock), told)


def test_a_gang_is_told_from_the_arrival_of_its_binding_to_the_end_of_its_pods(agent: Agent) -> None:
    agent.desire(DesiredAction.START)
    agent.clock.ms = 1_500
    agent.report(GangStatus.STARTED, 1_100, 1_200)
    agent.report(GangStatus.RUNNING, 1_100, 1_200, 1_300)
    agent.clock.ms = 9_000
    agent.report(GangStatus.FINISHED, 1_100, 1_200, 1_300)
    assert agent.spans() == [
        ("place", 1_000, 1_100),
        ("start", 1_100, 1_200),
        ("startup", 1_200, 1_300),
        ("run", 1_300, 9_000),
    ]
    place = agent.told.one("place")
    assert (place.attributes["hanse.pool"], place.attributes["hanse.pods"], place.scope) == ("p0", 4, "agent")
    assert {span.error for span in agent.told.spans} == {""}


def test_a_report_that_is_sent_twice_is_told_once(agent: Agent) -> None:
    agent.desire(DesiredAction.START)
    agent.report(GangStatus.HELD, 1_100)
    agent.report(GangStatus.HELD, 1_100)
    assert agent.told.stages == ["place"]


def test_a_refusal_ends_the_placement_with_its_reason(agent: Agent) -> None:
    agent.desire(DesiredAction.START)
    agent.clock.ms = 1_050
    agent.report(GangStatus.REFUSED, reason=Reason.SHAPE, message="no rack has 4 hosts")
    span = agent.told.one("place")
    assert (span.end_ms, span.error, span.attributes["hanse.reason"]) == (1_050, "no rack has 4 hosts", "SHAPE")


@pytest.mark.parametrize(("running_ms", "stage"), [(0, "startup"), (1_300, "run")])
def test_a_failure_is_that_of_the_stage_it_ends(agent: Agent, running_ms: int, stage: str) -> None:
    agent.desire(DesiredAction.START)
    agent.clock.ms = 2_000
    agent.report(GangStatus.BROKEN, 1_100, 1_200, running_ms, reason=Reason.POD_FAILED)
    assert [span.name for span in agent.told.spans if span.error] == [f"hanse.{stage}"]
    assert agent.told.one(stage).end_ms == 2_000


def test_a_stop_is_told_from_the_order_until_nothing_is_left(agent: Agent) -> None:
    agent.desire(DesiredAction.START)
    agent.report(GangStatus.RUNNING, 1_100, 1_200, 1_300)
    agent.clock.ms = 5_000
    agent.desire(DesiredAction.STOP, trace="")
    agent.clock.ms = 5_400
    agent.report(GangStatus.RELEASED, 1_100, 1_200, 1_300)
    assert agent.spans()[-2:] == [("run", 1_300, 5_400), ("stop", 5_000, 5_400)]


def test_what_ended_before_this_agent_began_was_told_by_the_agent_before_it() -> None:
    clock = HandClock(5_000)
    with telling() as told:
        again = Agent(clock, GangTraces(PoolName("p0"), clock), told)
        again.desire(DesiredAction.START)
        again.report(GangStatus.RUNNING, 1_100, 1_200, 1_300)
        clock.ms = 7_000
        again.report(GangStatus.FINISHED, 1_100, 1_200, 1_300)
    assert again.spans() == [("run", 1_300, 7_000)]


def test_what_is_not_sampled_is_not_remembered(agent: Agent) -> None:
    agent.desire(DesiredAction.START, trace=TRACE[:-2] + "00")
    agent.report(GangStatus.FINISHED, 1_100, 1_200, 1_300)
    assert agent.told.spans == []


def test_a_binding_that_is_gone_is_told_no_more(agent: Agent) -> None:
    agent.desire(DesiredAction.START)
    agent.traces.desired([], [KEY])
    agent.report(GangStatus.FINISHED, 1_100, 1_200, 1_300)
    assert agent.told.spans == []
