"""The budget table of the design beside what was measured, for people."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from bench.contract import JsonValue


def show_budget(rows: JsonValue) -> None:
    """Print rows of `bench.path.budget`."""
    table = Table(title="CPU of each gang, in microseconds", title_justify="left")
    table.add_column("processes")
    for name in ("measured", "budget"):
        table.add_column(name, justify="right")
    table.add_column("parts of the budget")
    assert isinstance(rows, Sequence)
    for row in rows:
        assert isinstance(row, Mapping)
        table.add_row(str(row["processes"]), str(row["measured_us"]), str(row["budget_us"]), _parts(row["parts"]))
    Console().print(table)


def _parts(parts: JsonValue) -> str:
    return ", ".join(f"{name} {us}" for name, us in parts.items()) if isinstance(parts, Mapping) else ""
