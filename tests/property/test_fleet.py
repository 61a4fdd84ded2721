"""A whole fleet asked at once says what each pool's shape says, whatever has happened to the fleet."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from hanse.model.ids import PoolName
from hanse.model.reasons import Reason
from hanse.model.request import SetRequest
from hanse.model.resources import GPU_RESOURCES, Resources
from hanse.shape import Ask, Fit, NoFit, Shape, apply, fit_ask, prepare
from hanse.shape.clip import clipped
from hanse.shape.fleet import Fleet
from tests.property import fleet_cases as cases

STEPS = 25
ASKED = 8


def _story(seed: int, sets: int = 1) -> Iterator[tuple[Fleet, dict[PoolName, Shape], Ask]]:
    """A fleet that changes, its pools' shapes, and what it is asked."""
    rng, fleet, shapes = random.Random(seed), Fleet(), dict[PoolName, Shape]()
    for _ in range(STEPS):
        _step(rng, shapes, alike=seed % 2 == 1)
        fleet.follow(shapes)
        for _ in range(ASKED):
            yield fleet, shapes, prepare(*cases.gang(rng, sets))


def _step(rng: random.Random, shapes: dict[PoolName, Shape], *, alike: bool) -> None:
    """A pool comes, changes, goes, or has other host classes."""
    name = PoolName(f"p{rng.randrange(12)}")
    if name not in shapes or rng.random() < 0.1:
        shapes[name] = cases.pool(rng, alike=alike)
    elif rng.random() < 0.1:
        del shapes[name]
    else:
        shapes[name] = cases.changed(rng, shapes[name], alike=alike)
        if rng.random() < 0.15:
            shapes[name] = clipped(shapes[name])


@pytest.mark.parametrize("seed", range(8))
def test_one_set_fits_exactly_where_the_shape_says_so(seed: int) -> None:
    unsure = 0
    for fleet, shapes, ask in _story(seed):
        look = fleet.look(ask)
        unsure += not look.exact
        for name, shape in shapes.items():
            told, number = fit_ask(shape, ask), fleet.number(name)
            if look.exact or isinstance(told, Fit):
                assert look.may_fit[number] == isinstance(told, Fit), (name, ask)
            if look.exact and isinstance(told, NoFit) and told.reason is Reason.SHAPE and not ask.sets[0].slices:
                assert round(look.held[number] * told.wanted) == told.found, (name, ask)
    assert unsure < STEPS * ASKED / 5


@pytest.mark.parametrize("seed", range(8, 11))
def test_several_sets_are_never_ruled_out_where_they_fit(seed: int) -> None:
    for fleet, shapes, ask in _story(seed, sets=2 + seed % 2):
        look = fleet.look(ask)
        for name, shape in shapes.items():
            if isinstance(fit_ask(shape, ask), Fit):
                assert look.may_fit[fleet.number(name)], (name, ask)


@pytest.mark.parametrize("seed", range(11, 14))
def test_the_nearest_pool_is_the_one_whose_refusal_is_nearest(seed: int) -> None:
    refused = 0
    for fleet, shapes, ask in _story(seed):
        look = fleet.look(ask)
        told = {name: fit_ask(shape, ask) for name, shape in shapes.items()}
        nearness = {name: no.nearness for name, no in told.items() if isinstance(no, NoFit)}
        ragged = any(ask.sets[0].count % x.size for x in ask.sets[0].slices)
        if look.exact and shapes and len(nearness) == len(shapes) and not ragged:
            refused += 1
            near = fleet.near(ask, look)
            best = max(shapes, key=lambda name: near[fleet.number(name)])
            assert nearness[best] == max(nearness.values()), ask
    assert refused > STEPS / 2


@pytest.mark.parametrize("seed", range(14, 22))
def test_no_place_is_better_than_its_pools_bound(seed: int) -> None:
    exact = close = 0
    for fleet, shapes, ask in _story(seed, sets=1 + seed % 4 // 3):
        ranked = fleet.rank(ask)
        assert ranked.exact == fleet.look(ask).exact
        assert list(ranked.may_fit) == list(fleet.look(ask).may_fit)
        for name, shape in shapes.items():
            told = fit_ask(shape, ask)
            if isinstance(told, Fit):
                width, tight = ranked.lows.low(fleet.number(name))
                assert all(low <= used for low, used in zip(width, told.width, strict=True)), (name, ask)
                assert width != told.width or tight <= told.tight, (name, ask)
                exact += width == told.width and tight == told.tight[: len(tight)]
                close += 1
    assert exact > close / 3


@pytest.mark.parametrize("seed", range(20, 26))
def test_a_gang_without_what_no_host_tells_apart_is_answered_the_same(seed: int) -> None:
    rng, told_apart, alike = random.Random(seed), 0, 0
    for fleet, shapes, ask in _story(seed):
        flavors = tuple(s.flavor for s in ask.sets)
        thin = replace(ask.request, sets=tuple(_thinner(rng, s) for s in ask.request.sets))
        plain = fleet.plain(thin, flavors)
        if plain == thin:
            told_apart += 1
            continue
        alike += 1
        for shape in shapes.values():
            told, again = fit_ask(shape, prepare(thin, flavors)), fit_ask(shape, prepare(plain, flavors))
            assert _said(shape, told) == _said(shape, again), (thin, plain)
    assert alike
    assert told_apart


def _thinner(rng: random.Random, s: SetRequest) -> SetRequest:
    """With less of what is not an accelerator, so that many pods stay within their share."""
    part = rng.choice((1, 4, 50))
    less = {name: most if name in GPU_RESOURCES else most // part for name, most in s.resources.items()}
    return replace(s, resources=Resources(less))


def _said(shape: Shape, outcome: Fit | NoFit) -> object:
    """An answer without the pods that were asked for."""
    if isinstance(outcome, NoFit):
        return outcome
    seats = [seat for _, seat in outcome.seats]
    return outcome.score, outcome.certain, outcome.dropped, seats, apply(shape, outcome.decision).key
