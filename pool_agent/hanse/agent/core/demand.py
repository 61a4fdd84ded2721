"""What pods are asked for here: learnt from requests, bounded, and forgotten by halves.

The fragmentation score (`packing`) asks what the pods that come could still use of a host, so it needs to know which
pods come. Every pod that the agent is asked to place counts for its kind: what it uses, of which flavor, with which
selector and tolerations. Before the first there are a few pods of 1, 2, 4 and 8 whole GPUs that run anywhere, which
is what keeps hosts whole in a pool of which nothing is known.

Kinds of pods without GPUs are not kept: what they need of GPUs is nothing. A rarer kind than the `TYPICAL_MAX` most
frequent ones does not count. The table that a score is made of is renewed when four times as many pods have been
seen, and then each time that counts are halved, so that scores stay comparable for thousands of decisions.
"""

from dataclasses import dataclass
from typing import Final

from hanse.model.resources import DEVICE_MILLI, EMPTY, GPU_MILLI, GPU_RESOURCES, Resources
from hanse.shape.ask import SetAsk

KINDS_MAX: Final = 1_024
TYPICAL_MAX: Final = 48
PODS_PER_SET_MAX: Final = 64  # that one set may count for, so that no single gang is all there is
COUNT_MAX: Final = 16_384  # pods remembered; then every count is halved
WEIGHT: Final = 1 << 16  # of all typical pods together
GROWTH: Final = 4
PRIOR_GPUS: Final = (1, 2, 4, 8)
PRIOR_PODS: Final = 4  # of each


@dataclass(frozen=True, slots=True)
class Typical:
    """One kind of pod that comes.

    Attributes:
        ask: a set of such pods; None for those assumed before anything is known.
        gpus, milli: whole devices, or thousandths of one; one of the two.
        rest: what else it uses.
        weight: out of WEIGHT; pods seen of this kind for each GPU that they ask for.
    """

    ask: SetAsk | None
    gpus: int
    milli: int
    rest: Resources
    weight: int


@dataclass(slots=True)
class _Kind:
    ask: SetAsk | None
    gpus: int
    milli: int
    pods: int


class Demand:
    """Pods by kind.

    Attributes:
        version: another one means that `typical` is to be asked again.
    """

    __slots__ = ("_due", "_kinds", "_pods", "version")

    def __init__(self) -> None:
        self._kinds: dict[int, _Kind] = {-g: _Kind(None, g, 0, PRIOR_PODS) for g in PRIOR_GPUS}
        self._pods = PRIOR_PODS * len(PRIOR_GPUS)
        self._due = self._pods + 1
        self.version = 0

    def note(self, s: SetAsk) -> None:
        """A set was asked for."""
        milli = s.pod[GPU_MILLI]
        if not (s.gpus or milli):
            return
        pods = min(s.count, PODS_PER_SET_MAX)
        kind = self._kinds.get(s.kind)
        if kind is None:
            kind = self._kinds[s.kind] = _Kind(s, s.gpus, milli, 0)
        kind.pods += pods
        self._pods += pods
        if len(self._kinds) > KINDS_MAX:
            self._crowd_out()
        if self._pods > COUNT_MAX:
            self._halve()
        elif self._pods >= self._due:
            self._due = GROWTH * self._pods
            self.version += 1

    def _crowd_out(self) -> None:
        """The more frequent half of the kinds stays; of equal ones those that were seen last."""
        latest = list(reversed(self._kinds.items()))
        kept = sorted(latest, key=lambda item: -item[1].pods)[: KINDS_MAX // 2]
        self._kinds = dict(reversed(kept))
        self._pods = sum(kind.pods for kind in self._kinds.values())

    def _halve(self) -> None:
        for kind in self._kinds.values():
            kind.pods //= 2
        self._kinds = {key: kind for key, kind in self._kinds.items() if kind.pods}
        self._pods = sum(kind.pods for kind in self._kinds.values())
        self._due = GROWTH * self._pods
        self.version += 1

    def typical(self) -> tuple[Typical, ...]:
        """The most frequent kinds; of equal ones those that were seen first."""
        most = sorted(self._kinds.values(), key=lambda kind: -kind.pods)[:TYPICAL_MAX]
        per_gpu = [kind.pods * DEVICE_MILLI * WEIGHT // (kind.gpus * DEVICE_MILLI + kind.milli) for kind in most]
        total = sum(per_gpu)
        return tuple(
            Typical(kind.ask, kind.gpus, kind.milli, _rest(kind.ask), weight * WEIGHT // total)
            for kind, weight in zip(most, per_gpu, strict=True)
        )


def _rest(ask: SetAsk | None) -> Resources:
    if ask is None:
        return EMPTY
    return Resources([(name, n) for name, n in ask.pod.items() if name not in GPU_RESOURCES and name != GPU_MILLI])
