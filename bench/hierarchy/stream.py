"""Gangs as four published training clusters had them: sizes, durations and share of GPU time by size.

Each tenant is one of the clusters TENANTS and brings an equal share of the offered GPU time, so small jobs make the
count and large gangs the load. Sizes follow the cluster's distribution. Durations are log-normal with the cluster's
sigma, cut at DURATION_MAX_S; for each size their mean is such that the published share of GPU time of that size
comes out, and over all sizes the cluster's mean duration. Arrivals come in bursts with the published index of
dispersion over ten minutes.

The run begins in the middle of things: at time 0 there arrive the gangs that a fleet without limits would be running,
with what is left of their durations (the residual life of a renewal process), so the offered load is what it should
be from the first moment on. Numbers, sizes and durations are drawn in strata, so that the few gangs that make half of
the load do not make one seed a day of 80 % and the next one of 110 %.

A gang of up to 8 GPUs is one pod, a larger one has pods of 8; those that go to NVL72 racks have pods of up to 4. A
pod stays within its share of the host's other resources. What gangs accept: see MENU and REQUIRED. What not even the
empty fleet could hold is left out and counted.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

from hanse.model.ids import FlavorName, JobId, QueueUid
from hanse.model.job import Topology
from hanse.model.request import GangRequest, SetRequest, class_hash
from hanse.model.resources import CPU, MEMORY, NVIDIA_GPU, Resources
from hanse.model.selectors import Selector

TENANTS: Final = ("Seren", "Kalos", "Philly", "Helios")
"""PAI is left out: 97 % of its jobs have one GPU, and 0 % more than a host."""

DURATION_MAX_S: Final = 2 * 86_400.0
BURST_S: Final = 600.0
HOST_GPUS: Final = 8
NVL_GPUS: Final = 4
POD_CPU_MILLI: Final = 16_000  # for each GPU, as the next
POD_MEMORY_BYTES: Final = 128 * 2**30

Floats = npt.NDArray[np.float64]
Fits = Callable[[GangRequest], bool]
Draw = Callable[[np.random.Generator, "_Kind", int], list[float]]
_NORMAL: Final = NormalDist()


@dataclass(frozen=True, slots=True)
class Choice:
    """What a part of the gangs accepts, in order of preference."""

    share: float
    flavors: tuple[str, ...]


MENU: Final = (
    Choice(0.56, ("h100", "h800", "a100")),
    Choice(0.16, ("h800", "h100")),
    Choice(0.14, ("h100",)),
    Choice(0.06, ("a100",)),
    Choice(0.04, ("h800",)),
    Choice(0.04, ("gb200",)),
)
REQUIRED: Final = (("", 0.7), ("block", 0.2), ("rack", 0.1))
"""The level of which one domain must hold a gang of several pods, and for which part of the gangs."""


@dataclass(frozen=True, slots=True)
class Gang:
    """One job of the stream.

    Attributes:
        arrival_s: 0 for those that the run begins with.
    """

    job: JobId
    queue: QueueUid
    request: GangRequest
    class_hash: int
    gpus: int
    arrival_s: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class Stream:
    """Gangs in the order of arrival.

    Attributes:
        left_out: gangs that not even the empty fleet could hold.
    """

    gangs: tuple[Gang, ...]
    left_out: int

    def offered_gpus(self, horizon_s: float) -> float:
        """GPUs that would be busy on the average if every gang ran when it came."""
        asked = sum(g.gpus * min(g.duration_s, horizon_s - g.arrival_s) for g in self.gangs)
        return asked / horizon_s


@dataclass(frozen=True, slots=True)
class _Kind:
    """Gangs of one tenant that differ in their durations only."""

    queue: QueueUid
    share: float  # of the tenant's jobs
    request: GangRequest
    mean_s: float
    sigma: float
    fits: bool

    @property
    def load(self) -> float:
        """GPU-seconds that an average job of the tenant asks for as one of this kind."""
        return self.share * self.request.gpus * self.mean_s if self.fits else 0.0


def queue_uid(tenant: str) -> QueueUid:
    """The uid of a tenant's queue."""
    return QueueUid(f"{tenant.lower():x<8}"[:8])


def make_stream(params: Path, seed: int, *, gpus: float, horizon_s: float, fits: Fits) -> Stream:
    """Gangs that offer a load of `gpus` GPUs over `horizon_s`; equal arguments give equal streams.

    Args:
        fits: whether the empty fleet can hold a request.

    Raises:
        OSError, KeyError: the parameters are not there, or are others.
    """
    document = json.loads(params.read_text(encoding="utf-8"))
    burst = float(document["arrival"]["gpu_jobs_per_10min"]["index_of_dispersion"])
    rng = np.random.default_rng(seed)
    drawn: list[tuple[float, _Kind, float]] = []
    left_out = 0
    for tenant in TENANTS:
        kinds = list(_kinds(document, tenant, fits))
        per_s = gpus / len(TENANTS) / sum(kind.load for kind in kinds)
        times = rng.permutation(_arrivals(rng, per_s, burst, horizon_s)).tolist()
        coming = _spread(rng, kinds, [kind.share * len(times) for kind in kinds], _durations)
        for at_s, (kind, duration_s) in zip(times, coming, strict=True):
            left_out += not kind.fits
            if kind.fits:
                drawn.append((at_s, kind, duration_s))
        running = [per_s * kind.share * kind.mean_s if kind.fits else 0.0 for kind in kinds]
        drawn += [(0.0, kind, duration_s) for kind, duration_s in _spread(rng, kinds, running, _residues)]
    order = rng.permutation(len(drawn))
    ranked = sorted(zip(order.tolist(), drawn, strict=True), key=lambda entry: (entry[1][0], entry[0]))
    return Stream(tuple(_gang(at, *entry) for at, (_, entry) in enumerate(ranked)), left_out)


def _gang(at: int, arrival_s: float, kind: _Kind, duration_s: float) -> Gang:
    return Gang(
        job=JobId(f"{kind.queue}-{at:016d}"),
        queue=kind.queue,
        request=kind.request,
        class_hash=class_hash(kind.queue, kind.request),
        gpus=kind.request.gpus,
        arrival_s=float(arrival_s),
        duration_s=float(duration_s),
    )


# ---- kinds ---------------------------------------------------------------------------------------------------


def _kinds(document: Mapping[str, Mapping[str, Mapping[str, float]]], tenant: str, fits: Fits) -> Iterator[_Kind]:
    """Sizes by what is accepted by the level that is required."""
    law = document["duration_lognormal"][tenant]
    sizes, shares = document["size_pmf"][tenant], document["gputime_share_by_size"][tenant]
    present = [size for size in sizes if sizes[size] > 0 and shares[size] > 0]
    mean_s = _mean_s(law["mu"], law["sigma"])
    all_sizes = sum(sizes[s] for s in present)
    per_share = mean_s * all_sizes / sum(shares[s] / int(s) for s in present)
    for size in present:
        own_mean_s = per_share * shares[size] / sizes[size] / int(size)
        for choice in MENU:
            for level, part in REQUIRED:
                request = _request(int(size), choice.flavors, level)
                if request.pods == 1 and level:
                    continue
                part = part if request.pods > 1 else 1.0
                share = sizes[size] / all_sizes * choice.share * part
                yield _Kind(queue_uid(tenant), share, request, own_mean_s, law["sigma"], fits(request))


def _request(gpus: int, flavors: tuple[str, ...], level: str) -> GangRequest:
    each = min(gpus, NVL_GPUS if flavors == ("gb200",) else HOST_GPUS)
    pod = Resources({NVIDIA_GPU: each, CPU: each * POD_CPU_MILLI, MEMORY: each * POD_MEMORY_BYTES})
    names = tuple(FlavorName(name) for name in flavors)
    return GangRequest(
        (SetRequest(gpus // each, gpus // each, pod, names, Selector(), (), Topology(required=level)),)
    )


# ---- draws ---------------------------------------------------------------------------------------------------


def _arrivals(rng: np.random.Generator, per_s: float, burst: float, horizon_s: float) -> Floats:
    """Moments of arrival, as many as are expected: a Poisson stream whose rate is drawn anew every BURST_S, so that
    the variance of the number in BURST_S would be `burst` times its mean if the number in all were not given."""
    starts = np.arange(0.0, horizon_s, BURST_S)
    lengths = np.minimum(BURST_S, horizon_s - starts)
    rates = rng.gamma(per_s * lengths / (burst - 1))
    many = rng.multinomial(round(per_s * horizon_s), rates / rates.sum())
    drawn = rng.random(int(many.sum()))
    times: Floats = np.repeat(starts, many) + drawn * np.repeat(lengths, many)
    return times


def _spread(
    rng: np.random.Generator, kinds: Sequence[_Kind], wanted: Sequence[float], draw: Draw
) -> Iterator[tuple[_Kind, float]]:
    """So many gangs of each kind, with durations that are drawn together for all of a size."""
    counts = zip(kinds, _shared_out(rng, wanted), strict=True)
    for _, alike in groupby(counts, key=lambda entry: entry[0].mean_s):
        members = [kind for kind, many in alike for _ in range(many)]
        if members:
            yield from zip(members, draw(rng, members[0], len(members)), strict=True)


def _shared_out(rng: np.random.Generator, wanted: Sequence[float]) -> list[int]:
    """Whole numbers that differ from the wanted ones by less than one, and so do sums of neighbours."""
    edges = np.floor(np.round(np.cumsum([0.0, *wanted]), 6) + rng.random())
    return np.diff(edges).astype(int).tolist()  # type: ignore[no-any-return]


def _quantiles(rng: np.random.Generator, many: int) -> list[float]:
    """Draws from (0, 1), one from each of `many` equal parts, in any order."""
    drawn = (rng.permutation(many) + rng.random(many)) / many
    return np.clip(drawn, 1e-12, 1 - 1e-12).tolist()  # type: ignore[no-any-return]


def _durations(rng: np.random.Generator, kind: _Kind, many: int) -> list[float]:
    return _cut_log_normal(_mu(kind.mean_s, kind.sigma), kind.sigma, _quantiles(rng, many))


def _residues(rng: np.random.Generator, kind: _Kind, many: int) -> list[float]:
    """What is left of the durations of gangs that are met while they run: longer ones are met more often."""
    whole = _cut_log_normal(_mu(kind.mean_s, kind.sigma) + kind.sigma**2, kind.sigma, _quantiles(rng, many))
    return [duration * left for duration, left in zip(whole, _quantiles(rng, many), strict=True)]


def _cut_log_normal(mu: float, sigma: float, quantiles: Sequence[float]) -> list[float]:
    most = _NORMAL.cdf((math.log(DURATION_MAX_S) - mu) / sigma)
    return [math.exp(mu + sigma * _NORMAL.inv_cdf(u * most)) for u in quantiles]


def _mean_s(mu: float, sigma: float) -> float:
    """Mean of the log-normal that is cut at DURATION_MAX_S."""
    edge = (math.log(DURATION_MAX_S) - mu) / sigma
    return math.exp(mu + sigma * sigma / 2) * _NORMAL.cdf(edge - sigma) / _NORMAL.cdf(edge)


@lru_cache(maxsize=1_024)
def _mu(mean_s: float, sigma: float) -> float:
    """The mu for which the cut log-normal has this mean, by bisection."""
    low, high = -sigma * sigma, math.log(DURATION_MAX_S)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _mean_s(middle, sigma) < mean_s else (low, middle)
    return low
