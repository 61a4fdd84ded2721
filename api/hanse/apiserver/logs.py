"""Which agent has a pod's log, and its lines in messages."""

from collections.abc import AsyncIterator, Sequence

from hanse.api.v1 import job_service_pb2, job_spec_pb2
from hanse.apiserver.ports import AgentDetails, LogEntry, PodRef
from hanse.apiserver.rows import JobRow
from hanse.apiserver.suggest import did_you_mean, listed
from hanse.model.errors import FailedPrecondition, InvalidArgument, NotFound
from hanse.model.ids import Part, PoolName
from hanse.model.names import quoted
from hanse.wire.limits import TAIL_LINES_DEFAULT, TAIL_LINES_MAX


def pod_of(row: JobRow, request: job_service_pb2.TailLogsRequest | job_service_pb2.ExecStart) -> PodRef:
    """The pod that a request means, in the newest attempt.

    Raises:
        NotFound, InvalidArgument: no such pod set or rank.
        FailedPrecondition: reason NO_PODS; the job has no attempt that could have pods.
    """
    if row.spec is None:
        raise NotFound("the job's spec is no longer kept", reason="JOB_NOT_FOUND", path="job")
    index, pod_set = _pod_set(row.spec, request.pod_set)
    if not 0 <= request.rank < pod_set.count:
        raise InvalidArgument(
            f"pod set {quoted(pod_set.name)} has ranks 0 to {pod_set.count - 1}", reason="RANK_INVALID", path="rank"
        )
    part, pool = _home(row, index, request.rank)
    state = row.found.state
    return PodRef(row.found.job, state.attempt, part, pool, pod_set.name, request.rank)


def _pod_set(spec: job_spec_pb2.JobSpec, name: str) -> tuple[int, job_spec_pb2.PodSet]:
    for index, pod_set in enumerate(spec.pod_sets):
        if pod_set.name == name or not name:
            return index, pod_set
    names = [pod_set.name for pod_set in spec.pod_sets]
    hint = did_you_mean(name, names) or f"; it has {listed(names)}"
    raise NotFound(f"the job has no pod set {quoted(name)}{hint}", reason="POD_SET_NOT_FOUND", path="pod_set")


def _home(row: JobRow, pod_set: int, rank: int) -> tuple[Part, PoolName]:
    """The part and pool of a rank; of an attempt that has ended, only if it was not split."""
    for part in row.parts:
        sets = part.binding.sets if part.binding is not None else []
        if any(s.index == pod_set and s.first_rank <= rank < s.first_rank + s.count for s in sets):
            return part.part, part.pool
    ended = row.past.attempts[-1] if row.past and row.past.attempts else None
    if ended is not None and len(ended.parts) == 1 and ended.attempt == row.found.state.attempt:
        return Part(0), PoolName(ended.parts[0].pool)
    state = row.found.state.state.name
    raise FailedPrecondition(f"the job has no pods now, it is {state}", reason="NO_PODS", path="job")


def tail_lines(asked: int) -> int:
    """How many lines of the past. Raises InvalidArgument."""
    if not 0 <= asked <= TAIL_LINES_MAX:
        raise InvalidArgument(
            f"{asked} lines; ask for 1 to {TAIL_LINES_MAX}, or 0 for {TAIL_LINES_DEFAULT}",
            reason="TAIL_LINES_INVALID",
            path="tail_lines",
        )
    return asked or TAIL_LINES_DEFAULT


async def log_responses(
    details: AgentDetails, pod: PodRef, *, lines: int, follow: bool
) -> AsyncIterator[job_service_pb2.TailLogsResponse]:
    """The lines of a pod as messages."""
    async for entries in details.logs(pod, tail_lines=lines, follow=follow):
        yield job_service_pb2.TailLogsResponse(lines=_lines(entries))


def _lines(entries: Sequence[LogEntry]) -> list[job_service_pb2.LogLine]:
    return [job_service_pb2.LogLine(time_ms=entry.time_ms, text=entry.text) for entry in entries]
