"""The dashboards of the chart are those of the code, and each panel asks for what there is and says what it shows."""

import re

import pytest

from helm.dashboards.__main__ import FOLDER, files
from helm.dashboards.boards import BOARDS
from helm.dashboards.panels import Board, Panel
from tests.unit.operations.catalogue import check_asked

PANELS = [
    pytest.param(board, panel, id=f"{board.uid}: {panel.title}")
    for board in BOARDS
    for row in board.rows
    for panel in row.panels
]


def test_the_chart_has_what_the_code_says() -> None:
    found = {file.name: file.read_text() for file in FOLDER.iterdir()}
    assert found == files(), "run: python -m helm.dashboards"


@pytest.mark.parametrize(("board", "panel"), PANELS)
def test_a_panel_asks_for_what_there_is_and_says_what_it_shows(board: Board, panel: Panel) -> None:
    assert panel.says.endswith(".")
    for line in panel.lines:
        check_asked(line.expr)
        assert {name for name in re.findall(r"\$(\w+)", line.expr) if not name.startswith("__")} <= {
            variable.name for variable in board.variables
        }
        grouped = {word.strip() for labels in re.findall(r"by \(([^)]*)\)", line.expr) for word in labels.split(",")}
        assert set(re.findall(r"{{(\w+)}}", line.legend)) <= grouped | {"instance"}
