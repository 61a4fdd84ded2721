"""The files in which jobs are kept after the store has dropped them.

One file for each day (UTC, of the writing) and replica, `jobs-2026-11-30.r0.jsonl`; one line for each job, the JSON
that `hanse job ID -o json` prints, and who submitted it: spec, manifest, labels, every attempt with its times and
places. `jq` reads it as it is. Old files are the operator's to move, compress or delete.

* A line is on the disk before its job is dropped. A crash between the two leaves the job in the store, and the job is
  written again later, maybe by another replica into another file: a reader takes one line for each id.
* A crash can leave half a line at the end. Its job is still in the store, so whoever writes next cuts it off.
"""

import asyncio
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from errno import EACCES, ENOTDIR
from pathlib import Path

import orjson

from hanse.api.v1 import job_spec_pb2
from hanse.apiserver.job_messages import job_message
from hanse.apiserver.rows import UNREADABLE, Found, Head, JobRow
from hanse.kit.clock import Clock
from hanse.scheduler.shell.departures import ArchiveFailed
from hanse.scheduler.shell.ended import EndedJob
from hanse.store.schema import SpecEnvelope
from hanse.up.line_files import append_lines
from hanse.wire.json import Json, message_to_json


class FileArchive:
    """An archive below one folder."""

    def __init__(self, folder: Path, replica: str, clock: Clock) -> None:
        self._folder = folder
        self._replica = replica
        self._clock = clock

    def check(self) -> str:
        """Why nothing could be written there, as far as that can be seen without writing; "" if it could."""
        there = next((path for path in (self._folder, *self._folder.parents) if path.exists()), Path("/"))
        number = ENOTDIR if not there.is_dir() else EACCES if not os.access(there, os.W_OK) else 0
        return self._told(OSError(number, os.strerror(number))) if number else ""

    async def keep(self, jobs: Sequence[EndedJob]) -> None:
        """Write a line for each job, and sync it to the disk. Raises ArchiveFailed."""
        try:
            await asyncio.to_thread(self._write, jobs)
        except OSError as error:
            raise ArchiveFailed(self._told(error)) from error

    def _write(self, jobs: Sequence[EndedJob]) -> None:
        now_ms = self._clock.now_ms()
        append_lines(self._file(), b"".join(orjson.dumps(line_of(job, now_ms)) + b"\n" for job in jobs))

    def _file(self) -> Path:
        day = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).date().isoformat()
        return self._folder / f"jobs-{day}.{self._replica}.jsonl"

    def _told(self, error: OSError) -> str:
        if isinstance(error, BlockingIOError):
            return f"{self._file()} is written by another process: give each replica a name of its own"
        why = error.strerror or type(error).__name__
        return (
            f"the archive in {self._folder} cannot be written ({why}), so no ended job leaves the store: make room "
            "there, or name another archive_dir"
        )


def line_of(job: EndedJob, now_ms: int) -> dict[str, Json]:
    """A job as its line has it."""
    spec, envelope = job.spec, job.envelope
    head = UNREADABLE if spec is None else _head(spec, envelope)
    row = JobRow(Found(job.job, job.state, job.state_revision), head, (), spec, job.past)
    line = message_to_json(job_message(row, full=True, attempts=True))
    for needless in ("nodes", "pools_silent", "conditions", "target"):
        line.pop(needless, None)
    by: dict[str, Json] = {
        "principal": envelope.principal if envelope else "",
        "request_id": envelope.request_id if envelope else "",
        "trace": envelope.trace if envelope else "",
        "archived_ms": now_ms,
    }
    return {**line, **by, "spec": line["spec"]}


def _head(spec: job_spec_pb2.JobSpec, envelope: SpecEnvelope | None) -> Head:
    retry_of = envelope.retry_of if envelope is not None else ""
    return Head(spec.name, spec.queue, dict(spec.labels), spec.priority_class, retry_of)
