"""The last job is remembered server by server, and never in the way."""

from pathlib import Path

from hanse.cli.state import SERVERS_MAX, read_last, state_dir, write_last


def test_each_server_has_its_own_last_job(tmp_path: Path) -> None:
    write_last(tmp_path / "deep/er", "a:1", "job-a")
    write_last(tmp_path / "deep/er", "b:1", "job-b")
    write_last(tmp_path / "deep/er", "a:1", "job-a2")
    assert read_last(tmp_path / "deep/er", "a:1") == "job-a2"
    assert read_last(tmp_path / "deep/er", "b:1") == "job-b"
    assert read_last(tmp_path / "deep/er", "c:1") == ""
    assert [path.name for path in (tmp_path / "deep/er").iterdir()] == ["last"]


def test_a_damaged_file_is_as_none_and_is_mended_by_the_next_job(tmp_path: Path) -> None:
    (tmp_path / "last").write_bytes(b"\xff{")
    assert read_last(tmp_path, "a:1") == ""
    write_last(tmp_path, "a:1", "job")
    assert read_last(tmp_path, "a:1") == "job"


def test_the_oldest_servers_are_forgotten(tmp_path: Path) -> None:
    for number in range(SERVERS_MAX + 1):
        write_last(tmp_path, f"s{number}:1", "job")
    assert read_last(tmp_path, "s0:1") == ""
    assert read_last(tmp_path, f"s{SERVERS_MAX}:1") == "job"


def test_a_folder_that_cannot_be_written_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    write_last(tmp_path / "file", "a:1", "job")
    assert read_last(tmp_path / "file", "a:1") == ""


def test_where_the_folder_is() -> None:
    assert state_dir({"HANSE_STATE_DIR": "/s"}) == Path("/s")
    assert state_dir({"HOME": "/h"}) == Path("/h/.local/state/hanse")
    assert state_dir({"HOME": "/h", "XDG_STATE_HOME": "/x"}) == Path("/x/hanse")
