"""A process whose memory is settled: the collector looks at what is new in small steps, and at nothing else."""

import gc
from collections.abc import Iterator

import pytest

from hanse.kit import process


@pytest.fixture
def untouched() -> Iterator[None]:
    """The collector as it was, afterwards."""
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


def test_no_collection_looks_at_more_than_two_rounds_of_the_youngest(untouched: None) -> None:
    process.settle_memory()
    most = 0

    def look(phase: str, _: dict[str, int]) -> None:
        nonlocal most
        if phase == "start":
            most = max(most, len(gc.get_objects(0)) + len(gc.get_objects(1)))

    gc.callbacks.append(look)
    try:
        kept = [[] for _ in range(6 * process.YOUNG_OBJECTS_MAX)]  # type: ignore[var-annotated]
    finally:
        gc.callbacks.remove(look)
    assert len(kept) == 6 * process.YOUNG_OBJECTS_MAX
    assert process.YOUNG_OBJECTS_MAX <= most <= 2 * process.YOUNG_OBJECTS_MAX + 1_000
