"""Records as entries of a ledger."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.agent.cluster.kubernetes.stored import PLAIN_CHARS_MAX, Stored, decode, encode
from hanse.agent.cluster.port import GangRecord, SetPlace
from hanse.model.ids import FlavorName, NodeName
from hanse.model.resources import Resources
from tests.unit.agent_cluster.objects import GANG, record

SETS = st.builds(
    SetPlace,
    st.sampled_from(["leader", "worker"]),
    st.integers(0, 10),
    st.lists(st.sampled_from(["a", "b", "c"]).map(NodeName), min_size=1, max_size=20).map(tuple),
    st.just(FlavorName("h100")),
    st.dictionaries(st.sampled_from(["cpu", "nvidia.com/gpu"]), st.integers(1, 2**50)).map(Resources),
)
RECORDS = st.builds(
    GangRecord,
    st.just(GANG),
    st.integers(0, 2**60),
    st.lists(SETS, max_size=3).map(tuple),
    st.booleans(),
    st.binary(max_size=10_000),
)
STORED = st.builds(
    Stored,
    RECORDS,
    st.sampled_from(["", "jobs"]),
    st.booleans(),
    st.integers(0, 600),
)


@given(STORED)
def test_what_is_written_is_read(stored: Stored) -> None:
    assert decode(GANG, encode(stored)) == stored


def test_a_short_entry_can_be_read_by_people_and_a_long_one_is_compressed() -> None:
    short, long = Stored(record("n0")), Stored(record(*(f"node-{n}" for n in range(2_000))))
    assert encode(short).startswith("{")
    assert not encode(long).startswith("{")
    assert len(encode(long)) < 2 * PLAIN_CHARS_MAX < 2_000 * len("node-")


def test_equal_neighbours_are_written_once() -> None:
    assert encode(Stored(record(*["n0"] * 8, *["n1"] * 8))).count('"n0"') == 1


@pytest.mark.parametrize("text", ["", "z", "zAAAA", "{}", "no entry", '{"revision":1,"sets":[{"name":1}]}'])
def test_a_damaged_entry_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode(GANG, text)


def test_a_start_keeps_the_namespace_of_the_first() -> None:
    first = Stored(record("n0", started=False)).started("jobs")
    assert (first.record.started, first.namespace) == (True, "jobs")
    assert first.started("elsewhere") == first


def test_a_gang_whose_pods_an_older_agent_made_is_not_taken_for_one_that_is_to_be_started() -> None:
    """Its pods run, and nobody here would know them."""
    older = encode(Stored(record("n0"), "jobs")).replace('"namespace":"jobs"', '"namespace":"jobs","complete":"1.10"')
    with pytest.raises(ValueError, match="end it with that agent"):
        decode(GANG, older)
