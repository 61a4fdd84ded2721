"""Why a gang is on its nodes, in words: how much of which domains it uses, and what decided between equal hosts.

    1 block, with 240 of 4,096 GPUs free
    16 racks, with 0 of 4,096 GPUs free
    fragmentation: breaks nothing that was whole
    fragmentation: score 1,204 thousandths of a GPU that others could have used (reach 900, hold 304)
    power 412 a host, 380 on the hosts that are free

It is told of the present: what is free in a domain changes after a gang was placed. Answers on demand only.
"""

from collections.abc import Iterable, Iterator, Sequence

from hanse.agent.core.inventory import Inventory, Node
from hanse.agent.core.packing import WHOLE_HOST_MILLI, Terms
from hanse.agent.core.scores import VALUE_SCALE, ScoreTerm, value_of
from hanse.model.ids import NodeName


def chosen_lines(inventory: Inventory, names: Iterable[NodeName]) -> tuple[str, ...]:
    """A line for each level, coarse to fine, then one for each score term. Nodes that are gone are left out.

    Args:
        names: the nodes of the gang, in any order.
    """
    found = (inventory.node(name) for name in dict.fromkeys(names))
    used = [node for node in found if node is not None]
    trees = sorted({node.tree for node in used})
    domains = [line for tree in trees for line in _levels(inventory, tree, [n for n in used if n.tree == tree])]
    return (*domains, *_terms(inventory, used))


def small_lines(terms: Terms) -> tuple[str, ...]:
    """The terms of the fragmentation score of a gang that one host holds, the deciding one first."""
    broken = [f"{terms.domains:,} whole domain{'' if terms.domains == 1 else 's'}"] if terms.domains else []
    broken += ["a whole host"] if terms.whole_host else []
    taken = f"reach {terms.reach:,.0f}, hold {terms.hold:,.0f}"
    taken += f", whole host {WHOLE_HOST_MILLI:,.0f}" if terms.whole_host else ""
    return (
        f"fragmentation: breaks {' and '.join(broken) or 'nothing that was whole'}",
        f"fragmentation: score {terms.score:,.0f} thousandths of a GPU that others could have used ({taken})",
    )


def _levels(inventory: Inventory, tree: int, used: Sequence[Node]) -> Iterator[str]:
    for depth, level in enumerate(inventory.trees[tree]):
        domains = {node.path[: depth + 1]: node for node in used}
        free = gpus = 0
        for node in domains.values():
            for slot in inventory.around(node, depth):
                other = inventory.at(slot)
                free += other.raw_free_gpus if other.at is not None else 0
                gpus += other.offered_gpus
        plural = "" if len(domains) == 1 else "s"
        yield f"{len(domains):,} {level.alias}{plural}, with {free:,} of {gpus:,} GPUs free"


def _terms(inventory: Inventory, used: Sequence[Node]) -> Iterator[str]:
    own = {node.slot for node in used}
    others = [node for node in inventory if node.slot not in own and node.at is not None and not node.own]
    for term in inventory.scores:
        here, there = _mean(used, term), _mean(others, term)
        if here is not None:
            rest = f", {there:,.4g} on the hosts that are free" if there is not None else ""
            yield f"{term.name} {here:,.4g} a host{rest}"


def _mean(nodes: Iterable[Node], term: ScoreTerm) -> float | None:
    values = [value for node in nodes if (value := value_of(node.facts.labels, term)) is not None]
    return sum(values) / len(values) / VALUE_SCALE if values else None
