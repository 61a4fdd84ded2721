"""What is written in the tree holds: links lead somewhere, named files exist, nothing names one machine."""

import re
from pathlib import Path
from typing import Final

import pytest

from tests.arch.tree import ROOT, project_files, text_of

# This file is the only one that may hold these words, since it has to name them.
FORBIDDEN: Final = {
    "a path of one machine": re.compile(r"/(work|root|home/\w+|Users)/"),
    "a design page outside the tree": re.compile("shared/(design|scenarios)"),
    "a package registry's host": re.compile(r"pypi\.|pythonhosted\.|registry\.npmjs|proxy\.golang"),
    "a note to do something later": re.compile(r"\b(TODO|FIXME|XXX)\b"),
    "a conflict left in the text": re.compile("^(<{7}|>{7}) ", re.MULTILINE),
}
SELF: Final = Path(__file__).resolve()
LOCK_FILE: Final = ROOT / "uv.lock"
LOCKED_HOSTS: Final = frozenset({"pypi.org", "files.pythonhosted.org"})
LINK: Final = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)|!\[[^\]\n]*\]\(([^)\s]+)\)")
NAMED_PATH: Final = re.compile(r"`((?:api|global|pool_agent|proto|tests|docs|bench|helm|\.ci)/[\w./-]+)`")
HEADING: Final = re.compile(r"^#+ +(.+?)\s*$", re.MULTILINE)
FENCE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """Every Markdown file of the project."""
    return [path for path in project_files() if path.suffix == ".md"]


def names(paths: list[Path]) -> list[str]:
    """Paths as test ids."""
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_holds(what: str) -> None:
    texts = ((path, text_of(path)) for path in project_files() if path not in {LOCK_FILE, SELF})
    held = (
        f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()}"
        for path, text in texts
        if text is not None
        for match in FORBIDDEN[what].finditer(text)
    )
    assert list(held) == []


def test_lock_file_names_only_public_hosts() -> None:
    hosts = set(re.findall(r"https?://([^/\"]+)", LOCK_FILE.read_text(encoding="utf-8")))
    assert hosts <= LOCKED_HOSTS


@pytest.mark.parametrize("page", pages(), ids=names(pages()))
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = [first or second for first, second in LINK.findall(prose)]
    assert [target for target in targets if not leads_somewhere(page, target)] == []


def leads_somewhere(page: Path, target: str) -> bool:
    """Whether a link's file exists, and its anchor is a heading there. The web is not asked."""
    if re.match(r"[a-z]+:", target):
        return True
    name, _, anchor = target.partition("#")
    file = (page.parent / name).resolve() if name else page
    if not file.exists():
        return False
    return not anchor or anchor in anchors(file)


def anchors(file: Path) -> set[str]:
    """The anchors that a Markdown viewer gives to a page's headings."""
    headings = HEADING.findall(FENCE.sub("", file.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", pages(), ids=names(pages()))
def test_paths_that_a_page_names_exist(page: Path) -> None:
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    named = [path for path in NAMED_PATH.findall(prose) if "NAME" not in path and "NNNN" not in path]
    assert [path for path in named if not (ROOT / path).exists() and not path.startswith("bench/out")] == []


def test_decision_records_are_numbered_without_gaps() -> None:
    records = sorted(path.name for path in (ROOT / "docs/adr").glob("*.md"))
    assert [int(name[:4]) for name in records] == list(range(1, len(records) + 1))


@pytest.mark.parametrize(("page", "folder"), [("decisions.md", "adr"), ("runbooks.md", "operations")])
def test_every_page_of_a_folder_is_listed(page: str, folder: str) -> None:
    told = (ROOT / "docs" / page).read_text(encoding="utf-8")
    pages_there = sorted(path.name for path in (ROOT / "docs" / folder).glob("*.md"))
    assert [name for name in pages_there if f"]({folder}/{name})" not in told] == []
