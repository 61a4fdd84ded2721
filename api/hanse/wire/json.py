"""Messages of the public API as JSON values: what `-o json` prints.

The names are the proto's own (snake_case); every field is present, also when it has its default; 64-bit integers are
numbers; enum values are bare words (`RUNNING`); a message that is not set is null. protobuf's own JSON writes 64-bit
integers as strings and camelCase, and so is not used.

A job is flat here: what its `status` holds stands beside `id` and `name`, because that is what scripts ask for
(`hanse job ID -o json | jq .state`).
"""

from collections.abc import Callable
from functools import cache
from typing import Final, TypeAlias

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from hanse.api.v1 import event_pb2, job_pb2
from hanse.model.errors import HanseError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_LIFTED: Final = "status"


def message_to_json(message: Message) -> dict[str, Json]:
    """A message as a dict of plain values, nested messages included."""
    if isinstance(message, job_pb2.Job):
        return job_to_json(message)
    if isinstance(message, event_pb2.Event):
        return event_to_json(message)
    return _plain(message)


def job_to_json(job: job_pb2.Job) -> dict[str, Json]:
    """A job with its status lifted to the top level; `spec` last, since it is long."""
    plain = _plain(job)
    status = plain.pop(_LIFTED) or _plain(job_pb2.JobStatus())
    spec = plain.pop("spec")
    assert isinstance(status, dict)
    return {**plain, **status, "spec": spec}


def event_to_json(event: event_pb2.Event) -> dict[str, Json]:
    """An event; its time, Unix milliseconds, is called `at`."""
    plain = _plain(event)
    return {"at": plain.pop("at_ms"), **plain}


def error_to_json(error: HanseError) -> dict[str, Json]:
    """`{"error": {"reason", "path", "line", "message"}}`."""
    return {
        "error": {
            "reason": error.reason,
            "path": error.path,
            "line": error.line,
            "message": error.message,
        }
    }


def bare_word(kind: EnumDescriptor, number: int) -> str:
    """The name of an enum value without the enum's prefix; the number itself if it is not known here."""
    return _words(kind).get(number, str(number))


@cache
def _words(kind: EnumDescriptor) -> dict[int, str]:
    zero = next(value.name for value in kind.values if value.number == 0)
    prefix = zero.removesuffix("UNSPECIFIED")
    return {value.number: value.name.removeprefix(prefix) for value in kind.values}


def _plain(message: Message) -> dict[str, Json]:
    return {field.name: _field(message, field) for field in message.DESCRIPTOR.fields}


def _field(message: Message, field: FieldDescriptor) -> Json:
    value = getattr(message, field.name)
    render = _renderer(field)
    if _is_map(field):
        entry = _renderer(field.message_type.fields_by_name["value"])
        return {str(key): entry(item) for key, item in sorted(value.items())}
    if field.is_repeated:
        return [render(item) for item in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return render(value)


def _renderer(field: FieldDescriptor) -> Callable[..., Json]:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return message_to_json
    if field.type == FieldDescriptor.TYPE_ENUM:
        return lambda number: bare_word(field.enum_type, number)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return lambda raw: raw.hex()
    return lambda value: value


def _is_map(field: FieldDescriptor) -> bool:
    return field.type == FieldDescriptor.TYPE_MESSAGE and bool(field.message_type.GetOptions().map_entry)
