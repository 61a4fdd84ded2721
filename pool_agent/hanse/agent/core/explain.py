"""The nearest miss, in names: which domain almost holds a gang, and what is missing in it.

Answers on demand only. Nothing above the agent keeps what is said here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hanse.agent.core.counting import count, pods_per_node, wrong_kind
from hanse.agent.core.groups import pods_in, rooms, words
from hanse.agent.core.inventory import Inventory, Node
from hanse.agent.core.placement import place
from hanse.agent.core.topology import Domain, lowest
from hanse.model.ids import FlavorName
from hanse.model.reasons import Reason
from hanse.model.request import GangRequest
from hanse.model.resources import GPU_MILLI
from hanse.shape.ask import SetAsk, prepare
from hanse.shape.capacity import Cap
from hanse.shape.lens import Ladder
from hanse.shape.limits import HOST_ALIAS
from hanse.shape.refuse import NoFit
from hanse.shape.seat import View

MISSING_LISTED_MAX: Final = 6


@dataclass(frozen=True, slots=True)
class Missing:
    """Hosts of the nearest domain that hold less than they could, and why."""

    hosts: int
    why: str


@dataclass(frozen=True, slots=True)
class NearMiss:
    """The domain that comes nearest to holding a set.

    Attributes:
        level: alias, or "pool".
        domain: full path, names joined by "/"; "" for the pool.
        unit: what `wanted`, `found` and `could` count: "hosts" if a pod takes a whole host, else "pods".
        could: what the domain would hold if all its hosts were free and ready.
    """

    set_index: int
    level: str
    domain: str
    unit: str
    wanted: int
    found: int
    could: int
    missing: tuple[Missing, ...]

    @property
    def text(self) -> str:
        """`rack b3/r12 holds 14 of 16 hosts: 1 cordoned, 1 has 6 of 8 GPUs`."""
        where = f"{self.level} {self.domain}" if self.domain else "the pool"
        held = f"{where} holds {self.found} of {self.wanted} {self.unit}"
        if self.could < self.wanted:
            return f"{held}, and {self.could} when it is empty"
        return f"{held}: {', '.join(f'{m.hosts} {m.why}' for m in self.missing)}" if self.missing else held


@dataclass(frozen=True, slots=True)
class NodeExplanation:
    """Why a gang is not placed here, in names. `near` is empty if it fits, or if no host could ever hold a pod."""

    fits: bool
    refusal: NoFit | None
    near: tuple[NearMiss, ...]

    @property
    def text(self) -> str:
        """One line."""
        if self.near:
            return "; ".join(miss.text for miss in self.near)
        return "fits" if self.refusal is None else self.refusal.detail


def explain_nodes(inventory: Inventory, request: GangRequest, flavors: tuple[FlavorName, ...]) -> NodeExplanation:
    """The nearest miss of every set that finds no room even alone."""
    result = place(inventory, request, flavors)
    if not isinstance(result, NoFit):
        return NodeExplanation(True, None, ())
    if result.reason is not Reason.SHAPE:
        return NodeExplanation(False, result, ())
    ask = prepare(request, flavors)
    found = (_nearest(inventory, i, s) for i, s in zip(ask.index, ask.sets, strict=True))
    return NodeExplanation(False, result, tuple(miss for miss in found if miss is not None))


@dataclass(frozen=True, slots=True)
class _Candidate:
    view: View
    depth: int
    domain: Domain
    cap: Cap


def _nearest(inventory: Inventory, index: int, s: SetAsk) -> NearMiss | None:
    views = count(inventory, s).views
    candidates = [c for v in views for c in _candidates(v, inventory.roots[v.group])]
    if not candidates or any(c.cap.fit >= s.count for c in candidates):
        return None
    most = _most_per_node(inventory, s)
    could = [sum([most.get(slot, 0) for low in _lowest(c) for slot in low.slots]) for c in candidates]
    best = max(range(len(candidates)), key=lambda i: (could[i] >= s.count, candidates[i].cap.fit, could[i], -i))
    nearest = candidates[best]
    whole = all(n <= 1 for n in most.values())
    return NearMiss(
        set_index=index,
        level=_level(nearest.view.rungs, nearest.depth),
        domain="/".join(name for name in nearest.domain.path if name),
        unit="hosts" if whole else "pods",
        wanted=s.count,
        found=nearest.cap.fit,
        could=could[best],
        missing=_missing(inventory, s, _lowest(nearest), most),
    )


def _level(rungs: Ladder, depth: int) -> str:
    if depth < 0 or not rungs.levels:
        return "pool"
    return rungs.levels[depth].alias if depth < rungs.depth else HOST_ALIAS


def _candidates(v: View, root: Domain) -> list[_Candidate]:
    """The domains of the required level, or the root; hosts are told by their lowest domain."""
    depth = min(v.depth, v.rungs.depth - 1)
    return [_Candidate(v, depth, domain, cap) for domain, cap in _at_depth(root, v.cap, depth + 1)]


def _at_depth(domain: Domain, cap: Cap, down: int) -> Iterator[tuple[Domain, Cap]]:
    if down == 0:
        yield domain, cap
        return
    for name, (kid, _) in zip(sorted(domain.kids), cap.kids, strict=True):
        yield from _at_depth(domain.kids[name], kid, down - 1)


def _lowest(c: _Candidate) -> list[Domain]:
    return lowest(c.domain)


def _most_per_node(inventory: Inventory, s: SetAsk) -> dict[int, int]:
    """By slot, the pods that a host which may take them would hold if it were free and ready."""
    most: dict[int, int] = {}
    for node in inventory.nodes:
        if node is not None and node.cls is not None and not wrong_kind(node, s):
            held = node.cls.pods_per_host(s.pod)[node.cls.gpus]
            if s.devices is not None:
                held = min(held, pods_in(rooms(node.facts.devices, s.devices, {}, 0), s.gpus))
            if held:
                most[node.slot] = held
    return most


def _missing(inventory: Inventory, s: SetAsk, domains: list[Domain], most: dict[int, int]) -> tuple[Missing, ...]:
    rows = inventory.columns().row
    now: list[int] = pods_per_node(inventory, s).tolist()
    reasons: dict[str, int] = {}
    for low in domains:
        for slot in low.slots:
            if slot in most and now[rows[slot]] < most[slot]:
                why = _why(inventory.at(slot), s)
                reasons[why] = reasons.get(why, 0) + 1
    common = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:MISSING_LISTED_MAX]
    return tuple(Missing(hosts, why) for why, hosts in common)


def _why(node: Node, s: SetAsk) -> str:
    if node.why:
        return node.why
    assert node.cls is not None
    if s.devices is not None and s.gpus <= node.raw_free_gpus:
        if not any(own.named(s.devices.kind) for own in node.facts.devices):
            return f"does not say which GPUs share a {s.devices.kind} group"
        return f"has no {words(s.devices)} with {s.gpus} GPUs left for certain"
    milli, room = s.pod[GPU_MILLI], node.device_room()
    if milli and max(room, default=0) < milli:
        return f"has a device with {max(room, default=0)} of {milli} thousandths left at the most"
    if s.gpus and node.cls.gpu and node.raw_free_gpus < node.cls.gpus:
        return f"has {node.raw_free_gpus} of {node.cls.gpus} GPUs"
    short = [name for name, amount in s.pod.items() if node.free(name) < amount]
    if short:
        return f"has too little {', '.join(short)} left"
    return "has too little cpu or memory left beside its GPUs"
