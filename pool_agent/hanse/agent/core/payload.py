"""What a gang record keeps beside the placement, so that an agent which restarts knows it too.

A version, whether the gang was to start at once, when it was held, what it reserves beside its pods, and the devices
that its shares are of: node names by what is reserved on each, compressed, since a gang that has a block for itself
reserves hundreds of nodes. Version 1 has the reservations of the first pod set alone; version 2, written where there
are others, those of every set; version 3, written where there are shares, also the device of each rank, set by set.
"""

import json
import struct
import zlib
from dataclasses import dataclass
from typing import Final

from hanse.agent.core.ledger import Devices, Reserved
from hanse.model.ids import NodeName
from hanse.model.resources import Resources

_HEAD: Final = struct.Struct("<B?q")
_FIRST_SET: Final = 1
_EVERY_SET: Final = 2
_DEVICES: Final = 3
_INFLATED_BYTES_MAX: Final = 16 * 1024 * 1024

_Table = list[tuple[dict[str, int], list[NodeName]]]


@dataclass(frozen=True, slots=True)
class Payload:
    """See the module; `held_ms` is 0 if it is not known.

    Attributes:
        reserved, devices: one for each pod set, or none at all.
    """

    at_once: bool = False
    held_ms: int = 0
    reserved: tuple[Reserved, ...] = ()
    devices: tuple[Devices, ...] = ()


def encode_payload(payload: Payload) -> bytes:
    """The bytes of a record's payload."""
    version = _DEVICES if any(payload.devices) else _EVERY_SET if any(payload.reserved[1:]) else _FIRST_SET
    head = _HEAD.pack(version, payload.at_once, payload.held_ms)
    tables = [_table(reserved) for reserved in payload.reserved]
    if version == _FIRST_SET and not any(tables):
        return head
    by_version: dict[int, object] = {_FIRST_SET: tables and tables[0], _EVERY_SET: tables}
    said = by_version.get(version, [tables, payload.devices])
    return head + zlib.compress(json.dumps(said, separators=(",", ":")).encode())


def _table(reserved: Reserved) -> _Table:
    by_amounts: dict[Resources, list[NodeName]] = {}
    for name, amounts in reserved:
        by_amounts.setdefault(amounts, []).append(name)
    return [(dict(amounts.items()), names) for amounts, names in by_amounts.items()]


def decode_payload(data: bytes) -> Payload:
    """The inverse; what another version wrote, or somebody else, says nothing."""
    if len(data) < _HEAD.size or data[0] not in (_FIRST_SET, _EVERY_SET, _DEVICES):
        return Payload()
    version, at_once, held_ms = _HEAD.unpack(data[: _HEAD.size])
    if len(data) == _HEAD.size:
        return Payload(at_once, held_ms)
    text = zlib.decompressobj().decompress(data[_HEAD.size :], _INFLATED_BYTES_MAX)
    said = json.loads(text)
    tables, devices = said if version == _DEVICES else (said if version == _EVERY_SET else [said], [])
    reserved = tuple(_reserved(table) for table in tables)
    return Payload(at_once, held_ms, reserved, tuple(tuple(d) for d in devices))


def _reserved(table: _Table) -> Reserved:
    reserved = [(NodeName(name), Resources(amounts)) for amounts, names in table for name in names]
    return tuple(sorted(reserved, key=lambda item: item[0]))
