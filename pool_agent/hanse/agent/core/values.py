"""Which values of a label could hold a gang that wants one of them for all its pods, counted on the nodes."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from hanse.agent.core.counting import pods_per_node
from hanse.agent.core.inventory import Inventory
from hanse.shape.ask import SetAsk
from hanse.shape.classes import label_hash
from hanse.shape.same import Values

FITTING_MAX: Final = 8  # values that hold the gang and are compared; values with little room are looked at first


def roomy_values(inventory: Inventory, s: SetAsk) -> Sequence[Values]:
    """The combinations of values of the set's labels whose nodes have room for all its pods, least room first."""
    rooms = rooms_by_value(inventory, s)
    enough = sorted((room, values) for values, room in rooms.items() if room >= s.count)
    return [dict(zip(s.same, values, strict=True)) for _, values in enough]


def rooms_by_value(inventory: Inventory, s: SetAsk) -> dict[tuple[int, ...], int]:
    """Pods of the set that the nodes with each combination of values hold, as hashes in the order of `s.same`."""
    columns, most = inventory.columns(), pods_per_node(inventory, s)
    rooms: dict[tuple[int, ...], int] = {}
    for row in np.flatnonzero(most).tolist():
        labels = columns.nodes[row].facts.labels
        values = tuple([label_hash(labels[key]) for key in s.same])
        rooms[values] = rooms.get(values, 0) + int(most[row])
    return rooms
