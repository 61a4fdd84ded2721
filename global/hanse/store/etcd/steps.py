"""Pure: how many keys to ask etcd for at a time, so that an answer has about so many bytes.

etcd bounds a range by keys alone. So a listing begins with few keys, or with what keys of the same first path segment
weighed last time, and each step follows what has come so far, growing eightfold at most.
"""

from typing import Final

from hanse.store.contract import RANGE_BYTES_MAX

FIRST_KEYS: Final = 16
"""Of the largest values that a transaction can hold, these are one page."""

GROWTH: Final = 8
SEGMENTS_MAX: Final = 64
"""First path segments that are remembered; the schema has a dozen."""

KEY_BYTES_LEAST: Final = 32
"""A key alone weighs as much, so that empty values do not make a step endless."""


class Steps:
    """What keys have weighed, by first path segment."""

    def __init__(self) -> None:
        self._bytes_per_key: dict[str, float] = {}

    def next_keys(self, start: str, *, keys: int, size_bytes: int) -> int:
        """How many to ask for when a page that begins at ``start`` holds this already."""
        if not keys:
            known = self._bytes_per_key.get(_segment(start))
            return FIRST_KEYS if known is None else max(FIRST_KEYS, int(RANGE_BYTES_MAX / 2 / known))
        room_bytes = RANGE_BYTES_MAX - size_bytes
        return max(1, min(GROWTH * keys, int(room_bytes / _weight(keys, size_bytes))))

    def remember(self, start: str, *, keys: int, size_bytes: int) -> None:
        """A page came out like this."""
        if len(self._bytes_per_key) >= SEGMENTS_MAX:
            self._bytes_per_key.clear()
        if keys:
            self._bytes_per_key[_segment(start)] = _weight(keys, size_bytes)

    def forget(self, start: str) -> None:
        """That was wrong: the answer was too large to be taken."""
        self._bytes_per_key.pop(_segment(start), None)


def _segment(start: str) -> str:
    return start.partition("/")[0]


def _weight(keys: int, size_bytes: int) -> float:
    return KEY_BYTES_LEAST + size_bytes / keys
