"""Trees of a shape in version 2, bit by bit: what a busy pool has most of, small lowest domains, takes few bits each.

Children in key order, their number first. A lowest domain is its frame and the number of its histogram, in as many
bits as tell all frames, and all histograms of the frame, apart; any other is its children. Behind either stands
whether there are copies, and how many more than two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from hanse.shape.bits import BitReader, bits, count
from hanse.shape.codec_leaves import Frame, frame_of, leaf_of, number_of, rank_bits
from hanse.shape.domains import Bin, Branch, Leaf, Node, branch, leaf
from hanse.shape.errors import ShapeError
from hanse.shape.limits import GPUS_PER_HOST_MAX, HOSTS_MAX, SUMMARY_BYTES_MAX

GPU_BITS: Final = GPUS_PER_HOST_MAX.bit_length()
_KIDS_MAX: Final = SUMMARY_BYTES_MAX * 8  # a child takes a bit at least


@dataclass(frozen=True, slots=True)
class Alphabet:
    """What trees of one shape are written in.

    Attributes:
        full: GPUs of a host by class.
    """

    frames: Sequence[Frame]
    number: Mapping[Frame, int]
    full: tuple[int, ...]

    @property
    def frame_bits(self) -> int:
        """Bits that tell frames apart."""
        return max(0, len(self.frames) - 1).bit_length()

    @property
    def class_bits(self) -> int:
        """Bits that tell classes apart."""
        return max(0, len(self.full) - 1).bit_length()

    def frame(self, at: int) -> Frame:
        """The frame with that number, if there is one."""
        if at >= len(self.frames):
            raise ShapeError(f"shape: frame {at} of {len(self.frames)}")
        return self.frames[at]

    def bin(self, c: int, free: int) -> tuple[int, int]:
        """Hosts of that class with so many free GPUs, if there can be any."""
        if c >= len(self.full) or free > self.full[c]:
            raise ShapeError(f"shape: class {c} with {free} free GPUs")
        return c, free


def tree_bits(node: Node, told: Alphabet) -> str:
    """The bits of a tree below its root."""
    if isinstance(node, Leaf):
        return _leaf_bits(node, told)
    kids = [tree_bits(kid, told) + (f"1{count(n - 2)}" if n > 1 else "0") for kid, n in node.kids]
    return count(len(kids)) + "".join(kids)


def read_tree(reader: BitReader, told: Alphabet, height: int) -> Branch:
    """What `tree_bits` wrote of a tree with so many levels."""
    kids: list[tuple[Node, int]] = []
    for _ in range(reader.count(_KIDS_MAX)):
        kid = read_tree(reader, told, height - 1) if height > 1 else _read_leaf(reader, told)
        kids.append((kid, 2 + reader.count(HOSTS_MAX) if reader.number(1) else 1))
    return branch(kids)


def _leaf_bits(low: Leaf, told: Alphabet) -> str:
    frame, full = frame_of(low.bins), told.full
    head, size = bits(told.number[frame], told.frame_bits), rank_bits(frame, full)
    if size >= 0:
        return head + _number_bits(low.bins, full, size)
    bins = [bits(c, told.class_bits) + bits(free, GPU_BITS) + count(n) for c, free, n in low.bins]
    return head + count(len(bins)) + "".join(bins)


@lru_cache(maxsize=65_536)
def _number_bits(bins: tuple[Bin, ...], full: tuple[int, ...], size: int) -> str:
    return bits(number_of(bins, full), size)


def _read_leaf(reader: BitReader, told: Alphabet) -> Leaf:
    frame = told.frame(reader.number(told.frame_bits))
    size = rank_bits(frame, told.full)
    if size >= 0:
        return leaf_of(frame, told.full, reader.number(size))
    counts: dict[tuple[int, int], int] = {}
    for _ in range(reader.count(_KIDS_MAX)):
        at = told.bin(reader.number(told.class_bits), reader.number(GPU_BITS))
        counts[at] = reader.count(HOSTS_MAX)
    return leaf(counts)
