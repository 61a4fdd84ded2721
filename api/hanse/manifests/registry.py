"""What a kind is to the importer: its name, its versions, and the function that reads it.

One module of `kinds` reads one kind. Its reader gets one document and the submission around it, and returns drafts of
jobs, pod groups that join one, or finished jobs (the native kind, which needs no joining). To add a kind: write
`kinds/<kind>.py` with a `KIND`, and list it in `kinds.entries`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hanse.manifests.converted import ImportedJob
from hanse.manifests.documents import Document
from hanse.manifests.drafts import Draft
from hanse.manifests.groups import Group
from hanse.manifests.notes import Notes


@dataclass(frozen=True, slots=True)
class Submission:
    """Everything that is submitted together.

    Attributes:
        default_queue: for jobs that name none.
        reads: whether there is a reader for an object, of which another one consists.
        nested: the jobs of such objects, joined with the groups among them.
        used: indices of documents that a reader took in beside its own.
    """

    documents: tuple[Document, ...]
    notes: Notes
    default_queue: str
    reads: Callable[[Document], bool]
    nested: Callable[[tuple[Document, ...]], list[Draft]]
    used: set[int] = field(default_factory=set)


Read = Callable[[Document, Submission], Sequence[Draft | Group | ImportedJob]]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of one API group.

    Attributes:
        group: "" for the core group.
        versions: that are read; they differ in nothing that matters here.
        beside: true for an object that jobs take in, and that is refused if none did.
    """

    group: str
    name: str
    versions: tuple[str, ...]
    read: Read
    beside: bool = False
