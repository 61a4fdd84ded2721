"""Where nodes are: paths from labels, and the tree of domains that follows every change of a node.

A domain is its full path, so a rack r1 of block b1 is not the r1 of block b2. A node whose label for a level is
missing, empty or a "don't know" is a domain of its own at that level, and so at every finer one: near nothing. Its
name there starts with "?", which no label value can.

Every domain keeps its shape node and, folded by key, its children; a change of one node renews one leaf and the path
above it. The order of equal children is the order of their names.
"""

from array import array
from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

from hanse.agent.core.dialects import SAME_AS, UNKNOWN_VALUES
from hanse.model.ids import NodeName
from hanse.model.placement import Level
from hanse.shape.domains import Branch, Leaf, Node, branch_in_order, leaf, piece
from hanse.shape.levels import bin_number
from hanse.shape.limits import HOST_ALIAS, HOST_KEY

UNKNOWN_PREFIX = "?"
UNUSABLE: Final = -1  # in place of the number of a bin


def known(labels: Mapping[str, str], key: str) -> str | None:
    """The value of a topology label, None if it says nothing."""
    value = labels.get(key)
    if value is None and key in SAME_AS:
        value = labels.get(SAME_AS[key])
    return None if value is None or value.strip().lower() in UNKNOWN_VALUES else value


def known_levels(labels: Mapping[str, str], levels: tuple[Level, ...]) -> int:
    """How many of the levels a node knows."""
    return sum(known(labels, level.key) is not None for level in levels)


def path_of(name: str, labels: Mapping[str, str], levels: tuple[Level, ...]) -> tuple[str, ...]:
    """The node's domains, coarse to fine; one unnamed domain for a tree without levels."""
    if not levels:
        return ("",)
    values = [known(labels, level.key) for level in levels]
    return tuple(UNKNOWN_PREFIX + name if value is None else value for value in values)


def usable_levels(levels: tuple[Level, ...]) -> tuple[Level, ...]:
    """The levels above the host, which is always there and need not be listed.

    Raises:
        ValueError: two levels share a key.
    """
    keys = [level.key for level in levels]
    if len(set(keys)) != len(keys):
        raise ValueError(f"levels: a key is listed twice in {', '.join(keys)}")
    return tuple(level for level in levels if level.key != HOST_KEY and level.alias != HOST_ALIAS)


class Domain:
    """One domain of the tree; a group's root is one with an empty name that is no domain of any level.

    Attributes:
        path: names from the coarsest level down to this domain.
        kids: by name; empty for a lowest domain.
        names: of a lowest domain, every node that is there, usable or not, in order.
        slots: of each of `names`.
        numbers: of each of `names`, the bin of the host (see `bin_number`), UNUSABLE while it takes no pods.
    """

    __slots__ = (
        "_bins", "_by_key", "_counts", "_keys", "_node", "_pairs", "_pieces", "_stale", "kids", "name", "names",
        "numbers", "parent", "path", "slots",
    )  # fmt: skip

    def __init__(self, name: str, parent: "Domain | None") -> None:
        self.name = name
        self.parent = parent
        self.path: tuple[str, ...] = () if parent is None else (*parent.path, name)
        self.kids: dict[str, Domain] = {}
        self.names: list[NodeName] = []
        self.slots: list[int] = []
        self.numbers = array("q")
        self._bins: dict[tuple[int, int], int] = {}
        self._counts: dict[bytes, tuple[Node, dict[str, None]]] = {}
        self._keys: list[bytes] = []  # of those of _counts that hold hosts, in order, with what a branch is made of
        self._pairs: list[tuple[Node, int]] = []
        self._pieces: list[bytes] = []
        self._stale: dict[str, Domain] = {}
        self._by_key: bytes | None = None
        self._node: Node | None = None

    def enter(self, name: NodeName, slot: int) -> None:
        """A node is in this lowest domain from now on; it takes no pods yet."""
        at = bisect_left(self.names, name)
        self.names.insert(at, name)
        self.slots.insert(at, slot)
        self.numbers.insert(at, UNUSABLE)

    def leave(self, name: NodeName) -> None:
        """A node that takes no pods is here no more."""
        at = bisect_left(self.names, name)
        del self.names[at], self.slots[at], self.numbers[at]

    def put(self, name: NodeName, before: tuple[int, int] | None, now: tuple[int, int] | None) -> None:
        """A host moves from one bin (class, free GPUs) to another; None while it takes no pods."""
        self.numbers[bisect_left(self.names, name)] = UNUSABLE if now is None else bin_number(*now)
        if before is not None:
            left = self._bins[before] - 1
            if left:
                self._bins[before] = left
            else:
                del self._bins[before]
        if now is not None:
            self._bins[now] = self._bins.get(now, 0) + 1
        self._touch()

    def within(self, number: int) -> list[int]:
        """Slots of the hosts in one bin, by name."""
        return [slot for slot, own in zip(self.slots, self.numbers, strict=True) if own == number]

    def _touch(self) -> None:
        """What is known of this domain's shape, and of those around it, is out of date."""
        domain = self
        domain._node = None
        while domain.parent is not None and domain.name not in domain.parent._stale:
            domain.parent._stale[domain.name] = domain
            domain = domain.parent
            domain._node = None

    def node(self) -> Node:
        """The shape of this domain."""
        if self._node is None:
            self._node = self._branch() if self.kids or self.parent is None else self._leaf()
        return self._node

    def _leaf(self) -> Leaf:
        return leaf(self._bins)

    def _branch(self) -> Branch:
        for kid in self._stale.values():
            self._file(kid)
        self._stale.clear()
        return branch_in_order(self._pairs, self._pieces)

    def _file(self, kid: "Domain") -> None:
        """Moves a child to the entry of its present key."""
        node = kid.node()
        key = node.key
        if kid._by_key == key:
            return
        self._unfile(kid)
        names = self._counts.setdefault(key, (node, {}))[1]
        names[kid.name] = None
        kid._by_key = key
        self._count(key, node, len(names))

    def _unfile(self, kid: "Domain") -> None:
        key = kid._by_key
        if key is not None:
            node, names = self._counts[key]
            del names[kid.name]
            if not names:
                del self._counts[key]
            kid._by_key = None
            self._count(key, node, len(names))

    def _count(self, key: bytes, node: Node, copies: int) -> None:
        """There are so many children with a key now."""
        if not node.hosts:
            return
        at = bisect_left(self._keys, key)
        if at == len(self._keys) or self._keys[at] != key:
            self._keys.insert(at, key)
            self._pairs.insert(at, (node, copies))
            self._pieces.insert(at, piece(key, copies))
        elif copies:
            self._pairs[at] = node, copies
            self._pieces[at] = piece(key, copies)
        else:
            del self._keys[at], self._pairs[at], self._pieces[at]

    def alike(self, key: bytes) -> "list[Domain]":
        """The children with this key, by name. The shape of this domain must be up to date."""
        names = self._counts[key][1]
        return [self.kids[name] for name in (sorted(names) if len(names) > 1 else names)]

    def remove(self, name: str) -> None:
        """Forgets a child."""
        self._unfile(self.kids.pop(name))
        self._stale.pop(name, None)
        self._touch()


def home(root: Domain, path: tuple[str, ...]) -> Domain:
    """The lowest domain at a path, made if it is new."""
    domain = root
    for name in path:
        kid = domain.kids.get(name)
        if kid is None:
            kid = domain.kids[name] = Domain(name, domain)
            kid._touch()
        domain = kid
    return domain


def prune(domain: Domain) -> None:
    """Removes a lowest domain, and those above it, once they hold nothing."""
    while domain.parent is not None and not domain.kids and not domain.slots:
        parent = domain.parent
        parent.remove(domain.name)
        domain = parent


def lowest(domain: Domain) -> list[Domain]:
    """The lowest domains below (or of) a domain, in the order of their paths."""
    if not domain.kids:
        return [domain] if domain.parent is not None else []
    return [low for name in sorted(domain.kids) for low in lowest(domain.kids[name])]
