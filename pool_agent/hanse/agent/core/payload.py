"""What a gang record keeps beside the placement, so that an agent which restarts knows it too.

A version, whether the gang was to start at once, when it was held, and what it reserves beside its pods: node names
by what is reserved on each, compressed, since a gang that has a block for itself reserves hundreds of nodes.
"""

import json
import struct
import zlib
from dataclasses import dataclass
from typing import Final

from hanse.agent.core.ledger import Reserved
from hanse.model.ids import NodeName
from hanse.model.resources import Resources

_HEAD: Final = struct.Struct("<B?q")
_VERSION: Final = 1
_INFLATED_BYTES_MAX: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Payload:
    """See the module; `held_ms` is 0 if it is not known."""

    at_once: bool = False
    held_ms: int = 0
    reserved: Reserved = ()


def encode_payload(payload: Payload) -> bytes:
    """The bytes of a record's payload."""
    head = _HEAD.pack(_VERSION, payload.at_once, payload.held_ms)
    if not payload.reserved:
        return head
    by_amounts: dict[Resources, list[NodeName]] = {}
    for name, amounts in payload.reserved:
        by_amounts.setdefault(amounts, []).append(name)
    rows = [[dict(amounts.items()), names] for amounts, names in by_amounts.items()]
    return head + zlib.compress(json.dumps(rows, separators=(",", ":")).encode())


def decode_payload(data: bytes) -> Payload:
    """The inverse; what another version wrote, or somebody else, says nothing."""
    if len(data) < _HEAD.size or data[0] != _VERSION:
        return Payload()
    _, at_once, held_ms = _HEAD.unpack(data[: _HEAD.size])
    if len(data) == _HEAD.size:
        return Payload(at_once, held_ms)
    text = zlib.decompressobj().decompress(data[_HEAD.size :], _INFLATED_BYTES_MAX)
    reserved = [(NodeName(name), Resources(amounts)) for amounts, names in json.loads(text) for name in names]
    return Payload(at_once, held_ms, tuple(sorted(reserved, key=lambda item: item[0])))
