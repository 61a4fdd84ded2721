"""The page about batch scripts names every option."""

from pathlib import Path

from hanse.manifests.sbatch.options import OPTIONS

PAGE = Path(__file__).parents[4] / "docs/reference/sbatch.md"


def test_every_option_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in OPTIONS if f"--{name}" not in text] == []
