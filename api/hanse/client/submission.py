"""What is submitted, and what became of it: manifests, specs and messages in, results with file and line out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from hanse.api.v1 import job_service_pb2, job_spec_pb2
from hanse.client.files import read_jobs, with_names
from hanse.model.errors import HanseError, InvalidArgument
from hanse.model.ids import QueueName
from hanse.model.job import JobSpec
from hanse.wire.errors import error_from_wire
from hanse.wire.job import spec_to_wire
from hanse.wire.limits import BATCH_BYTES_MAX, JOBS_PER_BATCH_MAX

if TYPE_CHECKING:
    from hanse.manifests.converted import Converted, ImportedJob, Unmapped

JobSource: TypeAlias = (
    "str | bytes | Converted | JobSpec | job_spec_pb2.JobSpec | Sequence[JobSpec | job_spec_pb2.JobSpec]"
)
"""A manifest as text or as it was converted, or one or several specs."""

ENTRY_OVERHEAD_BYTES: Final = 16
BATCH_HEAD_BYTES: Final = 1_024


@dataclass(frozen=True, slots=True)
class Refusal:
    """One job that was not accepted; the error's path and line are those of the file that it came from."""

    index: int
    name: str
    error: HanseError


@dataclass(frozen=True, slots=True)
class Submission:
    """What became of a submission.

    Attributes:
        request_id: with which it can be repeated.
        jobs: one result for each job, in order.
        refusals: of the jobs that were not accepted.
        unmapped: fields of a manifest that Hanse does not act on.
        aborted: nothing was stored, because one job was refused and the submission is all or nothing.
        revision: a watch after it misses nothing of these jobs.
    """

    request_id: str
    jobs: tuple[job_service_pb2.SubmittedJob, ...]
    refusals: tuple[Refusal, ...] = ()
    unmapped: "tuple[Unmapped, ...]" = ()
    aborted: bool = False
    revision: int = 0

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the jobs that are stored."""
        return tuple(job.id for job in self.jobs if job.id)

    def raise_refusal(self) -> None:
        """Raises the first refusal, if there is one."""
        if self.refusals:
            raise self.refusals[0].error


@dataclass(frozen=True, slots=True)
class Order:
    """Jobs ready to be sent, and where each field of theirs was written."""

    specs: tuple[job_spec_pb2.JobSpec, ...]
    imported: "tuple[ImportedJob, ...]" = ()
    unmapped: "tuple[Unmapped, ...]" = ()

    def error(self, index: int, error: HanseError) -> HanseError:
        """The same error with path and line of the document that the job came from."""
        if not self.imported:
            return error
        origin = self.imported[index].where(error.path)
        return error_of_kind(error, path=origin.path or error.path, line=origin.line)

    def answered(self, responses: Sequence[job_service_pb2.SubmitJobsResponse], request_id: str) -> Submission:
        """The responses of all batches as one result."""
        jobs = tuple(job for response in responses for job in response.jobs)
        refusals = tuple(
            Refusal(index, job.name, self.error(index, error_from_wire(job.error)))
            for index, job in enumerate(jobs)
            if job.HasField("error")
        )
        return Submission(
            request_id=request_id,
            jobs=jobs,
            refusals=refusals,
            unmapped=self.unmapped,
            aborted=any(response.aborted for response in responses),
            revision=max((response.revision for response in responses), default=0),
        )


def error_of_kind(error: HanseError, *, path: str, line: int) -> HanseError:
    """The same error at another place."""
    return type(error)(error.message, reason=error.reason, path=path, line=line)


def order_of(source: JobSource, *, queue: str = "", priority_class: str = "", filename: str = "") -> Order:
    """What to send for a manifest, a spec, a message, or several of the latter two.

    Args:
        source: text is a manifest in any kind that `hanse.manifests` reads.
        queue, priority_class: for every job, whatever it names itself; "" to leave it.
        filename: where the text comes from, for messages.

    Raises:
        InvalidArgument: with path and line, for what cannot be read or breaks a rule that needs no server.
    """
    converted = _converted(source, queue, priority_class, filename)
    if converted is not None:
        specs = tuple(spec_to_wire(job.spec) for job in converted.jobs)
        return Order(specs, converted.jobs, converted.unmapped)
    return Order(tuple(_named(one, queue, priority_class) for one in _several(source)))


def _converted(source: JobSource, queue: str, priority_class: str, filename: str) -> "Converted | None":
    """What a manifest asks for; None for a source that is none."""
    if isinstance(source, str | bytes):
        return read_jobs(source, queue=queue, priority_class=priority_class, filename=filename)
    if isinstance(source, JobSpec | job_spec_pb2.JobSpec | Sequence):
        return None
    return with_names(source, queue, priority_class)


def _several(source: JobSource) -> Sequence[JobSpec | job_spec_pb2.JobSpec]:
    if isinstance(source, JobSpec | job_spec_pb2.JobSpec):
        return [source]
    assert isinstance(source, Sequence)
    assert not isinstance(source, str | bytes)
    return source


def _named(one: JobSpec | job_spec_pb2.JobSpec, queue: str, priority_class: str) -> job_spec_pb2.JobSpec:
    if isinstance(one, JobSpec):
        named = replace(
            one,
            queue=QueueName(queue) if queue else one.queue,
            priority_class=priority_class or one.priority_class,
        )
        return spec_to_wire(named)
    message = job_spec_pb2.JobSpec()
    message.CopyFrom(one)
    message.queue = queue or message.queue
    message.priority_class = priority_class or message.priority_class
    return message


def batches(specs: Sequence[job_spec_pb2.JobSpec], *, atomic: bool) -> Iterator[Sequence[job_spec_pb2.JobSpec]]:
    """The specs in batches that a server takes.

    Raises:
        InvalidArgument: all or nothing is asked for, and it is more than one batch holds.
    """
    sizes = [spec.ByteSize() for spec in specs]
    if sizes and max(sizes) > BATCH_BYTES_MAX - BATCH_HEAD_BYTES:
        raise InvalidArgument(
            f"a job of {max(sizes)} bytes is more than a server takes ({BATCH_BYTES_MAX}); "
            "move large texts into ConfigMaps or files",
            reason="SPEC_TOO_LARGE",
            path="jobs",
        )
    ends = list(_ends(sizes))
    if atomic and len(ends) > 1:
        raise InvalidArgument(
            f"{len(specs)} jobs are more than one batch holds ({JOBS_PER_BATCH_MAX} jobs, {BATCH_BYTES_MAX} bytes); "
            "submit fewer, or allow that each is accepted for itself",
            reason="BATCH_TOO_LARGE",
            path="jobs",
        )
    start = 0
    for end in ends:
        yield specs[start:end]
        start = end


def _ends(sizes: Iterable[int]) -> Iterator[int]:
    """Where each batch ends."""
    jobs = taken = index = 0
    for index, size in enumerate(sizes, start=1):
        if jobs and (jobs == JOBS_PER_BATCH_MAX or taken + size > BATCH_BYTES_MAX - BATCH_HEAD_BYTES):
            yield index - 1
            jobs = taken = 0
        jobs += 1
        taken += size + ENTRY_OVERHEAD_BYTES
    if jobs:
        yield index
