"""What a user is told when the store cannot, or will not, do what a call needs."""

import pytest

from hanse.apiserver.failures import told
from hanse.model.errors import HanseError, OutOfRange, ResourceExhausted, Unavailable
from hanse.store.contract import Compacted, StoreError, StoreFull, StoreUnavailable


@pytest.mark.parametrize(
    ("error", "kind", "reason", "words"),
    [
        (StoreUnavailable("no quorum"), Unavailable, "STORE_UNAVAILABLE", "try again"),
        (StoreFull("etcd is out of space: defragment it"), ResourceExhausted, "STORE_FULL", "defragment it"),
        (Compacted(7), OutOfRange, "COMPACTED", "list again"),
    ],
)
def test_a_store_s_refusal_says_whether_and_how_to_go_on(
    error: StoreError, kind: type[HanseError], reason: str, words: str
) -> None:
    answer = told(error)
    assert (type(answer), answer.reason) == (kind, reason)
    assert words in answer.message
