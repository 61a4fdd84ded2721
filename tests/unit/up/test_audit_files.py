"""The audit log in files: order, turns, what is asked of it, a disk that is full, and what a crash leaves."""

import json
import os
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.kit.clock import SystemClock
from hanse.kit.telemetry import metrics
from hanse.model.audit import AuditKind, AuditPage, AuditQuery, AuditRecord, merged
from hanse.model.ids import QueueUid
from hanse.up import audit_files
from hanse.up.audit_files import AuditLimits, FileAudit, line_of, lines_backwards, record_of

JOB = "aaaaaaaa-0123456789abcdef"


class Hands(SystemClock):
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.at_ms = 1_000

    def now_ms(self) -> int:
        return self.at_ms


def call(verb: str = "CancelJob", *, who: str = "ann", queue: str = "vision", job: str = JOB) -> AuditRecord:
    return AuditRecord(AuditKind.CALL, who, verb, queue=queue, jobs=(job,), outcome="OK")


async def verbs(log: FileAudit, query: AuditQuery | None = None) -> list[str]:
    return [record.verb for record in (await log.find(query or AuditQuery())).records]


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def log(tmp_path: Path, clock: Hands) -> FileAudit:
    return FileAudit(tmp_path / "audit", "r0", clock)


async def test_records_are_lines_and_come_back_newest_first(log: FileAudit, clock: Hands) -> None:
    for verb in ("A", "B", "C"):
        log.note(call(verb))
        clock.at_ms += 1
    assert await verbs(log) == ["C", "B", "A"]
    first = json.loads(log.path.read_text().splitlines()[0])
    assert first == {
        "at_ms": 1_000,
        "at": "1970-01-01T00:00:01.000Z",
        "kind": "call",
        "who": "ann",
        "verb": "A",
        "queue": "vision",
        "jobs": [JOB],
        "outcome": "OK",
        "replica": "r0",
    }
    assert log.path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (AuditQuery(who="bob"), ["B"]),
        (AuditQuery(job=JOB), ["D", "A"]),
        (AuditQuery(queue="nlp"), ["B"]),
        (AuditQuery(verb="canceljob"), []),
        (AuditQuery(verb="d"), ["D"]),
        (AuditQuery(since_ms=1_002), ["D", "C"]),
        (AuditQuery(before_ms=1_002), ["B", "A"]),
        (AuditQuery(since_ms=1_001, before_ms=1_003), ["C", "B"]),
        (AuditQuery(queues={"nlp": QueueUid("bbbbbbbb")}), ["B"]),
        (AuditQuery(queues={"vision": QueueUid("aaaaaaaa")}), ["D", "A"]),
        (AuditQuery(queues={"vision": QueueUid("cccccccc")}), []),
        (AuditQuery(queues={}), []),
    ],
)
async def test_what_is_asked_for(log: FileAudit, clock: Hands, query: AuditQuery, expected: list[str]) -> None:
    other = "bbbbbbbb-0123456789abcdef"
    for record in (call("A"), call("B", who="bob", queue="nlp", job=other), call("C", queue="", job=""), call("D")):
        log.note(record)
        clock.at_ms += 1
    assert await verbs(log, query) == expected


async def test_time_never_goes_back_in_a_log(log: FileAudit, clock: Hands) -> None:
    log.note(call("A"))
    clock.at_ms = 10
    log.note(call("B"))
    assert [r.at_ms for r in (await log.find(AuditQuery())).records] == [1_000, 1_000]


async def test_files_turn_by_size_and_the_oldest_go(tmp_path: Path, clock: Hands) -> None:
    log = FileAudit(tmp_path, "r0", clock, AuditLimits(file_bytes_max=1_000, files_max=3))
    for number in range(61):
        clock.at_ms += 1
        log.note(call(f"V{number}"))
        await log.flush()
    files = sorted(path.name for path in tmp_path.glob("*"))  # noqa: ASYNC240 - a test
    assert len(files) == 3
    assert "audit-r0.jsonl" in files
    found = await verbs(log)
    assert found == [f"V{number}" for number in range(60, 60 - len(found), -1)]
    assert 10 < len(found) < 30
    assert await verbs(log, AuditQuery(before_ms=clock.at_ms - 5)) == found[6:]


async def test_pages_lead_through_everything_once(tmp_path: Path, clock: Hands) -> None:
    log = FileAudit(tmp_path, "r0", clock, AuditLimits(file_bytes_max=2_000, files_max=100))
    for number in range(200):
        clock.at_ms += number % 3 == 0  # several of one millisecond
        log.note(call(f"V{number}"))
        await log.flush()
    found, before_ms = list[str](), 0
    while True:
        page = await log.find(AuditQuery(before_ms=before_ms, limit=7))
        found.extend(record.verb for record in page.records)
        before_ms = page.through_ms
        if not before_ms:
            break
    assert found == [f"V{number}" for number in range(199, -1, -1)]


async def test_one_page_looks_at_so_much_and_says_how_far(
    log: FileAudit, clock: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        clock.at_ms += 1
        log.note(call(f"V{number}"))
    monkeypatch.setattr(audit_files, "SCANNED_BYTES_MAX", 1_000)
    seen, before_ms = list[str](), 0
    while True:
        page = await log.find(AuditQuery(before_ms=before_ms, verb="V0"))
        seen.extend(record.verb for record in page.records)
        assert not before_ms or page.through_ms < before_ms, "it gets on"
        before_ms = page.through_ms
        if not before_ms:
            break
    assert seen == ["V0"]


async def test_a_disk_that_is_full_loses_nothing_until_much_waits(
    log: FileAudit, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "audit").write_text("a file where the folder should be")
    failures, lost = metrics.AUDIT_FAILURES.value(), metrics.AUDIT_LOST.value()
    for _ in range(3):
        log.note(call("A"))
        await log.flush()
    assert metrics.AUDIT_FAILURES.value() == failures + 3
    assert [record.message for record in caplog.records].count("audit_fails") == 1
    assert metrics.AUDIT_LOST.value() == lost
    monkeypatch.setattr(audit_files, "WAITING_BYTES_MAX", 1_000)
    for _ in range(20):
        log.note(call("A"))
    assert metrics.AUDIT_LOST.value() > lost
    (tmp_path / "audit").unlink()
    await log.flush()
    assert "audit_works_again" in [record.message for record in caplog.records]
    assert len(await verbs(log)) >= 3


async def test_half_a_line_is_cut_off_and_never_read(log: FileAudit) -> None:
    log.note(call("A"))
    await log.flush()
    with log.path.open("ab") as file:
        file.write(b'{"at_ms":1001,"kind":"call"')
    assert await verbs(log) == ["A"]
    log.note(call("B"))
    assert await verbs(log) == ["B", "A"]
    assert len(log.path.read_text().splitlines()) == 2


async def test_lines_of_a_newer_version_are_left_out(log: FileAudit) -> None:
    log.note(call("A"))
    await log.flush()
    with log.path.open("ab") as file:
        file.write(
            b'{"at_ms":1001,"at":"","kind":"dream","who":"x","verb":"y"}\nnothing\n{"at_ms":1002,"kind":"call"}\n'
        )
    log.note(call("B"))
    assert await verbs(log) == ["B", "A"]


async def test_what_waits_at_the_end_is_written(log: FileAudit) -> None:
    async with log.running():
        log.note(call("A"))
    assert log.path.read_text().count("\n") == 1


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400), st.integers(1, 9))
def test_any_bytes_are_read_backwards_as_forwards(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, step: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "f"
    path.write_bytes(data)
    file = os.open(path, os.O_RDONLY)
    before, audit_files.STEP_BYTES = audit_files.STEP_BYTES, step  # type: ignore[misc]
    try:
        found = list(lines_backwards(file))
    finally:
        audit_files.STEP_BYTES = before  # type: ignore[misc]
        os.close(file)
    assert found == data.split(b"\n")[:-1][::-1]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=100))
def test_any_line_is_a_record_or_none(line: bytes) -> None:
    record_of(line)


def test_a_record_is_what_its_line_says() -> None:
    whole = AuditRecord(
        AuditKind.EVICTION,
        "scheduler",
        "STOPPING",
        queue="vision",
        jobs=(JOB,),
        pool="oslo",
        attempt=2,
        reason="DRAINED",
        message="the pool is being drained",
        revision=7,
        at_ms=5,
        replica="r1",
    )
    assert record_of(line_of(whole, 5, "r1")) == whole
    assert set(json.loads(line_of(whole, 5, "r1"))) <= {"at", *(field.name for field in fields(AuditRecord))}


def test_logs_of_replicas_become_one_as_far_as_all_were_looked_through() -> None:
    def seen(replica: str, at_ms: int, revision: int = 0) -> AuditRecord:
        return AuditRecord(
            AuditKind.POOL, "scheduler", "CORDONED", pool="oslo", revision=revision, at_ms=at_ms, replica=replica
        )

    page = merged(
        {
            "r0": AuditPage((seen("r0", 9, 4), seen("r0", 5)), 3),
            "r1": AuditPage((seen("r1", 8, 4), seen("r1", 6), seen("r1", 4)), 5),
        },
        ("r2",),
    )
    assert [(r.replica, r.at_ms) for r in page.records] == [("r0", 9), ("r1", 6), ("r0", 5)]
    assert (page.through_ms, page.silent) == (5, ("r2",))
