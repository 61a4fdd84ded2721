"""What is done about one pod, as an API server sees it."""

from dataclasses import replace
from pathlib import Path

import pytest

from hanse.agent.cluster.kubernetes.chores import LetGo
from hanse.agent.cluster.kubernetes.hands import Hands
from hanse.agent.cluster.kubernetes.names import OWN_SCHEDULER
from hanse.agent.cluster.kubernetes.throttle import Throttle
from hanse.model.ids import NodeName
from tests.unit.agent_cluster.api_server import Answer, serving, whole
from tests.unit.agent_cluster.objects import seen

LET_GO = whole({"metadata": {"name": "p"}})
CHANGED = whole({"reason": "Invalid", "message": "the gate is not there"}, 422)


@pytest.mark.parametrize(
    ("scheduler", "answers", "asked"),
    [
        pytest.param(OWN_SCHEDULER, [LET_GO, whole({})], ["", "/binding"], id="no scheduler would bind it"),
        pytest.param("default-scheduler", [LET_GO], [""], id="a scheduler will"),
        pytest.param(OWN_SCHEDULER, [CHANGED], [""], id="somebody else has let it go: looked at again"),
        pytest.param(OWN_SCHEDULER, [LET_GO, CHANGED], ["", "/binding"], id="it is bound, or leaves"),
    ],
)
async def test_a_pod_is_bound_by_who_lets_it_go_if_nobody_else_will(
    tmp_path: Path, scheduler: str, answers: list[Answer], asked: list[str]
) -> None:
    one = replace(seen(gated=True), scheduler=scheduler)
    async with serving(tmp_path, *answers) as (api, script):
        hands = Hands(api, Throttle(per_s=1_000, burst=100, at_once=1))
        await hands.do(LetGo(one, "main", 0, NodeName("n0")))
    pod = f"/api/v1/namespaces/{one.namespace}/pods/{one.name}"
    assert [path for path, _ in script.asked] == [pod + rest for rest in asked]
