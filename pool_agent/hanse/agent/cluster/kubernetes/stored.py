"""Gang records as entries of a ledger object: text in, values out. Pure.

An entry is JSON that people can read; a long one is compressed. Equal neighbouring nodes are written once with their
number, because a gang puts consecutive ranks on one node.
"""

import base64
import zlib
from dataclasses import dataclass, replace
from itertools import chain, groupby, repeat
from typing import Final

import msgspec

from hanse.agent.cluster.kubernetes.names import epoch_of, epoch_text
from hanse.agent.cluster.port import Epoch, GangKey, GangRecord, SetPlace
from hanse.model.ids import FlavorName, NodeName
from hanse.model.resources import Resources

PLAIN_CHARS_MAX: Final = 4_096
INFLATED_BYTES_MAX: Final = 16 << 20
_COMPRESSED: Final = "z"

Stretch = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Stored:
    """What the cluster keeps of one gang.

    Attributes:
        namespace: where its pods are, "" before it was started.
        complete: epoch under which every pod had been created, None before. From then on none is created any more,
            and what is missing is lost; before it, none has run.
        stopped: it was told to stop, and is never started again.
        grace_s: with which it was told so.
    """

    record: GangRecord
    namespace: str = ""
    complete: Epoch | None = None
    stopped: bool = False
    grace_s: int = 0

    @property
    def pods(self) -> int:
        """How many it has in all."""
        return sum(len(held.nodes) for held in self.record.sets)

    def started(self, namespace: str) -> "Stored":
        """The same, to be run there."""
        return replace(self, record=replace(self.record, started=True), namespace=self.namespace or namespace)


class _Set(msgspec.Struct, omit_defaults=True):
    name: str
    nodes: list[Stretch]
    flavor: str = ""
    rank: int = 0
    resources: dict[str, int] = {}


class _Entry(msgspec.Struct, omit_defaults=True):
    revision: int
    sets: list[_Set]
    payload: bytes = b""
    started: bool = False
    namespace: str = ""
    complete: str = ""
    stopped: bool = False
    grace_s: int = 0


_ENTRY: Final = msgspec.json.Decoder(_Entry)


def encode(stored: Stored) -> str:
    """The text of an entry."""
    record = stored.record
    entry = _Entry(
        record.revision,
        [_Set(s.name, _stretches(s.nodes), s.flavor, s.first_rank, dict(s.resources)) for s in record.sets],
        record.payload,
        record.started,
        stored.namespace,
        epoch_text(stored.complete) if stored.complete else "",
        stored.stopped,
        stored.grace_s,
    )
    text = msgspec.json.encode(entry)
    if len(text) <= PLAIN_CHARS_MAX:
        return text.decode()
    return _COMPRESSED + base64.b64encode(zlib.compress(text)).decode()


def decode(key: GangKey, text: str) -> Stored:
    """The inverse. Raises ValueError if it is no entry."""
    entry = _ENTRY.decode(_inflate(text[1:]) if text.startswith(_COMPRESSED) else text.encode())
    sets = tuple(
        SetPlace(s.name, s.rank, _nodes(s.nodes), FlavorName(s.flavor), Resources(s.resources)) for s in entry.sets
    )
    return Stored(
        GangRecord(key, entry.revision, sets, entry.started, entry.payload),
        entry.namespace,
        epoch_of(entry.complete) if entry.complete else None,
        entry.stopped,
        entry.grace_s,
    )


def _inflate(text: str) -> bytes:
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(base64.b64decode(text, validate=True), INFLATED_BYTES_MAX)
    except zlib.error as error:
        raise ValueError(f"the entry is damaged: {error}") from None
    if not inflater.eof:
        raise ValueError(f"the entry is longer than {INFLATED_BYTES_MAX} bytes, or cut off")
    return data


def _stretches(nodes: tuple[NodeName, ...]) -> list[Stretch]:
    return [(name, sum(1 for _ in same)) for name, same in groupby(nodes)]


def _nodes(stretches: list[Stretch]) -> tuple[NodeName, ...]:
    return tuple(NodeName(name) for name in chain.from_iterable(repeat(name, count) for name, count in stretches))
