"""Many more inputs for the parsers of `test_hostile.py` than a test has time for.

    python -m tests.property.hostile_run --inputs 1000000 --seed 1

Random and quick where hypothesis is thorough: a message with any fields, or its bytes with some of them changed. Ends
at the first input that a parser neither takes nor refuses in words, and shows it.
"""

import argparse
import logging
import random
import ssl
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from hanse.bus.contract import BusMessage
from hanse.kit.trust.asking import checked_request
from hanse.kit.trust.authority import pins_of
from hanse.kit.trust.shown import shown_by
from hanse.kit.trust.token import JoinToken
from hanse.link.v1 import link_pb2
from hanse.model.errors import HanseError
from hanse.scheduler.core.plan import run_cycle
from hanse.scheduler.core.snapshot import Limits
from hanse.shape import ShapeError, decode, encode
from hanse.wire.summary import summary_from_bytes
from tests.property.test_hostile import AUTHORITY, CONVERTERS, OSLO, REQUEST, SHAPE
from tests.unit.scheduler.worlds import H100, NONCE, job, pending, world
from tests.unit.scheduler.worlds import request as request_of
from tests.unit.scheduler_shell.test_peers import FEDERATION, POOL, taker

DEEP: Final = 4
TEXTS: Final = ("", "p0", "oslo", "../../state/x", "abcdefgh-0000000000000001", "\0", "\n", "é" * 25, "x" * 3_000)
EDGES: Final = (0, 1, 2, 5, 8, 127, 128, 2**31 - 1)
TOKEN: Final = JoinToken.new("ab" * 32).text.encode()


def number(rng: random.Random, bits: int, *, signed: bool) -> int:
    if rng.random() < 0.5:
        edge = rng.choice((*EDGES, 2 ** (bits - signed) - 1))
        return -edge - 1 if signed and rng.random() < 0.3 else edge
    return rng.getrandbits(bits) - (2 ** (bits - 1) if signed else 0)


def value(rng: random.Random, field: FieldDescriptor, depth: int) -> Any:
    kind = field.cpp_type
    if field.type == FieldDescriptor.TYPE_BYTES:
        return rng.choice((b"", SHAPE, rng.randbytes(rng.randrange(40))))
    if kind == FieldDescriptor.CPPTYPE_STRING:
        return rng.choice(TEXTS)
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if kind in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return rng.choice(
            (0.0, -1.0, float("nan"), float("inf"), 1e300 if kind == FieldDescriptor.CPPTYPE_DOUBLE else 1e30)
        )
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return rng.choice((0, 1, 2, 3, 7, 99, -1))
    bits = 32 if kind in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32) else 64
    return number(rng, bits, signed=kind in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64))


def fill(rng: random.Random, message: Message, depth: int = DEEP) -> None:
    """Give a message any fields."""
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.4:
            continue
        target = getattr(message, field.name)
        nested = field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE
        if nested and field.message_type.GetOptions().map_entry:
            kinds = field.message_type.fields_by_name
            for _ in range(rng.randrange(3)):
                key = value(rng, kinds["key"], depth)
                if kinds["value"].cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
                    target[key] = value(rng, kinds["value"], depth)
        elif nested and depth:
            for one in [target.add() for _ in range(rng.randrange(4))] if field.is_repeated else [target]:
                if not field.is_repeated:
                    one.SetInParent()
                fill(rng, one, depth - 1)
        elif not nested and field.is_repeated:
            target.extend(value(rng, field, depth) for _ in range(rng.randrange(4)))
        elif not nested:
            setattr(message, field.name, value(rng, field, depth))


def harmed(rng: random.Random, body: bytes) -> bytes:
    """Bytes with some of them changed."""
    changed = bytearray(body)
    for _ in range(rng.randrange(5)):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(3):
            case 0 if at < len(changed):
                changed[at] ^= 1 << rng.randrange(8)
            case 1:
                changed[at:at] = rng.randbytes(rng.randrange(5))
            case _:
                del changed[at : at + rng.randrange(1, 5)]
    return bytes(changed[: rng.randrange(len(changed) + 1)] if rng.random() < 0.2 else changed)


def convert(name: str) -> Callable[[random.Random], bytes]:
    kind, converter = CONVERTERS[name]

    def tried(rng: random.Random) -> bytes:
        message = kind()
        oneofs = [f for f in message.DESCRIPTOR.fields if f.containing_oneof is not None]
        fill(rng, message)
        if oneofs:  # one body is enough, and any
            chosen = rng.choice(oneofs)
            getattr(message, chosen.name).SetInParent()
            fill(rng, getattr(message, chosen.name))
        body = message.SerializeToString()
        body = harmed(rng, body) if rng.random() < 0.4 else body
        with suppress(DecodeError, HanseError):
            converter(kind.FromString(body))
        return body

    return tried


def shape(rng: random.Random) -> bytes:
    body = harmed(rng, SHAPE)
    with suppress(ShapeError):
        found = decode(body)
        assert decode(encode(found)).key == found.key
    return body


def plan(rng: random.Random) -> bytes:
    """A shape that can be read is planned for, beside an honest one, whatever it says."""
    body = harmed(rng, SHAPE)
    with suppress(ShapeError):
        found = world({"p0": decode(body), "honest": decode(SHAPE)}, {H100: 640})
        wants = [request_of(1), request_of(3), request_of(7)]
        jobs = [(job(n, want), want) for n, want in enumerate(wants, start=1)]
        service = pending(one for one, _ in jobs).service({})
        classes = {one.class_hash: want for one, want in jobs}
        run_cycle(found.snapshot(now_s=0.0, nonce=NONCE), service, classes, Limits(), rng)
    return body


def bus(rng: random.Random) -> bytes:
    summary = link_pb2.Summary()
    fill(rng, summary)
    summary.pool, summary.epoch.incarnation, summary.epoch.revision = POOL, 1, 5
    summary.shape, summary.empty_shape = harmed(rng, SHAPE), harmed(rng, SHAPE)
    body = harmed(rng, summary.SerializeToString()) if rng.random() < 0.3 else summary.SerializeToString()
    world, summaries, _ = taker()
    world.put_agent(POOL, 5)
    world.revision = 9
    kind = rng.choice(("summary", "capacity"))
    summaries._hear(BusMessage(f"hanse/v1/{FEDERATION}/pools/{POOL}/{kind}", body, retained=True))
    known = world.ledger(POOL).summary
    if known is not None:
        encode(known.shape)
        world.ledger(POOL).planned()
    with suppress(HanseError):
        summary_from_bytes(body)
    return body


def request(rng: random.Random) -> bytes:
    body = harmed(rng, REQUEST)
    with suppress(HanseError):
        checked_request(body, OSLO)
    return body


def certificate(rng: random.Random) -> bytes:
    body = harmed(rng, AUTHORITY)
    pins_of([body])
    shown_by({"x509_pem_cert": [ssl.DER_cert_to_PEM_cert(body).encode()]})
    return body


def small(rng: random.Random) -> bytes:
    body = harmed(rng, TOKEN)
    with suppress(HanseError):
        JoinToken.read(body.decode("latin-1"))
    return body


TRIED: Final = {
    **{name: convert(name) for name in CONVERTERS},
    "shape": shape,
    "plan": plan,
    "bus": bus,
    "csr": request,
    "certificate": certificate,
    "token": small,
}


def main() -> int:
    """See the module."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--inputs", type=int, default=100_000, help="in all, shared by the parsers")
    words.add_argument("--seed", type=int, default=0)
    given = words.parse_args()
    logging.disable(logging.CRITICAL)
    for name, tried in TRIED.items():
        begun, rng, count = time.perf_counter(), random.Random(f"{given.seed}/{name}"), given.inputs // len(TRIED) + 1
        for number_ in range(count):
            try:
                tried(rng)
            except Exception:
                print(f"{name}, input {number_} of seed {given.seed}, is neither taken nor refused", file=sys.stderr)
                raise
        print(f"{name}: {count} inputs in {time.perf_counter() - begun:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
