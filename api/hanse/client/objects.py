"""Operator files and objects as messages for `Apply`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from hanse.api.v1 import config_pb2, queue_pb2
from hanse.api.v1.config_service_pb2 import ConfigObject
from hanse.client.files import read_objects
from hanse.model.ids import QueueUid
from hanse.model.queue import Cohort, Flavor, PriorityClass
from hanse.wire.config import cohort_to_wire, flavor_to_wire, priority_class_to_wire, queue_to_wire

if TYPE_CHECKING:
    from hanse.manifests.resource_files import ResourceSpec

ConfigMessage: TypeAlias = config_pb2.Flavor | config_pb2.PriorityClass | config_pb2.Cohort | queue_pb2.Queue
ConfigSource: TypeAlias = "str | bytes | Sequence[ConfigMessage | ResourceSpec]"
"""An operator file as text, or objects: messages, or what a file was read to."""


def objects_of(source: ConfigSource, *, filename: str = "") -> list[ConfigObject]:
    """What to apply.

    Raises:
        InvalidArgument: the text cannot be read, with path and line.
    """
    if isinstance(source, str | bytes):
        return [object_of_spec(spec) for spec in read_objects(source, filename=filename)]
    return [_object(message) for message in source]


def _object(message: "ConfigMessage | ResourceSpec") -> ConfigObject:
    match message:
        case config_pb2.Flavor():
            return ConfigObject(flavor=message)
        case config_pb2.PriorityClass():
            return ConfigObject(priority_class=message)
        case config_pb2.Cohort():
            return ConfigObject(cohort=message)
        case queue_pb2.Queue():
            return ConfigObject(queue=message)
        case _:
            return object_of_spec(message)


def object_of_spec(spec: "ResourceSpec") -> ConfigObject:
    match spec:
        case Flavor():
            return ConfigObject(flavor=flavor_to_wire(spec))
        case PriorityClass():
            return ConfigObject(priority_class=priority_class_to_wire(spec))
        case Cohort():
            return ConfigObject(cohort=cohort_to_wire(spec))
        case _:
            queue = queue_to_wire(spec.to_queue(QueueUid("")))
            if not queue.held:
                queue.ClearField("held")  # a file that does not hold the queue does not release it either
            return ConfigObject(queue=queue)
