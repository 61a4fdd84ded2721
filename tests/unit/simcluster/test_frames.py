"""Files of checked records: a torn tail is cut off, damage is never passed over."""

import os
from pathlib import Path

import pytest

from hanse.model.errors import Unavailable
from hanse.simcluster.frames import AppendFile, Damaged, frame, frames_in, replace_file

RECORDS = [b"first", b"", b"third" * 100]
WHOLE = b"".join(frame(record) for record in RECORDS)
ENDS = [len(b"".join(frame(record) for record in RECORDS[: i + 1])) for i in range(len(RECORDS))]


def read(raw: bytes) -> list[bytes]:
    return [payload for _, payload in frames_in(raw, "file")]


def test_records_come_back_with_their_ends() -> None:
    assert list(frames_in(WHOLE, "file")) == list(zip(ENDS, RECORDS, strict=True))


def test_every_cut_leaves_the_whole_records_before_it() -> None:
    for size in range(len(WHOLE)):
        assert read(WHOLE[:size]) == RECORDS[: sum(end <= size for end in ENDS)]


def test_zeros_at_the_end_are_a_torn_tail() -> None:
    assert read(WHOLE + bytes(3)) == RECORDS
    assert read(WHOLE + bytes(4096)) == RECORDS


def test_every_flipped_bit_is_found() -> None:
    """Also in the last record: it was acknowledged. Only what looks cut short at the very end is not damage."""
    for at in range(len(WHOLE)):
        raw = bytearray(WHOLE)
        raw[at] ^= 0x10
        with pytest.raises(Damaged, match="file: the record at byte"):
            read(bytes(raw))


def test_an_append_file_goes_on_after_its_last_whole_record(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(WHOLE + frame(b"torn")[:-1])
    file = AppendFile(path, len(WHOLE))
    file.append(frame(b"next"))
    file.close()
    assert read(path.read_bytes()) == [*RECORDS, b"next"]


def test_an_append_that_fails_leaves_no_trace() -> None:
    with pytest.raises(Unavailable) as caught:
        AppendFile.append(_on_full_device(), frame(b"too much"))
    assert "No space left on device; nothing was done" in str(caught.value)


def _on_full_device() -> AppendFile:
    file = AppendFile.__new__(AppendFile)
    file.path, file.size, file._dirty = Path("/dev/full"), 0, False
    file._fd = os.open("/dev/full", os.O_RDWR | os.O_APPEND)
    return file


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    replace_file(path, b"old")
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["snapshot"]
