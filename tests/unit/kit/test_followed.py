"""A file that changes is read again; one that is wrong changes nothing, and says so."""

import os
from pathlib import Path

import pytest

from hanse.kit.clock import SystemClock
from hanse.kit.followed import LOOK_EVERY_S, Followed
from hanse.model.errors import InvalidArgument


class Hands(SystemClock):
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


def number(path: Path) -> int:
    text = path.read_text() if path.exists() else ""
    if not text.isdecimal():
        raise InvalidArgument("it is no number", path=str(path), line=1)
    return int(text)


def replace(path: Path, text: str) -> None:
    """As whoever writes files should: the new one takes the place of the old one at once."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


def test_a_file_that_is_wrong_leaves_what_was_and_a_good_one_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, clock = tmp_path / "n", Hands()
    file.write_text("1")
    followed = Followed(file, number, clock, name="n")
    assert followed() == 1
    replace(file, "2")
    assert followed() == 1, "it is not looked at all the time"
    clock.now_s += LOOK_EVERY_S
    assert (followed(), followed.trouble) == (2, "")
    for bad in ("two", ""):
        replace(file, bad)
        clock.now_s += LOOK_EVERY_S
        assert (followed(), followed.trouble) == (2, f"{file}:1: it is no number")
    file.unlink()
    clock.now_s += LOOK_EVERY_S
    assert followed() == 2
    assert [record.message for record in caplog.records].count("followed_file_unusable") == 3
    replace(file, "3")
    clock.now_s += LOOK_EVERY_S
    assert (followed(), followed.trouble) == (3, "")


def test_a_file_that_is_wrong_from_the_beginning_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument):
        Followed(tmp_path / "none", number, Hands(), name="n")
