"""What the product tells while a block runs: its spans, and what its metrics count."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hanse.kit.telemetry import TRACER, metrics
from hanse.kit.telemetry.instruments import Buckets, Values
from hanse.kit.telemetry.tracing import Span

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@dataclass
class Told:
    """Spans in the order in which they were told."""

    spans: list[Span] = field(default_factory=list)

    @property
    def stages(self) -> list[str]:
        return [span.name.removeprefix("hanse.") for span in self.spans]

    def one(self, stage: str) -> Span:
        """The only span of that stage."""
        (found,) = [span for span in self.spans if span.name == f"hanse.{stage}"]
        return found


@contextmanager
def telling(ratio: float = 1.0) -> Iterator[Told]:
    """Spans are told while the block runs; of jobs without a traceparent, this share is traced."""
    told = Told()
    TRACER.begin(told.spans.append, ratio=ratio)
    try:
        yield told
    finally:
        TRACER.end()


@dataclass
class Counted:
    """How much was counted since the block began; of a histogram, how many values."""

    before: dict[tuple[str, Values], float]

    def __call__(self, name: str, *values: str) -> float:
        return _counts().get((name, values), 0) - self.before.get((name, values), 0)


@contextmanager
def counting() -> Iterator[Counted]:
    """Metrics are counted by the process; a test looks at what it adds."""
    yield Counted(_counts())


def _counts() -> dict[tuple[str, Values], float]:
    return {
        (reading.instrument.name, values): found.count if isinstance(found, Buckets) else found
        for reading in metrics.REGISTRY.collect()
        for values, found in reading.series.items()
    }
