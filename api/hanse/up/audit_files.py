"""The audit log of one process, in files: `audit-r0.jsonl`, and older ones with a number.

* Nobody who decides ever waits for it. A record is put into a bounded queue as bytes; a task of its own writes what
  is there, with one sync of the disk, several times a second. A crash loses what came since.
* A disk that is full loses nothing at first: what waits is written when there is room again. Beyond
  WAITING_BYTES_MAX new records are lost, and counted. Metrics tell both, and the log when it begins and ends.
* Lines are only ever added. A file that has reached its size gets a number and is not touched again; the oldest
  beyond the limit go. Ship them elsewhere if they are to be kept for longer, or out of reach of this machine.

Files are in the order of their records, by the log's own clock, which never goes back; so who reads goes backwards,
and stops where there can be nothing more.
"""

import asyncio
import logging
import os
import re
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import orjson

from hanse.kit.clock import Clock
from hanse.kit.telemetry import metrics
from hanse.model.audit import AuditKind, AuditPage, AuditQuery, AuditRecord
from hanse.up.line_files import append_lines

WRITE_EVERY_S: Final = 0.2
AGAIN_S: Final = 5.0
"""Pause after the disk could not be written."""

BATCH_BYTES_MAX: Final = 4 << 20
WAITING_BYTES_MAX: Final = 16 << 20
SCANNED_BYTES_MAX: Final = 64 << 20
"""That one page looks at; what lies before is for the next."""

STEP_BYTES: Final = 1 << 20
FILE_BYTES_MAX: Final = 64 << 20
FILES_MAX: Final = 16

log = logging.getLogger(__name__)

_FIELDS: Final = {field.name for field in fields(AuditRecord)}


@dataclass(frozen=True, slots=True)
class AuditLimits:
    """How much is kept: so many files of so many bytes."""

    file_bytes_max: int = FILE_BYTES_MAX
    files_max: int = FILES_MAX


class FileAudit:
    """Writes and reads the log of one replica's process. Use `running()`."""

    def __init__(self, folder: Path, replica: str, clock: Clock, limits: AuditLimits = AuditLimits()) -> None:
        self._folder = folder
        self._replica = replica
        self._clock = clock
        self._limits = limits
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._last_ms = 0
        self._failing = False
        self._stopping = asyncio.Event()
        self._writing = asyncio.Lock()
        self._name = re.compile(rf"audit-{re.escape(replica)}\.(\d{{6,}})\.jsonl")

    @property
    def path(self) -> Path:
        """The file that is written now."""
        return self._folder / f"audit-{self._replica}.jsonl"

    # ---- writing ---------------------------------------------------------------------------------------------

    def note(self, record: AuditRecord) -> None:
        """Keep a record; returns at once, and never raises."""
        self._last_ms = max(self._last_ms, self._clock.now_ms())
        line = line_of(record, self._last_ms, self._replica)
        if self._waiting_bytes + len(line) > WAITING_BYTES_MAX:
            metrics.AUDIT_LOST.add(1)
            return
        self._waiting.append(line)
        self._waiting_bytes += len(line)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write while the block runs, and what is left at its end."""
        writing = asyncio.create_task(self._run(), name="audit")
        try:
            yield
        finally:
            self._stopping.set()  # not cancelled: what a thread writes would be written again
            await writing
            await self.flush()

    async def _run(self) -> None:
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_S if self._failing else WRITE_EVERY_S):
                    await self._stopping.wait()
            await self.flush()

    async def flush(self) -> None:
        """Write what waits, or tell why not."""
        async with self._writing:
            while self._waiting and await self._written(self._batch()):
                pass

    async def _written(self, lines: list[bytes]) -> bool:
        try:
            await asyncio.to_thread(self._write, b"".join(lines))
        except OSError as error:
            metrics.AUDIT_FAILURES.add(1)
            if not self._failing:
                log.error("audit_fails", extra={"cause": self._told(error)})
            self._failing = True
            return False
        for line in lines:
            self._waiting.popleft()
            self._waiting_bytes -= len(line)
        metrics.AUDIT_RECORDS.add(len(lines))
        if self._failing:
            log.warning("audit_works_again")
            self._failing = False
        return True

    def _batch(self) -> list[bytes]:
        lines, size = list[bytes](), 0
        for line in self._waiting:
            if lines and size + len(line) > BATCH_BYTES_MAX:
                break
            lines.append(line)
            size += len(line)
        return lines

    def _write(self, data: bytes) -> None:
        size = append_lines(self.path, data)
        if size >= self._limits.file_bytes_max:
            with suppress(OSError):  # the lines are written; the next ones try it again
                self._rotate()

    def _rotate(self) -> None:
        """The file gets the next number; the oldest beyond the limit go."""
        numbers = sorted(self._numbers())
        following = numbers[-1] + 1 if numbers else 1
        os.rename(self.path, self._numbered(following))
        for number in [*numbers, following][: -(self._limits.files_max - 1) or None]:
            self._numbered(number).unlink(missing_ok=True)

    def _numbers(self) -> Iterator[int]:
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                if found := self._name.fullmatch(path.name):
                    yield int(found[1])

    def _numbered(self, number: int) -> Path:
        return self._folder / f"audit-{self._replica}.{number:06d}.jsonl"

    def _told(self, error: OSError) -> str:
        if isinstance(error, BlockingIOError):
            return f"{self.path} is written by another process: give each replica a name of its own"
        why = error.strerror or type(error).__name__
        return f"{self.path} cannot be written ({why}); make room there, or name another audit_dir; work goes on"

    # ---- reading ---------------------------------------------------------------------------------------------

    async def find(self, query: AuditQuery) -> AuditPage:
        """The newest records that match, also those that are not written yet."""
        await self.flush()
        return await asyncio.to_thread(self._find, query)

    def _find(self, query: AuditQuery) -> AuditPage:
        found: list[AuditRecord] = []
        scanned, through_ms = 0, 0
        for line in self._backwards(query.before_ms):
            at_ms = time_of(line)
            if at_ms < 0 or (query.before_ms and at_ms >= query.before_ms):
                continue
            if at_ms < query.since_ms:
                return AuditPage(tuple(found))
            if through_ms and at_ms < through_ms:
                return AuditPage(tuple(found), through_ms)
            scanned += len(line) + 1
            record = record_of(line)
            if record is not None and query.holds(record):
                found.append(record)
            if len(found) >= query.limit or scanned > SCANNED_BYTES_MAX:
                through_ms = through_ms or at_ms  # what is left of this millisecond belongs to it
        return AuditPage(tuple(found))

    def _backwards(self, before_ms: int) -> Iterator[bytes]:
        """Lines from the newest to the oldest, without files that begin too late. A file that gets its number
        meanwhile is read once."""
        paths = [self.path, *(self._numbered(number) for number in sorted(self._numbers(), reverse=True))]
        opened: dict[int, int] = {}
        try:
            for path in paths:
                try:
                    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                except FileNotFoundError:
                    continue
                inode = os.fstat(file).st_ino
                if inode in opened or (before_ms and time_of(os.pread(file, 64, 0)) >= before_ms):
                    os.close(file)
                else:
                    opened[inode] = file
            for file in opened.values():
                yield from lines_backwards(file)
        finally:
            for file in opened.values():
                os.close(file)


def lines_backwards(file: int) -> Iterator[bytes]:
    """The whole lines of an open file, the last one first; half a line at the end is left out."""
    end, rest = os.fstat(file).st_size, b""
    whole = False
    while end:
        start = max(0, end - STEP_BYTES)
        data = os.pread(file, end - start, start) + rest
        pieces = data.split(b"\n")
        if not whole:
            pieces.pop()  # what follows the last end of a line
            whole = len(pieces) > 0
        rest, end = (pieces[0] if pieces else data), start
        yield from reversed(pieces[1:])
    if whole:
        yield rest


def line_of(record: AuditRecord, at_ms: int, replica: str) -> bytes:
    """A record as its line has it, written down then by that replica; what is empty is left out. The time comes
    first: who scans looks at it alone. Fields are named one by one, as there may be thousands of records in a second.
    """
    said = {
        "kind": record.kind.value,
        "who": record.who,
        "verb": record.verb,
        "queue": record.queue,
        "jobs": record.jobs,
        "pool": record.pool,
        "attempt": record.attempt,
        "outcome": record.outcome,
        "reason": record.reason,
        "message": record.message,
        "request_id": record.request_id,
        "address": record.address,
        "revision": record.revision,
        "replica": replica,
    }
    at = f"{_second(at_ms // 1_000)}.{at_ms % 1_000:03d}Z"
    return orjson.dumps({"at_ms": at_ms, "at": at, **{name: value for name, value in said.items() if value}}) + b"\n"


@lru_cache(maxsize=4)
def _second(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


_TIME: Final = re.compile(rb'\{"at_ms":(\d{1,16}),')


def time_of(line: bytes) -> int:
    """When the record of a line was written; -1 for what is no such line."""
    found = _TIME.match(line)
    return int(found[1]) if found else -1


def record_of(line: bytes) -> AuditRecord | None:
    """The record of a line, None for what is none: damaged, or of a newer version."""
    try:
        said: dict[str, Any] = orjson.loads(line)
        known = {name: value for name, value in said.items() if name in _FIELDS}
        return AuditRecord(**{**known, "kind": AuditKind(said["kind"]), "jobs": tuple(said.get("jobs", ()))})
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
