"""`hanse submit`: a file in any kind that Hanse reads, or a job from flags."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hanse.cli.completing import complete_queues
from hanse.cli.failures import EXIT_FAILED, Failure, WrongUse
from hanse.cli.flag_job import FlagJob, blamed, native_text
from hanse.cli.options import OutputOption, ServerOption, TimeoutOption
from hanse.cli.reading import STDIN, read_file, shown_name
from hanse.cli.session import Session, session_of
from hanse.cli.state import state_dir, write_last
from hanse.model.errors import HanseError, InvalidArgument

if TYPE_CHECKING:
    from hanse.api.v1.job_pb2 import Job
    from hanse.client import AsyncClient, Submission
    from hanse.manifests import Converted

DEFAULT_QUEUE: Final = "default"
UNMAPPED_SHOWN_MAX: Final = 20
_QUEUE_FLAG: Final = ("QUEUE_", "--queue")
_PRIORITY_FLAG: Final = ("PRIORITY_", "--priority")
_FILE_ENDINGS: Final = (".yaml", ".yml", ".json", STDIN)


class Until(StrEnum):
    """How far a job shall have come."""

    PLACED = "placed"
    RUNNING = "running"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Order:
    """What is submitted, and how.

    Attributes:
        source: the text of a manifest, or the jobs that were made of one.
        file: that errors are blamed on; "" for flags.
    """

    source: "str | bytes | Converted"
    file: str
    queue: str
    priority: str
    request_id: str


def submit(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="FILE|- | -- COMMAND…", help="A manifest, or what the pods run.")
    ] = None,
    queue: Annotated[
        str,
        typer.Option(
            "--queue", "-q", metavar="QUEUE", help="Queue, whatever the file names.", autocompletion=complete_queues
        ),
    ] = "",
    priority: Annotated[str, typer.Option("--priority", metavar="CLASS", help="Priority class.")] = "",
    wait: Annotated[
        Until | None, typer.Option("--wait", metavar="placed|running|done", help="Return when the job is so far.")
    ] = None,
    timeout: TimeoutOption = None,
    request_id: Annotated[
        str, typer.Option("--request-id", metavar="ID", help="Submitting again with this id submits nothing twice.")
    ] = "",
    gpus: Annotated[int | None, typer.Option("--gpus", metavar="N", help="GPUs of the whole gang.")] = None,
    per_pod: Annotated[
        int | None, typer.Option("--per-pod", metavar="N", help="GPUs of one pod. [default: 8, or all]")
    ] = None,
    pods: Annotated[int | None, typer.Option("--pods", metavar="N", help="Pods of the gang.")] = None,
    flavor: Annotated[
        list[str] | None, typer.Option("--flavor", metavar="NAME", help="Accepted flavors, the best first.")
    ] = None,
    required: Annotated[
        str, typer.Option("--required", metavar="LEVEL", help="One domain of this level holds the gang.")
    ] = "",
    preferred: Annotated[
        str, typer.Option("--preferred", metavar="LEVEL", help="One domain of this level should hold it.")
    ] = "",
    slices: Annotated[
        list[str] | None,
        typer.Option("--slice", metavar="SIZE:LEVEL", help="So many consecutive ranks in one domain."),
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name. [default: from the command]")] = "",
    image: Annotated[str, typer.Option("--image", metavar="IMAGE", help="Container image.")] = "",
    env: Annotated[list[str] | None, typer.Option("--env", metavar="K=V", help="Environment variable.")] = None,
    cpus: Annotated[str, typer.Option("--cpus", metavar="N", help="CPUs of one pod.")] = "",
    memory: Annotated[str, typer.Option("--memory", metavar="QUANTITY", help="Memory of one pod, as 64Gi.")] = "",
    duration: Annotated[str, typer.Option("--duration", metavar="TIME", help="Run no longer, as 12h.")] = "",
    max_pools: Annotated[
        int | None, typer.Option("--max-pools", metavar="N", help="Pools that may share the gang.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option("--label", "-l", metavar="K=V", help="Label.")] = None,
    gpu_resource: Annotated[
        str, typer.Option("--gpu-resource", metavar="NAME", help="What a GPU is called, as amd.com/gpu.")
    ] = "nvidia.com/gpu",
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Submit a manifest as it is, or a job from flags.

    A file may hold several jobs, of any kind that `hanse convert` reads; all are accepted, or none.

    \b
    hanse submit llama3-70b.yaml --wait placed
    hanse submit --gpus 64 --per-pod 8 --flavor h100 --required rack -- python train.py
    generate | hanse submit - --queue research -o json
    """
    session = session_of(server, output)
    flags = FlagJob(
        gpus=gpus,
        per_pod=per_pod,
        pods=pods,
        flavors=tuple(flavor or ()),
        required=required,
        preferred=preferred,
        slices=tuple(slices or ()),
        name=name,
        image=image,
        env=tuple(env or ()),
        cpus=cpus,
        memory=memory,
        duration=duration,
        max_pools=max_pools,
        labels=tuple(label or ()),
        gpu_resource=gpu_resource,
        command=tuple(words or ()),
    )
    order = _order(words or [], flags, queue=queue, priority=priority, request_id=request_id)
    code = session.ask(lambda client: send(client, session, order, wait, timeout))
    raise typer.Exit(code)


def _order(words: Sequence[str], flags: FlagJob, *, queue: str, priority: str, request_id: str) -> Order:
    """What is meant: a file, or flags.

    Raises:
        WrongUse: both, or neither.
    """
    if flags.said:
        if len(words) == 1 and words[0].endswith(_FILE_ENDINGS):
            raise WrongUse(
                f"hanse submit: {words[0]} and --gpus do not go together; name a file, or flags and `-- COMMAND`"
            )
        return Order(native_text(flags), "", queue, priority, request_id)
    stray = _stray(flags)
    if stray:
        raise WrongUse(f"hanse submit: {stray} describes a job from flags; say --gpus or --pods too")
    if len(words) != 1:
        raise WrongUse(
            "hanse submit: name one FILE, or describe a job by --gpus and `-- COMMAND`; see `hanse submit --help`"
        )
    return Order(_read(words[0]), words[0], queue, priority, request_id)


def _read(name: str) -> "bytes | Converted":
    """The text of a manifest; a batch script converted, because its file names the job."""
    from hanse.cli.commands.batching import read_script
    from hanse.manifests.sbatch import is_script

    text = read_file(name)
    if not is_script(text):
        return text
    try:
        return read_script(text, name)
    except InvalidArgument as error:
        raise Failure(error, file=shown_name(name)) from None


def _stray(flags: FlagJob) -> str:
    """A flag that means nothing beside a file."""
    given = {
        "--per-pod": flags.per_pod is not None,
        "--flavor": bool(flags.flavors),
        "--required": bool(flags.required),
        "--preferred": bool(flags.preferred),
        "--slice": bool(flags.slices),
        "--name": bool(flags.name),
        "--image": bool(flags.image),
        "--env": bool(flags.env),
        "--cpus": bool(flags.cpus),
        "--memory": bool(flags.memory),
        "--duration": bool(flags.duration),
        "--max-pools": flags.max_pools is not None,
        "--label": bool(flags.labels),
    }
    return next((flag for flag, there in given.items() if there), "")


async def send(
    client: "AsyncClient",
    session: Session,
    order: Order,
    wait: Until | None = None,
    timeout_s: float | None = None,
) -> int:
    """Submit, say what became of it, wait as far as is asked for; the exit code."""
    submission = await _sent(client, session, order)
    if submission.refusals:
        raise _failure(order, [refusal.error for refusal in submission.refusals])
    write_last(state_dir(os.environ), client.server, submission.ids[-1])
    _note_unmapped(session, submission, order)
    if wait is None:
        _say_accepted(session, submission)
        return 0
    return await _wait(client, session, submission, wait, timeout_s)


async def _sent(client: "AsyncClient", session: Session, order: Order) -> "Submission":
    try:
        queue = order.queue or await _queue(client, session, order.source)
        return await client.submit(
            order.source, queue=queue, priority_class=order.priority, request_id=order.request_id
        )
    except InvalidArgument as error:
        raise _failure(order, [error]) from None


def _failure(order: Order, errors: Sequence[HanseError]) -> Failure:
    """The refusals, blamed on what the user wrote: the file, or the flags."""
    by_flag = [_QUEUE_FLAG] if order.queue else []
    by_flag += [_PRIORITY_FLAG] if order.priority else []
    for reason, flag in by_flag:
        if errors[0].reason.startswith(reason):
            return Failure(type(errors[0])(errors[0].message, reason=errors[0].reason, path=flag))
    if not order.file:
        return Failure(*(blamed(error) for error in errors))
    return Failure(*errors, file=shown_name(order.file))


async def _queue(client: "AsyncClient", session: Session, source: "str | bytes | Converted") -> str:
    """The queue for jobs that name none: of the settings, or the only one, or the one named `default`; "" if the
    file names its queues."""
    converted = client.convert(source) if isinstance(source, str | bytes) else source
    if any(job.spec.queue for job in converted.jobs):
        return ""
    if session.settings.queue:
        return session.settings.queue
    names = [queue.name for queue in await client.queues()]
    if len(names) == 1:
        return names[0]
    if DEFAULT_QUEUE in names:
        return DEFAULT_QUEUE
    there = f"there are {', '.join(names)}" if names else "`hanse apply` makes one"
    raise InvalidArgument(f"no queue is named; {there}", reason="QUEUE_MISSING", path="--queue")


def _note_unmapped(session: Session, submission: "Submission", order: Order) -> None:
    from hanse.cli.show.conversion import unmapped_lines

    lines = unmapped_lines(submission.unmapped, shown_name(order.file))
    for line in lines[:UNMAPPED_SHOWN_MAX]:
        session.note(f"not acted on: {line}")
    if len(lines) > UNMAPPED_SHOWN_MAX:
        session.note(f"not acted on: {len(lines) - UNMAPPED_SHOWN_MAX} more; `hanse convert` lists them")


def _say_accepted(session: Session, submission: "Submission") -> None:
    from hanse.cli.show.submitted import accepted_page

    jobs = [_row(job.id, job.name, job.queue, job.state, job.reason) for job in submission.jobs]
    session.say(_value(submission, jobs), lambda paper: accepted_page(submission.jobs, paper))


def _row(job_id: str, name: str, queue: str, state: int, reason: str) -> dict[str, object]:
    from hanse.model.lifecycle import State

    return {"id": job_id, "name": name, "queue": queue, "state": State(state).name, "reason": reason}


def _value(submission: "Submission", jobs: list[dict[str, object]]) -> dict[str, object]:
    unmapped = [{"path": one.path, "line": one.line, "why": one.why} for one in submission.unmapped]
    return {"jobs": jobs, "request_id": submission.request_id, "unmapped": unmapped}


async def _wait(
    client: "AsyncClient", session: Session, submission: "Submission", wait: Until, timeout_s: float | None
) -> int:
    from hanse.cli.show.submitted import states_page
    from hanse.cli.waiting import ended_badly, wait_for_jobs
    from hanse.client.waiting import parse_until

    for job in submission.jobs:
        session.note(f"accepted {job.name}  queue {job.queue}  {job.id}")
    until = parse_until(wait.value)
    jobs: list[Job] = await wait_for_jobs(client, submission.ids, until, session=session, timeout_s=timeout_s)
    rows = [_row(job.id, job.name, job.queue, job.status.state, job.status.reason) for job in jobs]
    session.say(_value(submission, rows), lambda paper: states_page(jobs, paper))
    return EXIT_FAILED if any(ended_badly(job) for job in jobs) else 0
