"""Files of users and operators, read by `hanse.manifests`, which is imported only when there is something to read."""

from dataclasses import replace
from typing import TYPE_CHECKING

from hanse.model.ids import QueueName

if TYPE_CHECKING:
    from hanse.manifests import Converted, ImportedJob, ResourceSpec


def read_jobs(text: str | bytes, *, queue: str = "", priority_class: str = "", filename: str = "") -> "Converted":
    """The jobs of a manifest.

    Args:
        queue, priority_class: for every job, whatever it names itself; "" to leave it.
        filename: for messages.

    Raises:
        InvalidArgument: with path and line.
    """
    from hanse.manifests import convert

    return with_names(convert(text, filename=filename, default_queue=queue), queue, priority_class)


def with_names(converted: "Converted", queue: str, priority_class: str) -> "Converted":
    """The same jobs in this queue and priority class; "" leaves what they name themselves."""
    if not queue and not priority_class:
        return converted
    return replace(converted, jobs=tuple(_named(job, queue, priority_class) for job in converted.jobs))


def _named(job: "ImportedJob", queue: str, priority_class: str) -> "ImportedJob":
    spec = job.spec
    named = replace(
        spec,
        queue=QueueName(queue) if queue else spec.queue,
        priority_class=priority_class or spec.priority_class,
    )
    return replace(job, spec=named)


def read_objects(text: str | bytes, *, filename: str = "") -> "tuple[ResourceSpec, ...]":
    """The objects of an operator's file. Raises InvalidArgument with path and line."""
    from hanse.manifests import read_resources

    return read_resources(text, filename=filename)
