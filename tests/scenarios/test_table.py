"""docs/scenarios.md is true: what it names exists, and every story is in it."""

import re
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parents[1]
PAGE: Final = (TESTS.parent / "docs" / "scenarios.md").read_text(encoding="utf-8")
STORIES: Final = {f"{path.parent.name}/{path.stem.split('-')[0]}" for path in Path(__file__).parent.glob("*/*.txt")}
NAMED: Final = set(re.findall(r"`((?:federation|gang)/[A-Z]\d\d[a-z]?)`", PAGE))


def test_every_story_is_named_and_exists() -> None:
    assert NAMED == STORIES


def test_every_test_that_is_named_exists() -> None:
    missing = [
        f"{file}::{function}"
        for folder, file, function in re.findall(r"`(e2e/)?(test_\w+\.py)::(test_\w+)`", PAGE)
        if not any(
            re.search(rf"def {function}\b", path.read_text(encoding="utf-8"))
            for path in (TESTS.parent / folder if folder else TESTS).rglob(file)
        )
    ]
    assert missing == []


def test_every_scenario_has_one_row() -> None:
    for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:3]:
        groups = re.findall(r"^### ([A-K])\. .*\n((?:\|.*\n)*)", part, flags=re.MULTILINE)
        for letter, rows in groups:
            cells = [row.split("|")[1].strip() for row in rows.splitlines()[2:]]
            ids = [each.strip() for cell in cells for each in cell.replace(" to ", ",").split(",")]
            assert all(re.fullmatch(rf"{letter}\d+", each) for each in ids), (letter, ids)
            assert len(ids) == len(set(ids)), (letter, ids)
