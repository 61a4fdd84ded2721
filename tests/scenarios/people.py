"""What people do: submit, cancel, hold, hurry, try again, cordon, change quota; through the API, as anybody would."""

import asyncio
from dataclasses import replace
from typing import Final

from google.protobuf.message import Message

from hanse.api.v1 import job_service_pb2, pool_service_pb2, queue_pb2, queue_service_pb2
from hanse.apiserver.context import ANONYMOUS
from hanse.model.errors import HanseError, Unavailable
from hanse.model.ids import FlavorName, JobId, QueueName, job_id, queue_of, queue_uid
from hanse.model.job import (
    Devices,
    EnvVar,
    JobSpec,
    OnInfrastructure,
    PodSet,
    PodTemplate,
    RestartPolicy,
    Slice,
    Topology,
)
from hanse.model.resources import NVIDIA_GPU
from hanse.model.selectors import Operator, Requirement, Selector, Toleration
from hanse.simcluster.programs import EXIT_ENV, RUNTIME_ENV, START_ENV
from hanse.store import keys
from hanse.store.contract import ModRevisionIs, Put, Txn
from hanse.store.schema import FlavorValue, encode
from hanse.wire.job import spec_to_wire
from tests.scenarios.setting import flavor_of, needs_of, quota_of
from tests.scenarios.stage import Act, Stage, refusal
from tests.scenarios.words import Line, seconds
from tests.scenarios.world import CALL_DEADLINE_S
from tests.sim.loop import Actor

TURN_S: Final = 0.002
"""Submissions follow each other by so much, so that they have an age."""


# ---- submitting ---------------------------------------------------------------------------------------------


async def submit(stage: Stage, line: Line) -> list[str]:
    """One job, or `times` of them; `apart`: each by a call of its own, all at the same time."""
    await asyncio.sleep(TURN_S)
    name, times = line.word(0, "a name"), line.integer("times", 1)
    names = [name] if times == 1 else [f"{name}-{number}" for number in range(1, times + 1)]
    specs = [spec_of(stage, line, each) for each in names]
    if not line.has("apart"):
        return await _send(stage, line, specs)
    answers = await asyncio.gather(*(_send(stage, line, [spec]) for spec in specs))
    return [told for answer in answers for told in answer]


async def _send(stage: Stage, line: Line, specs: list[JobSpec]) -> list[str]:
    request = job_service_pb2.SubmitJobsRequest(
        request_id=stage.request_id(line),
        jobs=[spec_to_wire(spec) for spec in specs],
        atomic=line.has("atomic"),
    )
    for index, spec in enumerate(specs):
        stage.call(spec.name, _id_of(spec, request.request_id, index))
    try:
        answer = await _ask(stage, line, request)
    except HanseError as error:
        return [refusal(error)]
    assert isinstance(answer, job_service_pb2.SubmitJobsResponse)
    return _heard(stage, answer)


async def _ask(stage: Stage, line: Line, request: Message) -> Message:
    if line.has("insist"):
        return await stage.world.ask("SubmitJobs", request)
    try:
        return await stage.world.call("SubmitJobs", request, CALL_DEADLINE_S)
    except TimeoutError:
        raise Unavailable("no answer") from None


def _heard(stage: Stage, answer: job_service_pb2.SubmitJobsResponse) -> list[str]:
    told: list[str] = []
    for job in answer.jobs:
        if job.id:
            stage.call(job.name, JobId(job.id))
            stage.world.store_checks.acknowledged(JobId(job.id))
        else:
            where = f" at {job.error.path}" if job.error.path else ""
            told.append(f"refused {job.error.reason}{where}: {job.error.message}")
    return list(dict.fromkeys(told))


def _id_of(spec: JobSpec, request: str, index: int) -> JobId:
    """Ids follow from requests, so a job that nobody heard of has one too."""
    return job_id(queue_uid("operator", "sim", spec.queue), ANONYMOUS, request, index)


def spec_of(stage: Stage, line: Line, name: str) -> JobSpec:
    """The job that a `submit` describes."""
    first = stage.world.setting.queues[0].name
    lost = OnInfrastructure.FAIL if line.named.get("on_lost") == "fail" else OnInfrastructure.REQUEUE
    sets = line.more or (replace(line, verb="main"),)
    return JobSpec(
        name=name,
        queue=QueueName(line.named.get("queue", first)),
        pod_sets=tuple(_pod_set(each) for each in sets),
        priority_class=line.named.get("priority", ""),
        duration_s=int(line.seconds("duration", 0)),
        restart=RestartPolicy(line.integer("retries", 0), lost),
        max_pools=line.integer("pools", 1),
        start_skew_max_s=int(line.seconds("skew", 60)),
        needs=needs_of(line, "needs"),
    )


def _pod_set(line: Line) -> PodSet:
    count = int(line.named.get("pods", 1))
    requests = {k: v for k, v in line.named.items() if k != "pods"}
    return PodSet(
        name=line.verb,
        count=count,
        min_count=line.integer("min", count),
        resources=replace(line, named=requests).resources(),
        flavors=tuple(FlavorName(flavor) for flavor in line.listed("flavors")),
        selector=_selector(line.prefixed("select.")),
        tolerations=tuple(_toleration(text) for text in line.listed("tolerate")),
        topology=Topology(
            line.named.get("required", ""), line.named.get("preferred", ""), _slices(line), devices=_devices(line)
        ),
        template=PodTemplate(image="train", command=("train",), env=_env(line)),
    )


def _devices(line: Line) -> Devices | None:
    """`devices=pcie`, or `devices=numa+nic`."""
    kind, _, nic = line.named.get("devices", "").partition("+")
    return Devices(kind, bool(nic)) if kind else None


def _selector(labels: dict[str, str]) -> Selector:
    found = tuple(Requirement(key, Operator.IN, tuple(text.split("|"))) for key, text in labels.items())
    return Selector((found,)) if found else Selector()


def _toleration(text: str) -> Toleration:
    key, _, value = text.partition("=")
    return Toleration(key, exists=not value, value=value)


def _slices(line: Line) -> tuple[Slice, ...]:
    pairs = (text.split("x", 1) for text in line.listed("slices"))
    return tuple(Slice(int(size), level, line.has("exclusive")) for size, level in pairs)


def _env(line: Line) -> tuple[EnvVar, ...]:
    """How the simulated pods behave; without a word they run until they are ended."""
    told = {RUNTIME_ENV: "run", START_ENV: "start"}
    spans = [EnvVar(env, f"{seconds(line.named[name]):g}") for env, name in told.items() if name in line.named]
    return (*spans, EnvVar(EXIT_ENV, line.named.get("exit", "0")))


# ---- changing one's mind ------------------------------------------------------------------------------------


async def cancel(stage: Stage, line: Line) -> list[str]:
    """One job, or every job of a glob, one after the other."""
    named = stage.named(line.word(0, "a job")) or {"": stage.job(line)}
    return [told for job in named.values() for told in await _cancel(stage, line, job)]


async def _cancel(stage: Stage, line: Line, job: JobId) -> list[str]:
    request = job_service_pb2.CancelJobRequest(job=job, request_id=stage.request_id(line))
    told = await stage.order("CancelJob", request)
    if not told:
        stage.world.store_checks.cancelled(job)
    return told


async def cordon(stage: Stage, line: Line) -> list[str]:
    pool, why = line.word(0, "a pool"), " ".join(line.words[1:])
    request = pool_service_pb2.CordonPoolRequest(name=pool, reason=why, request_id=stage.request_id(line))
    return await stage.order("CordonPool", request)


async def uncordon(stage: Stage, line: Line) -> list[str]:
    request = pool_service_pb2.UncordonPoolRequest(name=line.word(0, "a pool"), request_id=stage.request_id(line))
    return await stage.order("UncordonPool", request)


async def drain(stage: Stage, line: Line) -> list[str]:
    request = pool_service_pb2.DrainPoolRequest(
        name=line.word(0, "a pool"),
        reason=" ".join(line.words[1:]),
        deadline_s=int(line.seconds("deadline", 0.0)),
        request_id=stage.request_id(line),
    )
    return await stage.order("DrainPool", request)


async def leave(stage: Stage, line: Line) -> list[str]:
    """In peace, with `force`, or with `force dead`."""
    request = pool_service_pb2.LeavePoolRequest(
        name=line.word(0, "a pool"),
        deadline_s=int(line.seconds("deadline", 0.0)),
        force=line.has("force"),
        vouch_dead=line.has("dead"),
        request_id=stage.request_id(line),
    )
    return await stage.order("LeavePool", request)


async def readmit(stage: Stage, line: Line) -> list[str]:
    request = pool_service_pb2.ReadmitPoolRequest(name=line.word(0, "a pool"), request_id=stage.request_id(line))
    return await stage.order("ReadmitPool", request)


async def hold(stage: Stage, line: Line) -> list[str]:
    """A queue, or a `job=`."""
    if "job" in line.named:
        job = stage.job_of(line, line.named["job"])
        held = job_service_pb2.HoldJobRequest(job=job, request_id=stage.request_id(line))
        return await stage.order("HoldJob", held)
    request = queue_service_pb2.HoldQueueRequest(name=line.word(0, "a queue"), request_id=stage.request_id(line))
    return await stage.order("HoldQueue", request)


async def release(stage: Stage, line: Line) -> list[str]:
    """A queue, or a `job=`."""
    if "job" in line.named:
        job = stage.job_of(line, line.named["job"])
        released = job_service_pb2.ReleaseJobRequest(job=job, request_id=stage.request_id(line))
        return await stage.order("ReleaseJob", released)
    request = queue_service_pb2.ReleaseQueueRequest(name=line.word(0, "a queue"), request_id=stage.request_id(line))
    return await stage.order("ReleaseQueue", request)


async def hurry(stage: Stage, line: Line) -> list[str]:
    """A job gets another priority class."""
    job, wanted = stage.job(line), line.word(1, "a priority class")
    request = job_service_pb2.UpdateJobRequest(job=job, priority_class=wanted, request_id=stage.request_id(line))
    return await stage.order("UpdateJob", request)


async def retry(stage: Stage, line: Line) -> list[str]:
    """A job that has ended is tried again; `as=` names the new one from here on."""
    old, request_id = stage.job(line), stage.request_id(line)
    told = await stage.order("RetryJob", job_service_pb2.RetryJobRequest(job=old, request_id=request_id))
    if not told:
        new = job_id(queue_of(old), ANONYMOUS, request_id, 0)
        stage.call(line.named.get("as", f"{line.word(0, 'a job')}-again"), new)
        stage.world.store_checks.acknowledged(new)
    return told


async def quota(stage: Stage, line: Line) -> list[str]:
    """Other quotas for the flavors that are named; `none` takes a flavor away."""
    name = line.word(0, "a queue")
    found = await stage.world.ask("GetQueue", queue_service_pb2.GetQueueRequest(name=name))
    assert isinstance(found, queue_pb2.Queue)
    kept = [each for each in found.quotas if each.flavor not in line.named]
    new = [_flavor_quota(flavor, text) for flavor, text in line.named.items() if text != "none"]
    del found.quotas[:]
    found.quotas.extend([*kept, *new])
    found.revision = 0
    request = queue_service_pb2.UpdateQueueRequest(queue=found, request_id=stage.request_id(line))
    return await stage.order("UpdateQueue", request)


async def reflavor(stage: Stage, line: Line) -> list[str]:
    """A flavor means other labels from now on."""
    name = line.word(0, "a flavor")
    order = next(i for i, flavor in enumerate(stage.world.setting.flavors) if flavor.name == name)
    put = Put(keys.flavor(FlavorName(name)), encode(FlavorValue.of(flavor_of(line, order))))
    guard = ModRevisionIs(put.key, stage.world.view.items[put.key].mod_revision)
    await stage.world.store.apply(Txn((guard,), (put,)), Actor("operator"))
    return []


def _flavor_quota(flavor: str, text: str) -> queue_pb2.FlavorQuota:
    """As `quota_of`; zero stays zero, to be refused."""
    nominal = {NVIDIA_GPU: 0} if text == "0" else dict(quota_of(flavor, text).nominal)
    return queue_pb2.FlavorQuota(flavor=flavor, nominal=nominal)


VERBS: Final[dict[str, Act]] = {
    "submit": submit,
    "cancel": cancel,
    "cordon": cordon,
    "uncordon": uncordon,
    "drain": drain,
    "leave": leave,
    "readmit": readmit,
    "hold": hold,
    "release": release,
    "hurry": hurry,
    "retry": retry,
    "quota": quota,
    "reflavor": reflavor,
}
