"""The reference page is what the declarations say."""

from hanse.kit.telemetry.reference import page
from tests.arch.tree import ROOT


def test_the_page_is_up_to_date() -> None:
    written = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    assert written == page(), "run: python -m hanse.kit.telemetry.reference > docs/reference/metrics.md"
