"""What the product tells of itself: metrics that are always counted, and spans of sampled jobs.

* `instruments`: counters, gauges and histograms as plain tables. Adding to one is an addition in a dictionary,
  whether anybody reads it or not; nothing here has a clock, a thread or a lock.
* `metrics`: every instrument of the product, declared once. `docs/reference/metrics.md` is made from it.
* `trace_context`, `tracing`: a job's W3C traceparent, and the spans of its way. Off until a process turns it on.
* `running`: what a process turns on: OTLP out (`otlp`, `outlet`), a Prometheus endpoint (`endpoint`, `exposition`).

Shells import `metrics` and `TRACER`; pure cores know of neither.
"""

from hanse.kit.telemetry import metrics
from hanse.kit.telemetry.tracing import TRACER, Stage

__all__ = ["TRACER", "Stage", "metrics"]
