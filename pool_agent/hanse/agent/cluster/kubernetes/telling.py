"""What was told to whoever watches, so that only differences are told. Pure."""

from collections.abc import Callable, Iterable

from hanse.agent.cluster.kubernetes.mirror import Mirror
from hanse.agent.cluster.port import (
    ClusterEvent,
    GangChanged,
    GangKey,
    NodeChanged,
    NodeFacts,
    NodeGone,
    PodCounts,
)
from hanse.model.ids import NodeName
from hanse.model.resources import Resources

Count = Callable[[Mirror, GangKey], PodCounts]


class Told:
    """The state of a list, and what was told since.

    Args:
        keys: gangs that the list told of.
    """

    def __init__(self, mirror: Mirror, keys: Iterable[GangKey], count: Count) -> None:
        self._mirror = mirror
        self._count = count
        self._nodes: dict[NodeName, tuple[NodeFacts, Resources]] = {
            name: (facts, mirror.foreign(name)) for name, facts in mirror.nodes.items()
        }
        self._gangs = {key: count(mirror, key) for key in keys}

    @property
    def counts(self) -> tuple[PodCounts, ...]:
        """As told last."""
        return tuple(self._gangs.values())

    def news(self) -> tuple[ClusterEvent, ...]:
        """What differs from what was told; it is told now."""
        mirror, events = self._mirror, list[ClusterEvent]()
        for name in mirror.changed_nodes:
            events += self._node(name)
        for key in mirror.changed_gangs:
            events += self._gang(key)
        mirror.changed_nodes.clear()
        mirror.changed_gangs.clear()
        return tuple(events)

    def _node(self, name: NodeName) -> tuple[ClusterEvent, ...]:
        facts = self._mirror.nodes.get(name)
        if facts is None:
            return (NodeGone(name),) if self._nodes.pop(name, None) is not None else ()
        now = facts, self._mirror.foreign(name)
        if self._nodes.get(name) == now:
            return ()
        self._nodes[name] = now
        return (NodeChanged(*now),)

    def _gang(self, key: GangKey) -> tuple[ClusterEvent, ...]:
        now = self._count(self._mirror, key)
        if self._gangs.get(key, PodCounts(key)) == now:
            return ()
        if now == PodCounts(key):
            self._gangs.pop(key, None)
        else:
            self._gangs[key] = now
        return (GangChanged(now),)
