"""Gang records as entries of a ledger object: text in, values out. Pure.

An entry is JSON that people can read; a long one is compressed. Equal neighbouring nodes are written once with their
number, because a gang puts consecutive ranks on one node.
"""

import base64
import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain, groupby, repeat
from typing import Final
from uuid import UUID

import msgspec

from hanse.agent.cluster.port import GangKey, GangRecord, SetPlace
from hanse.model.ids import FlavorName, NodeName
from hanse.model.resources import Resources

PLAIN_CHARS_MAX: Final = 4_096
INFLATED_BYTES_MAX: Final = 16 << 20
_COMPRESSED: Final = "z"

Stretch = tuple[str, int]

TOKEN_BYTES: Final = 8
TOKEN_CHARS: Final = 11
"""A uid is random, so half of it tells the pods of one gang apart; a whole one would double the ledgers."""

TOKENS_REMEMBERED: Final = 50_000
"""A gang's pods are looked up whenever one of them changes."""

_NOBODY: Final = "." * TOKEN_CHARS


@dataclass(frozen=True, slots=True)
class Root:
    """An object that has the pods of a gang made by a controller of its own.

    Attributes:
        pod_set: the set whose pods it makes, "" if it makes all of them.
    """

    api_version: str
    kind: str
    name: str
    uid: str
    pod_set: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Stored:
    """What the cluster keeps of one gang.

    Attributes:
        namespace: where its pods are, "" before it was started.
        stopped: it was told to stop, and is never started again.
        grace_s: with which it was told so.
        roots: objects whose controllers make its pods; () while there are none.
        let: set by set and place by place, the token of the pod that was let go, "" where none was yet; () before
            the first. A pod that is not named here never runs, whoever made it.
        late: sets whose pods their controller makes only once others run.
        follows: a pod that has succeeded is followed by another one in its place.
    """

    record: GangRecord
    namespace: str = ""
    stopped: bool = False
    grace_s: int = 0
    roots: tuple[Root, ...] = ()
    let: tuple[tuple[str, ...], ...] = ()
    late: tuple[str, ...] = ()
    follows: bool = False

    @property
    def launched(self) -> bool:
        """Whether everything exists that an order to start asks for; nobody needs the order any more."""
        return bool(self.roots)

    def place_of(self, uid: str) -> tuple[int, int] | None:
        """Set and place of a pod that was let go; None for any other."""
        return self._places.get(token_of(uid)) if self.let else None

    @cached_property
    def _places(self) -> dict[str, tuple[int, int]]:
        return {
            token: (number, place)
            for number, tokens in enumerate(self.let)
            for place, token in enumerate(tokens)
            if token
        }

    def letting(self, uids: Mapping[tuple[int, int], str]) -> "Stored":
        """The same, with pods let go in these places."""
        let = [list(tokens) for tokens in self.let] or [[""] * len(held.nodes) for held in self.record.sets]
        for (number, place), uid in uids.items():
            let[number][place] = token_of(uid)
        return replace(self, let=tuple(tuple(tokens) for tokens in let))

    @property
    def pods(self) -> int:
        """How many it has in all."""
        return sum(len(held.nodes) for held in self.record.sets)

    def started(self, namespace: str) -> "Stored":
        """The same, to be run there."""
        return replace(self, record=replace(self.record, started=True), namespace=self.namespace or namespace)


@lru_cache(maxsize=TOKENS_REMEMBERED)
def token_of(uid: str) -> str:
    """A uid, as short as it can be told from others."""
    try:
        half = UUID(uid).bytes[:TOKEN_BYTES]
    except ValueError:  # the API says that uids are unique texts, and not more
        half = hashlib.sha256(uid.encode()).digest()[:TOKEN_BYTES]
    return base64.urlsafe_b64encode(half).decode().rstrip("=")


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
    roots: list[tuple[str, str, str, str, str]] = []
    let: list[str] = []
    late: list[str] = []
    follows: bool = False


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
        "",
        stored.stopped,
        stored.grace_s,
        [(root.api_version, root.kind, root.name, root.uid, root.pod_set) for root in stored.roots],
        ["".join(token or _NOBODY for token in tokens) for tokens in stored.let],
        list(stored.late),
        stored.follows,
    )
    text = msgspec.json.encode(entry)
    if len(text) <= PLAIN_CHARS_MAX:
        return text.decode()
    return _COMPRESSED + base64.b64encode(zlib.compress(text)).decode()


def decode(key: GangKey, text: str) -> Stored:
    """The inverse. Raises ValueError if it is no entry."""
    entry = _ENTRY.decode(_inflate(text[1:]) if text.startswith(_COMPRESSED) else text.encode())
    if entry.complete:
        raise ValueError("an older agent made its pods; end it with that agent, or remove its pods as well")
    sets = tuple(
        SetPlace(s.name, s.rank, _nodes(s.nodes), FlavorName(s.flavor), Resources(s.resources)) for s in entry.sets
    )
    return Stored(
        GangRecord(key, entry.revision, sets, entry.started, entry.payload),
        entry.namespace,
        entry.stopped,
        entry.grace_s,
        tuple(Root(*told) for told in entry.roots),
        tuple(_tokens(text) for text in entry.let),
        tuple(entry.late),
        entry.follows,
    )


def _tokens(text: str) -> tuple[str, ...]:
    cut = (text[at : at + TOKEN_CHARS] for at in range(0, len(text), TOKEN_CHARS))
    return tuple("" if token == _NOBODY else token for token in cut)


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
