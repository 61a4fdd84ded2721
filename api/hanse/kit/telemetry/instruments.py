"""Counters, gauges and histograms as plain tables, aggregated where they are recorded.

Recording is one addition in a dictionary: a fraction of a microsecond, the same whether telemetry is on or off, with
nothing that a simulator would notice. Exporters read the tables: `Registry.collect` copies them on the event loop, so
no lock is needed and what is read belongs together.

* A series is a tuple of label values in the order in which the instrument declares its labels.
* Label values are bounded. An enumerated label takes only what it lists; a label of names (pools, flavors) takes what
  comes, but an instrument has at most SERIES_MAX series. What does not fit is counted as OTHER, never refused.
* A gauge is a level: it is asked for at each collection, by whoever `observe`d the registry, and forgotten after it.
  So a pool that has left has no value, instead of its last one for ever.

Rejected: the SDK's instruments. A record costs 6.5 µs with them, a third of what a whole gang may cost in telemetry;
their observable ones are called on a thread of the exporter, while the loop changes what they look at.
"""

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final, Generic, TypeAlias, TypeVar

log = logging.getLogger(__name__)

OTHER: Final = "other"
"""Stands for a label value that is not among the declared ones, or for a series beyond the limit."""

SERIES_MAX: Final = 2_000
"""Series of one instrument: a thousand pools with two states each."""

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds of histograms of what computers wait for."""

LONG_SECONDS: Final = (0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0, 7_200.0, 28_800.0, 86_400.0, 604_800.0)
"""Bounds of histograms of what people wait for."""

Values: TypeAlias = tuple[str, ...]
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Label:
    """One dimension of an instrument.

    Attributes:
        name: dotted, as OpenTelemetry names attributes.
        values: all that there can be; empty for names of things, which are bounded in number.
    """

    name: str
    meaning: str
    values: Values = ()

    def bounded(self, value: str) -> str:
        """The value itself if the label may have it."""
        return value if not self.values or value in self.values else OTHER


class Instrument(Generic[V]):
    """What all kinds share.

    Attributes:
        name: dotted, as OpenTelemetry names instruments.
        unit: UCUM: `s`, `By`, or what is counted in braces.
        series: the table: a value for each tuple of label values.
    """

    KIND: ClassVar[str] = ""

    def __init__(self, name: str, unit: str, description: str, *labels: Label) -> None:
        self.name = name
        self.unit = unit
        self.description = description
        self.labels = labels
        self.series: dict[Values, V] = {}

    def admitted(self, values: Values) -> Values:
        """The series in which these values count, on the way that is taken once for each new series."""
        assert len(values) == len(self.labels), f"{self.name} has {len(self.labels)} labels, not {values}"
        bounded = tuple([label.bounded(value) for label, value in zip(self.labels, values, strict=True)])
        if bounded not in self.series and len(self.series) >= SERIES_MAX:
            return (OTHER,) * len(values)
        return bounded


class Counter(Instrument[float]):
    """A sum that only grows."""

    KIND = "counter"

    def add(self, amount: float = 1, *values: str) -> None:
        """Count so many more."""
        try:
            self.series[values] += amount
        except KeyError:
            series = self.admitted(values)
            self.series[series] = self.series.get(series, 0) + amount

    def reach(self, total: float, *values: str) -> None:
        """The sum is kept elsewhere, and has come to this."""
        self.series[self.admitted(values)] = total

    def value(self, *values: str) -> float:
        """The sum until now; 0 for what was never counted."""
        return self.series.get(values, 0)


class Gauge(Instrument[float]):
    """A level, told at each collection."""

    KIND = "gauge"

    def set(self, level: float, *values: str) -> None:
        """The level is this now."""
        self.series[self.admitted(values)] = level

    def add(self, amount: float, *values: str) -> None:
        """So much more belongs to the level that is being told now: several who observe may add to one."""
        series = self.admitted(values)
        self.series[series] = self.series.get(series, 0) + amount


class Buckets:
    """How often values fell between two bounds, and their sum."""

    __slots__ = ("counts", "total")

    def __init__(self, counts: list[int], total: float = 0.0) -> None:
        self.counts = counts
        self.total = total

    @property
    def count(self) -> int:
        """Of all values."""
        return sum(self.counts)


class Histogram(Instrument[Buckets]):
    """A distribution over fixed bounds; a value that equals a bound lies below it."""

    KIND = "histogram"

    def __init__(
        self, name: str, unit: str, description: str, *labels: Label, bounds: Sequence[float] = SECONDS
    ) -> None:
        super().__init__(name, unit, description, *labels)
        self.bounds = tuple(bounds)

    def record(self, value: float, *values: str) -> None:
        """One more value."""
        found = self.series.get(values)
        if found is None:
            found = self.series.setdefault(self.admitted(values), Buckets([0] * (len(self.bounds) + 1)))
        found.counts[bisect_left(self.bounds, value)] += 1
        found.total += value


AnyInstrument: TypeAlias = Counter | Gauge | Histogram
I = TypeVar("I", Counter, Gauge, Histogram)  # noqa: E741 - the instrument that is declared


@dataclass(frozen=True, slots=True)
class Reading:
    """One instrument as it was at a collection; the values are copies."""

    instrument: AnyInstrument
    series: dict[Values, float] | dict[Values, Buckets]


class Registry:
    """All instruments of a process, and who tells the gauges."""

    def __init__(self) -> None:
        self.instruments: dict[str, AnyInstrument] = {}
        self._observers: list[Callable[[], None]] = []

    def declare(self, instrument: I) -> I:
        """Take an instrument in.

        Raises:
            ValueError: one of that name is there.
        """
        if instrument.name in self.instruments:
            raise ValueError(f"{instrument.name} is declared twice")
        self.instruments[instrument.name] = instrument
        return instrument

    @contextmanager
    def observed(self, observer: Callable[[], None]) -> Iterator[None]:
        """While the block runs, `observer` is called at each collection, on the event loop, to tell its gauges."""
        self._observers.append(observer)
        try:
            yield
        finally:
            self._observers.remove(observer)

    def collect(self) -> tuple[Reading, ...]:
        """Everything, as of now. An observer that fails costs its own gauges."""
        for instrument in self.instruments.values():
            if isinstance(instrument, Gauge):
                instrument.series.clear()
        for observer in tuple(self._observers):
            try:
                observer()
            except Exception:
                log.exception("telemetry_observer_failed")
        return tuple(Reading(one, _copied(one)) for one in self.instruments.values())


def _copied(instrument: AnyInstrument) -> dict[Values, float] | dict[Values, Buckets]:
    if isinstance(instrument, Histogram):
        return {key: Buckets(list(found.counts), found.total) for key, found in instrument.series.items()}
    return dict(instrument.series)
