"""Files of users and operators, read by `hanse.manifests`, which is imported only when there is something to read."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hanse.manifests.converted import Converted
    from hanse.manifests.resource_files import ResourceSpec


def read_jobs(text: str | bytes, *, queue: str = "", priority_class: str = "") -> "Converted":
    """The jobs of a manifest. Raises InvalidArgument with path and line."""
    from hanse.manifests import convert

    return convert(text, queue=queue, priority_class=priority_class)


def read_objects(text: str | bytes) -> "tuple[ResourceSpec, ...]":
    """The objects of an operator's file. Raises InvalidArgument with path and line."""
    from hanse.manifests import read_resources

    return read_resources(text)
