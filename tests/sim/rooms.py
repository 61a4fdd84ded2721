"""What nodes offer and what is taken of them, worked out from records and pods one by one.

Slow and obvious, and on purpose not the engine's arithmetic: the checkers must not agree with a mistake of it.
"""

from collections.abc import Iterator

from hanse.model.resources import PODS
from hanse.simcluster.engine import Engine
from hanse.simcluster.gang import NEVER, Gang
from hanse.simcluster.inputs import unpack

Amounts = dict[str, int]


def whole(engine: Engine, node: int) -> Amounts:
    """What a node offers when nothing is broken."""
    return dict(engine.nodes.groups[engine.nodes.group_of[node]].allocatable.items())


def offered(engine: Engine, node: int) -> Amounts:
    """What a node offers now."""
    return dict(engine.nodes.allocatable_of(node).items())


def foreign(engine: Engine, node: int) -> Amounts:
    """What pods of others take of it."""
    return dict(engine.nodes.foreign_of(node).items())


def held(engine: Engine) -> dict[int, Amounts]:
    """What our gangs hold, by node: places of pods that run or may yet run."""
    taken: dict[int, Amounts] = {}
    for gang in engine.gangs.values():
        for node, resources in _places(gang):
            amounts = taken.setdefault(node, {})
            for name, amount in {PODS: 1, **resources}.items():
                amounts[name] = amounts.get(name, 0) + amount
    return taken


def held_by(gang: Gang) -> Amounts:
    """What the pods of one gang keep in all."""
    total: Amounts = {}
    for _, resources in _places(gang):
        total = added(total, resources)
    return total


def _places(gang: Gang) -> Iterator[tuple[int, Amounts]]:
    """Node and resources of each pod that keeps its place: it occupies it, or was not created yet."""
    waits = gang.recorded and not gang.stopped
    occupying, phases = gang.occupying.tolist(), gang.phase.tolist()
    number = 0
    for placed in gang.hold.sets:
        for node in unpack(placed.nodes).tolist():
            if occupying[number] or (waits and phases[number] == NEVER):
                yield node, placed.resources
            number += 1


def exceeds(taken: Amounts, limit: Amounts) -> bool:
    """Whether any resource is over."""
    return any(amount > limit.get(name, 0) for name, amount in taken.items())


def added(first: Amounts, second: Amounts) -> Amounts:
    """The sum, name by name."""
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


def usable(engine: Engine, node: int) -> bool:
    """Whether a node takes new work."""
    table = engine.nodes
    return bool(table.ready[node] and table.healthy[node] and not table.cordoned[node] and not table.removed[node])
