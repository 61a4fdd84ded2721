"""S10: the planner, asked twice with the same arguments, answers the same.

Some of the cycles that replicas run are run a second time, on copies: the random generator in the same state, and
every mapping in another order, since nothing may depend on the order in which keys happened to be inserted.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Final, TypeVar

from hanse.model.request import GangRequest
from hanse.scheduler.core.pending import Service
from hanse.scheduler.core.plan import Plan
from hanse.scheduler.core.snapshot import Limits, Snapshot
from hanse.scheduler.core.verdicts import Blocked
from hanse.scheduler.shell import cycle
from tests.sim.verdict import Court

REPLAYED_P: Final = 0.1
NAME: Final = "run_cycle"

K = TypeVar("K")
V = TypeVar("V")

Before = Mapping[int, Blocked]
RunCycle = Callable[[Snapshot, Service, Mapping[int, GangRequest], Limits, Random, Before], Plan]


@contextmanager
def watched(court: Court, rng: Random) -> Iterator[None]:
    """While inside, a sample of all cycles is replayed."""
    original: RunCycle = vars(cycle)[NAME]

    def run_cycle(
        snapshot: Snapshot,
        service: Service,
        requests: Mapping[int, GangRequest],
        limits: Limits,
        own: Random,
        before: Before,
    ) -> Plan:
        if rng.random() >= REPLAYED_P:
            return original(snapshot, service, requests, limits, own, before)
        again, own_again = service.afresh(), Random()
        own_again.setstate(own.getstate())
        plan = original(snapshot, service, requests, limits, own, before)
        shuffled = _shuffled_snapshot(snapshot, rng)
        second = original(shuffled, again, _shuffled(requests, rng), limits, own_again, _shuffled(before, rng))
        if plan != second:
            court.accuse("S10", f"equal arguments gave the plans {plan} and {second}")
        return plan

    setattr(cycle, NAME, run_cycle)
    try:
        yield
    finally:
        setattr(cycle, NAME, original)


def _shuffled_snapshot(snapshot: Snapshot, rng: Random) -> Snapshot:
    return replace(snapshot, queues=_shuffled(snapshot.queues, rng), grants=_shuffled(snapshot.grants, rng))


def _shuffled(mapping: Mapping[K, V], rng: Random) -> dict[K, V]:
    items = list(mapping.items())
    rng.shuffle(items)
    return dict(items)
