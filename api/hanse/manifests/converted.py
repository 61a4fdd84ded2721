"""What a conversion yields: jobs of the model, where each of their fields came from, and what was left out.

A converted job speaks the model's language, but whoever wrote the manifest does not. Every field of a spec therefore
keeps its origin, so that a refusal which arrives later (an unknown queue, a level that no pool has) can still be told
as file, line and field of the document that the user wrote: `ImportedJob.where`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from hanse.model.job import JobSpec


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was written: the document's own field path and its 1-based line (0 if unknown)."""

    path: str
    line: int


_NO_ORIGINS: Mapping[str, Origin] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ImportedJob:
    """One job that a submission asks for.

    Attributes:
        kind: of the document it came from (`PyTorchJob`; `Job` for the native one as for `batch/v1`).
        namespace: of that document, "" if it names none.
        min_total: pods without which the gang is useless, over all pod sets.
        origins: model field path (`pod_sets[0].count`) → where it was written.
        pod_labels: of each pod template, by which Services select pods.
    """

    spec: JobSpec
    kind: str
    namespace: str
    min_total: int
    origins: Mapping[str, Origin] = field(default_factory=lambda: _NO_ORIGINS)
    pod_labels: tuple[Mapping[str, str], ...] = ()

    @property
    def lines(self) -> Mapping[str, int]:
        """Model field path → line, as `model.validate.validate_spec` takes it."""
        return {path: origin.line for path, origin in self.origins.items()}

    def where(self, path: str) -> Origin:
        """The origin of a model field, or of the nearest field around it that has one."""
        return nearest_origin(self.origins, path)


def nearest_origin(origins: Mapping[str, Origin], path: str) -> Origin:
    """The origin of `path`, else of its closest ancestor, else of the whole spec (""), else the path itself."""
    wanted = path
    while wanted:
        if wanted in origins:
            return origins[wanted]
        cut = max(wanted.rfind("."), wanted.rfind("["))
        wanted = wanted[: max(cut, 0)]
    return origins.get("", Origin(path, 0))


@dataclass(frozen=True, slots=True)
class Unmapped:
    """A field of the manifest that Hanse does not act on, and why."""

    path: str
    line: int
    why: str


@dataclass(frozen=True, slots=True)
class Converted:
    """All jobs of one submission, in document order, and every field that was left out, in line order."""

    jobs: tuple[ImportedJob, ...]
    unmapped: tuple[Unmapped, ...] = ()
