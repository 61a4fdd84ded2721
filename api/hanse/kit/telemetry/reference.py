"""The reference page of telemetry, made from the declarations.

    python -m hanse.kit.telemetry.reference > docs/reference/metrics.md

A test compares the page with what this prints, so that it is never out of date.
"""

import sys
from collections.abc import Iterator
from typing import Final

from hanse.kit.telemetry.exposition import metric_name
from hanse.kit.telemetry.instruments import OTHER, SERIES_MAX, AnyInstrument, Histogram, Label
from hanse.kit.telemetry.metrics import REGISTRY
from hanse.kit.telemetry.running import TRACE_RATIO
from hanse.kit.telemetry.tracing import Stage

HEAD: Final = f"""# Metrics and traces

Made by `python -m hanse.kit.telemetry.reference` from the declarations in `api/hanse/kit/telemetry`.

Every process counts all the time and tells nobody unless asked: `--otlp HOST:PORT` sends spans and metrics to an
OpenTelemetry collector (`https://HOST:PORT` for TLS), `--prometheus HOST:PORT` is scraped at `/metrics`. The standard
`OTEL_…` variables are heeded where a setting says nothing. A collector that is down or slow is never waited for: what
a bounded queue cannot hold is dropped, the oldest first, and `hanse.telemetry.dropped` says how much.

No label ever holds a job or a node. An instrument has at most {SERIES_MAX:,} series; what goes beyond, and a value
that a label does not have, is counted as `{OTHER}`.

## Traces

A job is traced from submit to its end, over all processes, if its submitter sent a sampled `traceparent`; it joins
that trace. Of the jobs without one, a share of `--trace-ratio` is traced ({TRACE_RATIO:g} unless told otherwise;
`hanse up`: all of them), each in a trace of its own. Every span carries `hanse.job`, those of an attempt
`hanse.attempt` and `hanse.part`, and where they apply `hanse.pool`, `hanse.revision` and `hanse.reason`. Times are
those of the machine that wrote them: between machines whose clocks differ, stages may overlap or gape by as much. To
find the trace of a job, search for the tag `hanse.job`; log lines about it carry the trace's id.

| span | from when to when, and who tells it |
|---|---|
"""


def page() -> str:
    """The whole page."""
    stages = "\n".join(f"| `hanse.{stage}` | {stage.prose} |" for stage in Stage)
    sections = [f"{HEAD}{stages}\n", "## Metrics\n"]
    for instrument in REGISTRY.instruments.values():
        sections.append("\n".join(_section(instrument)))
    return "\n".join(sections)


def _section(instrument: AnyInstrument) -> Iterator[str]:
    yield f"### `{instrument.name}`\n"
    yield f"{instrument.description}\n"
    yield f"A {instrument.KIND} in `{instrument.unit}`; for Prometheus `{metric_name(instrument)}`.\n"
    if isinstance(instrument, Histogram):
        yield f"Bounds: {', '.join(f'{bound:g}' for bound in instrument.bounds)}.\n"
    if instrument.labels:
        yield "| label | what it holds |\n|---|---|"
        yield "\n".join(_row(label) for label in instrument.labels) + "\n"


def _row(label: Label) -> str:
    listed = ": " + ", ".join(f"`{value}`" for value in label.values) if label.values else ""
    return f"| `{label.name}` | {label.meaning}{listed} |"


if __name__ == "__main__":
    sys.stdout.write(page())
