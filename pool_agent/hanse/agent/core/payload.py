"""What a gang record keeps beside the placement, so that an agent which restarts knows it too.

A version, whether the gang was to start at once, when it was held, and what it reserves beside its pods: node names
by what is reserved on each, compressed, since a gang that has a block for itself reserves hundreds of nodes. Version
1 has the reservations of the first pod set alone; version 2, written where there are others, those of every set.
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
_FIRST_SET: Final = 1
_EVERY_SET: Final = 2
_INFLATED_BYTES_MAX: Final = 16 * 1024 * 1024

_Table = list[tuple[dict[str, int], list[NodeName]]]


@dataclass(frozen=True, slots=True)
class Payload:
    """See the module; `held_ms` is 0 if it is not known, and `reserved` has one for each pod set, or none at all."""

    at_once: bool = False
    held_ms: int = 0
    reserved: tuple[Reserved, ...] = ()


def encode_payload(payload: Payload) -> bytes:
    """The bytes of a record's payload."""
    several = any(payload.reserved[1:])
    head = _HEAD.pack(_EVERY_SET if several else _FIRST_SET, payload.at_once, payload.held_ms)
    if not any(payload.reserved):
        return head
    tables = [_table(reserved) for reserved in payload.reserved]
    text = json.dumps(tables if several else tables[0], separators=(",", ":"))
    return head + zlib.compress(text.encode())


def _table(reserved: Reserved) -> _Table:
    by_amounts: dict[Resources, list[NodeName]] = {}
    for name, amounts in reserved:
        by_amounts.setdefault(amounts, []).append(name)
    return [(dict(amounts.items()), names) for amounts, names in by_amounts.items()]


def decode_payload(data: bytes) -> Payload:
    """The inverse; what another version wrote, or somebody else, says nothing."""
    if len(data) < _HEAD.size or data[0] not in (_FIRST_SET, _EVERY_SET):
        return Payload()
    version, at_once, held_ms = _HEAD.unpack(data[: _HEAD.size])
    if len(data) == _HEAD.size:
        return Payload(at_once, held_ms)
    text = zlib.decompressobj().decompress(data[_HEAD.size :], _INFLATED_BYTES_MAX)
    tables = json.loads(text) if version == _EVERY_SET else [json.loads(text)]
    return Payload(at_once, held_ms, tuple(_reserved(table) for table in tables))


def _reserved(table: _Table) -> Reserved:
    reserved = [(NodeName(name), Resources(amounts)) for amounts, names in table for name in names]
    return tuple(sorted(reserved, key=lambda item: item[0]))
