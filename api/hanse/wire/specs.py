"""A job's spec from the bytes that are stored and that travel with bindings.

The same bytes are read for a decision, for the link and by the agent, in one process or in several; each process
parses them once, and never what it has just made of a spec itself. A spec is a frozen value, so all may share it.
"""

from typing import Final

from google.protobuf.message import DecodeError

from hanse.api.v1 import job_spec_pb2
from hanse.model.errors import InvalidArgument
from hanse.model.job import JobSpec
from hanse.wire.job import spec_from_wire

SPECS_KEPT_MAX: Final = 512
SPEC_KEPT_BYTES_MAX: Final = 4_096
"""Larger specs (those with a manifest) are parsed each time."""

_kept: Final[dict[bytes, JobSpec]] = {}


def spec_from_bytes(data: bytes) -> JobSpec:
    """Parse fully, or refuse.

    Raises:
        InvalidArgument: the bytes are no spec, or one that `spec_from_wire` refuses.
    """
    found = _kept.get(data)
    if found is None:
        found = _parsed(data)
        keep_spec(data, found)
    return found


def keep_spec(data: bytes, spec: JobSpec) -> None:
    """These are the bytes of a spec: they will be read soon."""
    if len(data) > SPEC_KEPT_BYTES_MAX:
        return
    _kept[data] = spec
    if len(_kept) > SPECS_KEPT_MAX:
        del _kept[next(iter(_kept))]


def _parsed(data: bytes) -> JobSpec:
    try:
        message = job_spec_pb2.JobSpec.FromString(data)
    except DecodeError as error:
        raise InvalidArgument(f"the bytes are no job spec: {error}", reason="SPEC_DAMAGED", path="spec") from None
    return spec_from_wire(message)
