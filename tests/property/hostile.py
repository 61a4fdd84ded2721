"""Any message of a kind: what could be parsed, whatever it means; and how many of them are tried.

A decoder is handed what a sender of bad faith could send, which parses as its message and makes no sense beyond that:
numbers at the edges of their types, texts that are keys of a store, lists of nothing.
"""

import os
from typing import Final, TypeVar, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXAMPLES: Final = int(os.environ.get("HANSE_FUZZ_EXAMPLES", "300"))
"""Inputs for each parser."""

SLOW: Final = 20
"""A whole replica is tried with so many times fewer."""

DEEP: Final = 4
MANY: Final = 3

fuzzed: Final = settings(
    max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=True
)
fuzzed_slowly: Final = settings(fuzzed, max_examples=max(10, EXAMPLES // SLOW))

M = TypeVar("M", bound=Message)

_TEXTS: Final = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.sampled_from(
        (
            "",
            "p0",
            "oslo",
            "../../state/x",
            "bindings/p0/x",
            "abcdefgh-0000000000000001",
            "abcdefgh-" + "/" * 16,
            "hanse://agent/oslo",
            "\0",
            "\n{}",
            "é" * 25,
            "x" * 5_000,
        )
    ),
)


def _ints(low: int, high: int) -> st.SearchStrategy[int]:
    return st.one_of(st.integers(low, high), st.sampled_from((0, 1, 2, 8, low, high, max(low, -1))))


_INT32: Final = _ints(-(2**31), 2**31 - 1)
_INT64: Final = _ints(-(2**63), 2**63 - 1)
_SCALARS: Final = {
    FieldDescriptor.CPPTYPE_INT32: _INT32,
    FieldDescriptor.CPPTYPE_INT64: _INT64,
    FieldDescriptor.CPPTYPE_UINT32: _ints(0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: _ints(0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_DOUBLE: st.floats(),
    FieldDescriptor.CPPTYPE_FLOAT: st.floats(width=32),
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
    FieldDescriptor.CPPTYPE_ENUM: _ints(-(2**31), 2**31 - 1),
}


def _value(field: FieldDescriptor, depth: int) -> st.SearchStrategy[object]:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        return _message(field.message_type, depth - 1)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return st.binary(max_size=40)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return _TEXTS
    return _SCALARS[field.cpp_type]


@st.composite
def _message(draw: st.DrawFn, descriptor: Descriptor, depth: int) -> Message:
    made = GetMessageClass(descriptor)()
    fields = [f for f in descriptor.fields if depth > 0 or f.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE]
    for field in (
        draw(st.lists(st.sampled_from(fields), max_size=len(fields), unique_by=lambda f: f.number)) if fields else ()
    ):
        mapped = field.message_type is not None and field.message_type.GetOptions().map_entry
        if mapped:
            key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            for _ in range(draw(st.integers(0, MANY))):
                target, name = getattr(made, field.name), draw(_value(key, depth))
                if value.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
                    target[name].CopyFrom(draw(_value(value, depth)))
                else:
                    target[name] = draw(_value(value, depth))
        elif field.is_repeated:
            getattr(made, field.name).extend(draw(st.lists(_value(field, depth), max_size=MANY)))
        elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            getattr(made, field.name).CopyFrom(draw(_value(field, depth)))
        else:
            setattr(made, field.name, draw(_value(field, depth)))
    return made


def messages(kind: type[M]) -> st.SearchStrategy[M]:
    """Any message of that kind."""
    return _message(cast(Descriptor, kind.DESCRIPTOR), DEEP).map(
        lambda made: kind.FromString(made.SerializeToString())
    )


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Bytes with a few of them changed, left out, or put in; or cut off."""
    body = bytearray(whole)
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, max(0, len(body) - 1)))
        match draw(st.integers(0, 3)):
            case 0 if body:
                body[at] = draw(st.integers(0, 255))
            case 1:
                body[at:at] = draw(st.binary(max_size=6))
            case 2:
                del body[at : at + draw(st.integers(1, 4))]
            case _ if body:
                body[at] ^= 1 << draw(st.integers(0, 7))
    return bytes(body[: draw(st.integers(0, len(body)))]) if draw(st.booleans()) else bytes(body)
