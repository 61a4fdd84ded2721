"""Shapes as bytes: one form each, back to the same shape, and nothing else is accepted."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.model.ids import FlavorName
from hanse.model.job import Topology
from hanse.model.placement import Level
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import NVIDIA_GPU, Resources
from hanse.model.selectors import Effect, Selector, Taint
from hanse.shape import SUMMARY_BYTES_MAX, Fit, Shape, ShapeError, decode, encode, fit
from hanse.shape.classes import HostClass, label_hash
from hanse.shape.clip import clipped
from hanse.shape.codec import written
from hanse.shape.domains import Node, branch, leaf
from hanse.shape.histogram import rank, unrank, ways
from hanse.shape.lens import Table
from hanse.shape.shape import Group

LEVELS = (Level("t/block", "block"), Level("t/rack", "rack"))
FLAVORS = ("h100", "gb200", "cpu")


def host_classes() -> st.SearchStrategy[HostClass]:
    gpus = st.sampled_from([0, 1, 4, 8, 16])
    labels = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("xy"), max_size=4)
    taints = st.lists(st.sampled_from([Taint("t", "v", Effect.NO_SCHEDULE), Taint("u", "", Effect.NO_EXECUTE)]))
    return st.builds(
        lambda flavor, n, cpu, taint, pairs: HostClass(
            FlavorName(flavor),
            NVIDIA_GPU if n else "",
            n,
            Resources({"cpu": cpu, "pods": 110}),
            tuple(taint[:1]),
            tuple(sorted((label_hash(k), label_hash(v)) for k, v in pairs.items())),
        ),
        st.sampled_from(FLAVORS), gpus, st.integers(0, 2**40), taints, labels,
    )  # fmt: skip


@st.composite
def shapes(draw: st.DrawFn, hosts_max: int = 40) -> Shape:
    classes = tuple(dict.fromkeys(draw(st.lists(host_classes(), min_size=1, max_size=4))))
    bins = st.integers(0, len(classes) - 1).flatmap(lambda c: st.tuples(st.just(c), st.integers(0, classes[c].gpus)))
    leaves = st.dictionaries(bins, st.integers(1, hosts_max), max_size=5).map(leaf)
    tree: st.SearchStrategy[Node] = leaves
    groups = []
    for _ in range(draw(st.integers(0, 2))):
        height = draw(st.integers(1, 2))
        tree = leaves
        for _ in range(height):
            tree = st.lists(st.tuples(tree, st.integers(1, 3)), max_size=4).map(branch)
        root = draw(tree)
        assert not isinstance(root, type(leaf({})))
        groups.append(Group(LEVELS[:height], root))  # type: ignore[arg-type]
    left_out = frozenset(draw(st.sets(st.integers(0, 2**32 - 1), max_size=3)))
    return Shape(tuple(groups), Table(classes, left_out, draw(st.booleans())), draw(st.integers(0, 99)))


def parts(shape: Shape) -> tuple[object, ...]:
    return shape.key, shape.table.classes, shape.table.left_out, shape.table.open_ended, shape.clipped_hosts


@settings(max_examples=300, deadline=None)
@given(shapes())
def test_bytes_lead_back_to_the_same_shape(shape: Shape) -> None:
    data = encode(shape)
    again = decode(data)
    assert parts(again) == parts(shape)
    assert [group.levels for group in again.groups] == [group.levels for group in shape.groups]
    assert encode(again) == data


@settings(max_examples=300, deadline=None)
@given(shapes(), st.data())
def test_other_bytes_are_refused_or_mean_another_shape(shape: Shape, data: st.DataObject) -> None:
    good = bytearray(encode(shape))
    at = data.draw(st.integers(0, len(good) - 1))
    how = data.draw(st.sampled_from(["flip", "cut", "double", "extend"]))
    if how == "flip":
        good[at] ^= 1 << data.draw(st.integers(0, 7))
    elif how == "cut":
        del good[at:]
    elif how == "double":
        good[at:at] = good[at : at + 4]
    else:
        good += b"\0"
    try:
        again = decode(bytes(good))
    except ShapeError:
        return
    assert encode(again) == bytes(good)


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=300))
def test_noise_is_refused(noise: bytes) -> None:
    for data in (noise, b"HSHP" + noise, b"HSHP\x01\x00" + noise, b"HSHP\x02\x00" + noise):
        try:
            shape = decode(data)
            assert data in (written(shape), written(shape, 1))
        except ShapeError:
            continue


def test_too_many_bytes_are_refused_unread() -> None:
    with pytest.raises(ShapeError, match="over the limit"):
        decode(b"HSHP" + bytes(SUMMARY_BYTES_MAX))


def test_another_version_is_refused() -> None:
    with pytest.raises(ShapeError, match="version 3"):
        decode(b"HSHP\x03\x00")


@settings(max_examples=200, deadline=None)
@given(shapes())
def test_the_version_before_is_read(shape: Shape) -> None:
    again = decode(written(shape, 1))
    assert parts(again) == parts(shape)
    assert [group.levels for group in again.groups] == [group.levels for group in shape.groups]


@pytest.mark.parametrize("seed", range(3))
def test_bits_take_less_than_bytes(seed: int) -> None:
    rng = random.Random(seed)
    host = HostClass(FlavorName("h100"), NVIDIA_GPU, 8, Resources({"cpu": 64_000, "pods": 110}))
    racks = [leaf(Counter((0, rng.choice((0, 0, 0, 3, 8))) for _ in range(4))) for _ in range(800)]
    blocks = [(branch([(rack, 1) for rack in racks[at : at + 8]]), 1) for at in range(0, len(racks), 8)]
    shape = Shape((Group(LEVELS, branch(blocks)),), Table((host,)))
    assert decode(written(shape)).key == shape.key
    assert len(written(shape)) < 0.6 * len(written(shape, 1))


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=12))
def test_a_histogram_has_one_number(counts: list[int]) -> None:
    at, hosts, full = rank(counts), sum(counts), len(counts) - 1
    assert 0 <= at < ways(hosts, full)
    assert unrank(at, hosts, full) == counts


def test_histograms_of_a_size_fill_the_numbers() -> None:
    assert sorted(tuple(unrank(at, 4, 3)) for at in range(ways(4, 3))) == sorted(
        (a, b, c, 4 - a - b - c) for a in range(5) for b in range(5 - a) for c in range(5 - a - b)
    )


def wild(seed: int, hosts: int) -> Shape:
    """As different as hosts can be: many classes, ragged racks, every number of free GPUs."""
    rng = random.Random(seed)
    classes = tuple(
        HostClass(
            FlavorName(f"flavor-{i}"), NVIDIA_GPU, rng.choice([4, 8, 16]),
            Resources({"cpu": rng.randrange(10**6), "pods": 110, f"example.com/r{i}": 5}),
            (Taint(f"key-{i}" * 8, "v" * 40, Effect.NO_SCHEDULE),),
            tuple(sorted((label_hash(f"{i}-{j}"), label_hash(str(rng.random()))) for j in range(20))),
        )
        for i in range(rng.randint(1, 48))
    )  # fmt: skip
    blocks: list[tuple[Node, int]] = []
    while hosts > 0:
        racks: list[tuple[Node, int]] = []
        for _ in range(rng.randint(1, 40)):
            counts: dict[tuple[int, int], int] = {}
            for _ in range(rng.randint(1, 18)):
                c = rng.randrange(len(classes))
                at = c, rng.randint(0, classes[c].gpus)
                counts[at] = counts.get(at, 0) + 1
                hosts -= 1
            racks.append((leaf(counts), 1))
        blocks.append((branch(racks), 1))
    return Shape((Group(LEVELS, branch(blocks)),), Table(classes))


def one_set(n: int, g: int, flavor: str, required: str) -> GangRequest:
    pods = SetRequest(
        n, n, Resources({NVIDIA_GPU: g}), (FlavorName(flavor),), Selector(), (), Topology(required=required)
    )
    return GangRequest((pods,))


@pytest.mark.parametrize("hosts", [50, 500, 5_000, 20_000])
@pytest.mark.parametrize("seed", range(3))
def test_a_summary_is_bounded_and_a_clipped_one_promises_no_more(seed: int, hosts: int) -> None:
    shape = wild(seed, hosts)
    data = encode(shape)
    assert len(data) <= SUMMARY_BYTES_MAX
    small = decode(data)
    assert small.exact == (written(shape) == data)
    assert small.free_gpus() <= shape.free_gpus()
    assert small.clipped_hosts <= shape.hosts()
    rng = random.Random(seed)
    for _ in range(60):
        flavor = f"flavor-{rng.randrange(len(shape.table.classes))}"
        request = one_set(rng.randint(1, 12), rng.choice([1, 2, 4, 8]), flavor, rng.choice(["", "rack", "block"]))
        if isinstance(fit(small, request, (FlavorName(flavor),)), Fit):
            assert isinstance(fit(shape, request, (FlavorName(flavor),)), Fit)


def test_clipping_counts_every_host_that_shows_less() -> None:
    shape = wild(1, 5_000)
    small = clipped(shape)
    assert small.clipped_hosts >= shape.whole_hosts() - small.whole_hosts() > 0
    assert len(written(small)) <= SUMMARY_BYTES_MAX
