"""Which flavors a gang may be given, in which order."""

from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import Final

from hanse.model.ids import FlavorName
from hanse.model.request import GangRequest

FLAVOR_CHOICES_MAX: Final = 16
"""Combinations of flavors over pod sets that are tried for one job."""


def flavor_choices(
    request: GangRequest, quotas: Sequence[FlavorName], known: Sequence[FlavorName]
) -> Iterator[tuple[FlavorName, ...]]:
    """Flavors for each pod set, in order of preference, at most FLAVOR_CHOICES_MAX combinations.

    A set that names none takes any flavor that the queue has quota for, the same for all such sets.
    """
    allowed = [f for f in quotas if f in known]
    nothing = [FlavorName("")]
    own = [[f for f in s.flavors if f in allowed] or nothing for s in request.sets]
    free = any(not s.flavors for s in request.sets)
    choices = (
        tuple(f if s.flavors else shared for s, f in zip(request.sets, combination, strict=True))
        for shared in (allowed if free else nothing)
        for combination in product(*own)
    )
    return islice((c for c in choices if all(c)), FLAVOR_CHOICES_MAX)
