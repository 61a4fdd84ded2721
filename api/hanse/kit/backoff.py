"""How long to wait before trying again: growing, bounded, and never in step with others."""

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """`first_s` times `factor` to the power of the failures so far, at most `max_s`.

    `jitter` is the share of a delay that is drawn: 0.5 gives between half of it and all of it, so that what failed
    together does not come back together.
    """

    first_s: float
    max_s: float
    factor: float = 2.0
    jitter: float = 0.5


class Backoff:
    """The delays of one thing that is tried until it works."""

    def __init__(self, policy: BackoffPolicy, rng: Random) -> None:
        self._policy = policy
        self._rng = rng
        self._next_s = policy.first_s

    def delay_s(self) -> float:
        """How long to wait now; the next one is longer."""
        delay_s = self._next_s * (1 - self._policy.jitter * self._rng.random())
        self._next_s = min(self._policy.max_s, self._next_s * self._policy.factor)
        return delay_s

    def reset(self) -> None:
        """It worked: begin again with the first delay."""
        self._next_s = self._policy.first_s
