"""Gangs of several sets: inside the limit of the exact search, what is placed costs what brute force finds."""

from dataclasses import dataclass, replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.placement import Placement, place
from hanse.model.ids import NodeName
from hanse.model.job import Group, Slice, Topology
from hanse.model.placement import Level
from hanse.model.queue import Flavor
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import NVIDIA_GPU, Resources
from hanse.model.selectors import Operator, Requirement, Selector
from hanse.shape import Fit, NoFit, apply, encode, fit
from tests.property.sets_oracle import Cost, Host, Set, best, cost, holds
from tests.property.shape_cases import H100, HOST, POD

DEEP = (Level("t/block", "block"), Level("t/rack", "rack"))
FLAT = (Level("n/clique", "rack"),)
TREES = (DEEP, FLAT)
TAGS = ("even", "odd")


@st.composite
def pools(draw: st.DrawFn) -> list[Host]:
    """Up to six hosts in a deep and a flat tree; some do not know their rack, some not even their block."""
    free = st.sampled_from([0, 1, 2, 4, 8, 8])
    out: list[Host] = []
    mixed = draw(st.booleans())
    for n in range(draw(st.integers(2, 6))):
        tree = draw(st.sampled_from([0, 0, 1])) if mixed else 0
        block = draw(st.sampled_from(["b0", "b0", "b1"]))
        rack = draw(st.sampled_from(["r0", "r1", "r1", None]))
        path = (block, rack) if tree == 0 else (draw(st.sampled_from(["r0", "r1"])),)
        gpus = draw(free)
        tags = frozenset([draw(st.sampled_from(TAGS))])
        out.append(Host(f"n{n}", tree, path, gpus, HOST["cpu"] - (8 - gpus) * POD["cpu"], tags))
    return out


@st.composite
def sets(draw: st.DrawFn, hosts: list[Host], launcher: bool) -> list[Set]:
    """Two or three sets: workers of several sizes, some in slices or of one level, and a launcher without GPUs."""
    trees = sorted({host.tree for host in hosts})
    out: list[Set] = []
    for _ in range(draw(st.integers(1 if launcher else 2, 2 if len(hosts) > 4 else 3))):
        size = draw(st.sampled_from([1, 1, 1, 2]))
        pods = size * draw(st.integers(1, 3 if size == 1 else 2))
        at = draw(st.sampled_from(["rack", "host"])) if size > 1 else ""
        sizes = _by_tree(at, size, trees) if at else ()
        required = draw(st.sampled_from(["", "", "rack", "block"]))
        gpus = draw(st.sampled_from([1, 2, 4, 8]))
        tag = draw(st.sampled_from(["", "", "", *TAGS]))
        out.append(Set(pods, gpus, 1_000 * gpus, _depths(required), sizes, tag))
    group = draw(st.sampled_from(["", "", "rack", "block"]))
    out = [replace(s, group=_depths(group)) if draw(st.booleans()) else s for s in out]
    if launcher:
        out.append(Set(draw(st.integers(1, 2)), 0, draw(st.sampled_from([1_000, 100_000, 186_000])), (), (), ""))
    return out


def _depths(level: str) -> tuple[int | None, ...]:
    return {"": (), "block": (0, None), "rack": (1, 0), "host": (2, 1)}[level]


def _by_tree(level: str, size: int, trees: list[int]) -> tuple[tuple[int, ...], ...]:
    depths = _depths(level)
    return tuple(tuple(size if depths[t] == at else 0 for at in range(3 - t)) for t in (0, 1))


def inventory(hosts: list[Host]) -> Inventory:
    out = Inventory([Flavor(H100, 0)], TREES)
    for host in hosts:
        keys = [level.key for level in TREES[host.tree]]
        labels = {key: name for key, name in zip(keys, host.path, strict=True) if name is not None}
        labels |= {f"tag/{tag}": "yes" for tag in host.tags}
        out.set_node(NodeFacts(NodeName(host.name), labels, (), Resources(HOST)))
        if host.free < 8:
            out.hold(NodeName(host.name), {POD: 8 - host.free})
    return out


def request(gang: list[Set]) -> GangRequest:
    out: list[SetRequest] = []
    for s in gang:
        names = ("block", "rack", "host")
        slices = tuple(Slice(size, names[at]) for at, size in enumerate(s.sizes[0]) if size) if s.sizes else ()
        required = names[s.required[0]] if s.required and s.required[0] is not None else ""
        selector = Selector().and_((Requirement(f"tag/{s.tag}", Operator.EXISTS),)) if s.tag else Selector()
        group = Group("gang", names[s.group[0]]) if s.group and s.group[0] is not None else None
        pod = Resources({"cpu": s.cpu} | ({NVIDIA_GPU: s.gpus} if s.gpus else {}))
        out.append(
            SetRequest(s.pods, s.pods, pod, (H100,), selector, (), Topology(required, "", slices, group=group))
        )
    return GangRequest(tuple(out))


def spent(placement: Placement, gang: list[Set], hosts: list[Host]) -> Cost:
    """The cost of a placement, which must hold every pod of every set."""
    at = {host.name: i for i, host in enumerate(hosts)}
    placed = [[0] * len(hosts) for _ in gang]
    for own in placement.sets:
        for use in own.hosts:
            placed[own.set_index][at[use.node]] += use.pods
    assert [sum(pods) for pods in placed] == [s.pods for s in gang]
    for host, mix in zip(hosts, zip(*placed, strict=True), strict=True):
        assert holds(gang, host, mix)
    return cost(gang, hosts, tuple(tuple(pods) for pods in placed))


@dataclass(frozen=True)
class Outcome:
    """A gang of `sets` and what became of it, above and below."""

    hosts: list[Host]
    sets: list[Set]
    pool: Inventory
    expected: Cost | None
    above: Fit | NoFit
    below: Placement | NoFit


def outcome(data: st.DataObject, *, launcher: bool) -> Outcome:
    hosts = data.draw(pools())
    gang = data.draw(sets(hosts, launcher))
    pool = inventory(hosts)
    asked, flavors = request(gang), (H100,) * len(gang)
    above, below = fit(pool.shape(), asked, flavors), place(pool, asked, flavors)
    return Outcome(hosts, gang, pool, best(gang, hosts), above, below)


@settings(max_examples=1_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_exact_gangs_cost_the_least_and_keep_the_books(data: st.DataObject) -> None:
    got = outcome(data, launcher=False)
    if got.expected is None:
        assert isinstance(got.above, NoFit)
        assert isinstance(got.below, NoFit)
        return
    assert isinstance(got.below, Placement), (got.below, got.expected)
    assert isinstance(got.above, Fit)
    assert got.above.certain
    assert spent(got.below, got.sets, got.hosts) == got.expected
    left = encode(apply(got.pool.shape(), got.above.decision))
    got.pool.take(got.below)
    assert encode(got.pool.shape()) == left


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_gangs_with_a_launcher_cost_the_least(data: st.DataObject) -> None:
    """A pod without GPUs is counted node by node, by the CPU that the others leave; above it is never refused."""
    got = outcome(data, launcher=True)
    if got.expected is None:
        assert isinstance(got.below, NoFit)
        return
    assert isinstance(got.above, Fit)
    assert isinstance(got.below, Placement), (got.below, got.expected)
    assert spent(got.below, got.sets, got.hosts) == got.expected
