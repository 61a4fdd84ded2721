"""What a request ends as: an answer, a refusal, or nobody knows."""

from pathlib import Path

import pytest

from hanse.agent.cluster.kubernetes.api import Refused
from hanse.agent.cluster.kubernetes.objects import PLAIN, read
from hanse.agent.cluster.port import ClusterUnavailable
from tests.unit.agent_cluster.api_server import Answer, serving, whole


async def test_an_answer_is_the_body(tmp_path: Path) -> None:
    async with serving(tmp_path, whole({"metadata": {"name": "n"}})) as (api, script):
        assert read(PLAIN, await api.get("/x", {"a": "b c"})).metadata.name == "n"
        assert script.asked == [("/x", {"a": "b c"})]


@pytest.mark.parametrize("status", [400, 403, 404, 409, 410, 422])
async def test_a_refusal_says_why(tmp_path: Path, status: int) -> None:
    async with serving(tmp_path, whole({"reason": "Because", "message": "it\n is so"}, status)) as (api, _):
        with pytest.raises(Refused, match="it is so") as refused:
            await api.post("/x", {})
    assert (refused.value.code, refused.value.reason) == (status, "Because")


async def test_a_busy_server_says_when_to_come_again(tmp_path: Path) -> None:
    async with serving(tmp_path, whole({}, 429, "Retry-After: 7")) as (api, _):
        with pytest.raises(Refused) as refused:
            await api.get("/x")
    assert refused.value.retry_after_s == 7


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(whole({"message": "etcd is away"}, 500), id="a server error"),
        pytest.param(Answer(503, [b"<html>proxy</html>"]), id="a proxy's words"),
        pytest.param(Answer(200, [b"{"], ("Content-Length: 100",)), id="a body that is cut off"),
    ],
)
async def test_nobody_knows(tmp_path: Path, answer: Answer) -> None:
    async with serving(tmp_path, answer) as (api, _):
        with pytest.raises(ClusterUnavailable):
            await api.patch("/x", {})


async def test_a_body_that_cannot_be_read_is_no_answer(tmp_path: Path) -> None:
    async with serving(tmp_path, Answer(200, [b"{}?"])) as (api, _):
        with pytest.raises(ClusterUnavailable, match="cannot be read"):
            read(PLAIN, await api.get("/x"))


async def test_nobody_there(tmp_path: Path) -> None:
    async with serving(tmp_path, Answer()) as (api, _):
        pass
    with pytest.raises(ClusterUnavailable):
        await api.get("/x")
