import pytest

from hanse.store import limits
from hanse.store.contract import KEYS_END, Delete, ModRevisionIs, Put, StoreLimit, Txn, key_after, prefix_end


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        ("bindings/", "bindings0"),
        ("a", "b"),
        ("", KEYS_END),
        ("a\U0010ffff", "b"),
        ("\U0010ffff", KEYS_END),
        ("x\ud7ff", "x\ue000"),
        ("ä", "å"),
    ],
)
def test_prefix_end(prefix: str, end: str) -> None:
    assert prefix_end(prefix) == end


def test_key_after_is_the_least_string_above() -> None:
    assert "a" < key_after("a") < "a\x01" < "aa"


def test_sizes_count_guards_twice_and_utf8() -> None:
    overhead = limits.ENTRY_OVERHEAD_BYTES
    txn = Txn((ModRevisionIs("ß", 0),), (Put("ab", b"xyz"), Delete("c")))
    assert limits.txn_bytes(txn) == 2 * (2 + overhead) + (2 + 3 + overhead) + (1 + overhead)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: limits.check_key(""), "empty"),
        (lambda: limits.check_key("k" * 1025), "1025 bytes, the limit is 1024"),
        (lambda: limits.check_key("\udc80"), "lone surrogate"),
        (lambda: limits.check_txn(Txn(ops=(Put("k", b""), Delete("k")))), "two operations on key 'k'"),
        (lambda: limits.check_txn(Txn(ops=(Put("k", bytes(2_000_000)),))), "the limit is 1500000"),
        (lambda: limits.check_range("a", "b", limit=0, at_revision=0), "limit is 0"),
        (lambda: limits.check_at_revision(9, current=8), "revision 9: the store is at 8"),
        (lambda: limits.check_compact(9, current=8), "revision 9: it must be 0 to 8"),
        (lambda: limits.check_watch("b", "a", from_revision=1), "empty"),
        (lambda: limits.check_ttl(-1.0), "above 0"),
    ],
)
def test_refusals_say_what_and_how_much(call: "object", words: str) -> None:
    assert callable(call)
    with pytest.raises(StoreLimit) as caught:
        call()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
