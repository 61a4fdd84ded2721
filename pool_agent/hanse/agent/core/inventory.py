"""The nodes of one pool: what they offer, who uses them, and the shape of what is left.

Nodes live in slots. A change of one node is recorded at once and worked into classes, domains and shape when
somebody looks (`sync`), so a burst of events costs each node once, and one event the path from its leaf to the root.

Usage belongs to the node and to its name: a node that vanishes and comes back still carries what we hold on it.
What is published as free derives from facts, foreign usage and the pods we hold, never from history, so an inventory
that is rebuilt from the cluster's records equals the one that was lost. Only the shape of the empty pool remembers
something: accelerators that nodes have offered before.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from hanse.agent.core.columns import Columns
from hanse.agent.core.demand import Demand
from hanse.agent.core.devices import opened
from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.hosts import LABEL_VALUES_MAX, LabelCensus, Selectable, class_of, class_order, flavor_of
from hanse.agent.core.node import NOT_COUNTED, Account, HostKind, Node, PodKind, account
from hanse.agent.core.packing import Packing
from hanse.agent.core.scores import ScoreTerm, merit_of
from hanse.agent.core.topology import Domain, home, known_levels, lowest, path_of, prune, usable_levels
from hanse.model.ids import FlavorName, NodeName
from hanse.model.placement import Level
from hanse.model.queue import Flavor
from hanse.model.resources import Resources
from hanse.shape.classes import HostClass, accelerator
from hanse.shape.domains import Branch, branch, leaf
from hanse.shape.domains import Node as ShapeNode
from hanse.shape.lens import Table
from hanse.shape.limits import CLASSES_MAX, GROUPS_MAX, LEVELS_BYTES_MAX, LEVELS_MAX
from hanse.shape.shape import Group, Shape

if TYPE_CHECKING:
    from hanse.agent.core.places import Placement, SetPlacement

__all__ = ["Account", "Inventory", "Node", "NodeFacts"]

Usage = Mapping[Resources, int]  # pods by what one of them uses
Accelerators = tuple[int, str]  # how many of which resource
NO_ACCELERATORS: Final[Accelerators] = (0, "")


class Inventory:
    """The nodes of a pool.

    Args:
        flavors: in order; the first that matches a host is its flavor.
        trees: level lists, coarse to fine, one per kind of network; a node belongs to the first tree of which it
            knows the most levels. One empty tree for a pool without topology.
        offered: accelerators that nodes have offered at the most, as far as another inventory has seen.
        scores: what decides between hosts that placement holds equal. Their labels tell no classes apart.

    Attributes:
        offered: the same, as far as this one has seen. A node whose device plugin starts anew, or that boots, offers
            none for a while; what it offered before still says what the pool could hold if it were empty.
        demand: pods that were asked for; `place` reads it, who is asked to place writes it.
    """

    def __init__(
        self,
        flavors: Iterable[Flavor],
        trees: Iterable[tuple[Level, ...]] = ((),),
        nodes: Iterable[NodeFacts] = (),
        offered: Mapping[NodeName, Accelerators] = MappingProxyType({}),
        scores: Iterable[ScoreTerm] = (),
    ) -> None:
        self.flavors = tuple(sorted(flavors, key=lambda f: (f.order, f.name)))
        self.trees = tuple(usable_levels(levels) for levels in trees) or ((),)
        if len(self.trees) > GROUPS_MAX or any(len(levels) > LEVELS_MAX for levels in self.trees):
            raise ValueError(f"levels: at most {GROUPS_MAX} trees of at most {LEVELS_MAX} levels each")
        text = sum(len(f"{x.key}{x.alias}".encode()) for levels in self.trees for x in levels)
        if text > LEVELS_BYTES_MAX:
            raise ValueError(f"levels: {text} bytes of names are over the limit of {LEVELS_BYTES_MAX}")
        self.roots = tuple(Domain("", None) for _ in self.trees)
        self.nodes: list[Node | None] = []
        self.offered: dict[NodeName, Accelerators] = {}
        self.demand = Demand()
        self._offered_before = offered
        self._slot: dict[NodeName, int] = {}
        self._vacant: list[int] = []
        self._away: dict[NodeName, dict[PodKind, int]] = {}
        self._pods: dict[Resources, PodKind] = {}
        self.scores = tuple(scores)
        self._scored = frozenset(term.label for term in self.scores)
        level_keys = frozenset(level.key for levels in self.trees for level in levels)
        self._labels = LabelCensus(level_keys | self._scored)
        self._selectable = Selectable()
        self._values_max = LABEL_VALUES_MAX
        self._kinds: dict[HostClass, HostKind] = {}
        self._classes_changed = False
        self._table = Table(())
        self._dirty: dict[int, None] = {}
        self._relabelled: dict[int, None] = {}
        self._columns: Columns | None = None
        self._packing: Packing | None = None
        self._resettled: dict[int, None] = {}
        self._clipped = 0
        self._total = [0, 0, 0]  # usable nodes, their GPUs, and how many of these nobody holds
        self._shape: Shape | None = None
        self._empty: Shape | None = None
        for facts in nodes:
            self.set_node(facts)

    def __len__(self) -> int:
        return len(self._slot)

    def __iter__(self) -> Iterator[Node]:
        """Nodes in the order of their names."""
        self.sync()
        for name in sorted(self._slot):
            yield self._at(self._slot[name])

    def node(self, name: NodeName) -> Node | None:
        """The node of that name."""
        self.sync()
        slot = self._slot.get(name)
        return None if slot is None else self.nodes[slot]

    def at(self, slot: int) -> Node:
        """The node in a slot that is taken."""
        return self._at(slot)

    def around(self, node: Node, depth: int) -> list[int]:
        """Slots of all nodes in the domain at this depth (the tree's depth for the host) that holds the node."""
        domain = node.domain
        if domain is None or depth >= len(domain.path):
            return [node.slot]
        while len(domain.path) > depth + 1:
            assert domain.parent is not None
            domain = domain.parent
        return [slot for low in lowest(domain) for slot in low.slots]

    def set_node(self, facts: NodeFacts, foreign: Resources | None = None) -> None:
        """A node is new or differs. `foreign` is its present foreign usage, None to leave that as it was."""
        slot = self._slot.get(facts.name)
        if slot is None:
            self._note_offer(facts)
            node = self._add(facts)
        else:
            node = self._at(slot)
            if facts == node.facts and (foreign is None or foreign == node.foreign):
                return  # it only says that it is alive
            if facts.allocatable != node.facts.allocatable:
                self._note_offer(facts)
            self._replace(node, facts)
        node.change(facts, node.foreign if foreign is None else foreign)
        node.merit = merit_of(facts.labels, self.scores)
        self._touch(node)

    def set_foreign(self, name: NodeName, foreign: Resources) -> None:
        """What runs on a node and is not ours, terminating pods included. Unknown nodes are ignored."""
        slot = self._slot.get(name)
        if slot is None:
            return
        node = self._at(slot)
        if foreign != node.foreign:
            node.change(node.facts, foreign)
            self._touch(node)

    def remove_node(self, name: NodeName) -> None:
        """A node is gone; what we hold on it waits for its return or for its release."""
        slot = self._slot.pop(name, None)
        if slot is None:
            return
        node = self._at(slot)
        if node.own:
            self._away[name] = node.own
        self._labels.remove(node.facts.labels)
        self._leave_class(node)
        self._leave_domain(node)
        self.offered.pop(name, None)
        self.nodes[slot] = None
        self._vacant.append(slot)
        self._dirty.pop(slot, None)
        self._relabelled.pop(slot, None)
        self._shape = self._empty = self._columns = None

    def hold(self, name: NodeName, pods: Usage) -> None:
        """Adds pods of ours to a node, by what one of them uses."""
        for uses, count in pods.items():
            self._use(name, self._pod(uses), count)

    def release(self, name: NodeName, pods: Usage) -> None:
        """The inverse of `hold`.

        Raises:
            ValueError: the node does not hold them.
        """
        for uses, count in pods.items():
            self._use(name, self._pod(uses), -count)

    def recount(self) -> None:
        """Forgets every pod of ours and all that was asked for: what is held is told anew."""
        for node in self.nodes:
            if node is not None and node.own:
                for pod, count in list(node.own.items()):
                    node.use(pod, -count)
                self._touch(node)
        self._away.clear()
        self.demand = Demand()

    def take(self, placement: "Placement | SetPlacement") -> None:
        """Holds every place of a gang, or of one of its sets."""
        for uses, nodes in placement.usage():
            pod = self._pod(uses)
            for name, count in nodes:
                self._use(name, pod, count)

    def give(self, placement: "Placement") -> None:
        """The exact inverse of `take`, also when nodes have changed or gone meanwhile.

        Raises:
            ValueError: the places are not held.
        """
        for uses, nodes in placement.usage():
            pod = self._pod(uses)
            for name, count in nodes:
                self._use(name, pod, -count)

    def account(self, name: str) -> Account:
        """Where a resource of the whole pool went (S9)."""
        self.sync()
        total = Account(0, 0, 0, 0, 0, 0)
        for slot in self._slot.values():
            total = total.plus(account(self._at(slot), name))
        return total

    def faults(self) -> tuple[tuple[NodeName, str], ...]:
        """(node, resource) of which more is used than the node offers, by name."""
        return tuple((node.name, name) for node in self for name in node.overdrawn())

    @property
    def table(self) -> Table:
        """The host classes of all nodes, usable or not."""
        self.sync()
        return self._table

    def shape(self) -> Shape:
        """The shape of what is free now."""
        self.sync()
        if self._shape is None:
            groups = [(levels, root.node()) for levels, root in zip(self.trees, self.roots, strict=True)]
            self._shape = self._shaped(groups, self._clipped)
        return self._shape

    def empty_shape(self) -> Shape:
        """The shape of the pool if every host were ready and free, with the accelerators that it has offered."""
        self.sync()
        if self._empty is None:
            groups = [(levels, self._emptied(root)) for levels, root in zip(self.trees, self.roots, strict=True)]
            self._empty = self._shaped(groups, 0)
        return self._empty

    def columns(self) -> Columns:
        """The nodes as arrays, up to date."""
        self.sync()
        if self._columns is None:
            trees = [[[self._at(slot) for slot in low.slots] for low in lowest(root)] for root in self.roots]
            self._columns = Columns(trees)
        else:
            self._columns.renew([self._at(slot) for slot in self._resettled])
        self._resettled.clear()
        return self._columns

    def packing(self) -> Packing:
        """The fragmentation score over the present nodes, up to date."""
        columns = self.columns()
        if self._packing is None or not self._packing.fits(columns, self._table, self.demand):
            self._packing = Packing(columns, self._table, self.demand, merits=bool(self.scores))
        return self._packing

    def rebuilt(self, flavors: Iterable[Flavor], trees: Iterable[tuple[Level, ...]]) -> "Inventory":
        """The same nodes and usage under other flavors or levels."""
        other = Inventory(flavors, trees, offered=self.offered, scores=self.scores)
        for name in sorted(self._slot):
            node = self._at(self._slot[name])
            other.set_node(node.facts, node.foreign)
        other.demand = self.demand
        for name in sorted({*self._slot, *self._away}):
            other.hold(name, self.usage(name))
        return other

    def sync(self) -> None:
        """Works recorded changes into classes, domains and bins."""
        if not (self._dirty or self._labels.changed or self._classes_changed):
            return
        if self._labels.changed:
            self._reselect()
        for slot in self._relabelled:
            self._classify(self._at(slot))
        self._relabelled.clear()
        if self._classes_changed:
            self._retable()
        for slot in self._dirty:
            self._settle(self._at(slot))
        self._dirty.clear()

    def _at(self, slot: int) -> Node:
        node = self.nodes[slot]
        assert node is not None
        return node

    def _add(self, facts: NodeFacts) -> Node:
        slot = self._vacant.pop() if self._vacant else len(self.nodes)
        node = Node(slot, facts)
        if slot == len(self.nodes):
            self.nodes.append(node)
        else:
            self.nodes[slot] = node
        self._slot[facts.name] = slot
        self._labels.add(facts.labels)
        self._relabelled[slot] = None
        self._empty = None
        for pod, count in self._away.pop(facts.name, {}).items():
            node.use(pod, count)
        return node

    def _replace(self, node: Node, facts: NodeFacts) -> None:
        old = node.facts
        if old.labels != facts.labels:
            self._labels.add(facts.labels)
            self._labels.remove(old.labels)
        same = old.labels == facts.labels or self._differ_in_scores_only(old.labels, facts.labels)
        if same and old.allocatable == facts.allocatable and old.taints == facts.taints:
            return
        self._relabelled[node.slot] = None

    def _differ_in_scores_only(self, old: Mapping[str, str], new: Mapping[str, str]) -> bool:
        return bool(self._scored) and all(key in self._scored for key, _ in old.items() ^ new.items())

    def _touch(self, node: Node) -> None:
        self._dirty[node.slot] = None
        self._shape = None

    def _pod(self, uses: Resources) -> PodKind:
        found = self._pods.get(uses)
        if found is None:
            found = self._pods[uses] = PodKind(uses)
        return found

    def _use(self, name: NodeName, pod: PodKind, count: int) -> None:
        slot = self._slot.get(name)
        if slot is not None:
            node = self._at(slot)
            if count < 0 and node.own.get(pod, 0) < -count:
                raise ValueError(f"node {name} does not hold what is to be released")
            node.use(pod, count)
            self._touch(node)
            return
        own = self._away.setdefault(name, {})
        own[pod] = own.get(pod, 0) + count
        if own[pod] < 0:
            raise ValueError(f"node {name} does not hold what is to be released")
        if not own[pod]:
            del own[pod]
        if not own:
            del self._away[name]

    def _reselect(self) -> None:
        """Chooses the selectable labels anew; if they changed, every class has."""
        selectable = self._labels.select(values_max=self._values_max)
        if selectable != self._selectable:
            self._selectable = selectable
            self._relabelled = dict.fromkeys(self._slot.values())

    def _classify(self, node: Node) -> None:
        """Flavor, class and domain of a node whose labels, taints or allocatable are new."""
        self._leave_class(node)
        labels = node.facts.labels
        flavor = flavor_of(labels, self.flavors)
        if flavor != node.flavor:
            self._columns = None
        node.renew(self._enter_class(node.facts, flavor), flavor)
        best = self._at_best(node.facts)
        node.at_best = self._enter_again(node.kind) if best is node.facts else self._enter_class(best, flavor)
        knows = [known_levels(labels, levels) for levels in self.trees]
        tree = knows.index(max(knows))
        path = path_of(node.name, labels, self.trees[tree])
        if node.domain is None or node.tree != tree or node.domain.path != path:
            self._leave_domain(node)
            node.tree = tree
            node.domain = home(self.roots[tree], path)
            node.domain.enter(node.name, node.slot)
            self._columns = None
        self._empty = None

    def _enter_class(self, facts: NodeFacts, flavor: FlavorName | None) -> HostKind | None:
        if flavor is None:
            return None
        cls = class_of(facts, flavor, self._selectable)
        kind = self._kinds.get(cls)
        if kind is None:
            kind = self._kinds[cls] = HostKind(cls)
            self._classes_changed = True
        kind.hosts += 1
        return kind

    @staticmethod
    def _enter_again(kind: HostKind | None) -> HostKind | None:
        if kind is not None:
            kind.hosts += 1
        return kind

    def _leave_class(self, node: Node) -> None:
        for kind in (node.kind, node.at_best):
            if kind is not None:
                kind.hosts -= 1
                if not kind.hosts:
                    del self._kinds[kind.cls]
                    self._classes_changed = True
        node.kind = node.at_best = None

    def _note_offer(self, facts: NodeFacts) -> None:
        gpu = accelerator(facts.allocatable)
        known = self.offered.get(facts.name) or self._offered_before.get(facts.name, NO_ACCELERATORS)
        self.offered[facts.name] = max(known, (facts.allocatable[gpu], gpu)) if gpu else known

    def _at_best(self, facts: NodeFacts) -> NodeFacts:
        """The node with the accelerators that it has offered."""
        count, gpu = self.offered[facts.name]
        if facts.allocatable[gpu] >= count:
            return facts
        return replace(facts, allocatable=Resources({**facts.allocatable, gpu: count}))

    def _leave_domain(self, node: Node) -> None:
        self._unbin(node)
        if node.domain is not None:
            node.domain.leave(node.name)
            prune(node.domain)
            node.domain = None

    def _retable(self) -> None:
        """Numbers the classes anew, which moves every node to other bins."""
        while len(self._kinds) > CLASSES_MAX and self._values_max > 1:
            self._values_max //= 2
            self._reselect()
            for slot in self._relabelled:
                self._classify(self._at(slot))
            self._relabelled.clear()
        most = sorted(self._kinds.values(), key=lambda k: (-k.hosts, class_order(k.cls)))
        ordered = sorted(most[:CLASSES_MAX], key=lambda k: class_order(k.cls))
        for kind in most:
            kind.number = -1
        for number, kind in enumerate(ordered):
            kind.number = number
        classes = tuple(kind.cls for kind in ordered)
        self._table = Table(classes, self._selectable.left_out, self._selectable.open_ended)
        for node in self.nodes:
            if node is not None:
                self._unbin(node)
                self._dirty[node.slot] = None
        self._empty = self._shape = self._columns = None
        self._classes_changed = False

    def _count(self, node: Node, counted: tuple[int, int, int]) -> None:
        """What a node adds to the totals is now this."""
        before = node.counted
        if counted != before:
            total = self._total
            total[0] += counted[0] - before[0]
            total[1] += counted[1] - before[1]
            total[2] += counted[2] - before[2]
            node.counted = counted

    def _unbin(self, node: Node) -> None:
        self._count(node, NOT_COUNTED)
        self._clipped -= node.clipped
        node.clipped = False
        if node.at is not None:
            assert node.domain is not None
            node.domain.put(node.name, node.at, None)
            node.at = None

    def _settle(self, node: Node) -> None:
        """Puts a node into the bin where it belongs now."""
        at = node.at
        node.weigh()
        if self._columns is not None:
            self._resettled[node.slot] = None
        kind = node.kind
        now = None if kind is None or node.why or kind.number < 0 else (kind.number, node.free_gpus)
        assert node.domain is not None
        if at != now:
            node.domain.put(node.facts.name, at, now)
            node.at = now
        self._count(node, NOT_COUNTED if now is None else (1, node.offered_gpus, node.raw_free_gpus))
        clipped = not node.why and (node.hides or now is None)
        self._clipped += clipped - node.clipped
        node.clipped = clipped

    def _shaped(self, groups: list[tuple[tuple[Level, ...], ShapeNode]], clipped: int) -> Shape:
        out: list[Group] = []
        for levels, root in groups:
            assert isinstance(root, Branch)
            out.append(Group(levels, root))
        return Shape(tuple(out), self._table, clipped)

    def _emptied(self, domain: Domain) -> ShapeNode:
        if domain.kids or domain.parent is None:
            return branch([(self._emptied(kid), 1) for kid in domain.kids.values()])
        counts: dict[tuple[int, int], int] = {}
        for slot in domain.slots:
            node = self._at(slot)
            kind = node.at_best
            if kind is not None and kind.number >= 0:
                at = (kind.number, kind.cls.gpus)
                counts[at] = counts.get(at, 0) + 1
        return leaf(counts)

    def figures(self) -> tuple[int, int, int]:
        """Usable nodes, their GPUs, and how many of these nobody holds, whatever else the hosts have left."""
        self.sync()
        usable, gpus, free = self._total
        return usable, gpus, free

    def usage(self, name: NodeName) -> dict[Resources, int]:
        """What we hold on a node, present or away."""
        slot = self._slot.get(name)
        own = self._away.get(name, {}) if slot is None else self._at(slot).own
        return {pod.uses: count for pod, count in own.items()}

    def shared(self, name: NodeName) -> dict[int, int]:
        """Thousandths used of the devices that our shares opened on a node, present or away."""
        return opened(self.usage(name))

    def flavor_hosts(self, flavor: FlavorName) -> int:
        """Hosts of a flavor, usable or not."""
        self.sync()
        return sum(self._at(slot).flavor == flavor for slot in self._slot.values())
