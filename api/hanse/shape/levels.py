"""A tree of domains as arrays, level by level: how many parts each domain has, and what hosts its lowest ones hold.

A domain's parts are neighbours, so every domain is a range at every level below it, and what holds for domains is a
sum or a maximum over ranges. Each domain keeps what is below it in a few pieces of bytes (`Packed`); a change of one
host renews those of its lowest domain and of the domains around it, which join what their children kept.
"""

from array import array
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hanse.shape.limits import GPUS_PER_HOST_MAX

Ints = NDArray[np.int64]
CLASS_STRIDE: Final = GPUS_PER_HOST_MAX + 1
_COUNT: Final = "q"  # type code of numbers of children and of copies
_COUNT_BYTES: Final = 8
_ZERO: Final = bytes(_COUNT_BYTES)


def bin_number(c: int, free: int) -> int:
    """Class and free GPUs in one number."""
    return c * CLASS_STRIDE + free


class Packed(NamedTuple):
    """What is below a domain, in order.

    Attributes:
        bins: of the lowest domains, (class, free GPUs, hosts) each in one byte, or in eight where that is too little.
        narrow: they are in one byte.
        kids: for the domain's own level and those below, how many children each domain has, bins at last.
        copies: for the level below the domain's and those below, how many of each domain there are in one parent; ()
            where there is one of each.
    """

    bins: bytes
    narrow: bool
    kids: tuple[bytes, ...]
    copies: tuple[bytes, ...]


class Levels(NamedTuple):
    """What is below the root of a group.

    Attributes:
        numbers: of each bin, class and free GPUs in one (see `bin_number`).
        hosts: of each bin, in one copy of its lowest domain.
        bounds: by depth, 0 for the coarsest domains: where the parts of each domain begin one level below (at last
            its bins), and at the end where those of the last one end.
        copies: by depth, how many of each domain there are in one parent.
        folded: there is more than one of some domain.
    """

    numbers: Ints
    hosts: Ints
    bounds: tuple[Ints, ...]
    copies: tuple[Ints, ...]
    folded: bool

    @property
    def depth(self) -> int:
        """How many levels of domains there are; at this depth are the bins."""
        return len(self.bounds)


def counted(numbers: list[int]) -> bytes:
    """Numbers as a piece of bytes."""
    return array(_COUNT, numbers).tobytes()


def around(parts: list[Packed], copies: list[int]) -> Packed:
    """A domain of domains, by what these hold and how many of each there are."""
    bins, narrow, kids, below = zip(*parts, strict=True)
    if False in narrow:
        bins = tuple([_widened(part.bins) if part.narrow else part.bins for part in parts])
    folded = max(copies) > 1
    if folded or any(below):
        below = tuple([part.copies or _ones(part) for part in parts])
    inner = tuple(map(b"".join, zip(*kids, strict=True)))
    deeper = tuple(map(b"".join, zip(*below, strict=True)))
    own = (counted(copies), *deeper) if folded or deeper else ()
    return Packed(b"".join(bins), False not in narrow, (counted([len(parts)]), *inner), own)


def _ones(part: Packed) -> tuple[bytes, ...]:
    return tuple([counted([1] * (len(own) // _COUNT_BYTES)) for own in part.kids[1:]])


def _widened(bins: bytes) -> bytes:
    return np.frombuffer(bins, dtype=np.uint8).astype(np.int64).tobytes()


def unpacked(root: Packed) -> Levels:
    """The arrays of a root with children."""
    classes, free, hosts = columns(root.bins, narrow=root.narrow)
    bounds = tuple([np.frombuffer(_ZERO + own, dtype=np.int64).cumsum() for own in root.kids[1:]])
    copies = tuple([np.frombuffer(own, dtype=np.int64) for own in root.copies])
    return Levels(classes * CLASS_STRIDE + free, hosts, bounds, copies or _each_one(bounds), bool(copies))


def _each_one(bounds: tuple[Ints, ...]) -> tuple[Ints, ...]:
    ones = np.ones(len(bounds[-1]), dtype=np.int64)
    return tuple([ones[: len(own) - 1] for own in bounds])


def columns(bins: bytes, *, narrow: bool) -> tuple[Ints, Ints, Ints]:
    """Class, free GPUs and hosts of each bin, see `Packed`."""
    flat = np.frombuffer(bins, dtype=np.uint8).astype(np.int64) if narrow else np.frombuffer(bins, dtype=np.int64)
    return flat[0::3].copy(), flat[1::3].copy(), flat[2::3].copy()
