"""The archive's files: one whole line for each job, whatever happened before, and readable by anybody."""

import asyncio
import fcntl
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from hanse.model.ids import Attempt, JobId, QueueName
from hanse.model.job import JobSpec, PodSet
from hanse.model.lifecycle import JobState, State
from hanse.model.reasons import Reason
from hanse.model.resources import Resources
from hanse.scheduler.shell.departures import ArchiveFailed, NoArchive
from hanse.scheduler.shell.ended import EndedJob
from hanse.store.schema import PastAttempt, PastPart, PastValue, SpecEnvelope
from hanse.up.archive import FileArchive
from hanse.up.retention_settings import opened_archive
from hanse.wire.job import spec_to_wire
from tests.arch.tree import ROOT

DAY_MS = 86_400_000
NOON_MS = 1_796_040_000_000  # 2026-11-30 12:00 UTC


@dataclass
class Day:
    """A clock that a test sets."""

    ms: int = NOON_MS

    def monotonic(self) -> float:
        return self.ms / 1000

    def now_ms(self) -> int:
        return self.ms


def ended(number: int, *, damaged: bool = False) -> EndedJob:
    workers = PodSet("worker", 2, 2, Resources({"nvidia.com/gpu": 8}))
    spec = spec_to_wire(
        JobSpec(f"job-{number}", QueueName("research"), (workers,), "urgent", {"team": "foundation", "by": "Ä"})
    )
    state = JobState(State.SUCCEEDED, Attempt(1), 5, 1_000, 9_000, 7, Reason.COMPLETED)
    parts = [PastPart("oslo", ["h100"], 2, held_ms=2_000, started_ms=3_000, running_ms=4_000)]
    past = PastValue([PastAttempt(1, 1_500, 9_000, int(Reason.COMPLETED), int(State.SUCCEEDED), parts)])
    envelope = SpecEnvelope("ann", "r1", "", spec.SerializeToString(), "abcdefgh-before0000000000")
    job = JobId(f"abcdefgh-{number:016d}")
    return EndedJob(job, state, 3, None if damaged else envelope, None if damaged else spec, past)


def keep(archive: FileArchive, *jobs: EndedJob) -> None:
    asyncio.run(archive.keep(jobs))


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def ids(path: Path) -> list[int]:
    return [int(str(line["id"]).rpartition("-")[2]) for line in lines(path)]


@pytest.fixture
def clock() -> Day:
    return Day()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "archive" / "jobs-2026-11-30.r0.jsonl"


@pytest.fixture
def archive(file: Path, clock: Day) -> FileArchive:
    return FileArchive(file.parent, "r0", clock)


def test_a_line_says_what_a_job_was_and_how_it_went(archive: FileArchive, file: Path) -> None:
    keep(archive, ended(1))
    (line,) = lines(file)
    told = {
        "id": "abcdefgh-0000000000000001",
        "name": "job-1",
        "queue": "research",
        "state": "SUCCEEDED",
        "reason": "COMPLETED",
        "attempt": 1,
        "submitted_ms": 1_000,
        "bound_ms": 1_500,
        "placed_ms": 2_000,
        "running_ms": 4_000,
        "ended_ms": 9_000,
        "priority_class": "urgent",
        "retry_of": "abcdefgh-before0000000000",
        "principal": "ann",
        "request_id": "r1",
        "archived_ms": NOON_MS,
    }
    assert {key: line[key] for key in told} == told
    assert line["spec"]["labels"] == {"team": "foundation", "by": "Ä"}  # type: ignore[index]
    assert line["spec"]["pod_sets"][0]["count"] == 2  # type: ignore[index]
    assert line["attempts"][0]["placement"][0]["pool"] == "oslo"  # type: ignore[index]


def test_a_job_whose_spec_is_damaged_has_a_line_too(archive: FileArchive, file: Path) -> None:
    keep(archive, ended(1, damaged=True))
    (line,) = lines(file)
    assert (line["state"], line["spec"], line["principal"]) == ("SUCCEEDED", None, "")


def test_jobs_are_appended_and_each_day_has_a_file(archive: FileArchive, clock: Day, file: Path) -> None:
    keep(archive, ended(1), ended(2))
    keep(archive, ended(3))
    clock.ms += DAY_MS
    keep(archive, ended(4))
    assert ids(file) == [1, 2, 3]
    assert ids(file.with_name("jobs-2026-12-01.r0.jsonl")) == [4]


@pytest.mark.parametrize("torn", [1, 70_000, 200_000])
def test_half_a_line_that_a_crash_has_left_is_cut_off(archive: FileArchive, file: Path, torn: int) -> None:
    keep(archive, ended(1))
    with file.open("ab") as opened:
        opened.write(b'{"id": "' + b"x" * torn)
    keep(archive, ended(2))
    assert ids(file) == [1, 2]


def test_a_file_of_half_a_line_alone_begins_anew(archive: FileArchive, file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b'{"id": "x')
    keep(archive, ended(1))
    assert ids(file) == [1]


def test_a_last_line_that_only_lacks_its_end_stays(archive: FileArchive, file: Path) -> None:
    """An editor took the newline: its job is no longer anywhere else."""
    keep(archive, ended(1))
    file.write_bytes(file.read_bytes().rstrip(b"\n"))
    keep(archive, ended(2))
    assert ids(file) == [1, 2]


def test_a_full_disk_adds_nothing_and_says_what_to_do(archive: FileArchive, file: Path) -> None:
    keep(archive, ended(1))
    file.rename(file.with_name("kept"))
    file.symlink_to("/dev/full")
    with pytest.raises(ArchiveFailed, match=r"No space left.*archive_dir") as caught:
        keep(archive, ended(2))
    assert "\n" not in str(caught.value)
    file.unlink()
    file.with_name("kept").rename(file)
    keep(archive, ended(2))
    assert ids(file) == [1, 2]


def test_what_was_written_before_the_disk_was_full_is_taken_back(
    archive: FileArchive, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(archive, ended(1))
    real = os.fsync

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ArchiveFailed):
        keep(archive, ended(2))
    monkeypatch.setattr(os, "fsync", real)
    assert ids(file) == [1]


def test_a_file_has_one_writer(archive: FileArchive, file: Path) -> None:
    keep(archive, ended(1))
    with file.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ArchiveFailed, match="another process"):
            keep(archive, ended(2))
    keep(archive, ended(3))
    assert ids(file) == [1, 3]


def test_a_folder_that_cannot_be_written_is_told_before_it_is_needed(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    assert "Not a directory" in FileArchive(tmp_path / "taken" / "archive", "r0", Day()).check()
    assert FileArchive(tmp_path / "new" / "archive", "r0", Day()).check() == ""
    assert list(tmp_path.iterdir()) == [tmp_path / "taken"]


def test_a_setting_names_a_folder_or_none_or_has_a_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANSE_DATA_DIR", str(tmp_path))
    assert isinstance(opened_archive("none", "r0", Day()), NoArchive)
    assert isinstance(found := opened_archive("", "r0", Day()), FileArchive)
    assert found._folder == tmp_path / "archive"


def test_jq_reads_it(archive: FileArchive, file: Path) -> None:
    """The line in the docs that lists what the archive holds of one team, each job once."""
    if shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    keep(archive, ended(1), ended(2))
    keep(archive, ended(1))
    page = (ROOT / "docs/reference/capacity.md").read_text()
    command = next(line for line in page.splitlines() if line.startswith("jq -s "))
    answer = subprocess.run(["sh", "-c", command], cwd=file.parent, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["job-1", "job-2"]
