"""What a log is made of: an origin, then batches."""

from pathlib import Path
from typing import Final, TypeVar

import msgspec

from hanse.simcluster.facts import Fact
from hanse.simcluster.frames import Damaged
from hanse.simcluster.inputs import Input

T = TypeVar("T")


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """Facts that were not written before, then inputs, applied at one time."""

    at_ms: int
    inputs: tuple[Input, ...]
    facts: tuple[Fact, ...]


class FactsOfBatch(msgspec.Struct, frozen=True, array_like=True):
    """A batch of which only the facts are wanted."""

    at_ms: int
    inputs: msgspec.Raw
    facts: tuple[Fact, ...]


BATCHES: Final = msgspec.msgpack.Decoder(Batch)
FACTS: Final = msgspec.msgpack.Decoder(FactsOfBatch)


def decoded(decoder: "msgspec.msgpack.Decoder[T]", payload: bytes, path: Path) -> T:
    """A record of a file. Raises Damaged."""
    try:
        return decoder.decode(payload)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Damaged(f"{path}: a record cannot be read ({error}); it may be of another version") from error
