"""Values as messages, and back."""

import pytest

from hanse.etcd.v3 import rpc_pb2 as pb
from hanse.store.contract import (
    TXN_BYTES_MAX,
    TXN_OPS_MAX,
    Conflict,
    Delete,
    EventKind,
    ModRevisionIs,
    Put,
    StoreUnavailable,
    Txn,
)
from hanse.store.etcd import codec
from hanse.store.limits import txn_bytes

ETCD_REQUEST_BYTES_MAX = 1_572_864


def test_a_transaction_compares_and_does_and_nothing_else() -> None:
    txn = Txn((ModRevisionIs("a", 7), ModRevisionIs("ß", 0)), (Put("a", b"1", 9), Delete("b")))
    assert codec.txn_request(txn) == pb.TxnRequest(
        compare=[
            pb.Compare(result=pb.Compare.EQUAL, target=pb.Compare.MOD, key=b"a", mod_revision=7),
            pb.Compare(result=pb.Compare.EQUAL, target=pb.Compare.MOD, key="ß".encode(), mod_revision=0),
        ],
        success=[
            pb.RequestOp(request_put=pb.PutRequest(key=b"a", value=b"1", lease=9)),
            pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=b"b")),
        ],
    )


def test_why_a_transaction_did_not_pass_is_read_once_for_each_key_where_it_did_not() -> None:
    guards = (ModRevisionIs("a", 7), ModRevisionIs("ß", 0), ModRevisionIs("a", 8))
    assert codec.conflict_request(guards, revision=12) == pb.TxnRequest(
        success=[
            pb.RequestOp(request_range=pb.RangeRequest(key=b"a", revision=12, keys_only=True)),
            pb.RequestOp(request_range=pb.RangeRequest(key="ß".encode(), revision=12, keys_only=True)),
        ]
    )


def test_the_largest_transaction_fits_etcd() -> None:
    guards = tuple(ModRevisionIs(f"{n:03}" + "k" * 1_000, 2**62) for n in range(TXN_OPS_MAX))
    rest = TXN_BYTES_MAX - txn_bytes(Txn(guards, (Put("k", b""),)))
    txn = Txn(guards, (Put("k", bytes(rest)),))
    assert txn_bytes(txn) == TXN_BYTES_MAX
    assert codec.txn_request(txn).ByteSize() < ETCD_REQUEST_BYTES_MAX


def test_a_conflict_names_every_guarded_key() -> None:
    response = pb.TxnResponse(
        header=pb.ResponseHeader(revision=15),
        responses=[
            pb.ResponseOp(response_range=pb.RangeResponse(kvs=[pb.KeyValue(key=b"a", mod_revision=5)])),
            pb.ResponseOp(response_range=pb.RangeResponse()),
        ],
    )
    guards = (ModRevisionIs("a", 1), ModRevisionIs("b", 1))
    assert codec.conflict(guards, response, revision=12) == Conflict(12, {"a": 5, "b": 0})


def test_a_range_from_the_beginning_has_a_key() -> None:
    request = codec.range_request("", "b", limit=5, revision=3, keys_only=True)
    assert (request.key, request.range_end, request.limit, request.revision) == (b"\0", b"b", 5, 3)


def test_a_watch_begins_one_revision_early() -> None:
    """Whatever was compacted at the very revision is then told, not missed."""
    for wanted, asked in ((10, 9), (2, 1), (1, 1)):
        request = codec.watch_request("a", "b", from_revision=wanted, watch_id=3)
        assert request.create_request.start_revision == asked


def test_events_before_the_wanted_revision_are_left_out() -> None:
    found = [
        pb.Event(type=pb.Event.PUT, kv=pb.KeyValue(key=b"a", value=b"1", create_revision=4, mod_revision=4)),
        pb.Event(type=pb.Event.DELETE, kv=pb.KeyValue(key=b"a", mod_revision=5)),
    ]
    (event,) = codec.events(found, from_revision=5)
    assert event.kind is EventKind.DELETE
    assert (event.kv.key, event.kv.value, event.kv.create_revision, event.kv.mod_revision) == ("a", b"", 0, 5)


def test_a_key_that_is_no_text_is_refused_by_name() -> None:
    kv = pb.KeyValue(key=b"\xff\xfe", mod_revision=4)
    with pytest.raises(StoreUnavailable, match=r"xff.*which is not text"):
        codec.key_values([kv])
    with pytest.raises(StoreUnavailable, match=r"xff.*which is not text"):
        codec.events([pb.Event(kv=kv)], from_revision=1)
