"""What a record keeps comes back; what others wrote says nothing."""

import pytest

from hanse.agent.core.payload import Payload, decode_payload, encode_payload
from hanse.agent.core.records import PAYLOAD_BYTES_MAX
from hanse.model.ids import NodeName
from hanse.model.resources import Resources

GPUS = Resources({"nvidia.com/gpu": 8})
RESERVED = tuple((NodeName(f"node-{i:05}.example.com"), GPUS) for i in range(5_000))


@pytest.mark.parametrize(
    "payload",
    [
        Payload(),
        Payload(True, 1_700_000_000_000),
        Payload(False, 7, (RESERVED,)),
        Payload(False, 7, (RESERVED[:7], (), RESERVED[7:])),
        Payload(False, 7, ((), RESERVED)),
        Payload(False, 7, ((), ()), ((), (0, 3, -1))),
        Payload(True, 7, (RESERVED[:3], ()), (tuple(range(64)) * 200, ())),
    ],
)
def test_payload_comes_back(payload: Payload) -> None:
    data = encode_payload(payload)
    assert len(data) <= PAYLOAD_BYTES_MAX
    assert decode_payload(data) == payload


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x04" * 20, b"\xff" * 20])
def test_what_another_version_wrote_says_nothing(data: bytes) -> None:
    assert decode_payload(data) == Payload()
