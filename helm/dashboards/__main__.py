"""Writes the dashboards into the chart: `python -m helm.dashboards`."""

from pathlib import Path
from typing import Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from helm.dashboards.boards import BOARDS
from helm.dashboards.panels import built

FOLDER: Final = Path(__file__).resolve().parents[1] / "hanse" / "files" / "dashboards"


def files() -> dict[str, str]:
    """The text of every file by its name."""
    encoder = JSONEncoder(sort_keys=True, indent=1)
    return {f"{board.uid}.json": encoder.encode(built(board)) + "\n" for board in BOARDS}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
