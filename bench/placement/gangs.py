"""Gangs of 8 to 1,000 pods, and such as find no place, on pools that change between any two of them."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from bench.contract import JsonValue
from bench.placement.clock import Stopwatch, quantile
from bench.placement.loop import place_in_a_loop, spots
from bench.placement.pool import FLAVOR, BusyPool
from bench.placement.proofs import Proofs
from bench.placement.requests import MODES, SIZES, hopeless, request_for
from hanse.agent.core.explain import explain_nodes
from hanse.agent.core.placement import Placement, place
from hanse.model.request import GangRequest

LOADS: Final = (0.60, 0.95)
LARGEST: Final = SIZES[-1]
LOOPS_ONE_IN: Final = 4  # gangs of the largest size that the plain loop places too


@dataclass(slots=True)
class Readings:
    """What was measured of gangs on pools of one size.

    Attributes:
        gangs: by number of pods.
        modes: of the largest gangs, by load and mode.
        skipped: requests of which the pool had no room for any kind, by what they were.
    """

    gangs: dict[int, Stopwatch] = field(default_factory=dict)
    modes: dict[str, Stopwatch] = field(default_factory=dict)
    refused: Stopwatch = field(default_factory=Stopwatch)
    explained: Stopwatch = field(default_factory=Stopwatch)
    loop: Stopwatch = field(default_factory=Stopwatch)
    loop_peer: list[int] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    proofs: Proofs = field(default_factory=Proofs)
    changes: JsonValue = None


def measure(nodes: int, rounds: int, seed: int, sizes: tuple[int, ...] = SIZES) -> Readings:
    """Every size in every mode at every load, `rounds` times, and two refusals a round."""
    out = Readings(gangs={size: Stopwatch() for size in sizes})
    told: dict[str, JsonValue] = {}
    for load in LOADS:
        pool = BusyPool(nodes, load, seed)
        for at in range(rounds):
            for mode in MODES:
                for size in sizes:
                    _one(pool, size, mode, load, out, loop=size == LARGEST and at % LOOPS_ONE_IN == 0)
            for _ in range(2):
                _refusal(pool, out)
        told[f"{load:.2f}"] = _changes(pool)
    out.changes = told
    return out


def _one(pool: BusyPool, size: int, mode: str, load: float, out: Readings, *, loop: bool) -> None:
    pool.change()
    request = request_for(pool.room(), size, mode, pool.rng)
    if request is None:
        out.skipped[f"{size} {mode} {load}"] += 1
        return
    pool.settle()
    watch = out.gangs[size]
    found = watch.time(lambda: place(pool.inventory, request, (FLAVOR,)))
    if not isinstance(found, Placement):
        raise AssertionError(f"{size} pods, {mode}, {load}: the bench reckoned that they fit: {found.detail}")
    if size == LARGEST:
        own = out.modes.setdefault(f"{load:.2f} {mode}", Stopwatch())
        own.cpu_ns.append(watch.cpu_ns[-1])
        own.wall_ns.append(watch.wall_ns[-1])
    if loop:
        _looped(pool, request, out, watch.cpu_ns[-1])
    out.proofs.look(pool.inventory, request)
    pool.hold(found)


def _looped(pool: BusyPool, request: GangRequest, out: Readings, own_ns: int) -> None:
    nodes = spots(pool.inventory)
    if out.loop.time(lambda: place_in_a_loop(nodes, request)) is None:
        out.loop.drop()
    else:
        out.loop_peer.append(own_ns)


def _refusal(pool: BusyPool, out: Readings) -> None:
    pool.change()
    request = hopeless(pool.room(), pool.rng)
    pool.settle()
    found = out.refused.time(lambda: place(pool.inventory, request, (FLAVOR,)))
    if isinstance(found, Placement):
        raise AssertionError(f"{request}: the bench reckoned that it fits nowhere")
    out.explained.time(lambda: explain_nodes(pool.inventory, request, (FLAVOR,)))


def _changes(pool: BusyPool) -> JsonValue:
    spent = pool.spent
    return {
        "settle_us": {f"p{round(100 * q)}": quantile(spent.settles, q, 1e3) for q in (0.5, 0.99)},
        "take_us": {f"p{round(100 * q)}": quantile(spent.takes, q, 1e3) for q in (0.5, 0.99)},
        "takes": len(spent.takes),
    }
