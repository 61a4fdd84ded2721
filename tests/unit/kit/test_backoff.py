"""Delays grow, are bounded, and differ."""

from random import Random

from hanse.kit.backoff import Backoff, BackoffPolicy


def test_delays_double_up_to_the_limit_and_begin_again() -> None:
    backoff = Backoff(BackoffPolicy(first_s=0.1, max_s=0.5, jitter=0.0), Random(1))
    assert [backoff.delay_s() for _ in range(4)] == [0.1, 0.2, 0.4, 0.5]
    backoff.reset()
    assert backoff.delay_s() == 0.1


def test_jitter_only_shortens() -> None:
    backoff = Backoff(BackoffPolicy(first_s=1.0, max_s=1.0, jitter=0.5), Random(1))
    drawn = [backoff.delay_s() for _ in range(100)]
    assert min(drawn) >= 0.5
    assert max(drawn) <= 1.0
    assert len(set(drawn)) > 90
