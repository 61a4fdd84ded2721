"""The part of a job that placement looks at, stripped of names, commands and owners.

Jobs with equal requests are decided together: the scheduler keeps one explanation, one feasibility result and one
wake-up per request class, however many duplicates wait. The class hash contains the queue's uid, so that a tenant
who manages to make two requests collide confuses only their own queue.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from hanse.model.beside import Need
from hanse.model.ids import FlavorName, QueueUid
from hanse.model.job import JobSpec, Slice, Topology
from hanse.model.resources import Resources
from hanse.model.selectors import Selector, Toleration


@dataclass(frozen=True, slots=True)
class SetRequest:
    """Placement's view of one pod set.

    Attributes:
        count, min_count: pods wanted, and the least that is of use.
        resources: of one pod; `gpus` are whole accelerators.
        flavors: accepted, in order of preference; empty for any.
    """

    count: int
    min_count: int
    resources: Resources
    flavors: tuple[FlavorName, ...]
    selector: Selector
    tolerations: tuple[Toleration, ...]
    topology: Topology

    @property
    def step(self) -> int:
        """The set is sized in multiples of this: whole slices of its first layer, unless the last may be smaller."""
        slices = self.topology.slices
        return slices[0].size if slices and not slices[0].ragged else 1

    @property
    def least(self) -> int:
        """Pods without which the set is useless, in whole steps."""
        return min(self.count, -(-self.min_count // self.step) * self.step)

    def sized(self, count: int) -> "SetRequest":
        """The same set with exactly so many pods."""
        return replace(self, count=count, min_count=count)


@dataclass(frozen=True, slots=True)
class GangRequest:
    """Placement's view of a gang: all of it or none.

    Attributes:
        needs: what its pods name of their cluster. A shape does not tell it; pools that lacked it are remembered by
            class, and a class has one answer.
    """

    sets: tuple[SetRequest, ...]
    max_pools: int = 1
    needs: tuple[Need, ...] = ()

    @property
    def pods(self) -> int:
        """Pods of the whole gang."""
        return sum(s.count for s in self.sets)

    @property
    def gpus(self) -> int:
        """Whole accelerators of the whole gang."""
        return sum(s.count * s.resources.gpus for s in self.sets)

    @property
    def is_elastic(self) -> bool:
        """Whether fewer pods than all would do."""
        return any(s.least < s.count for s in self.sets)

    def sized(self, counts: Iterable[int]) -> "GangRequest":
        """The same gang with exactly so many pods of each set."""
        return replace(self, sets=tuple(s.sized(n) for s, n in zip(self.sets, counts, strict=True)))

    @property
    def at_least(self) -> "GangRequest":
        """The smallest gang that is of use; the gang itself if it is not elastic."""
        return self.sized(s.least for s in self.sets) if self.is_elastic else self


def gang_request(spec: JobSpec) -> GangRequest:
    """The request of a job; equal specs up to names and templates give equal requests."""
    return GangRequest(
        sets=tuple(
            SetRequest(p.count, p.min_count, p.resources, p.flavors, p.selector, p.tolerations, p.topology)
            for p in spec.pod_sets
        ),
        max_pools=spec.max_pools,
        needs=spec.needs,
    )


def _canonical(request: GangRequest) -> list[object]:
    sets: list[object] = [
        [
            s.count,
            s.min_count,
            list(s.resources.items()),
            list(s.flavors),
            [[[r.key, int(r.operator), list(r.values)] for r in term] for term in s.selector.terms],
            [[t.key, t.exists, t.value, int(t.effect)] for t in s.tolerations],
            [
                s.topology.required,
                s.topology.preferred,
                [[x.size, x.level, x.exclusive] for x in s.topology.slices],
                *_rare(s.topology),
            ],
        ]
        for s in request.sets
    ]
    needs = [[int(need.kind), need.name] for need in request.needs]
    return [request.max_pools, sets, needs] if needs else [request.max_pools, sets]


def _rare(topology: Topology) -> list[object]:
    """What few requests say; nothing for the others, whose hashes stay as they were."""
    marks = [[x.ragged, x.preferred] for x in topology.slices]
    spread = [topology.spread.level, topology.spread.max_pods] if topology.spread else []
    said: list[object] = [marks, topology.balanced, spread, list(topology.same)]
    said += [[topology.group.name, topology.group.level]] if topology.group else []
    said += [["devices", topology.devices.kind, topology.devices.nic]] if topology.devices else []
    plain = tuple(Slice(x.size, x.level, x.exclusive) for x in topology.slices)
    return said if topology != Topology(topology.required, topology.preferred, plain) else []


def class_hash(queue: QueueUid, request: GangRequest) -> int:
    """A 63-bit hash that equal requests of one queue share."""
    text = json.dumps([queue, _canonical(request)], separators=(",", ":"))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
