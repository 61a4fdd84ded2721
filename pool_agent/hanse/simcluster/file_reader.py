"""Reads the pod log of a folder, log by log, to the end and on when more has come.

Old logs name nodes by index under the spec of their time, which each of them carries: a batch of facts therefore
comes with the names that its indexes stand for.
"""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hanse.model.errors import FailedPrecondition, OutOfRange
from hanse.simcluster.batches import FACTS, decoded
from hanse.simcluster.facts import FACTS_BATCH_MAX, Fact, FactBatch
from hanse.simcluster.folder import LogFile
from hanse.simcluster.frames import Damaged, frames_in
from hanse.simcluster.nodes import NodeTable
from hanse.simcluster.snapshot import ORIGIN_DECODER

if TYPE_CHECKING:
    from hanse.simcluster.file_storage import FileStorage


class FileReader:
    """Reads the facts of a FileStorage from a position on."""

    def __init__(self, storage: "FileStorage", seq: int) -> None:
        """Raises OutOfRange if the position is no longer kept."""
        if seq < storage.first_seq:
            raise OutOfRange(f"the pod log begins at {storage.first_seq}; {seq} is no longer kept")
        self._storage = storage
        self._seq = seq
        self._fd: int | None = None
        self._open(next(log for log in reversed(storage.logs) if log.first_seq <= seq))

    def _open(self, log: LogFile) -> None:
        self.close()
        try:
            self._fd = os.open(log.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise OutOfRange(f"position {self._seq} of the pod log is no longer kept") from None
        self._log = log
        self._offset = 0
        self._names: Sequence[str] = ()
        self._rest: Iterator[tuple[int, bytes]] = iter(())

    def read(self) -> FactBatch:
        """The next facts, about FACTS_BATCH_MAX; none if there are no more yet."""
        self._storage.flush()
        found: list[Fact] = []
        while len(found) < FACTS_BATCH_MAX:
            payload = self._next_record()
            if payload is not None:
                found += self._facts_of(payload)
            elif found or not self._to_next_log():
                break
        if not found:
            found = [fact for fact in self._storage.waiting if fact.seq >= self._seq]
        if found:
            self._seq = found[-1].seq + 1
        return FactBatch(self._names, found)

    def _next_record(self) -> bytes | None:
        try:
            entry = next(self._rest, None)
            if entry is None:
                self._rest = iter(self._whole_records())
                entry = next(self._rest, None)
        except Damaged as error:
            raise FailedPrecondition(str(error), reason="STATE_DAMAGED") from error
        return None if entry is None else entry[1]

    def _whole_records(self) -> list[tuple[int, bytes]]:
        """What was appended since the last look."""
        if self._fd is None:
            return []
        size = os.fstat(self._fd).st_size
        raw = os.pread(self._fd, size - self._offset, self._offset)
        records = list(frames_in(raw, str(self._log.path)))
        self._offset += records[-1][0] if records else 0
        return records

    def _facts_of(self, payload: bytes) -> list[Fact]:
        if not self._names:  # the first record of a log is its origin
            origin = decoded(ORIGIN_DECODER, payload, self._log.path)
            self._names = NodeTable(origin.spec, origin.ghosts).names
            return []
        return [fact for fact in decoded(FACTS, payload, self._log.path).facts if fact.seq >= self._seq]

    def _to_next_log(self) -> bool:
        following = next((log for log in self._storage.logs if log.first_seq > self._log.first_seq), None)
        if following is None:
            return False
        self._open(following)
        return True

    def close(self) -> None:
        """Let go of the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
