"""What operators say of the links between pools: texts like `us-east=eu-west:40`."""

from collections.abc import Collection, Iterable
from typing import TypeVar

from hanse.model.names import is_subdomain
from hanse.scheduler.core.links import COST_MAX, Links, pair_of

T = TypeVar("T", bound=Collection[str])


def links_of(texts: Iterable[str]) -> Links:
    """The costs that the texts say. Raises ValueError: one of them cannot be read, or is said twice."""
    costs: dict[tuple[str, str], int] = {}
    for text in texts:
        names, _, number = text.rpartition(":")
        one, _, other = names.partition("=")
        if not (is_subdomain(one) and is_subdomain(other) and number.isdecimal() and int(number) <= COST_MAX):
            raise ValueError(f"{text!r} is not like `us-east=eu-west:40`: two pools or regions, 0 to {COST_MAX:,}")
        if pair_of(one, other) in costs:
            raise ValueError(f"{text!r}: the link between {one} and {other} is there twice; remove one")
        costs[pair_of(one, other)] = int(number)
    return Links(costs)


def checked_links(texts: T) -> T:
    """The texts, if `links_of` can read them. Raises ValueError."""
    links_of(texts)
    return texts
