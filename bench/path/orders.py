"""What the bench tells its client, and what the client answers: one line of JSON each."""

from typing import TypeAlias, TypeVar

import msgspec

from bench.path.load import Load

T = TypeVar("T")


class Begin(msgspec.Struct, frozen=True, tag=True):
    """The first order: watch at the first replica, and what to submit to all of them. Answered by `Count`."""

    addresses: list[str]
    load: Load


class Fill(msgspec.Struct, frozen=True, tag=True):
    """Keep the window full from now on, with so many calls at once. Answered at once by `Count`."""

    calls: int


class Look(msgspec.Struct, frozen=True, tag=True):
    """Answered at once by `Count`."""


class Rest(msgspec.Struct, frozen=True, tag=True):
    """Submit no more. Answered by `Count` once everything is placed."""


class Pace(msgspec.Struct, frozen=True, tag=True):
    """Submit batches at a rate of gangs per second for some seconds. Answered by `Paced` once they are placed."""

    rate: float
    seconds: float
    batch: int


class Confine(msgspec.Struct, frozen=True, tag=True):
    """Gangs are for the first so many queues from now on. Answered at once by `Count`."""

    queues: int


class Burst(msgspec.Struct, frozen=True, tag=True):
    """Submit so many gangs to a queue on hold as fast as they are taken, with so many calls at once. Answered by
    `Accepted`."""

    gangs: int
    batch: int
    calls: int


class Finish(msgspec.Struct, frozen=True, tag=True):
    """Answered by `Book` once everything has ended, or nothing has changed for some time."""

    patience_s: float = 90.0


Order: TypeAlias = Begin | Fill | Look | Rest | Pace | Confine | Burst | Finish


class Count(msgspec.Struct, frozen=True):
    """What the client has seen up to a moment of its clock.

    Attributes:
        gpus_held: of gangs that are placed and have not ended.
    """

    at_s: float
    submitted: int
    placed: int
    ended: int
    gpus_held: int


class Paced(msgspec.Struct, frozen=True):
    """From submit to placed, of every gang; and how many batches were due and not sent, because too many waited."""

    latencies_ms: list[float]
    left_out: int


class Accepted(msgspec.Struct, frozen=True):
    """How long it took until the last of a burst was acknowledged."""

    gangs: int
    took_s: float


class Book(msgspec.Struct, frozen=True):
    """Pods of every job that was acknowledged, by id; and what became of those that did not succeed."""

    acknowledged: dict[str, int]
    not_succeeded: dict[str, str]


def to_line(message: msgspec.Struct) -> bytes:
    """A message as a line."""
    return msgspec.json.encode(message) + b"\n"


def order_of(line: bytes) -> Order:
    """An order from its line. Raises msgspec.DecodeError."""
    return msgspec.json.decode(line, type=Order)


def answer_of(line: bytes, kind: type[T]) -> T:
    """An answer of the expected kind from its line. Raises msgspec.DecodeError."""
    return msgspec.json.decode(line, type=kind)
