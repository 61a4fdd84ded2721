"""A full cell means all; something is never drawn as nothing."""

import pytest

from hanse.cli.bars import bar, heights, level


@pytest.mark.parametrize(
    ("part", "whole", "drawn"),
    [
        (0, 512, "▁▁▁▁"),
        (1, 512, "▇▁▁▁"),
        (256, 512, "▇▇▁▁"),
        (511, 512, "▇▇▇▁"),
        (512, 512, "▇▇▇▇"),
        (900, 512, "▇▇▇▇"),
    ],
)
def test_bar(part: int, whole: int, drawn: str) -> None:
    assert bar(part, whole, 4) == drawn


@pytest.mark.parametrize(("part", "drawn"), [(0, "▁"), (1, "▂"), (16, "▄"), (31, "▆"), (32, "▇")])
def test_level(part: int, drawn: str) -> None:
    assert level(part, 32) == drawn


def test_few_shares_are_drawn_as_they_are_and_many_are_summed() -> None:
    assert heights([(32, 32), (0, 32)], 8) == "▇▁"
    assert heights([(32, 32)] * 4 + [(0, 32)] * 4, 2) == "▇▁"
    assert heights([(32, 32), (0, 32)] * 4, 4) == "▄▄▄▄"
