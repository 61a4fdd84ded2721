"""The fit check over a whole fleet: one request, 200 or 1,000 pools of 5,000 nodes, on one core.

What a measurement holds: `prepare` for a request that was never there before (its memory is unlike every other's),
and `Fleet.look`, which says of every pool whether the gang fits. Every pool has hosts of the flavor that is asked
for: the dearest case, since a pool without them costs nothing. Before every measurement one pool, drawn at random,
gets another shape; what `Fleet.put` costs for that is `raw.*.patch`. What a scheduler then does with the pools that
fit, asking some of them for a place, is not in it.

`raw.*.exact` says whether answers equal those of `fit_ask` on every shape, for CHECKED more requests, and
`raw.*.ratio_to_fit_ask` how many times longer it takes to ask every shape (which has not seen the request before).
"""

import random
import time
from typing import Final

from bench.contract import JsonValue
from bench.placement.clock import Stopwatch, quantile
from bench.placement.fleets import Gangs, Pools
from hanse.model.ids import FlavorName, PoolName
from hanse.shape import Fit, Shape, fit_ask, prepare
from hanse.shape.fleet import Fleet

FLAVOR: Final = FlavorName("h100")
SIZES: Final = (200, 1_000)
WARM: Final = 50  # rounds before the first that counts
CHECKED: Final = 12


def measure(nodes: int, rounds: int, seed: int) -> tuple[dict[str, float | None], JsonValue]:
    """The figures `fit_poolsN_us_p99` for N in SIZES, and what they were computed from."""
    figures: dict[str, float | None] = {}
    raw: dict[str, JsonValue] = {}
    for size in SIZES:
        look, raw[f"pools{size}"] = _measured(size, nodes, rounds, random.Random(seed))
        figures[f"fit_pools{size}_us_p99"] = quantile(look.cpu_ns, 0.99, 1e3)
    return figures, raw


def _measured(size: int, nodes: int, rounds: int, rng: random.Random) -> tuple[Stopwatch, JsonValue]:
    pools, gangs = Pools(rng, nodes, FLAVOR), Gangs(rng, FLAVOR)
    names = [PoolName(f"pool-{i:04d}") for i in range(size)]
    shapes = {name: pools.one() for name in names}
    fleet = Fleet()
    built, patch, look = Stopwatch(), Stopwatch(), Stopwatch()
    built.time(lambda: fleet.follow(shapes))
    fitting = 0
    for at in range(rounds + WARM):
        name = rng.choice(names)
        shape = shapes[name] = pools.changed(shapes[name])
        request, flavors = gangs.one()
        patch.time(lambda name=name, shape=shape: fleet.put(name, shape))  # type: ignore[misc]
        found = look.time(lambda request=request, flavors=flavors: fleet.look(prepare(request, flavors)))  # type: ignore[misc]
        fitting += int(found.may_fit.sum())
        if at < WARM:
            patch.drop()
            look.drop()
    exact, one_by_one_ns = _checked(fleet, shapes, gangs)
    own = quantile(look.cpu_ns, 0.5, 1.0)
    return look, {
        "nodes": sum(shape.hosts() for shape in shapes.values()),
        "share_of_pools_that_fit": fitting / (rounds + WARM) / size,
        "look": look.told(),
        "patch": patch.told(),
        "built": built.told(),
        "exact": exact,
        "ratio_to_fit_ask": one_by_one_ns / own if own else None,
    }


def _checked(fleet: Fleet, shapes: dict[PoolName, Shape], gangs: Gangs) -> tuple[bool, float]:
    """Whether the fleet says what every shape says, and what asking every shape takes at the median."""
    exact = True
    took_ns: list[int] = []
    for _ in range(CHECKED):
        ask = prepare(*gangs.one())
        since = time.thread_time_ns()
        fits = [isinstance(fit_ask(shape, ask), Fit) for shape in shapes.values()]
        took_ns.append(time.thread_time_ns() - since)
        look = fleet.look(ask)
        exact = exact and look.exact and fits == [bool(look.may_fit[fleet.number(name)]) for name in shapes]
    return exact, float(sorted(took_ns)[CHECKED // 2])
