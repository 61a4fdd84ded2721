"""What a shape answers: where, how well, or why not."""

from dataclasses import replace

import pytest

from hanse.model.job import Group, Slice, Topology
from hanse.model.reasons import Reason
from hanse.model.request import SetRequest
from hanse.model.resources import Resources
from hanse.model.selectors import Effect, Operator, Requirement, Selector, Taint, Toleration
from hanse.shape import Fit, NoFit, Shape, apply, fit, prepare, quick_reject
from hanse.shape.classes import label_hash
from hanse.shape.lens import Table
from tests.unit.shape.builders import H100, gang, host_class, pods, shape

FREE = [[8, 8, 8, 8], [8, 8, 8, 8]]
BROKEN = [[8, 8, 0, 3], [8, 0, 0, 0]]


def fits(where: Shape, *sets: SetRequest) -> Fit:
    found = fit(where, gang(*sets), (H100,) * len(sets))
    assert isinstance(found, Fit), found
    return found


def misses(where: Shape, *sets: SetRequest) -> NoFit:
    found = fit(where, gang(*sets), (H100,) * len(sets))
    assert isinstance(found, NoFit), found
    return found


def used(found: Fit) -> dict[str, int]:
    return {use.level: use.count for use in found.levels_used}


def test_counts_domains_by_level_the_host_last() -> None:
    assert used(fits(shape(FREE), pods(6))) == {"block": 1, "rack": 2, "host": 6}
    assert fits(shape(FREE), pods(6)).parts[0].pods == 6


def test_apply_takes_what_was_decided() -> None:
    found = fits(shape(FREE, BROKEN), pods(3, required="rack"))
    left = apply(shape(FREE, BROKEN), found.decision)
    assert shape(FREE, BROKEN).free_gpus() - left.free_gpus() == 24
    assert left.key == shape([[8, 8, 8, 8], [8, 0, 0, 0]], BROKEN).key


def test_a_decision_is_good_for_its_own_shape_only() -> None:
    found = fits(shape(FREE), pods(3))
    with pytest.raises(ValueError, match="another shape"):
        apply(shape(BROKEN), found.decision)


def test_equal_domains_are_one_with_copies() -> None:
    assert len(shape(FREE, FREE).groups[0].root.kids) == 1
    assert used(fits(shape(FREE, FREE), pods(16))) == {"block": 2, "rack": 4, "host": 16}


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param(shape(FREE), shape([[8, 8], [8, 8], [8, 8]]), id="fewer racks"),
        pytest.param(shape([[8] * 6]), shape([[8] * 16]), id="tighter"),
        pytest.param(shape([[8, 8]], [[8, 8, 8]]), shape([[8]], [[8]], [[8, 8]], [[8, 8]]), id="fewer blocks"),
    ],
)
def test_scores_compare_pools(better: Shape, worse: Shape) -> None:
    n = 5 if len(better.groups[0].root.kids) > 1 else 6
    assert fits(better, pods(n)).score < fits(worse, pods(n)).score


@pytest.mark.parametrize(
    ("asked", "reason", "constraint", "wanted", "found"),
    [
        (pods(5, required="rack"), Reason.SHAPE, "hosts with 8 free GPUs in one rack", 5, 4),
        (pods(9), Reason.SHAPE, "hosts with 8 free GPUs", 9, 8),
        (pods(20, 4, required="rack"), Reason.SHAPE, "pods of 4 GPUs in one rack", 20, 8),
        (
            pods(9, 8, slices=(Slice(3, "rack"),)),
            Reason.SHAPE,
            "slices of 3 hosts with 8 free GPUs in one rack",
            3,
            2,
        ),
        (pods(4, 8, slices=(Slice(3, "rack"),)), Reason.SHAPE, "slices of 3 pods divide the set", 4, 3),
        (pods(1, required="zone"), Reason.LEVEL_UNKNOWN, "level zone", 1, 0),
        (pods(1, preferred="zone"), Reason.LEVEL_UNKNOWN, "level zone", 1, 0),
        (pods(2, slices=(Slice(2, "zone"),)), Reason.LEVEL_UNKNOWN, "level zone", 1, 0),
        (pods(1, 9), Reason.RESOURCES, "hosts that offer what one pod asks for", 1, 0),
        (pods(1, 1, cpu=140_000), Reason.RESOURCES, "hosts that offer what one pod asks for", 1, 0),
    ],
)
def test_a_refusal_says_what_and_how_much(
    asked: SetRequest, reason: Reason, constraint: str, wanted: int, found: int
) -> None:
    no = misses(shape(FREE), asked)
    assert (no.reason, no.constraint, no.wanted, no.found) == (reason, constraint, wanted, found)
    assert 0 <= no.nearness < 1
    assert "\n" not in no.detail


def test_enough_in_sum_but_not_in_shape_is_said_in_words() -> None:
    no = misses(shape([[4] * 4] * 4), pods(8, required="block"))
    assert no.detail == "64 GPUs are free, but found 0 hosts with 8 free GPUs in one block; wanted 8"


def test_every_slice_layer_is_told() -> None:
    no = misses(shape([[7, 4], [7, 3]]), pods(16, 1, slices=(Slice(8, "rack"), Slice(4, "host"))))
    assert no.detail == (
        "found 1 of 2 slices of 8 pods of 1 GPU in one rack, 3 of 4 slices of 4 pods of 1 GPU in one host"
    )


def test_another_flavor_is_refused_by_name() -> None:
    no = fit(shape(FREE), gang(pods(1)), ("gb200",))  # type: ignore[arg-type]
    assert isinstance(no, NoFit)
    assert (no.reason, no.detail) == (Reason.FLAVOR, "no host of flavor gb200")


def test_a_taint_must_be_tolerated() -> None:
    tainted = shape(FREE, classes=(host_class(taints=(Taint("team", "a", Effect.NO_SCHEDULE),)),))
    assert misses(tainted, pods(1)).reason is Reason.TAINT
    assert fits(tainted, pods(1, tolerations=(Toleration("team", value="a"),)))


def test_a_group_is_in_one_domain_or_the_gang_waits() -> None:
    both = [replace(one, topology=Topology(group=Group("all", "rack"))) for one in (pods(1, 4), pods(3))]
    assert fits(shape([[8, 8, 8], [8, 8, 8, 4]]), *both)
    no = misses(shape([[8, 8, 8], [8, 8, 4]]), *both)
    assert (no.constraint, no.wanted, no.found) == ("pods of all in one rack", 4, 3)
    assert no.detail == "found 4 pods of all in one rack, each set by itself; wanted 4"


def test_a_group_of_one_set_requires_its_level() -> None:
    alone = replace(pods(4), topology=Topology(group=Group("all", "rack")))
    assert misses(shape([[8, 8], [8, 8]]), alone).constraint == "hosts with 8 free GPUs in one rack"


@pytest.mark.parametrize(
    ("requirement", "fitting", "certain"),
    [
        (Requirement("kind", Operator.IN, ("a", "b")), True, True),
        (Requirement("kind", Operator.IN, ("b",)), False, True),
        (Requirement("kind", Operator.NOT_IN, ("b",)), True, True),
        (Requirement("kind", Operator.NOT_IN, ("a",)), False, True),
        (Requirement("kind", Operator.EXISTS), True, True),
        (Requirement("kind", Operator.DOES_NOT_EXIST), False, True),
        (Requirement("memory", Operator.GT, ("5",)), True, False),
        (Requirement("absent", Operator.EXISTS), False, True),
        (Requirement("absent", Operator.NOT_IN, ("x",)), True, True),
        (Requirement("absent", Operator.GT, ("5",)), False, True),
        (Requirement("secret", Operator.IN, ("x",)), True, False),
        (Requirement("secret", Operator.DOES_NOT_EXIST), True, False),
    ],
)
def test_selectors_are_answered_yes_no_or_maybe(requirement: Requirement, fitting: bool, certain: bool) -> None:
    labelled = host_class(labels={"kind": "a", "memory": "6"})
    where = shape(FREE)
    table = Table((labelled,), frozenset([label_hash("secret")]))
    found = fit(Shape(where.groups, table), gang(pods(1, selector=Selector(((requirement,),)))), (H100,))
    assert isinstance(found, Fit) == fitting
    if isinstance(found, Fit):
        assert found.certain == certain


def test_an_open_table_says_maybe_to_every_other_key() -> None:
    where = shape(FREE)
    open_ended = Shape(where.groups, Table((host_class(),), frozenset(), True))
    anything = Selector(((Requirement("anything", Operator.EXISTS),),))
    found = fit(open_ended, gang(pods(1, selector=anything)), (H100,))
    assert isinstance(found, Fit)
    assert not found.certain


def test_pods_within_the_share_are_certain_and_others_are_not() -> None:
    assert fits(shape(FREE), pods(4, 2, cpu=28_000)).certain
    assert not fits(shape(FREE), pods(4, 2, cpu=28_001)).certain
    assert not fits(shape(FREE), pods(4, 0, cpu=1_000)).certain


def test_small_work_breaks_what_is_broken() -> None:
    left = apply(shape(FREE, BROKEN), fits(shape(FREE, BROKEN), pods(1, 1)).decision)
    assert left.key == shape(FREE, [[8, 8, 0, 2], [8, 0, 0, 0]]).key
    left = apply(shape(FREE, BROKEN), fits(shape(FREE, BROKEN), pods(1, 4)).decision)
    assert left.key == shape(FREE, [[8, 8, 0, 3], [4, 0, 0, 0]]).key


def test_sets_of_a_gang_share_no_host() -> None:
    two = shape([[8, 8]])
    assert isinstance(fits(two, pods(1), pods(1, 4), pods(1, 4)), Fit)
    no = misses(two, pods(1), pods(1, 4), pods(1, 4), pods(1, 1))
    assert no.reason is Reason.SHAPE
    assert "beside the rest of the gang" in no.detail


def test_an_order_that_fails_is_not_the_end() -> None:
    racks = shape([[8, 8, 8], [8, 8]])
    found = fits(racks, pods(2, 8, required="rack"), pods(3, 8, required="rack"))
    assert used(found) == {"block": 2, "rack": 2, "host": 5}


def test_a_quick_reject_is_never_wrong() -> None:
    for asked in (pods(9), pods(5, required="rack"), pods(1, 9), pods(1, required="zone")):
        assert quick_reject(shape(FREE), prepare(gang(asked), (H100,)))
    for asked in (pods(8), pods(4, required="rack"), pods(3, 1), pods(0)):
        assert not quick_reject(shape(FREE), prepare(gang(asked), (H100,)))


def test_a_gang_without_pods_fits_anywhere() -> None:
    assert fits(shape(BROKEN), pods(0)).score == (0, 0, 0, 0)


def test_every_set_needs_its_flavor() -> None:
    with pytest.raises(ValueError, match="one for each"):
        fit(shape(FREE), gang(pods(1), pods(1)), (H100,))


def test_rdma_counts_by_share_of_the_host() -> None:
    hca = host_class(others=Resources({"cpu": 128_000, "pods": 110, "rdma/hca": 1}))
    whole = SetRequest(2, 2, Resources({"nvidia.com/gpu": 8, "rdma/hca": 1}), (), Selector(), (), pods(1).topology)
    half = SetRequest(2, 2, Resources({"nvidia.com/gpu": 4, "rdma/hca": 1}), (), Selector(), (), pods(1).topology)
    where = shape(FREE, classes=(hca,))
    assert fits(where, whole).certain
    assert not fits(where, half).certain
    assert used(fits(where, half))["host"] == 2
