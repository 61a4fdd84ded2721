"""The SDK against a real server: what it does, what it says when nobody is there, and how it comes back."""

import asyncio
import random
import socket
import threading
import time
from typing import Final

import pytest

from hanse.api.v1 import config_pb2, job_pb2, job_service_pb2, queue_pb2
from hanse.apiserver.serving import serve
from hanse.client import AsyncClient, Client
from hanse.model.errors import AlreadyExists, InvalidArgument, NotFound, Unavailable
from hanse.model.lifecycle import State
from tests.integration.api.served import free_port, served
from tests.unit.apiserver.stage import FaultyStore, batch, spec, stage

PATIENCE_S: Final = 20.0

MANIFEST: Final = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: bert
  labels:
    kueue.x-k8s.io/queue-name: {queue}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 4
      template:
        spec:
          containers:
            - name: pytorch
              image: train:1
              resources:
                limits:
                  nvidia.com/gpu: 8
"""

QUEUE_LINE: Final = 6


async def test_a_manifest_goes_in_and_comes_back() -> None:
    async with served() as at:
        submission = await at.client.submit(MANIFEST.format(queue="research"))
        job = await at.client.job(submission.ids[0])
        explained = await at.client.explain("bert")
        listed = [found.name async for found in at.client.jobs(states=[State.PENDING], page_size=1)]
    assert (job.name, job.spec.pod_sets[0].count, job.spec.manifest.kind) == ("bert", 4, "PyTorchJob")
    assert (explained.id, listed) == (job.id, ["bert"])


async def test_a_refusal_names_the_line_of_the_file() -> None:
    async with served() as at:
        submission = await at.client.submit(MANIFEST.format(queue="reserach"))
    [refusal] = submission.refusals
    assert isinstance(refusal.error, NotFound)
    assert (refusal.error.reason, refusal.error.line) == ("QUEUE_NOT_FOUND", QUEUE_LINE)
    assert submission.aborted
    with pytest.raises(NotFound):
        submission.raise_refusal()


async def test_a_queue_beside_the_file_wins() -> None:
    async with served() as at:
        submission = await at.client.submit(
            MANIFEST.format(queue="elsewhere"), queue="research", priority_class="urgent"
        )
        job = await at.client.job(submission.ids[0])
    assert (job.queue, job.spec.priority_class) == ("research", "urgent")


async def test_more_than_a_batch_goes_in_several_unless_all_or_nothing_is_asked_for() -> None:
    specs = [spec(f"j{i}") for i in range(1_100)]
    async with served() as at:
        submission = await at.client.submit(specs, atomic=False, request_id="r")
        again = await at.client.submit(specs, atomic=False, request_id="r")
        with pytest.raises(InvalidArgument) as refused:
            await at.client.submit(specs)
        assert len(await at.on.states()) == 1_100
    assert submission.ids == again.ids
    assert refused.value.reason == "BATCH_TOO_LARGE"


async def test_everything_an_operator_does() -> None:
    async with served() as at:
        client = at.client
        results = await client.apply([config_pb2.Flavor(name="a100", order=1), config_pb2.Cohort(name="top")])
        made = await client.create_queue(queue_pb2.Queue(name="b", cohort="top"))
        changed = await client.update_queue(queue_pb2.Queue(name="b", labels={"x": "y"}))
        held = await client.hold_queue("b")
        released = await client.release_queue("b")
        names = [queue.name for queue in await client.queues(status=True)]
        await client.delete_queue("b")
        with pytest.raises(NotFound):
            await client.queue("b")
        info = await client.server_info()
        kinds = ([f.name for f in await client.flavors()], [c.name for c in await client.cohorts()])
        classes = [c.name for c in await client.priority_classes()]
    assert [r.outcome for r in results] == [1, 1]
    assert (made.uid == changed.uid, held.held, released.held) == (True, True, False)
    assert (names, kinds, classes) == (["b", "research"], (["h100", "a100"], ["top"]), ["urgent", "normal"])
    assert (info.store, info.replica) == ("memory", "r0")


async def test_waiting_ends_when_the_job_does() -> None:
    async with served() as at, asyncio.timeout(PATIENCE_S):
        await at.client.submit(spec())
        waiting = asyncio.create_task(at.client.wait("train", until="running"))
        await asyncio.sleep(0)
        await at.client.cancel("train")
        job = await waiting
        at_once = await at.client.wait("train", until="placed")
    assert job.status.state == at_once.status.state == job_pb2.JOB_STATE_CANCELLED


async def test_waiting_has_an_end_of_its_own() -> None:
    async with served() as at:
        await at.client.submit(spec())
        with pytest.raises(Unavailable) as told:
            await at.client.wait("train", timeout_s=0.05)
        with pytest.raises(InvalidArgument):
            await at.client.wait("train", until="soon")
    assert told.value.reason == "WAIT_TIMEOUT"


# ---- nobody there -------------------------------------------------------------------------------------------


async def test_a_server_that_is_down_is_told_in_one_line_and_soon() -> None:
    port = free_port()
    began = time.monotonic()
    async with AsyncClient(f"127.0.0.1:{port}", rng=random.Random(1)) as client:
        with pytest.raises(Unavailable) as told:
            await client.jobs_page()
    assert told.value.message == (
        f"cannot reach a Hanse server at 127.0.0.1:{port} (connection refused). "
        "Start one with `hanse up`, or set HANSE_SERVER."
    )
    assert told.value.reason == "SERVER_UNREACHABLE"
    assert time.monotonic() - began < PATIENCE_S / 2


async def test_something_else_that_listens_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def answer() -> None:
            for _ in range(8):
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1_024)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        async with AsyncClient(f"127.0.0.1:{port}", tries_max=2, rng=random.Random(1)) as client:
            with pytest.raises(Unavailable) as told:
                await client.jobs_page()
    assert told.value.reason == "SERVER_UNREACHABLE"
    assert f"127.0.0.1:{port} (" in told.value.message
    assert "\n" not in told.value.message


async def test_a_server_that_accepts_and_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        async with AsyncClient(f"127.0.0.1:{port}", deadline_s=0.3, rng=random.Random(1)) as client:
            with pytest.raises(Unavailable) as told:
                await client.jobs_page()
    assert told.value.reason == "SERVER_UNREACHABLE"


async def test_a_host_that_does_not_exist() -> None:
    async with AsyncClient("no-such-host.invalid:7311", tries_max=1, rng=random.Random(1)) as client:
        with pytest.raises(Unavailable) as told:
            await client.jobs_page()
    assert told.value.reason == "SERVER_UNREACHABLE"


# ---- coming back --------------------------------------------------------------------------------------------


async def test_a_call_is_repeated_with_its_request_id_until_the_server_is_there() -> None:
    port = free_port()
    async with stage() as on, AsyncClient(f"127.0.0.1:{port}", rng=random.Random(1), tries_max=50) as client:
        submitting = asyncio.create_task(client.submit(spec()))
        await asyncio.sleep(0.2)
        async with serve(on.api, listen=f"127.0.0.1:{port}"):
            submission = await submitting
            assert set(await on.states()) == set(submission.ids)


async def test_a_write_whose_answer_was_lost_is_not_done_twice() -> None:
    async with served() as at:
        fates = ["silent"] * 9
        at.on.store.rule = lambda txn: fates.pop() if fates else ""
        submission = await at.client.submit(spec(), request_id="r1")
        assert len(await at.on.states()) == 1
        with pytest.raises(AlreadyExists):
            await at.client.submit(spec("other"), request_id="r1")
    assert len(submission.ids) == 1


async def test_a_watch_goes_on_over_a_restart_and_misses_nothing() -> None:
    port = free_port()
    news: asyncio.Queue[str] = asyncio.Queue()
    async with stage() as on, AsyncClient(f"127.0.0.1:{port}", rng=random.Random(1)) as client:

        async def follow() -> None:
            async for response in client.watch_jobs(snapshot=True):
                for name in [event.job.name for event in response.events] or ["nothing"]:
                    news.put_nowait(name)

        async with asyncio.timeout(PATIENCE_S):
            async with serve(on.api, listen=f"127.0.0.1:{port}"):
                following = asyncio.create_task(follow())
                seen = [await news.get()]
                await client.submit(spec("before"))
                seen.append(await news.get())
            await on.submit(batch(spec("between")))
            async with serve(on.api, listen=f"127.0.0.1:{port}"):
                await client.submit(spec("after"))
                seen += [await news.get(), await news.get()]
                await client.submit(spec("last"))
                seen.append(await news.get())
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    assert seen == ["nothing", "before", "between", "after", "last"]


async def test_a_watch_whose_history_is_gone_begins_anew() -> None:
    async with served() as at, asyncio.timeout(PATIENCE_S):
        start = (await at.client.submit(spec("a"))).revision
        await at.client.submit(spec("b"))
        last = await at.client.submit(spec("c"))
        await at.on.store.core.compact(last.revision)
        kinds: dict[str, int] = {}
        async for response in at.client.watch_jobs(after_revision=start):
            kinds.update({event.job.name: event.kind for event in response.events})
            if len(kinds) == 3:
                break
    assert set(kinds.values()) == {job_service_pb2.JOB_EVENT_KIND_SNAPSHOT}


async def test_a_watch_gives_up_when_nobody_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hanse.client.aio.WATCH_FAILURES_MAX", 2)
    async with AsyncClient(f"127.0.0.1:{free_port()}", rng=random.Random(1)) as client:
        with pytest.raises(Unavailable):
            await anext(client.watch_jobs())


# ---- blocking -----------------------------------------------------------------------------------------------


async def test_the_blocking_client_does_the_same_also_where_a_loop_runs() -> None:
    async with served() as at:
        assert isinstance(at.on.store, FaultyStore)

        def work() -> tuple[list[str], str, int]:
            with Client(at.address, rng=random.Random(5)) as hanse:
                submission = hanse.submit(MANIFEST.format(queue="research"))
                first = next(iter(hanse.watch_jobs(snapshot=True)))
                cancelled = hanse.cancel("bert")
                done = hanse.wait(submission.ids[0], until="done", timeout_s=PATIENCE_S)
                assert done.id == cancelled.id
                assert [job.name for job in hanse.jobs()] == ["bert"]
                assert Client.convert(MANIFEST.format(queue="q")).jobs[0].spec.queue == "q"
                return [event.job.name for event in first.events], submission.ids[0], done.status.state

        names, job, state = await asyncio.to_thread(work)
    assert (names, bool(job), state) == (["bert"], True, job_pb2.JOB_STATE_CANCELLED)


def test_the_blocking_client_tells_errors_and_closes_twice() -> None:
    client = Client(f"127.0.0.1:{free_port()}", tries_max=1, rng=random.Random(1))
    with pytest.raises(Unavailable):
        client.queues()
    client.close()
    client.close()
