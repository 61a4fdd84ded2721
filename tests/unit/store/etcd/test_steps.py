"""How many keys a listing asks for at a time."""

from hanse.store.contract import RANGE_BYTES_MAX
from hanse.store.etcd.steps import FIRST_KEYS, GROWTH, SEGMENTS_MAX, Steps


def test_it_begins_with_few() -> None:
    assert Steps().next_keys("state/a", keys=0, size_bytes=0) == FIRST_KEYS


def test_it_grows_while_values_are_small() -> None:
    assert Steps().next_keys("state/a", keys=16, size_bytes=1_000) == GROWTH * 16


def test_it_asks_for_what_still_has_room() -> None:
    assert (
        Steps().next_keys("spec/a", keys=10, size_bytes=10 * 1_000_000) == (RANGE_BYTES_MAX - 10_000_000) // 1_000_032
    )


def test_it_never_asks_for_none() -> None:
    assert Steps().next_keys("spec/a", keys=16, size_bytes=RANGE_BYTES_MAX + 1) == 1


def test_it_remembers_by_first_segment() -> None:
    steps = Steps()
    steps.remember("state/a", keys=1_000, size_bytes=64_000)
    assert steps.next_keys("state/zzz", keys=0, size_bytes=0) == RANGE_BYTES_MAX // 2 // 96
    assert steps.next_keys("spec/a", keys=0, size_bytes=0) == FIRST_KEYS
    steps.forget("state/x")
    assert steps.next_keys("state/a", keys=0, size_bytes=0) == FIRST_KEYS


def test_heavy_keys_do_not_stop_it() -> None:
    steps = Steps()
    steps.remember("spec/a", keys=2, size_bytes=20_000_000)
    assert steps.next_keys("spec/a", keys=0, size_bytes=0) == FIRST_KEYS


def test_it_remembers_a_bounded_number() -> None:
    steps = Steps()
    for n in range(10 * SEGMENTS_MAX):
        steps.remember(f"{n}/", keys=1, size_bytes=1)
    assert len(steps._bytes_per_key) <= SEGMENTS_MAX


def test_an_empty_page_teaches_nothing() -> None:
    steps = Steps()
    steps.remember("state/", keys=0, size_bytes=0)
    assert steps.next_keys("state/", keys=0, size_bytes=0) == FIRST_KEYS
