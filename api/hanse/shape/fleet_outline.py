"""A node group's tree, level by level, as `fleet_rows` lays it out.

Levels are counted from the hosts up: 1 are the lowest domains, 2 their parents. A domain of level 3, or the root of a
group with fewer levels, is the home of its parents of lowest domains.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from hanse.shape.domains import Branch
from hanse.shape.fleet_frames import columns_of

HOME_LEVEL: Final = 3

Kids = Sequence[tuple[Branch, int]]  # domains and their copies


class Outline(NamedTuple):
    """A tree from its coarsest domains to level 3.

    Attributes:
        copies, first: by level, of each domain its copies and its first child; without the columns.
        homes: of each domain of level 3, the parents of lowest domains.
        times: how many such domains there are in all.
    """

    copies: list[list[int]]
    first: list[list[int]]
    homes: list[Kids]
    times: list[int]

    @property
    def sizes(self) -> list[int]:
        """Domains by depth, the columns last, with those to spare."""
        return [*[len(copies) for copies in self.copies], sum([room_of(home) for home in self.homes])]


def outline(root: Branch, levels: int, depth: int) -> Outline:
    """With trivial domains on top, `depth` levels in all."""
    trivial = depth - max(levels, HOME_LEVEL - 1)
    copies, first = [[1]] * trivial, [[0]] * trivial
    nodes, times = [root], [1]
    for _ in range(levels - HOME_LEVEL + 1):
        times = [t * n for node, t in zip(nodes, times, strict=True) for _, n in node.kids]
        copies.append([n for node in nodes for _, n in node.kids])
        nodes = [kid for node in nodes for kid, _ in node.kids if isinstance(kid, Branch)]
        first.append(list(accumulate([len(node.kids) for node in nodes[:-1]], initial=0)))
    homes = [parents_of(node, levels) for node in nodes]
    first[-1] = list(accumulate([room_of(home) for home in homes[:-1]], initial=0))
    return Outline(copies, first, homes, times)


def parents_in(root: Branch, levels: int) -> list[Branch]:
    """The parents of lowest domains of a group."""
    above = [root]
    for _ in range(levels - 1):
        above = [kid for node in above for kid, _ in node.kids if isinstance(kid, Branch)]
    return above


def parents_of(home: Branch, levels: int) -> Kids:
    """Of a domain of level 3, or the root of a group with fewer levels."""
    return [(home, 1)] if levels == 1 else [(kid, n) for kid, n in home.kids if isinstance(kid, Branch)]


def room_of(parents: Kids) -> int:
    """Columns of a home."""
    return sum([columns_of(parent) for parent, _ in parents]) + 1 + len(parents) // 8
