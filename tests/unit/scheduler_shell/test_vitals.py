"""What a replica tells of itself."""

from collections import Counter

from hanse.model.ids import ReplicaId
from hanse.model.vitals import COMMITTED, Vitals, by_kind
from hanse.scheduler.shell.vitals import WINDOW_S, VitalsKeeper


class StoppedClock:
    """A clock that somebody sets."""

    def __init__(self) -> None:
        self.at_s = 100.0

    def monotonic(self) -> float:
        return self.at_s

    def now_ms(self) -> int:
        return int(self.at_s * 1_000)


class Scene:
    """A keeper over counters that a test changes."""

    def __init__(self) -> None:
        self.clock = StoppedClock()
        self.counts: Counter[str] = Counter()
        self.keeper = VitalsKeeper(
            ReplicaId("r0"),
            self.clock,
            ready=lambda: True,
            counts=lambda: Counter(self.counts),
            now=lambda: (3, 2, 7, 0),
        )

    def after(self, seconds: float, committed: int) -> Vitals:
        """So much later so many jobs more are bound; the counters are sampled and told."""
        self.clock.at_s += seconds
        self.counts[COMMITTED] += committed
        vitals = self.keeper.tell()
        self.keeper.sample()
        return vitals


def test_a_young_replica_tells_of_its_whole_life() -> None:
    told = Scene().after(5, 10)
    assert (told.uptime_s, told.window_s, told.lately) == (5.0, 5.0, {COMMITTED: 10})
    assert (told.agents, told.roots, told.pending_jobs, told.unsettled) == (3, 2, 7, 0)


def test_what_is_older_than_a_minute_is_in_the_counts_and_not_in_the_rates() -> None:
    scene = Scene()
    scene.after(5, 1_000)
    for _ in range(20):
        told = scene.after(5, 1)
    assert told.counts == {COMMITTED: 1_020}
    assert WINDOW_S <= told.window_s <= WINDOW_S + 10
    assert told.lately[COMMITTED] * 5 == told.window_s
    assert told.uptime_s == 105.0


def test_counts_by_kind() -> None:
    counts = {"conflict_state": 2, "conflict_pools": 1, "committed": 9}
    assert by_kind(counts, "conflict_") == {"state": 2, "pools": 1}
