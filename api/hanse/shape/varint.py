"""Unsigned LEB128 integers and length-prefixed text: the letters of keys and of the wire form."""

from hanse.shape.errors import ShapeError

ONE_BYTE_MAX = 128  # smaller numbers are written as the one byte that they are
_ONE_BYTE = tuple(bytes((i,)) for i in range(ONE_BYTE_MAX))
VARINT_BYTES_MAX = 10  # 64 bits and a little


def put(value: int) -> bytes:
    """The bytes of one unsigned integer."""
    if value < ONE_BYTE_MAX:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def put_text(text: str) -> bytes:
    """UTF-8 with its length before it."""
    raw = text.encode()
    return put(len(raw)) + raw


class Reader:
    """Reads what `put` wrote, from untrusted bytes; every overrun is a ShapeError."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def at(self) -> int:
        """Bytes read so far."""
        return self._at

    def since(self, start: int) -> bytes:
        """The bytes from `start` to here."""
        return self._data[start : self._at]

    def number(self, most: int) -> int:
        """The next integer, at most `most`, in its shortest form."""
        shift = value = 0
        start = self._at
        while True:
            if self._at >= len(self._data) or self._at - start >= VARINT_BYTES_MAX:
                raise ShapeError(f"shape: number at byte {start} does not end")
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
        if (byte == 0 and shift) or value > most:
            raise ShapeError(f"shape: number at byte {start} is over {most} or not in its shortest form")
        return value

    def raw(self, count: int) -> bytes:
        """The next `count` bytes."""
        end = self._at + count
        if end > len(self._data):
            raise ShapeError(f"shape: {count} bytes expected at byte {self._at}, the end comes first")
        out = self._data[self._at : end]
        self._at = end
        return out

    def rest(self) -> bytes:
        """Everything up to the end."""
        return self.raw(len(self._data) - self._at)

    def text(self, most: int) -> str:
        """The next length-prefixed text of at most `most` bytes."""
        try:
            return self.raw(self.number(most)).decode()
        except UnicodeDecodeError:
            raise ShapeError(f"shape: text before byte {self._at} is not UTF-8") from None

    def finish(self) -> None:
        """Refuse bytes after the end."""
        if self._at != len(self._data):
            raise ShapeError(f"shape: {len(self._data) - self._at} bytes after the end")
