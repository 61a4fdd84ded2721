"""From counts to names: which domains and hosts a decision means.

Only order decides here, and it is always the same: of domains that the shape holds equal, and of hosts in one bin,
those with the best merit (see `scores`), then by name. The result is in the order of ranks: depth first, by path,
then by host name.
"""

from collections.abc import Callable, Iterable, Iterator

from hanse.agent.core.inventory import Inventory
from hanse.agent.core.scores import Merit, mean_merit
from hanse.agent.core.topology import Domain, lowest
from hanse.model.ids import NodeName
from hanse.shape.domains import Branch, Leaf
from hanse.shape.solve import Take

Runs = list[tuple[NodeName, int]]  # (node, pods) in the order of ranks


def runs_alike(inventory: Inventory, root: Domain, take: Take) -> Runs:
    """The hosts that a take below this root's shape means."""
    if not take.kids:
        return _hosts(take, _bins_alike(inventory, root))
    node = root.node()
    assert isinstance(node, Branch)
    used: dict[int, int] = {}
    chosen: list[tuple[Domain, Take]] = []
    for i, copies, below in take.kids:
        first = used.get(i, 0)
        used[i] = first + copies
        alike = _best_first(inventory, root.alike(node.kids[i][0].key))
        chosen.extend([(kid, below) for kid in alike[first : first + copies]])
    chosen.sort(key=lambda c: c[0].name)
    return [run for kid, below in chosen for run in runs_alike(inventory, kid, below)]


def runs_named(inventory: Inventory, root: Domain, take: Take, groups: list[list[int]]) -> Runs:
    """The same for a take over counted capacity: children by name, bins as lists of slots in `groups`."""
    if not take.kids:
        return _hosts(take, lambda i: _names(inventory, groups[i]))
    names = sorted(root.kids)
    chosen = sorted((names[i], below) for i, _, below in take.kids)
    return [run for name, below in chosen for run in runs_named(inventory, root.kids[name], below, groups)]


def _bins_alike(inventory: Inventory, domain: Domain) -> Callable[[int], list[NodeName]]:
    node = domain.node()
    assert isinstance(node, Leaf)

    def names(i: int) -> list[NodeName]:
        c, free, _ = node.bins[i]
        return _names(inventory, domain.bins[c, free])

    return names


def _names(inventory: Inventory, slots: Iterable[int]) -> list[NodeName]:
    """Hosts that are alike in everything that counts, the best ones first."""
    if not inventory.scores:
        return sorted([inventory.at(slot).name for slot in slots])
    nodes = [inventory.at(slot) for slot in slots]
    return [name for _, name in sorted([(node.merit, node.name) for node in nodes])]


def _best_first(inventory: Inventory, alike: list[Domain]) -> list[Domain]:
    """Domains that are alike, which come by name, the best ones first."""
    if not inventory.scores or len(alike) < 2:
        return alike
    return sorted(alike, key=lambda domain: mean_merit(_merits(inventory, domain)))


def _merits(inventory: Inventory, domain: Domain) -> Iterator[Merit]:
    nodes = (inventory.at(slot) for low in lowest(domain) for slot in low.slots)
    return (node.merit for node in nodes if node.at is not None)


def _hosts(take: Take, names: Callable[[int], list[NodeName]]) -> Runs:
    used: dict[int, int] = {}
    runs: Runs = []
    for i, hosts, pods in take.hosts:
        first = used.get(i, 0)
        used[i] = first + hosts
        runs.extend([(name, pods) for name in names(i)[first : first + hosts]])
    runs.sort()
    return runs
