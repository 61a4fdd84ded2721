"""The content of a lowest domain as a number, in its frame: kinds of hosts, whatever is free on them."""

from functools import lru_cache
from typing import Final

from hanse.shape.domains import Bin, Leaf, leaf
from hanse.shape.errors import ShapeError
from hanse.shape.histogram import rank, unrank, ways

RANK_BITS_MAX: Final = 256  # a frame with more histograms has its domains written as bins

Frame = tuple[tuple[int, int], ...]  # (class, hosts), in the order of classes


@lru_cache(maxsize=65_536)
def frame_of(bins: tuple[Bin, ...]) -> Frame:
    """Hosts by class."""
    hosts: dict[int, int] = {}
    for c, _, n in bins:
        hosts[c] = hosts.get(c, 0) + n
    return tuple(hosts.items())


@lru_cache(maxsize=65_536)
def rank_bits(frame: Frame, full: tuple[int, ...]) -> int:
    """Bits of a domain's number in this frame, -1 if there are too many. `full`: GPUs of a host by class."""
    total = 1
    for c, hosts in frame:
        if min(hosts, full[c]) * max(hosts, full[c]).bit_length() > 4 * RANK_BITS_MAX:
            return -1  # far too many ways, and costly to count
        total *= ways(hosts, full[c])
    bits = (total - 1).bit_length()
    return -1 if bits > RANK_BITS_MAX else bits


@lru_cache(maxsize=65_536)
def number_of(bins: tuple[Bin, ...], full: tuple[int, ...]) -> int:
    """The number of a domain in its frame."""
    at = 0
    for c, hosts in reversed(frame_of(bins)):
        counts = [0] * (full[c] + 1)
        for other, free, n in bins:
            if other == c:
                counts[free] = n
        at = at * ways(hosts, full[c]) + rank(counts)
    return at


@lru_cache(maxsize=65_536)
def leaf_of(frame: Frame, full: tuple[int, ...], at: int) -> Leaf:
    """The domain with that number.

    Raises:
        ShapeError: there is none.
    """
    bins: dict[tuple[int, int], int] = {}
    for c, hosts in frame:
        at, mine = divmod(at, ways(hosts, full[c]))
        for free, n in enumerate(unrank(mine, hosts, full[c])):
            bins[c, free] = n
    if at:
        raise ShapeError("shape: a histogram that does not exist")
    return leaf(bins)
