"""What is asked beyond whole slices, by brute force: every way to put pods on the hosts of a small tree.

Trees are those of `shape_oracle`: nested lists down to free GPUs by host. Nothing here knows how placement works.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from tests.property.shape_oracle import Cost, Tree


@dataclass(frozen=True)
class Want:
    """n pods of one GPU; by depth, the host last: slice sizes (0 for none) and most pods in one domain (0: any)."""

    n: int
    sizes: tuple[int, ...]
    caps: tuple[int, ...]
    required: int = -1
    balanced: int = -1

    @property
    def depth(self) -> int:
        return len(self.sizes) - 1


def hosts(tree: Tree) -> list[int]:
    return [free for part in tree for free in ([part] if isinstance(part, int) else hosts(part))]


def placements(tree: Tree, n: int) -> Iterator[tuple[int, ...]]:
    """Pods on each host, host by host in the order of the tree, n in all."""
    for pods in product(*[range(free + 1) for free in hosts(tree)]):
        if sum(pods) == n:
            yield pods


def domains(tree: Tree, depth: int) -> list[range]:
    """Positions of the hosts of every domain at a depth, of single hosts at the last."""

    def walk(part: Tree, at: int, first: int) -> Iterator[range]:
        for kid in part:
            width = 1 if isinstance(kid, int) else len(hosts(kid))
            if at == depth:
                yield range(first, first + width)
            elif not isinstance(kid, int):
                yield from walk(kid, at + 1, first)
            first += width

    return list(walk(tree, 0, 0))


def holds(tree: Tree, pods: tuple[int, ...], want: Want) -> bool:
    """Whether pods can be numbered so that every slice of every layer is inside one domain of its level."""
    for depth in range(want.depth + 1):
        sums = [sum(pods[i] for i in domain) for domain in domains(tree, depth)]
        if want.caps[depth] and max(sums) > want.caps[depth]:
            return False
        if depth == want.required and sum(1 for x in sums if x) != 1:
            return False
    around: set[int] = set(range(len(pods)))  # the domain that holds the smaller slice, finer and finer
    for depth in range(want.depth + 1):
        step = max([1, *want.sizes[depth:]])
        short = [d for d in domains(tree, depth) if sum(pods[i] for i in d) % step]
        if len(short) > 1 or any(not around.issuperset(d) for d in short):
            return False
        around = set(short[0]) if short else around
    return True


def counts(tree: Tree, pods: tuple[int, ...], depth: int) -> Cost:
    """Domains used by level, the host last."""
    return tuple(sum(1 for d in domains(tree, at) if any(pods[i] for i in d)) for at in range(depth + 1))


def evenness(tree: Tree, pods: tuple[int, ...], depth: int) -> tuple[int, int]:
    """(largest share, minus the smallest) of the used domains of a depth: smaller is more even."""
    shares = [x for d in domains(tree, depth) if (x := sum(pods[i] for i in d))]
    return max(shares), -min(shares)


def best(tree: Tree, want: Want) -> tuple[Cost, tuple[int, int]] | None:
    """The least counts, and of these (as far as the balanced level) the most even shares; None if nothing fits."""
    found = [pods for pods in placements(tree, want.n) if holds(tree, pods, want)]
    if not found:
        return None
    least = min(counts(tree, pods, want.depth) for pods in found)
    if want.balanced < 0:
        return least, (0, 0)
    prefix = least[: want.balanced + 1]
    fewest = [pods for pods in found if counts(tree, pods, want.depth)[: want.balanced + 1] == prefix]
    return least, min(evenness(tree, pods, want.balanced) for pods in fewest)
