"""Taking a decision out of a shape.

A decision names places by their index in one particular shape, so it is good for that shape only: on any other it is
made anew, which costs no more than checking it. What it leaves is exactly what the agent publishes after the same
gang, because both are computed here.
"""

from dataclasses import dataclass

from hanse.model.resources import Resources
from hanse.shape.classes import HostClass
from hanse.shape.domains import Branch, Leaf, Node, branch, leaf
from hanse.shape.lens import Table
from hanse.shape.shape import Group, Shape
from hanse.shape.take import Take


@dataclass(frozen=True, slots=True)
class SetTake:
    """What one pod set takes, of the shape that the sets before it left.

    Attributes:
        set_index: position of the set in the request.
        takes: (index of the group, take below its root), in that order.
        exclusive: by group, the depth at which a used domain is taken whole, -1 for none; the group's depth for
            whole hosts.
    """

    set_index: int
    pod: Resources
    takes: tuple[tuple[int, Take], ...]
    exclusive: tuple[int, ...]

    def charge(self, cls: HostClass, pods: int, free: int) -> int:
        """GPUs by which so many pods lower what is shown of a host."""
        return cls.charge(self.pod, pods, free)


@dataclass(frozen=True, slots=True)
class MixTake:
    """What all sets of a gang take together, of the shape before any of them did.

    Attributes:
        pods: what a pod of each set uses.
        mixes: pods of each set on one host, by number.
        takes: (index of the group, take below its root), in that order; hosts give a mix, by its number, and not
            pods.
    """

    pods: tuple[Resources, ...]
    mixes: tuple[tuple[int, ...], ...]
    takes: tuple[tuple[int, Take], ...]

    def charge(self, cls: HostClass, mix: int, free: int) -> int:
        """GPUs by which a mix lowers what is shown of a host; exact pods first, which the others leave room for."""
        order = sorted(range(len(self.pods)), key=lambda i: not cls.is_exact(self.pods[i]))
        left = free
        for i in order:
            left -= cls.charge(self.pods[i], self.mixes[mix][i], left)
        return free - left


@dataclass(frozen=True, slots=True)
class Decision:
    """A placement of a whole gang, good for the shape with this key.

    Attributes:
        sets: in the order of taking; () if they are taken in one.
        mix: all sets in one.
    """

    key: tuple[bytes, ...]
    sets: tuple[SetTake, ...]
    mix: MixTake | None = None


def apply(shape: Shape, decision: Decision) -> Shape:
    """The shape after the gang has taken its places.

    Raises:
        ValueError: the decision was made on another shape; fit again.
    """
    if shape.key != decision.key:
        raise ValueError("the decision was made on another shape; fit the request again")
    for taken in decision.sets:
        shape = apply_set(shape, taken)
    return shape if decision.mix is None else apply_set(shape, decision.mix)


def apply_set(shape: Shape, taken: SetTake | MixTake) -> Shape:
    """The shape after one set, or all sets in one, have taken their places."""
    groups = list(shape.groups)
    for g, take in taken.takes:
        group = groups[g]
        exclusive = taken.exclusive[g] if isinstance(taken, SetTake) else -1
        root = remaining(group.root, take, shape.table, taken, exclusive=exclusive)
        assert isinstance(root, Branch)
        groups[g] = Group(group.levels, root)
    return Shape(tuple(groups), shape.table, shape.clipped_hosts)


def remaining(
    node: Node, take: Take, table: Table, taken: SetTake | MixTake, *, exclusive: int, depth: int = -1
) -> Node:
    """What a domain has left. `depth` is the node's own; domains at depth `exclusive` are emptied."""
    if depth == exclusive and depth >= 0:
        return emptied(node, table)
    if isinstance(node, Leaf):
        return _left_on_hosts(node, take, table, taken, whole=exclusive == depth + 1)
    spare = dict(enumerate([copies for _, copies in node.kids]))
    kids: list[tuple[Node, int]] = []
    for i, copies, below in take.kids:
        spare[i] -= copies
        if spare[i] < 0:
            raise ValueError("a decision takes more domains than there are")
        kid = node.kids[i][0]
        kids.append((remaining(kid, below, table, taken, exclusive=exclusive, depth=depth + 1), copies))
    kids.extend([(node.kids[i][0], copies) for i, copies in spare.items()])
    return branch(kids)


def emptied(node: Node, table: Table) -> Node:
    """The domain with no GPU free."""
    if isinstance(node, Leaf):
        counts: dict[tuple[int, int], int] = {}
        for c, _, hosts in node.bins:
            counts[c, 0] = counts.get((c, 0), 0) + hosts
        return leaf(counts)
    return branch([(emptied(kid, table), copies) for kid, copies in node.kids])


def _left_on_hosts(node: Leaf, take: Take, table: Table, taken: SetTake | MixTake, *, whole: bool) -> Leaf:
    counts = {(c, free): hosts for c, free, hosts in node.bins}
    for i, hosts, pods in take.hosts:
        c, free, _ = node.bins[i]
        after = 0 if whole else free - taken.charge(table.classes[c], pods, free)
        counts[c, free] -= hosts
        if counts[c, free] < 0 or after < 0:
            raise ValueError("a decision takes more hosts than there are")
        counts[c, after] = counts.get((c, after), 0) + hosts
    return leaf(counts)
