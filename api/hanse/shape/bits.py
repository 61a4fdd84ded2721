"""Numbers of any number of bits, one after the other: the letters of a shape's trees."""

from functools import lru_cache

from hanse.shape.errors import ShapeError

_GROUP_BITS = 3


def bits(value: int, width: int) -> str:
    """The number in so many bits; "" for no bits."""
    return format(value, f"0{width}b") if width else ""


@lru_cache(maxsize=1_024)
def count(value: int) -> str:
    """A number of unknown size, small ones short: three bits at a time, the last ones first, each with a mark before
    them that tells whether more follow.
    """
    out = ""
    while True:
        value, group = divmod(value, 1 << _GROUP_BITS)
        out += f"{int(value > 0)}{group:03b}"
        if not value:
            return out


def packed(text: str) -> bytes:
    """The bits as bytes, zeros at the end."""
    size = -(-len(text) // 8)
    return int(text.ljust(size * 8, "0") or "0", 2).to_bytes(size, "big")


class BitReader:
    """Reads what was packed, from untrusted bytes; every overrun is a ShapeError."""

    __slots__ = ("_at", "_text")

    def __init__(self, data: bytes) -> None:
        self._text = bin(int.from_bytes(b"\1" + data, "big"))[3:]
        self._at = 0

    def number(self, width: int) -> int:
        """A number of so many bits."""
        end = self._at + width
        if end > len(self._text):
            raise ShapeError("shape: ends too early")
        value = int(self._text[self._at : end], 2) if width else 0
        self._at = end
        return value

    def count(self, most: int) -> int:
        """A number of unknown size, not over a limit."""
        value, shift, more = 0, 0, 1
        while more:
            more, group = divmod(self.number(1 + _GROUP_BITS), 1 << _GROUP_BITS)
            value += group << shift
            shift += _GROUP_BITS
            if value > most or (more and shift > most.bit_length()):
                raise ShapeError(f"shape: a number over the limit of {most}")
        return value
