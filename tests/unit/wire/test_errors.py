"""Errors on the wire: each class has one code, and comes back as what it was."""

import pytest

from hanse.model import errors
from hanse.model.errors import HanseError, PermissionDenied, Unavailable
from hanse.wire.errors import code_of, error_from_wire, error_of, error_to_wire

KINDS = [kind for kind in HanseError.__subclasses__() if kind.__module__ == errors.__name__]


def test_every_class_has_a_code_of_its_own() -> None:
    codes = [code_of(kind("x")) for kind in KINDS]
    assert len(set(codes)) == len(KINDS)
    assert code_of(HanseError("x")) not in codes


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_comes_back_as_what_it_was(kind: type[HanseError]) -> None:
    error = error_from_wire(error_to_wire(kind("what", reason="WHY", path="a.b", line=7)))
    assert type(error) is kind
    assert (error.message, error.reason, error.path, error.line) == ("what", "WHY", "a.b", 7)


def test_codes_of_transports() -> None:
    assert type(error_of(4, "late")) is Unavailable
    assert type(error_of(16, "who")) is PermissionDenied
    assert type(error_of(2, "strange")) is HanseError
