"""One answer stands for all gangs that ask for less, and none for those that ask for something else."""

from random import Random

import pytest

from hanse.apiserver import capacity
from hanse.apiserver.capacity import EmptyFleet
from hanse.apiserver.known_fits import KnownFits, amounts_of, rounded_up, terms_of
from hanse.model.ids import FlavorName, QueueName, QueueUid
from hanse.model.job import Slice, Topology
from hanse.model.queue import Queue
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import Resources
from hanse.model.selectors import Selector
from hanse.shape import Fit, NoFit, Shape, could_ever_fit
from tests.unit.apiserver.stage import GPU, H100, pool

QUEUE = Queue(QueueUid("abcdefgh"), QueueName("q"))


ANYWHERE = Topology()


def gang(count: int, gpus: int = 8, memory: int = 0, *, least: int = 0, topology: Topology = ANYWHERE) -> GangRequest:
    amounts = Resources({GPU: gpus, "memory": memory})
    return GangRequest((SetRequest(count, least or count, amounts, (H100,), Selector(), (), topology),))


def known(fits: GangRequest, asked: GangRequest) -> bool:
    """Whether one answer says that the other gang fits."""
    found = KnownFits()
    terms, others = terms_of(fits, [(H100,)]), terms_of(asked, [(H100,)])
    assert terms is not None
    assert others is not None
    found.learn(terms, amounts_of(fits), fits=True)
    return found.fits(others, amounts_of(asked))


@pytest.mark.parametrize(
    ("asked", "stands"),
    [
        (gang(4, 8, 100), True),
        (gang(3, 4, 99), True),
        (gang(5, 8, 100), False),
        (gang(4, 8, 101), False),
        (gang(4, 8), False),  # of no memory at all: other hosts may be meant
        (gang(4, 8, 100, topology=Topology(required="rack")), False),
        (gang(4, 8, 100, topology=Topology(slices=(Slice(2, "rack"),))), False),
    ],
)
def test_a_gang_that_fits_stands_for_those_that_ask_for_no_more(asked: GangRequest, stands: bool) -> None:
    assert known(gang(4, 8, 100), asked) is stands


def test_flavors_make_another_gang_and_a_set_that_may_shrink_is_not_compared() -> None:
    assert terms_of(gang(4), [(H100,)]) != terms_of(gang(4), [(FlavorName("a100"),)])
    assert terms_of(gang(4, least=2), [(H100,)]) is None


def test_rounding_goes_up_and_keeps_slices_whole() -> None:
    [up] = rounded_up(gang(9, 8, 1_000, topology=Topology(slices=(Slice(3, "rack"),)))).sets
    assert (up.count, up.min_count, dict(up.resources)) == (12, 12, {GPU: 8, "memory": 1_024})


def test_gangs_that_differ_by_little_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = []

    def judge(shape: Shape, request: GangRequest, flavors: tuple[FlavorName, ...]) -> Fit | NoFit:
        judged.append(request)
        return could_ever_fit(shape, request, flavors)

    monkeypatch.setattr(capacity, "could_ever_fit", judge)
    fleet, offers = EmptyFleet(), (pool("a", 2, 16).offer,)
    for number in range(20):
        assert fleet.never_fits(offers, gang(5 + number % 4), queue=QUEUE, class_hash=number) is None
    assert len(judged) == 1


@pytest.mark.parametrize("seed", range(10))
def test_what_is_known_never_changes_a_verdict(seed: int) -> None:
    """A fleet that remembers says of every gang what its shapes say."""
    rng = Random(seed)
    fleet, offers = EmptyFleet(), (pool("a", 3, 7).offer, pool("b", 1, 12).offer)
    for number in range(40):
        topology = Topology(required=rng.choice(("", "rack")), slices=rng.choice(((), (Slice(2, "rack"),))))
        asked = gang(2 * rng.randint(1, 16), rng.choice((1, 2, 4, 8)), topology=topology)
        remembered = fleet.never_fits(offers, asked, queue=QUEUE, class_hash=number)
        fits = any(
            isinstance(could_ever_fit(offer.empty_shape, asked, (H100,)), Fit)
            for offer in offers
            if offer.empty_shape is not None
        )
        assert (remembered is None) is fits
