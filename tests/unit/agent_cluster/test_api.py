"""What a request ends as: an answer, a refusal, or nobody knows."""

import asyncio
import json
import ssl
from pathlib import Path

import pytest
import trustme

from hanse.agent.cluster.kubernetes.api import Api, Kubeconfig, Refused
from hanse.agent.cluster.kubernetes.objects import PLAIN, read
from hanse.agent.cluster.port import ClusterUnavailable
from tests.unit.agent_cluster.api_server import Answer, serving, whole

PATIENCE_S = 20.0


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
    async with serving(tmp_path, whole({}, 429, "Retry-After: 7")) as (api, script):
        with pytest.raises(Refused) as refused:
            await api.get("/x")
        assert len(script.asked) == 1, "that is later than the deadline"
    assert refused.value.retry_after_s == 7


async def test_a_busy_server_is_asked_again_after_the_pause_that_it_wants(tmp_path: Path) -> None:
    async with serving(tmp_path, whole({}, 429, "Retry-After: 1"), whole({"metadata": {"name": "n"}})) as (api, _):
        assert read(PLAIN, await api.post("/x", {})).metadata.name == "n"


@pytest.mark.parametrize("config", ["{", "[]", "{}", '{"clusters": 1}', "users: [{name: u, user: {exec: 7}}]"])
async def test_credentials_that_cannot_be_read_are_no_answer(tmp_path: Path, config: str) -> None:
    """Also where they were readable, and somebody is rewriting them when the server turns them away."""
    async with serving(tmp_path, whole({}, 401), whole({})) as (api, _):
        (tmp_path / "kubeconfig").write_text(config)
        with pytest.raises(ClusterUnavailable, match="credentials cannot be read"):
            await api.get("/x")


async def test_a_plugin_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    plugin = {"command": "sh", "args": ["-c", f"sleep 0.5; echo >{ended}"], "interactiveMode": "Never"}
    async with serving(tmp_path, whole({})) as (_, script):
        path = tmp_path / "kubeconfig"
        config = json.loads(path.read_text())
        config["users"][0]["user"] = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", **plugin}}
        path.write_text(json.dumps(config))
        api = Api(Kubeconfig(path), credentials_deadline_s=0.1)
        with pytest.raises(ClusterUnavailable, match="credentials cannot be read: TimeoutError"):
            await api.get("/x")
        assert script.asked == []
        assert not ended.exists()
    async with asyncio.timeout(PATIENCE_S):
        while not ended.exists():  # noqa: ASYNC110 - another process's doing, which this loop has to see the end of
            await asyncio.sleep(0.05)


async def test_credentials_are_read_anew_when_they_are_turned_away(tmp_path: Path) -> None:
    async with serving(tmp_path, whole({}), whole({}, 401), whole({"metadata": {"name": "n"}})) as (api, script):
        await api.get("/x")
        assert read(PLAIN, await api.get("/x")).metadata.name == "n"
        assert len(script.asked) == 3


async def test_a_servers_new_certificate_is_trusted_once_the_file_says_so(tmp_path: Path) -> None:
    ours, theirs = trustme.CA(), trustme.CA()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    theirs.issue_cert("127.0.0.1").configure_cert(tls)
    async with serving(tmp_path, whole({"metadata": {"name": "n"}}), tls=tls, ca=ours.cert_pem.bytes()) as (api, _):
        with pytest.raises(ClusterUnavailable, match="certificate"):
            await api.get("/x")
        (tmp_path / "ca.pem").write_bytes(theirs.cert_pem.bytes())
        assert read(PLAIN, await api.get("/x")).metadata.name == "n"


async def test_a_request_that_meets_the_end_is_not_answered(tmp_path: Path) -> None:
    async with serving(tmp_path, Answer(200, [b"{"], ("Content-Length: 100",))) as (api, _):
        asked = [asyncio.create_task(api.get("/x")) for _ in range(4)]
        await asyncio.sleep(0)
        await api.close()
        ends = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(end) for end in ends} == {ClusterUnavailable}


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


@pytest.mark.parametrize(("spared", "path"), [("", "http://far.example/x"), ("far.example", "")])
async def test_a_server_is_reached_by_the_proxy_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spared: str, path: str
) -> None:
    """The answering server is the proxy here; a name that no proxy is for leads nowhere."""
    async with serving(tmp_path, whole({"metadata": {"name": "n"}})) as (_, script):
        config = json.loads((tmp_path / "kubeconfig").read_text())
        monkeypatch.setenv("http_proxy", config["clusters"][0]["cluster"]["server"])
        monkeypatch.setenv("no_proxy", spared)
        config["clusters"][0]["cluster"]["server"] = "http://far.example"
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        api = Api(Kubeconfig(tmp_path / "kubeconfig"))
        try:
            if path:
                assert read(PLAIN, await api.get("/x")).metadata.name == "n"
            else:
                with pytest.raises(ClusterUnavailable):
                    await api.get("/x", deadline_s=PATIENCE_S)
        finally:
            await api.close()
    assert len(script.asked) == (1 if path else 0)
