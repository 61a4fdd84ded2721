"""Calls by way of the server, and what of them stands in the audit log: who, what, which outcome; never content."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from hanse.api.v1 import (
    audit_service_pb2,
    config_pb2,
    config_service_pb2,
    job_service_pb2,
    job_spec_pb2,
    queue_pb2,
    queue_service_pb2,
    trust_service_pb2,
)
from hanse.apiserver import audit_calls
from hanse.apiserver.access.callers import Callers
from hanse.apiserver.context import CallContext
from hanse.apiserver.credentials import parse_tokens
from hanse.console.desk import Desk
from hanse.model.audit import AuditPage, AuditQuery, AuditRecord
from hanse.model.errors import PermissionDenied
from tests.integration.api.served import served
from tests.integration.api.test_tenants import POLICY, TOKENS, Tenants
from tests.unit.apiserver.stage import CTX, batch, spec, stage

JOBS = "hanse.api.v1.JobService"
SECRET = "hunter2-is-a-password"


@dataclass
class Kept:
    """A log in memory, that is also what all replicas have written."""

    records: list[AuditRecord] = field(default_factory=list)

    def note(self, record: AuditRecord) -> None:
        self.records.append(replace(record, at_ms=len(self.records) + 1))

    async def find(self, query: AuditQuery) -> AuditPage:
        return AuditPage(tuple(record for record in reversed(self.records) if query.holds(record)))

    async def audited(self, query: AuditQuery, *, deadline_s: float) -> AuditPage:
        return await self.find(query)

    def last(self) -> tuple[str, str, str, str]:
        """Who, what, with which outcome, why."""
        record = self.records[-1]
        return record.who, record.verb, record.outcome, record.reason


@asynccontextmanager
async def audited() -> AsyncIterator[tuple[Tenants, Kept]]:
    kept = Kept()
    tokens = parse_tokens("\n".join(f"{name} {token}" for name, token in TOKENS.items()))
    async with served(callers=Callers(lambda: tokens, lambda: POLICY), audit=kept) as at:
        queue = queue_pb2.Queue(name="other", quotas=[queue_pb2.FlavorQuota(flavor="h100")])
        await at.on.api.queues.create_queue(CTX, queue_service_pb2.CreateQueueRequest(queue=queue))
        answer = await at.on.api.jobs.submit_jobs(replace(CTX, principal="ann"), batch(spec("train")))
        yield Tenants(at.on, at.address, answer.jobs[0].id), kept


async def test_a_write_says_who_what_and_to_what() -> None:
    async with audited() as (at, kept):
        await at.call("ann", f"{JOBS}/CancelJob", job_service_pb2.CancelJobRequest(job=at.victim, request_id="c-1"))
        record = kept.records[-1]
        assert kept.last() == ("ann", "CancelJob", "OK", "")
        assert (record.queue, record.jobs, record.request_id) == ("research", (at.victim,), "c-1")
        assert record.address.startswith("ipv4:127.0.0.1:")


async def test_a_batch_names_its_jobs_and_how_many_were_refused() -> None:
    async with audited() as (at, kept):
        request = batch(spec("a"), spec("b"), spec("c", queue="nonesuch"))
        [answer] = (await at.call("ann", f"{JOBS}/SubmitJobs", request))[2]
        record = kept.records[-1]
        assert record.jobs == tuple(job.id for job in answer.jobs if job.id)  # type: ignore[attr-defined]
        assert len(record.jobs) == 2
        assert record.queue == "research,nonesuch"
        assert record.message.startswith("1 of 3 jobs refused: queue")
        await at.call("ann", f"{JOBS}/StreamJobs", batch(spec("d"), request_id="s-1"))
        assert kept.last()[:3] == ("ann", "StreamJobs", "OK")
        assert kept.records[-1].request_id == "s-1"


async def test_reading_and_trying_leave_no_record() -> None:
    async with audited() as (at, kept):
        before = len(kept.records)
        await at.call("ann", f"{JOBS}/ListJobs", job_service_pb2.ListJobsRequest())
        await at.call(
            "ann",
            f"{JOBS}/SubmitJobs",
            job_service_pb2.SubmitJobsRequest(jobs=batch(spec("x")).jobs, validate_only=True),
        )
        assert len(kept.records) == before


async def test_what_is_refused_is_kept_and_strangers_leave_nothing() -> None:
    async with audited() as (at, kept):
        await at.call("eve", f"{JOBS}/CancelJob", job_service_pb2.CancelJobRequest(job=at.victim))
        assert kept.last() == ("eve", "CancelJob", "NOT_FOUND", "JOB_NOT_FOUND")
        await at.call("vic", f"{JOBS}/CancelJob", job_service_pb2.CancelJobRequest(job=at.victim))
        assert kept.last() == ("vic", "CancelJob", "PERMISSION_DENIED", "ROLE_MISSING")
        start = job_service_pb2.ExecStart(job=at.victim, command=["sh", "-c", SECRET])
        await at.call("ann", f"{JOBS}/ExecJob", job_service_pb2.ExecJobRequest(start=start))
        assert kept.last()[:2] == ("ann", "ExecJob")
        before = len(kept.records)
        await at.call("", f"{JOBS}/CancelJob", job_service_pb2.CancelJobRequest(job=at.victim))
        assert len(kept.records) == before


async def test_whoever_is_refused_again_and_again_pushes_nobody_out() -> None:
    async with audited() as (at, kept):
        asked = job_service_pb2.CancelJobRequest(job=at.victim)
        for _ in range(audit_calls.REFUSALS_MAX + 40):
            await at.call("eve", f"{JOBS}/CancelJob", asked)
        assert sum(record.who == "eve" for record in kept.records) < audit_calls.REFUSALS_MAX + 20
        await at.call("vic", f"{JOBS}/CancelJob", asked)
        assert kept.last()[0] == "vic"


async def test_no_content_and_no_token_gets_in() -> None:
    async with audited() as (at, kept):
        job = batch(spec("train-2")).jobs[0]
        job.pod_sets[0].template.env.append(job_spec_pb2.EnvVar(name="PASSWORD", value=SECRET))
        job.labels["note"] = "x"
        job.manifest.text = f"kind: Secret\ndata: {SECRET}\n"
        await at.call("ann", f"{JOBS}/SubmitJobs", batch(job))
        start = job_service_pb2.ExecStart(job=at.victim, command=["sh", "-c", SECRET])
        await at.call("ann", f"{JOBS}/ExecJob", job_service_pb2.ExecJobRequest(start=start))
        applied = config_service_pb2.ApplyRequest(
            objects=[config_service_pb2.ConfigObject(flavor=config_pb2.Flavor(name="a100", description=SECRET))]
        )
        await at.call("adm", "hanse.api.v1.ConfigService/Apply", applied)
        said = repr(kept.records)
        assert "flavor a100" in said
        assert SECRET not in said
        assert not [name for name, token in TOKENS.items() if token in said]


async def test_a_token_to_join_by_is_made_and_not_written_down() -> None:
    async with audited() as (at, kept):
        revoke = trust_service_pb2.RevokeCertificatesRequest(identity="hanse://agent/oslo", reason="laptop lost")
        await at.call("adm", "hanse.api.v1.TrustService/RevokeCertificates", revoke)
        assert kept.last()[:2] == ("adm", "RevokeCertificates")
        assert kept.records[-1].message == "hanse://agent/oslo laptop lost"
        made = trust_service_pb2.CreateJoinTokenRequest(pool="oslo")
        _, _, answers = await at.call("adm", "hanse.api.v1.TrustService/CreateJoinToken", made)
        assert (kept.records[-1].verb, kept.records[-1].pool) == ("CreateJoinToken", "oslo")
        assert not [answer for answer in answers if answer.secret in repr(kept.records)]  # type: ignore[attr-defined]


async def test_names_that_somebody_made_up_cannot_write_lines() -> None:
    async with audited() as (at, kept):
        evil = 'x\n{"who":"adm"}\x1b[2J' + "y" * 5_000
        await at.call("ann", f"{JOBS}/CancelJob", job_service_pb2.CancelJobRequest(job=evil))
        [job] = kept.records[-1].jobs
        assert job.isprintable()
        assert len(job) <= 300


async def test_what_the_page_for_browsers_changes_is_written_down_too() -> None:
    kept = Kept()
    async with stage(audit=kept) as on:
        desk = Desk(on.api)
        job = (await on.submit(batch(spec("train")))).jobs[0].id
        vic = CallContext("vic", "10.0.0.9", access=POLICY.access("vic"))
        asked = job_service_pb2.CancelJobRequest(job=job)
        with pytest.raises(PermissionDenied):
            await desk.ask(vic, desk.jobs.cancel_job, asked)
        assert kept.last() == ("vic", "CancelJob", "PERMISSION_DENIED", "ROLE_MISSING")
        ann = CallContext("qad", "10.0.0.9", access=POLICY.access("qad"))
        await desk.ask(ann, desk.jobs.cancel_job, asked)
        assert (*kept.last()[:3], kept.records[-1].address) == ("qad", "CancelJob", "OK", "10.0.0.9")


async def test_a_queues_admin_reads_of_their_queue_alone() -> None:
    listed = "hanse.api.v1.AuditService/ListAuditRecords"
    async with audited() as (at, _):
        await at.call("eve", f"{JOBS}/SubmitJobs", batch(spec("mine", queue="other")))
        await at.call("ann", f"{JOBS}/HoldJob", job_service_pb2.HoldJobRequest(job=at.victim))
        create = queue_service_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name="third"))
        await at.call("adm", "hanse.api.v1.QueueService/CreateQueue", create)

        async def who(asker: str, **query: object) -> tuple[str, list[str]]:
            request = audit_service_pb2.ListAuditRecordsRequest(**query)  # type: ignore[arg-type]
            code, _, answers = await at.call(asker, listed, request)
            return code, [r.who for answer in answers for r in answer.records]  # type: ignore[attr-defined]

        assert await who("adm") == ("OK", ["adm", "ann", "eve"])
        assert await who("qad") == ("OK", ["ann"])
        assert await who("qad", queue="other") == ("NOT_FOUND", [])
        assert await who("qad", queue="nonesuch") == ("NOT_FOUND", [])
        assert await who("ann") == ("PERMISSION_DENIED", [])
        assert await who("adm", who="eve", verb="submitjobs") == ("OK", ["eve"])
        assert await who("adm", since_ms=-1) == ("INVALID_ARGUMENT", [])
