"""Packs a plan's decisions into transactions: few enough that a key costs little, small enough to lose little.

Two decisions that take from the same head must not be in flight in different transactions at once: the first to
pass would move the head that the second compares. So decisions that share a head, directly or through others, form
a component; whole components are packed together up to the store's limits, and a component that is larger is cut
into a chain of transactions, each sent when the one before has told its revision.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hanse.model.ids import FlavorName, PoolName
from hanse.scheduler.core.plan import Decision
from hanse.store.contract import TXN_OPS_MAX

Head = tuple[PoolName, FlavorName]

PACK_DECISIONS_MAX: Final = 48
"""Decisions in one transaction: beyond about 120 keys a larger one saves nothing and risks more in a conflict."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Transactions that must be sent one after the other; chains are independent of each other."""

    packs: tuple[tuple[Decision, ...], ...]


def heads_of(decision: Decision) -> tuple[Head, ...]:
    """The heads that a decision takes from, in a fixed order."""
    return tuple(sorted({(part.pool, flavor) for part in decision.parts for flavor in part.flavors}))


def _weight(decisions: Sequence[Decision]) -> int:
    """Operations (equally: guards) of one transaction, counted generously."""
    heads = {head for d in decisions for head in heads_of(d)}
    pools = {part.pool for d in decisions for part in d.parts}
    queues = {d.job.queue for d in decisions}
    return sum(1 + len(d.parts) for d in decisions) + len(heads) + max(len(pools), 0) + 2 * len(queues)


def components(decisions: Sequence[Decision]) -> list[list[Decision]]:
    """Decisions grouped by the heads they share, in order of first appearance (union-find over heads)."""
    parent: dict[Head, Head] = {}

    def find(head: Head) -> Head:
        root = head
        while parent[root] != root:
            root = parent[root]
        while parent[head] != root:
            parent[head], head = root, parent[head]
        return root

    for decision in decisions:
        first, *others = heads_of(decision)
        parent.setdefault(first, first)
        for other in others:
            parent.setdefault(other, other)
            parent[find(other)] = find(first)
    groups: dict[Head, list[Decision]] = {}
    for decision in decisions:
        groups.setdefault(find(heads_of(decision)[0]), []).append(decision)
    return list(groups.values())


def pack(decisions: Sequence[Decision]) -> list[Chain]:
    """Chains that may be sent at the same time."""
    chains: list[Chain] = []
    open_pack: list[Decision] = []
    for component in components(decisions):
        if not _fits(component):
            chains.append(Chain(tuple(_cut(component))))
        elif _fits([*open_pack, *component]):
            open_pack.extend(component)
        else:
            chains.append(Chain((tuple(open_pack),)))
            open_pack = list(component)
    if open_pack:
        chains.append(Chain((tuple(open_pack),)))
    return chains


def _fits(decisions: Sequence[Decision]) -> bool:
    return len(decisions) <= PACK_DECISIONS_MAX and _weight(decisions) <= TXN_OPS_MAX


def _cut(component: Sequence[Decision]) -> list[tuple[Decision, ...]]:
    packs: list[tuple[Decision, ...]] = []
    current: list[Decision] = []
    for decision in component:
        if current and not _fits([*current, decision]):
            packs.append(tuple(current))
            current = []
        current.append(decision)
    packs.append(tuple(current))
    return packs
