"""Every story reads as it is written down, under several orders of callbacks."""

from pathlib import Path
from typing import Final

import pytest

from tests.scenarios.telling import tell
from tests.scenarios.words import parse

FOLDER: Final = Path(__file__).parent
ORDERS: Final = (1, 2)


def stories() -> list[object]:
    """All of them; one that does not come true yet must fail until it does, and then lose its remark."""
    found: list[object] = []
    for path in sorted(FOLDER.glob("*/*.txt")):
        why = parse(path.read_text(encoding="utf-8")).not_yet
        marks = [pytest.mark.xfail(reason=why, raises=AssertionError, strict=True)] if why else []
        found.append(pytest.param(path, marks=marks, id=f"{path.parent.name}/{path.stem}"))
    return found


@pytest.mark.parametrize("path", stories())
def test_story(path: Path, rewrite: bool) -> None:
    story = parse(path.read_text(encoding="utf-8"))
    for order in ORDERS:
        told = story.written(tell(story, seed=order))
        if rewrite and order == ORDERS[0] and not story.not_yet:
            path.write_text(told, encoding="utf-8")
            story = parse(told)
        assert told == story.golden()
