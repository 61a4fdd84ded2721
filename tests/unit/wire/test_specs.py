"""Specs from bytes: refused in one line, and parsed once."""

import pytest

from hanse.model.errors import InvalidArgument
from hanse.model.ids import QueueName
from hanse.model.job import JobSpec, PodSet, PodTemplate
from hanse.model.resources import Resources
from hanse.wire.job import spec_to_wire
from hanse.wire.specs import SPEC_KEPT_BYTES_MAX, spec_from_bytes


def spec(image: str = "trainer") -> JobSpec:
    pods = PodSet("worker", 2, 2, Resources({"nvidia.com/gpu": 8}), template=PodTemplate(image=image))
    return JobSpec("train", QueueName("q"), (pods,))


def test_equal_bytes_give_one_spec() -> None:
    data = spec_to_wire(spec()).SerializeToString()
    assert spec_from_bytes(data) == spec()
    assert spec_from_bytes(bytes(bytearray(data))) is spec_from_bytes(data)


def test_a_large_spec_is_parsed_and_not_kept() -> None:
    large = spec("x" * SPEC_KEPT_BYTES_MAX)
    data = spec_to_wire(large).SerializeToString()
    assert spec_from_bytes(data) == large
    assert spec_from_bytes(data) is not spec_from_bytes(data)


def test_bytes_that_are_no_spec_are_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(InvalidArgument, match="the bytes are no job spec"):
            spec_from_bytes(b"\xff\xff\xff")
