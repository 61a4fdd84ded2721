"""One job: what was asked for, where it is, its life line, and what went wrong before."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from hanse.cli.amounts import amounts, clock, counted, duration, gpus_of, number, seconds
from hanse.cli.paper import GLUE, Paper, Tone, joined
from hanse.cli.show.facts import facts
from hanse.cli.show.jobs import placed_in
from hanse.cli.show.nodes import node_lines
from hanse.cli.show.topology import topology_words
from hanse.cli.show.words import reason_prose, state_of, state_tone, state_word
from hanse.cli.symbols import TIMES
from hanse.model.lifecycle import State

if TYPE_CHECKING:
    from hanse.api.v1.job_pb2 import AttemptRecord, Job, JobStatus
    from hanse.api.v1.job_spec_pb2 import JobSpec, PodSet

_LIFE: Final = (
    ("bound", "bound_ms"),
    ("placed", "placed_ms"),
    ("started", "started_ms"),
    ("running", "running_ms"),
    ("ended", "ended_ms"),
)


def job_page(job: "Job", paper: Paper, *, nodes: bool = False) -> str:
    """What there is to say of a job; `nodes` with the nodes that its agents named."""
    status = job.status
    attempt = f"  attempt {status.attempt}" if status.attempt else ""
    state = paper.paint(state_word(status.state), state_tone(status.state))
    lines = [f"{paper.paint(job.name, Tone.STRONG)}  {state}{attempt}", *facts(list(_facts(job)), paper)]
    if nodes:
        lines += ["", *node_lines(status, paper)]
    return joined(lines)


def _facts(job: "Job") -> Iterator[tuple[str, str]]:
    status = job.status
    yield from _why(job)
    yield "id", job.id
    if job.retry_of:
        yield "retries", job.retry_of
    priority = f"{status.priority_class} ({status.priority})" if status.priority_class else str(status.priority)
    yield "queue", f"{job.queue}, priority {priority}" + (" (job on hold)" if status.held else "")
    if job.HasField("spec"):
        yield from _asked(job.spec)
    for part in status.placement:
        told = f" ({part.message})" if part.message else ""
        yield "where", f"{part.pool}, {part.flavor}: {placed_in(part)}{told}"
    yield "life", life_line(status)
    for record in status.attempts:
        yield "attempts", _attempt(record)
    if status.attempts_dropped:
        yield "attempts", f"{counted(status.attempts_dropped, 'older attempt')}, no longer kept"


def _why(job: "Job") -> Iterator[tuple[str, str]]:
    status = job.status
    if not status.reason:
        return
    target = f"; goes on to {state_word(status.target)}" if state_of(status.state) is State.STOPPING else ""
    yield "why", f"{status.reason}: {status.message or reason_prose(status.reason)}{target}"
    if state_of(status.state) is State.PENDING:
        yield "", f"`hanse explain {job.name}` says more"


def _asked(spec: "JobSpec") -> Iterator[tuple[str, str]]:
    for pod_set in spec.pod_sets:
        yield "asked", _pod_set(pod_set)
    total = sum(pod_set.count * gpus_of(pod_set.resources) for pod_set in spec.pod_sets)
    pods = sum(pod_set.count for pod_set in spec.pod_sets)
    limit = f", for at most {seconds(spec.duration_s)}" if spec.duration_s else ""
    gpus = f", {counted(total, 'GPU')}" if total else ""
    yield "", f"{counted(pods, 'pod')}{gpus} in all{limit}"


def _pod_set(pod_set: "PodSet") -> str:
    each = amounts(pod_set.resources)
    least = (
        f", at least {number(pod_set.min_count)}"
        if pod_set.HasField("min_count") and pod_set.min_count < pod_set.count
        else ""
    )
    parts = [f"{pod_set.name}: {number(pod_set.count)}" + (f" {TIMES} ({each})" if each else "") + least]
    if pod_set.flavors:
        parts.append(f"of {' or '.join(pod_set.flavors)}")
    topology = pod_set.topology
    parts += topology_words(
        topology.required_level, topology.preferred_level,
        slices=topology.slices, balanced=topology.balanced_level, spread=topology.spread, same=topology.same_labels,
        group=topology.group,
        devices=topology.devices,
    )  # fmt: skip
    return ", ".join(parts)


def life_line(status: "JobStatus") -> str:
    """`submitted 14:02:07 · bound +41 ms · placed +180 ms · running +2.4 s`: times after the submission."""
    if not status.submitted_ms:
        return "not known"
    steps = [f"submitted {clock(status.submitted_ms)}"]
    for word, name in _LIFE:
        at_ms = getattr(status, name)
        if at_ms:
            steps.append(f"{word} +{duration(at_ms - status.submitted_ms)}")
    return " · ".join(step.replace(" ", GLUE) for step in steps)


def _attempt(record: "AttemptRecord") -> str:
    where = ", ".join(part.pool for part in record.placement) or "nowhere"
    lived = duration(record.ended_ms - record.bound_ms)
    return f"attempt {record.attempt} in {where}: {record.reason or state_word(record.outcome)} after {lived}"
