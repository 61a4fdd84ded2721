"""Versions are compared number by number; everything else is as Kubernetes compares it (see the importer's tests)."""

import pytest

from hanse.model.selectors import Operator, Requirement


@pytest.mark.parametrize(
    ("value", "least", "met"),
    [
        ("550.54.15", "550.54", True),
        ("550.54", "550.54.0", True),
        ("560.28.03", "550.54.15", True),
        ("550.9", "550.54", False),
        ("535.183.01", "550.54", False),
        ("v1.30.2-gke.100", "1.30", True),
        ("5.15.0-105-generic", "5.15.1", False),
        ("latest", "550", False),
        (None, "550", False),
    ],
)
def test_a_version_is_the_same_or_newer(value: str | None, least: str, met: bool) -> None:
    labels = {} if value is None else {"driver": value}
    assert Requirement("driver", Operator.VERSION_AT_LEAST, (least,)).matches(labels) is met


def test_a_requirement_without_a_version_is_never_met() -> None:
    assert not Requirement("driver", Operator.VERSION_AT_LEAST, ("new",)).matches({"driver": "1"})
