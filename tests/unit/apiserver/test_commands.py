"""Commands in pods: who may be asked for, what is handed on, and what comes back."""

from collections.abc import AsyncIterator

import pytest

from hanse.api.v1 import job_service_pb2 as pb
from hanse.apiserver.ports import NodesAnswer, PodRef
from hanse.model.errors import FailedPrecondition, HanseError, InvalidArgument, NotFound, Unavailable
from hanse.model.ids import Attempt, Part, PoolName
from tests.unit.apiserver.stage import CTX, WrittenDetails, batch, spec, stage
from tests.unit.apiserver.test_pools import bound


async def asked(*requests: pb.ExecJobRequest) -> AsyncIterator[pb.ExecJobRequest]:
    for request in requests:
        yield request


def run(*command: str, stdin: bool = False, **more: object) -> pb.ExecJobRequest:
    return pb.ExecJobRequest(start=pb.ExecStart(job="train", command=command, stdin=stdin, **more))  # type: ignore[arg-type]


async def test_a_command_in_one_pod() -> None:
    details = WrittenDetails(NodesAnswer(()), {})
    async with stage(details=details) as on:
        job = await bound(on)
        found = [r async for r in on.api.jobs.exec_job(CTX, asked(run("nvidia-smi", "-L", rank=1)))]
    assert [(r.stdout, r.HasField("exit_code")) for r in found] == [(b"nvidia-smi -L", False), (b"", True)]
    assert found[-1].exit_code == 3
    assert details.pods == [PodRef(job, Attempt(1), Part(0), PoolName("oslo"), "worker", 1)]


async def test_what_it_reads_is_handed_on_in_bounded_pieces_until_its_end() -> None:
    requests = (run("cat", stdin=True), pb.ExecJobRequest(stdin=b"x" * 70_000), pb.ExecJobRequest(stdin_end=True))
    async with stage(details=WrittenDetails(NodesAnswer(()), {})) as on:
        await bound(on)
        found = [r async for r in on.api.jobs.exec_job(CTX, asked(*requests, pb.ExecJobRequest(stdin=b"late")))]
    assert [len(r.stderr) for r in found] == [0, 65_536, 4_464, 0, 0]


@pytest.mark.parametrize(
    ("request_", "kind", "reason"),
    [
        (pb.ExecJobRequest(stdin=b"x"), InvalidArgument, "EXEC_NOT_STARTED"),
        (run(), InvalidArgument, "COMMAND_MISSING"),
        (run("x", *["y"] * 300), InvalidArgument, "TOO_LARGE"),
        (run("x", rank=9), InvalidArgument, "RANK_INVALID"),
        (run("x", pod_set="wroker"), NotFound, "POD_SET_NOT_FOUND"),
        (pb.ExecJobRequest(start=pb.ExecStart(job="waiting", command=["x"])), FailedPrecondition, "NO_PODS"),
        (run("x"), Unavailable, "NO_AGENTS"),
    ],
)
async def test_what_cannot_be_run(request_: pb.ExecJobRequest, kind: type[HanseError], reason: str) -> None:
    async with stage() as on:
        await bound(on)
        await on.submit(batch(spec("waiting")))
        with pytest.raises(kind) as refused:
            await anext(on.api.jobs.exec_job(CTX, asked(request_)))
    assert refused.value.reason == reason
