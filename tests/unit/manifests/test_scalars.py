"""Unquoted words mean what kubectl makes of them."""

import math

import pytest

from hanse.manifests.scalars import ScalarValue, resolve


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("true", True),
        ("yes", True),
        ("On", True),
        ("y", True),
        ("NO", False),
        ("off", False),
        ("n", False),
        ("yEs", "yEs"),
        ("", None),
        ("~", None),
        ("Null", None),
        ("nUll", "nUll"),
        ("12", 12),
        ("+12", 12),
        ("-12", -12),
        ("010", 8),
        ("-010", -8),
        ("0o17", 15),
        ("0x1F", 31),
        ("-0x1F", -31),
        ("0b101", 5),
        ("1_000", 1000),
        ("08", 8.0),
        ("0", 0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1:30", "1:30"),
        ("2026-01-01", "2026-01-01"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("8Gi", "8Gi"),
        ("1.2.3", "1.2.3"),
        ("-", "-"),
        (".", "."),
        ("e3", "e3"),
        ("0x", "0x"),
        ("0b2", "0b2"),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("9" * 200, "9" * 200),
    ],
)
def test_a_word_means(word: str, value: ScalarValue) -> None:
    found = resolve(word)
    assert found == value
    assert type(found) is type(value)


def test_nan_is_a_number() -> None:
    found = resolve(".nan")
    assert isinstance(found, float)
    assert math.isnan(found)
