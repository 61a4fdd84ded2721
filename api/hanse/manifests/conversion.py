"""From the text of a submission to its jobs: read the objects, read each by its kind, join the groups, check.

All or nothing: the first thing that is wrong refuses the whole submission, with the line it stands in, so that
nobody finds half of a file running. Where a file holds several objects, the message says which one is meant.
"""

from collections.abc import Callable, Iterator, Sequence

from hanse.manifests.companions import travels, with_companions
from hanse.manifests.converted import Converted, ImportedJob
from hanse.manifests.documents import Document, naming, read_documents, telling_which
from hanse.manifests.drafts import Draft
from hanse.manifests.finishing import finish
from hanse.manifests.groups import Group, join
from hanse.manifests.kinds import is_read, kind_of
from hanse.manifests.notes import Notes
from hanse.manifests.registry import Submission
from hanse.manifests.sbatch import convert_script, is_script
from hanse.model.errors import InvalidArgument
from hanse.model.names import quoted


def convert(text: str | bytes, *, filename: str = "", default_queue: str = "") -> Converted:
    """The jobs that a manifest asks for, whatever kinds it is written in.

    Args:
        text: YAML or JSON, one or several documents; or a Slurm batch script, which begins with `#!`.
        filename: named in the message of an error that has no line of its own.
        default_queue: for jobs that name no queue; without one their queue is "" and is to be set before submitting.

    Raises:
        InvalidArgument: with reason, field path, line, and one line of message.
    """
    if is_script(text):
        with naming(filename):
            return convert_script(text, _native(default_queue), filename=filename)
    with naming(filename):
        documents = read_documents(text)
        with telling_which(documents):
            beside = [document for document in documents if travels(document)]
            submission = _submission(tuple(d for d in documents if d not in beside), Notes(), default_queue)
            jobs = _finished(list(_pieces(submission)), submission)
            _refuse_twins(jobs)
            jobs = with_companions(jobs, beside)
        return Converted(tuple(jobs), submission.notes.all())


def _native(default_queue: str) -> Callable[[str], Converted]:
    return lambda text: convert(text, default_queue=default_queue)


def _submission(documents: tuple[Document, ...], notes: Notes, default_queue: str) -> Submission:
    def nested(inner: tuple[Document, ...]) -> list[Draft]:
        pieces = list(_pieces(_submission(inner, notes, default_queue)))
        for piece in pieces:
            if isinstance(piece, ImportedJob):
                raise InvalidArgument("a native job is no part of another object", reason="NOT_SUPPORTED")
        groups = [piece for piece in pieces if isinstance(piece, Group)]
        return join([piece for piece in pieces if isinstance(piece, Draft)], groups, notes)

    return Submission(documents, notes, default_queue, is_read, nested)


def _pieces(submission: Submission) -> Iterator[Draft | Group | ImportedJob]:
    beside: list[Document] = []
    for document in submission.documents:
        kind = kind_of(document)
        if kind.beside:
            beside.append(document)
        elif document.index not in submission.used:
            yield from kind.read(document, submission)
    for document in beside:
        if document.index not in submission.used:
            what = document.field.get("kind") or document.field
            what.refuse("NO_SUCH_JOB", f"no job in this submission uses this {document.kind}")


def _finished(pieces: Sequence[Draft | Group | ImportedJob], submission: Submission) -> list[ImportedJob]:
    notes = submission.notes
    groups = [piece for piece in pieces if isinstance(piece, Group)]
    drafts = iter(join([piece for piece in pieces if isinstance(piece, Draft)], groups, notes))
    jobs = []
    for piece in pieces:
        if isinstance(piece, ImportedJob):
            jobs.append(piece)
        elif isinstance(piece, Draft):
            jobs.append(finish(next(drafts), notes, default_queue=submission.default_queue))
    return jobs


def _refuse_twins(jobs: Sequence[ImportedJob]) -> None:
    seen: dict[tuple[str, str], ImportedJob] = {}
    for job in jobs:
        twin = seen.setdefault((job.namespace, job.spec.name), job)
        if twin is not job:
            here, there = job.where("name"), twin.where("name")
            raise InvalidArgument(
                f"the job in line {there.line} is named {quoted(job.spec.name)} too; give each a name of its own",
                reason="DUPLICATE_NAME",
                path=here.path,
                line=here.line,
            )
