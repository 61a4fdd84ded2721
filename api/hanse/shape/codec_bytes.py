"""Trees of a shape in version 1, in whole bytes: written by agents of before, and read.

Children in key order: a lowest domain is its frame and the number of its histogram, any other is (copies, child) one
after the other.
"""

from collections.abc import Sequence

from hanse.shape.codec_leaves import Frame, frame_of, leaf_of, number_of, rank_bits
from hanse.shape.domains import Bin, Branch, Leaf, Node, branch, leaf
from hanse.shape.limits import HOSTS_MAX, SUMMARY_BYTES_MAX
from hanse.shape.varint import Reader, put


def put_tree(root: Branch, full: tuple[int, ...], number: dict[Frame, int]) -> bytes:
    """The bytes of a tree.

    Args:
        full: GPUs of a host by class.
        number: of each frame.
    """
    out: list[bytes] = []
    _put_kids(root, full, number, out)
    return b"".join(out)


def read_tree(reader: Reader, full: tuple[int, ...], frames: Sequence[Frame], height: int) -> Branch:
    """What `put_tree` wrote of a tree with so many levels."""
    return branch(_read_kids(reader, full, frames, height))


def _rank_bytes(frame: Frame, full: tuple[int, ...]) -> int:
    return (rank_bits(frame, full) + 7) // 8


def _leaf_bytes(bins: tuple[Bin, ...], full: tuple[int, ...]) -> bytes:
    """A lowest domain whose frame is known."""
    frame = frame_of(bins)
    if rank_bits(frame, full) < 0:
        return put(len(bins)) + b"".join([put(c) + put(free) + put(hosts) for c, free, hosts in bins])
    return number_of(bins, full).to_bytes(_rank_bytes(frame, full), "big")


def _put_kids(node: Node, full: tuple[int, ...], number: dict[Frame, int], out: list[bytes]) -> None:
    assert not isinstance(node, Leaf)
    out.append(put(len(node.kids)))
    for kid, copies in node.kids:
        if isinstance(kid, Leaf):
            several = copies > 1
            out.append(put(number[frame_of(kid.bins)] << 1 | several))
            if several:
                out.append(put(copies))
            out.append(_leaf_bytes(kid.bins, full))
        else:
            out.append(put(copies))
            _put_kids(kid, full, number, out)


def _read_kids(reader: Reader, full: tuple[int, ...], frames: Sequence[Frame], height: int) -> list[tuple[Node, int]]:
    kids: list[tuple[Node, int]] = []
    for _ in range(reader.number(SUMMARY_BYTES_MAX)):
        if height == 1:
            head = reader.number(2 * len(frames) - 1)
            copies = reader.number(HOSTS_MAX) if head & 1 else 1
            kids.append((_read_leaf(reader, full, frames[head >> 1]), copies))
        else:
            copies = reader.number(HOSTS_MAX)
            kids.append((branch(_read_kids(reader, full, frames, height - 1)), copies))
    return kids


def _read_leaf(reader: Reader, full: tuple[int, ...], frame: Frame) -> Leaf:
    if rank_bits(frame, full) >= 0:
        return leaf_of(frame, full, int.from_bytes(reader.raw(_rank_bytes(frame, full)), "big"))
    bins: dict[tuple[int, int], int] = {}
    for _ in range(reader.number(SUMMARY_BYTES_MAX)):
        c = reader.number(len(full) - 1)
        free = reader.number(full[c])
        bins[c, free] = reader.number(HOSTS_MAX)
    return leaf(bins)
