"""How a panel of ours looks: one kind for what changes over time, one for a number that is told at a glance.

Queries are of Prometheus. `$__rate_interval` is Grafana's own: long enough for the interval of the scrape.
"""

from dataclasses import dataclass
from typing import Final

from grafana_foundation_sdk.builders import common, prometheus, stat, timeseries
from grafana_foundation_sdk.builders import dashboard as dashboards
from grafana_foundation_sdk.cog import builder, variants
from grafana_foundation_sdk.models import common as looks
from grafana_foundation_sdk.models import dashboard

SOURCE: Final = dashboard.DataSourceRef(type_val="prometheus", uid="${source}")
WIDTH: Final = 12
HEIGHT: Final = 8
STAT_WIDTH: Final = 4
STAT_HEIGHT: Final = 4
RATE: Final = "$__rate_interval"
REFRESH: Final = "30s"


@dataclass(frozen=True, slots=True)
class Line:
    """One query of a panel, and what its lines are called: text with `{{label}}`."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    Attributes:
        says: what it shows, and what to make of it.
        unit: of Grafana: `short`, `percentunit`, `s`, `ops`, `bytes`.
        stacked: lines are parts of a whole.
        glance: a number instead of lines.
        rare: shows nothing while nothing of the kind happens.
    """

    title: str
    says: str
    lines: tuple[Line, ...]
    unit: str = "short"
    stacked: bool = False
    glance: bool = False
    rare: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the top of a dashboard: values of a label of a metric."""

    name: str
    label: str
    metric: str


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard; `uid` is also the name of its file."""

    uid: str
    title: str
    says: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = ()


def built(board: Board) -> dashboard.Dashboard:
    """The dashboard as Grafana takes it."""
    made = (
        dashboards.Dashboard(board.title)
        .uid(board.uid)
        .description(board.says)
        .tags(["hanse"])
        .refresh(REFRESH)
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboards.DatasourceVariable("source").label("Prometheus").type("prometheus"))
    )
    for variable in board.variables:
        made = made.with_variable(_choice(variable))
    for row in board.rows:
        made = made.with_row(dashboards.Row(row.title))
        for panel in row.panels:
            made = made.with_panel(_stat(panel) if panel.glance else _lines(panel))
    return made.build()


def _choice(variable: Variable) -> dashboards.QueryVariable:
    return (
        dashboards.QueryVariable(variable.name)
        .label(variable.name.capitalize())
        .datasource(SOURCE)
        .query(f"label_values({variable.metric}, {variable.label})")
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value(".*")
    )


def _targets(panel: Panel) -> list[builder.Builder[variants.Dataquery]]:
    return [
        prometheus.Dataquery().expr(line.expr).legend_format(line.legend).ref_id(chr(ord("A") + number))
        for number, line in enumerate(panel.lines)
    ]


def _lines(panel: Panel) -> timeseries.Panel:
    made = (
        timeseries.Panel()
        .title(panel.title)
        .description(panel.says)
        .datasource(SOURCE)
        .unit(panel.unit)
        .min(0)
        .span(WIDTH)
        .height(HEIGHT)
        .line_width(1)
        .fill_opacity(40 if panel.stacked else 10)
        .show_points(looks.VisibilityMode.NEVER)
        .legend(
            common.VizLegendOptions()
            .display_mode(looks.LegendDisplayMode.LIST)
            .placement(looks.LegendPlacement.BOTTOM)
        )
    )
    if panel.stacked:
        made = made.stacking(common.StackingConfig().mode(looks.StackingMode.NORMAL))
    return made.targets(_targets(panel))


def _stat(panel: Panel) -> stat.Panel:
    return (
        stat.Panel()
        .title(panel.title)
        .description(panel.says)
        .datasource(SOURCE)
        .unit(panel.unit)
        .span(STAT_WIDTH)
        .height(STAT_HEIGHT)
        .targets(_targets(panel))
    )
