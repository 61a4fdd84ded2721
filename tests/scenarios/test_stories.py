"""Every story reads as it is written down, under several orders of callbacks."""

from pathlib import Path
from typing import Final

import pytest

from tests.scenarios.telling import tell
from tests.scenarios.words import parse

FOLDER: Final = Path(__file__).parent
STORIES: Final = sorted(FOLDER.glob("*/*.txt"))
ORDERS: Final = (1, 2)


@pytest.mark.parametrize("path", STORIES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_story(path: Path, rewrite: bool) -> None:
    text = path.read_text(encoding="utf-8")
    story = parse(text)
    for order in ORDERS:
        told = story.written(tell(story, seed=order))
        if rewrite and order == ORDERS[0]:
            path.write_text(told, encoding="utf-8")
            story = parse(told)
        assert told == story.golden()
