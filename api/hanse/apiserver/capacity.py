"""Could any pool ever hold this gang, even empty? Asked at submit, of the shapes of the empty pools.

A refusal here is final, so it is given only where it is sure: every pool has published its empty shape (detached
ones count), the gang may not be split, and no choice of accepted flavors fits anywhere. While no pool is known, and
where more choices exist than are tried, a job is accepted and waits; the scheduler explains it from then on.

Answers are kept for as long as the empty shapes are the very same objects: by request class, because jobs that are
submitted together are often alike, and of rounded requests (`known_fits`), because the others often differ by little.
"""

from collections import OrderedDict
from dataclasses import dataclass
from itertools import islice, product
from typing import Final

from hanse.apiserver.known_fits import KnownFits, amounts_of, rounded_up, terms_of
from hanse.apiserver.ports import PoolOffer
from hanse.model.ids import FlavorName, PoolName
from hanse.model.queue import Queue
from hanse.model.reasons import Reason
from hanse.model.request import GangRequest, SetRequest
from hanse.shape import Fit, NoFit, Shape, could_ever_fit

FLAVOR_CHOICES_MAX: Final = 64
"""Combinations of flavors, one for each pod set, that are tried in one pool."""

VERDICTS_KEPT_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class NeverFits:
    """The nearest miss of a gang that no pool can ever hold."""

    pool: PoolName
    miss: NoFit


class EmptyFleet:
    """The empty shapes of all pools, and what was found out about them."""

    def __init__(self) -> None:
        self._pools: tuple[PoolOffer, ...] = ()
        self._shapes: tuple[tuple[PoolName, Shape], ...] = ()
        self._verdicts: OrderedDict[int, NeverFits | None] = OrderedDict()
        self._known = KnownFits()

    def never_fits(
        self, pools: tuple[PoolOffer, ...], request: GangRequest, *, queue: Queue, class_hash: int
    ) -> NeverFits | None:
        """The nearest miss if the gang can certainly never be placed, else None."""
        if pools is not self._pools:
            self._refresh(pools)
        if not self._shapes or len(self._shapes) < len(pools) or request.max_pools > 1:
            return None
        if class_hash in self._verdicts:
            self._verdicts.move_to_end(class_hash)
            return self._verdicts[class_hash]
        verdict = None if self._surely_fits(request, queue) else self._judge(request, queue)
        self._verdicts[class_hash] = verdict
        if len(self._verdicts) > VERDICTS_KEPT_MAX:
            self._verdicts.popitem(last=False)
        return verdict

    def _refresh(self, pools: tuple[PoolOffer, ...]) -> None:
        self._pools = pools
        shapes = tuple((pool.name, pool.empty_shape) for pool in pools if pool.empty_shape is not None)
        pairs = zip(shapes, self._shapes, strict=False)
        same = len(shapes) == len(self._shapes) and all(new[0] == old[0] and new[1] is old[1] for new, old in pairs)
        if not same:
            self._shapes = shapes
            self._verdicts.clear()
            self._known.forget()

    def _surely_fits(self, request: GangRequest, queue: Queue) -> bool:
        """Whether a gang that asks for no less was not refused; false if that is not known."""
        terms = terms_of(request, [one.flavors or tuple(q.flavor for q in queue.quotas) for one in request.sets])
        if terms is None:
            return False
        if self._known.fits(terms, amounts_of(request)):
            return True
        larger = rounded_up(request)
        amounts = amounts_of(larger)
        if self._known.misses(terms, amounts):
            return False
        fits = self._judge(larger, queue) is None
        self._known.learn(terms, amounts, fits=fits)
        return fits

    def _judge(self, request: GangRequest, queue: Queue) -> NeverFits | None:
        nearest: NeverFits | None = None
        for name, shape in self._shapes:
            here = frozenset(shape.flavors)
            choices = [_accepted(one, queue, here) for one in request.sets]
            combinations = list(islice(product(*choices), FLAVOR_CHOICES_MAX + 1))
            if len(combinations) > FLAVOR_CHOICES_MAX:
                return None
            for flavors in combinations:
                found = could_ever_fit(shape, request.at_least, flavors)
                if isinstance(found, Fit):
                    return None
                if found.reason is Reason.TAINT:
                    return None  # taints come and go
                if nearest is None or found.nearness > nearest.miss.nearness:
                    nearest = NeverFits(name, found)
        return nearest


def _accepted(one: SetRequest, queue: Queue, here: frozenset[FlavorName]) -> tuple[FlavorName, ...]:
    """Flavors that one pod set may get in a pool. If the pool has none of them, one is kept to say so."""
    accepted = one.flavors or tuple(q.flavor for q in queue.quotas)
    return tuple(f for f in accepted if f in here) or accepted[:1]
