"""What an API server said about nodes and pods, kept up to date by its watches. Pure: no clock, no requests.

The mirror folds objects into what the port tells: facts and foreign usage by node, our pods by gang. What changed
since it was last asked is remembered by object, not by event, so a consumer that is slow sees fewer, newer states and
holds nothing up.

Objects may come twice and late (an answer to a request overtakes the watch, or the watch the answer): the newer
version wins, and a pod that is known to be gone does not come back.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum, unique
from typing import Final, TypeVar

from hanse.agent.cluster.kubernetes.facts import is_silent, node_facts, usage_of, uses_node
from hanse.agent.cluster.kubernetes.names import PodKey
from hanse.agent.cluster.kubernetes.objects import Meta, NodeObject, PodObject, SliceObject
from hanse.agent.cluster.kubernetes.slices import Slices
from hanse.agent.cluster.kubernetes.verdicts import OwnPod, own_pod_of, version_of
from hanse.agent.cluster.port import GangKey, NodeFacts, PodPhase
from hanse.model.ids import NodeName
from hanse.model.resources import EMPTY, Resources

GONE_REMEMBERED: Final = 20_000
SILENT_PERCENT_MAX: Final = 55
"""Where more of the nodes are silent at a time, the control plane is to blame, not they; Kubernetes evicts nothing
then either."""

K = TypeVar("K")


@unique
class Unknown(Enum):
    """The one answer of its kind."""

    UNKNOWN = 0


UNKNOWN: Final = Unknown.UNKNOWN
"""Nobody has looked yet who made a pod."""

Kin = Callable[[Meta], PodKey | Unknown | None]
"""Whose pod it is; None for nobody's of ours."""


class Mirror:
    """See the module.

    Args:
        federation: whose pods are ours; "" for nobody's.
        kin: whose pod it is.

    Attributes:
        version: of the list that it began with, as the port calls it.
        node_version, pod_version, slice_version: where the watches of nodes, pods and slices of devices go on; the
            last is "" where the server has none of these.
        changed_nodes, changed_gangs: to be told, until somebody clears them.
        untended: gangs whose pods may need something done, likewise.
        watched: somebody follows, or followed, what it is told.
        silent_since: nodes whose kubelet is silent, or that are gone, by the time at which that was first seen.
        refused_since: pods that the scheduler refuses, by uid, likewise.
        ended_since: pods that have failed, likewise.
        strangers: pods whose labels say that they are ours, and whose makers are not known yet.
    """

    def __init__(self, federation: str, kin: Kin = lambda meta: None) -> None:
        self.federation = federation
        self._kin = kin
        self.version = 0
        self.node_version = ""
        self.pod_version = ""
        self.slice_version = ""
        self.changed_nodes: dict[NodeName, None] = {}
        self.changed_gangs: dict[GangKey, None] = {}
        self.untended: dict[GangKey, None] = {}
        self.watched = False
        self.silent_since: dict[NodeName, float] = {}
        self.refused_since: dict[str, float] = {}
        self.ended_since: dict[str, float] = {}
        self.strangers: dict[str, PodObject] = {}
        self._nodes: dict[NodeName, NodeFacts] = {}
        self._silent: dict[NodeName, None] = {}
        self._hidden: dict[NodeName, None] = {}
        self._own: dict[str, OwnPod] = {}
        self._gangs: dict[GangKey, dict[str, OwnPod]] = {}
        self._foreign: dict[str, tuple[NodeName, Resources]] = {}
        self._usage: dict[NodeName, Resources] = {}
        self._gone: dict[str, None] = {}
        self._slices = Slices()

    # ---- asked --------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Mapping[NodeName, NodeFacts]:
        """All nodes."""
        return self._nodes

    def foreign(self, node: NodeName) -> Resources:
        """Usage of a node by pods that are not ours."""
        return self._usage.get(node, EMPTY)

    def all_foreign(self) -> Iterator[tuple[NodeName, Resources]]:
        """Foreign usage of every node that has any."""
        return ((node, self._usage[node]) for node in self._nodes if node in self._usage)

    @property
    def gangs(self) -> Mapping[GangKey, Mapping[str, OwnPod]]:
        """Our pods by gang and uid."""
        return self._gangs

    def pods(self, key: GangKey) -> tuple[OwnPod, ...]:
        """The pods of one gang."""
        return tuple(self._gangs.get(key, {}).values())

    def is_lost(self, node: NodeName, before_s: float) -> bool:
        """Whether a node has been silent, or absent, since before that time, and not most of the others with it."""
        if self.silent_since.get(node, before_s) >= before_s:
            return False
        return node not in self._nodes or len(self._silent) * 100 <= SILENT_PERCENT_MAX * len(self._nodes)

    def touch(self, key: GangKey) -> None:
        """Something else than its pods changed about a gang."""
        self.changed_gangs[key] = None
        self.untended[key] = None

    def inherit(self, older: "Mirror", now_s: float) -> None:
        """Keep what an older mirror knows and the list of this one was too early for: answers to our own requests."""
        for uid, own in older._own.items():
            if own.version > self.version and uid not in self._own:
                self._set_own(own, now_s)
        self._gone = {**older._gone, **self._gone}
        _keep_earlier(self.silent_since, older.silent_since)
        _keep_earlier(self.refused_since, older.refused_since)
        _keep_earlier(self.ended_since, older.ended_since)

    # ---- told ---------------------------------------------------------------------------------------------

    def set_node(self, node: NodeObject, now_s: float) -> None:
        """A node is new or changed. Raises ValueError if it cannot be read."""
        facts = node_facts(node)
        devices = self._slices.groups(facts.name)
        facts = replace(facts, devices=devices) if devices else facts
        self._hidden.pop(facts.name, None)
        if is_silent(node):
            self._silent[facts.name] = None
            self.silent_since.setdefault(facts.name, now_s)
        else:
            self._silent.pop(facts.name, None)
            self.silent_since.pop(facts.name, None)
        if self._nodes.get(facts.name) != facts:
            self._nodes[facts.name] = facts
            self.changed_nodes[facts.name] = None

    def set_slice(self, found: SliceObject) -> None:
        """A slice of devices is new or changed."""
        self._regroup(self._slices.set(found))

    def drop_slice(self, name: str) -> None:
        """A slice of devices is gone."""
        self._regroup(self._slices.drop(name))

    def _regroup(self, nodes: Iterable[NodeName]) -> None:
        for name in nodes:
            facts = self._nodes.get(name)
            devices = self._slices.groups(name)
            if facts is not None and facts.devices != devices:
                self._nodes[name] = replace(facts, devices=devices)
                self.changed_nodes[name] = None

    def drop_node(self, name: NodeName, now_s: float) -> None:
        """A node was removed."""
        hidden = name in self._hidden
        self._hidden.pop(name, None)
        self._silent.pop(name, None)
        if self._nodes.pop(name, None) is not None or hidden:
            self.silent_since.setdefault(name, now_s)
            self.changed_nodes[name] = None

    def hide_node(self, name: NodeName) -> None:
        """A node is there, and nobody can tell what it is like: nothing new goes there, and nothing there is lost."""
        self._hidden[name] = None
        self._silent.pop(name, None)
        self.silent_since.pop(name, None)
        if self._nodes.pop(name, None) is not None:
            self.changed_nodes[name] = None

    def set_pod(self, pod: PodObject, now_s: float) -> OwnPod | None:
        """A pod is new or changed; returns it if it is ours. Raises ValueError if it cannot be read.

        One that has a node, and never got it from us, takes room there like anybody's.
        """
        uid = pod.metadata.uid
        if uid in self._gone:
            return None
        self.strangers.pop(uid, None)
        key = self._kin(pod.metadata)
        if key is UNKNOWN:
            self.strangers[uid] = pod
        if not isinstance(key, PodKey) or (key.rank < 0 and uses_node(pod)):
            self._drop_own(uid)
            self._set_foreign(pod)
            return None
        self._drop_foreign(uid)
        present = self._own.get(uid)
        if present is not None and present.version >= version_of(pod.metadata.resource_version):
            return present
        own = own_pod_of(key, pod)
        self._set_own(own, now_s)
        return own

    def drop_pod(self, uid: str) -> None:
        """A pod is gone."""
        self.strangers.pop(uid, None)
        self._drop_own(uid)
        self._drop_foreign(uid)
        self._gone[uid] = None
        if len(self._gone) > GONE_REMEMBERED:
            del self._gone[next(iter(self._gone))]

    def _set_own(self, own: OwnPod, now_s: float) -> None:
        gang = own.key.gang
        if own.refusal:
            self.refused_since.setdefault(own.uid, now_s)
        else:
            self.refused_since.pop(own.uid, None)
        if own.phase is PodPhase.FAILED:
            self.ended_since.setdefault(own.uid, now_s)
        if own.bound and own.node not in self._nodes and own.node not in self._hidden:
            self.silent_since.setdefault(own.node, now_s)
        self._own[own.uid] = own
        self._gangs.setdefault(gang, {})[own.uid] = own
        self.touch(gang)

    def _drop_own(self, uid: str) -> None:
        own = self._own.pop(uid, None)
        if own is None:
            return
        self.refused_since.pop(uid, None)
        self.ended_since.pop(uid, None)
        gang = own.key.gang
        del self._gangs[gang][uid]
        if not self._gangs[gang]:
            del self._gangs[gang]
        self.touch(gang)

    def _set_foreign(self, pod: PodObject) -> None:
        uid = pod.metadata.uid
        if not uses_node(pod):
            self._drop_foreign(uid)
            return
        now = NodeName(pod.spec.node_name), usage_of(pod)
        if self._foreign.get(uid) != now:
            self._drop_foreign(uid)
            self._foreign[uid] = now
            self._use(now[0], self.foreign(now[0]).plus(now[1]))

    def _drop_foreign(self, uid: str) -> None:
        before = self._foreign.pop(uid, None)
        if before is not None:
            node, usage = before
            self._use(node, self.foreign(node).minus(usage))

    def _use(self, node: NodeName, usage: Resources) -> None:
        if usage:
            self._usage[node] = usage
        else:
            self._usage.pop(node, None)
        self.changed_nodes[node] = None


def _keep_earlier(since: dict[K, float], before: Mapping[K, float]) -> None:
    """What goes on began when it was first seen."""
    for what in since:
        since[what] = before.get(what, since[what])
