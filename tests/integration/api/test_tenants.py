"""A tenant with every method of the API at hand, and another tenant's names: what does not exist answers the same."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from hanse.api.v1 import access_service_pb2, job_service_pb2, pool_service_pb2, queue_pb2, queue_service_pb2
from hanse.apiserver.access.callers import Callers
from hanse.apiserver.access.policy import Binding, Policy
from hanse.apiserver.access.rules import RULES
from hanse.apiserver.access.verbs import Role
from hanse.apiserver.credentials import parse_tokens
from hanse.apiserver.ports import NodesAnswer
from hanse.model.ids import FlavorName, PoolName
from tests.integration.api.served import served
from tests.unit.apiserver.access.test_rules import FILES
from tests.unit.apiserver.stage import CTX, Stage, WrittenDetails, batch, pool, spec

TOKENS = {name: f"token-of-{name}-0123456789" for name in ("ann", "vic", "eve", "qad", "adm", "nil")}
POLICY = Policy(
    (
        Binding(Role.SUBMITTER, frozenset({"ann"}), frozenset(), ("research",)),
        Binding(Role.VIEWER, frozenset({"vic"}), frozenset(), ("research",)),
        Binding(Role.QUEUE_ADMIN, frozenset({"qad"}), frozenset(), ("research",)),
        Binding(Role.SUBMITTER, frozenset({"eve"}), frozenset(), ("other",)),
        Binding(Role.ADMIN, frozenset({"adm"}), frozenset(), cluster=True),
    )
)
NOWHERE = "zzzzzzzz-0123456789abcdef"
"""Has the form of a job's id, and is none."""

REFUSED = {"RESOURCE_EXHAUSTED", "UNAVAILABLE", "INTERNAL", "CANCELLED"}

METHODS = {
    f"{service.full_name}/{method.name}": method
    for file in FILES
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
    if service.full_name.startswith("hanse.api.")
}
OF_A_JOB = sorted(
    name
    for name, method in METHODS.items()
    if ("job" in method.input_type.fields_by_name or method.name == "ExecJob") and "AuditService" not in name
)


@dataclass
class Tenants:
    on: Stage
    address: str
    victim: str

    async def call(self, who: str, name: str, request: Message) -> tuple[str, str, list[Message]]:
        """Code, message and answers of a call by somebody."""
        method = METHODS[name]
        metadata = (("authorization", f"Bearer {TOKENS[who]}"),) if who else ()
        async with grpc.aio.insecure_channel(self.address) as channel:
            kinds = {
                (False, False): channel.unary_unary,
                (False, True): channel.unary_stream,
                (True, True): channel.stream_stream,
            }
            stub: Any = kinds[method.client_streaming, method.server_streaming](
                f"/{name}",
                request_serializer=GetMessageClass(method.input_type).SerializeToString,
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            answers: list[Message] = []
            try:
                if method.client_streaming:
                    call = stub(iter([request]), metadata=metadata, timeout=5)
                    async for answer in call:
                        answers.append(answer)
                elif method.server_streaming:
                    async for answer in stub(request, metadata=metadata, timeout=0.5):
                        answers.append(answer)
                else:
                    answers.append(await stub(request, metadata=metadata, timeout=5))
            except grpc.aio.AioRpcError as error:
                return error.code().name, error.details() or "", answers
            return "OK", "", answers


@asynccontextmanager
async def tenants() -> AsyncIterator[Tenants]:
    """Two queues, one job of ann's in `research`, a pool with h100 and one with a100."""
    tokens = parse_tokens("\n".join(f"{name} {token}" for name, token in TOKENS.items()))
    details = WrittenDetails(NodesAnswer(()), {PoolName("oslo"): ("node n17 is full",)})
    pools = [
        replace(pool("oslo", 2, 2), gangs=7, held_gangs=2, stopping_gangs=1, cordon_reason="new switches"),
        pool("rome", 1, 1, flavor=A100),
    ]
    async with served(callers=Callers(lambda: tokens, lambda: POLICY), pools=pools, details=details) as at:
        queue = queue_pb2.Queue(name="other", quotas=[queue_pb2.FlavorQuota(flavor="h100")])
        await at.on.api.queues.create_queue(CTX, queue_service_pb2.CreateQueueRequest(queue=queue))
        answer = await at.on.api.jobs.submit_jobs(replace(CTX, principal="ann"), batch(spec("secret-project")))
        yield Tenants(at.on, at.address, answer.jobs[0].id)


A100 = FlavorName("a100")


def asking(name: str, job: str, *, queue: str = "") -> Message:
    """The request of a method about a job."""
    if name.endswith("/ExecJob"):
        start = job_service_pb2.ExecStart(job=job, queue=queue, command=["id"])
        return job_service_pb2.ExecJobRequest(start=start)
    fields = METHODS[name].input_type.fields_by_name
    given = {"job": job, "queue": queue, "priority_class": "urgent"}
    request: Message = GetMessageClass(METHODS[name].input_type)(**{k: v for k, v in given.items() if k in fields})
    return request


def test_there_are_methods_of_jobs() -> None:
    names = {name.split("/")[1] for name in OF_A_JOB}
    assert names >= {"GetJob", "CancelJob", "ExplainJob", "TailLogs", "ExecJob", "RetryJob", "TailEvents"}


@pytest.mark.parametrize("name", OF_A_JOB)
async def test_another_tenants_job_answers_as_one_that_there_never_was(name: str) -> None:
    if name.endswith("/TailEvents"):
        pytest.skip("its server remembers no events; tests/unit/scheduler_shell/test_events.py has it")
    async with tenants() as at:
        for queue in ("", "research", "other"):
            real = await at.call("eve", name, asking(name, at.victim, queue=queue))
            made_up = await at.call("eve", name, asking(name, NOWHERE, queue=queue))
            assert real[0] == "NOT_FOUND"
            assert real[1].replace(at.victim, NOWHERE) == made_up[1]
            assert not real[2]
            assert (await at.call("eve", name, asking(name, "secret-project", queue=queue)))[1] == (
                await at.call("eve", name, asking(name, "nothing-of-this", queue=queue))
            )[1].replace("nothing-of-this", "secret-project")
        assert (await at.call("nil", name, asking(name, at.victim)))[0] == "PERMISSION_DENIED"
        assert (await at.call("", name, asking(name, at.victim)))[0] == "UNAUTHENTICATED"
        state = next(iter((await at.on.states()).values()))
        assert state.state.name == "PENDING", "nothing of all that did anything to it"


@pytest.mark.parametrize(
    ("name", "vic", "qad"),
    [
        ("GetJob", "OK", "OK"),
        ("ExplainJob", "OK", "OK"),
        ("HoldJob", "PERMISSION_DENIED", "OK"),
        ("UpdateJob", "PERMISSION_DENIED", "OK"),
        ("ExecJob", "PERMISSION_DENIED", "FAILED_PRECONDITION"),
        ("RetryJob", "PERMISSION_DENIED", "FAILED_PRECONDITION"),
        ("CancelJob", "PERMISSION_DENIED", "OK"),
    ],
)
async def test_inside_a_queue_roles_tell_people_apart(name: str, vic: str, qad: str) -> None:
    full = f"hanse.api.v1.JobService/{name}"
    async with tenants() as at:
        assert (await at.call("vic", full, asking(full, at.victim)))[0] == vic
        code, message, _ = await at.call("ann", full, asking(full, at.victim))
        assert code == qad, f"it is her own: {message}"
    async with tenants() as at:
        assert (await at.call("qad", full, asking(full, at.victim)))[0] == qad


async def test_lists_and_watches_hold_the_own_queues_alone() -> None:
    async with tenants() as at:
        mine = await at.call("eve", "hanse.api.v1.JobService/SubmitJobs", batch(spec("mine", queue="other")))
        assert mine[0] == "OK"
        listed = await at.call("eve", "hanse.api.v1.JobService/ListJobs", job_service_pb2.ListJobsRequest())
        assert [job.name for job in listed[2][0].jobs] == ["mine"]  # type: ignore[attr-defined]
        begun = job_service_pb2.ListJobsRequest(name_prefix="se")
        assert not (await at.call("eve", "hanse.api.v1.JobService/ListJobs", begun))[2][0].jobs  # type: ignore[attr-defined]
        for watched in (
            job_service_pb2.WatchJobsRequest(snapshot=True),
            job_service_pb2.WatchJobsRequest(after_revision=1),
            job_service_pb2.WatchJobsRequest(snapshot=True, job_ids=[at.victim]),
        ):
            _, _, answers = await at.call("eve", "hanse.api.v1.JobService/WatchJobs", watched)
            said = "".join(str(answer) for answer in answers)
            assert "secret" not in said
            assert at.victim not in said
        everything = await at.call("adm", "hanse.api.v1.JobService/ListJobs", job_service_pb2.ListJobsRequest())
        assert len(everything[2][0].jobs) == 2  # type: ignore[attr-defined]


async def test_another_queue_is_one_that_there_never_was() -> None:
    async with tenants() as at:
        for name in ("GetQueue", "HoldQueue", "ReleaseQueue"):
            full = f"hanse.api.v1.QueueService/{name}"
            kind = GetMessageClass(METHODS[full].input_type)
            real = await at.call("eve", full, kind(name="research"))
            made_up = await at.call("eve", full, kind(name="nonesuch"))
            assert real[0] == ("NOT_FOUND" if name == "GetQueue" else "PERMISSION_DENIED")
            assert real[1] == made_up[1].replace("nonesuch", "research")
        queues = await at.call("eve", "hanse.api.v1.QueueService/ListQueues", queue_service_pb2.ListQueuesRequest())
        assert [one.name for one in queues[2][0].queues] == ["other"]  # type: ignore[attr-defined]
        submitted = await at.call(
            "eve", "hanse.api.v1.JobService/SubmitJobs", batch(spec("a"), spec("b", queue="nonesuch"))
        )
        first, second = submitted[2][0].jobs  # type: ignore[attr-defined]
        assert first.error.reason == "QUEUE_NOT_FOUND"
        assert first.error.message == second.error.message.replace("nonesuch", "research")


async def test_who_sees_a_queue_and_may_not_submit_to_it_is_told_the_role() -> None:
    async with tenants() as at:
        code, said, _ = await at.call("vic", "hanse.api.v1.JobService/SubmitJobs", batch(spec("a")))
        assert code == "PERMISSION_DENIED"
        assert "submit in any queue needs role submitter; vic has none there" in said


async def test_a_tenant_learns_of_pools_what_is_free_and_not_who_is_there() -> None:
    async with tenants() as at:
        listed = await at.call("eve", "hanse.api.v1.PoolService/ListPools", pool_service_pb2.ListPoolsRequest())
        [oslo, rome] = listed[2][0].pools  # type: ignore[attr-defined]
        assert (oslo.name, oslo.cordon_reason, oslo.free_gpus) == ("oslo", "new switches", 32)
        assert (oslo.gangs, oslo.held_gangs, oslo.stopping_gangs) == (0, 0, 0)
        assert rome.name == "rome"
        listed = await at.call("adm", "hanse.api.v1.PoolService/ListPools", pool_service_pb2.ListPoolsRequest())
        assert listed[2][0].pools[0].gangs == 7  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(set(RULES) & set(METHODS)))
async def test_nothing_but_who_one_is_without_a_role_and_nothing_at_all_without_a_token(name: str) -> None:
    request = GetMessageClass(METHODS[name].input_type)()
    async with tenants() as at:
        code, said, answers = await at.call("", name, request)
        assert (code, answers) == ("UNAUTHENTICATED", [])
        assert "HANSE_TOKEN" in said
        code, said, answers = await at.call("nil", name, request)
        if RULES[name].verb is not None:
            assert (code, answers) == ("PERMISSION_DENIED", [])
            assert re.search(r"needs role [a-z-]+.*; nil has none there", said)


@pytest.mark.parametrize("name", sorted(n for n in METHODS if RULES[n].scope.name == "FEDERATION"))
@pytest.mark.parametrize("who", ["eve", "qad"])
async def test_what_concerns_the_federation_is_no_tenants(name: str, who: str) -> None:
    async with tenants() as at:
        code, said, answers = await at.call(who, name, GetMessageClass(METHODS[name].input_type)())
        assert (code, answers) == ("PERMISSION_DENIED", [])
        assert "needs role" in said


async def test_equal_request_ids_of_two_tenants_are_two_requests() -> None:
    submit = "hanse.api.v1.JobService/SubmitJobs"
    async with tenants() as at:
        [first] = (await at.call("ann", submit, batch(spec("a"), request_id="same")))[2]
        code, said, [second] = await at.call("eve", submit, batch(spec("b", queue="other"), request_id="same"))
        assert code == "OK", said
        assert first.jobs[0].id != second.jobs[0].id  # type: ignore[attr-defined]
        hold = "hanse.api.v1.JobService/HoldJob"
        asked = job_service_pb2.HoldJobRequest(job=at.victim, request_id="hold-1")
        assert (await at.call("ann", hold, asked))[0] == "OK"
        assert (await at.call("eve", hold, asked))[0] == "NOT_FOUND", "no answer of somebody else's record"


async def test_two_authorizations_are_none() -> None:
    async with tenants() as at, grpc.aio.insecure_channel(at.address) as channel:
        call: Any = channel.unary_unary("/hanse.api.v1.ServerService/GetServerInfo")
        both = tuple(("authorization", f"Bearer {TOKENS[who]}") for who in ("nil", "adm"))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(b"", metadata=both)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert await call(b"", metadata=both[:1]) is not None


@pytest.mark.parametrize(
    ("chars", "codes"), [(8_000, {"UNAUTHENTICATED"}), (12_000, {"UNAUTHENTICATED"}), (60_000, REFUSED)]
)
async def test_a_token_of_any_length_is_refused_and_the_server_lives(chars: int, codes: set[str]) -> None:
    async with tenants() as at:
        async with grpc.aio.insecure_channel(at.address) as channel:
            call: Any = channel.unary_unary("/hanse.api.v1.ServerService/GetServerInfo")
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call(b"", metadata=(("authorization", f"Bearer {'x' * chars}"),), timeout=5)
            assert refused.value.code().name in codes
        assert (await at.call("ann", "hanse.api.v1.AccessService/WhoAmI", access_service_pb2.WhoAmIRequest()))[
            0
        ] == "OK"


@pytest.mark.parametrize(
    "header", ["x-hanse-principal", "x-forwarded-user", "authorization-bin", "x-remote-group", "cookie"]
)
async def test_no_other_header_says_who_calls(header: str) -> None:
    async with tenants() as at, grpc.aio.insecure_channel(at.address) as channel:
        call: Any = channel.unary_unary("/hanse.api.v1.AccessService/WhoAmI")
        value: str | bytes = b"adm" if header.endswith("-bin") else "adm"
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(b"", metadata=((header, value),), timeout=5)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        answer = await call(b"", metadata=((header, value), ("authorization", f"Bearer {TOKENS['nil']}")), timeout=5)
        assert access_service_pb2.WhoAmIResponse.FromString(answer).principal == "nil"


@pytest.mark.parametrize(
    "job",
    [
        "../research/x",
        "a/b",
        "secret\0",
        "secret\n",
        "%2e%2e",
        "*",
        "",
        "A" * 300,
        "\u0430nn",
        "{}",
        "research/secret-project",
    ],
)
async def test_names_that_are_paths_or_headers_find_nothing(job: str) -> None:
    async with tenants() as at:
        for name in ("GetJob", "CancelJob", "ExplainJob"):
            full = f"hanse.api.v1.JobService/{name}"
            for queue in ("", "../research", "research/"):
                code, said, _ = await at.call("eve", full, asking(full, job, queue=queue))
                assert code in ("INVALID_ARGUMENT", "NOT_FOUND")
                assert "secret-project" not in said.replace(job or "-", "")
