"""Keeps a simulated cluster in a folder, so that its pods outlive every process that serves it.

A batch is in the log before its inputs are applied, by one `write` call; that survives the death of the process
(not of the machine: a simulated cluster is not worth an fsync per write). Facts follow from inputs, and are
written with the next batch, or when many have gathered. When a log has grown, the state is written as a new
snapshot and a new log begins; old logs stay for the pod log, up to a size.

At every moment the snapshot on disk and the log that begins right after it are the state. So the new log is made
before the snapshot is replaced, and until then the old pair is in force.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hanse.model.errors import Unavailable
from hanse.simcluster.batches import Batch
from hanse.simcluster.engine import Engine
from hanse.simcluster.facts import Fact
from hanse.simcluster.file_reader import FileReader
from hanse.simcluster.folder import LogFile, log_file, log_files, snapshot_path
from hanse.simcluster.frames import AppendFile, frame, replace_file
from hanse.simcluster.inputs import Input
from hanse.simcluster.snapshot import ENCODER, Origin, dump, origin_of

FACTS_GATHERED_MAX: Final = 256  # facts that wait for the next batch


@dataclass(frozen=True, slots=True)
class StorageLimits:
    """How much is kept of one cluster.

    Attributes:
        log_bytes: of one log, before a snapshot is made and a new log begins.
        pod_log_bytes: of all its logs; the oldest go first.
    """

    log_bytes: int = 8 << 20
    pod_log_bytes: int = 1 << 30


DEFAULT_LIMITS: Final = StorageLimits()


class FileStorage:
    """The storage of one folder that this process holds.

    Attributes:
        logs: oldest first; the last one is appended to.
        waiting: facts that are in no log yet.
    """

    def __init__(self, folder: Path, held: int, limits: StorageLimits = DEFAULT_LIMITS) -> None:
        self._folder = folder
        self._held: int | None = held
        self._limits = limits
        self._rotate_at = limits.log_bytes
        self._log: AppendFile | None = None
        self.logs: list[LogFile] = []
        self.waiting: list[Fact] = []

    @property
    def path(self) -> str:
        return str(self._folder)

    @property
    def first_seq(self) -> int:
        return self.logs[0].first_seq

    def begin(self, engine: Engine) -> None:
        """Keep a new cluster. Raises OSError, Unavailable."""
        self._use(self._new_pair(engine))

    def go_on(self, origin: Origin, log: LogFile, log_bytes: int, facts: Sequence[Fact]) -> None:
        """Keep a cluster as it was left, whose log is whole so far. Raises OSError, Unavailable."""
        file = AppendFile(log.path, log_bytes)
        if log_bytes == 0:
            file.append(frame(ENCODER.encode(origin)))
        self.waiting = list(facts)
        self._use(file)

    def _new_pair(self, engine: Engine) -> AppendFile:
        """Write an empty log and the snapshot before it; on failure the old pair stays in force."""
        log = AppendFile(log_file(self._folder, engine.version).path, 0)
        try:
            log.append(frame(ENCODER.encode(origin_of(engine))))
            replace_file(snapshot_path(self._folder), frame(dump(engine)))
        except BaseException:
            log.close()
            log.path.unlink(missing_ok=True)
            raise
        return log

    def _use(self, log: AppendFile) -> None:
        if self._log is not None:
            self._log.close()
        self._log = log
        self._rotate_at = self._limits.log_bytes
        self.logs = log_files(self._folder)

    def append(self, now_ms: int, inputs: Sequence[Input]) -> None:
        if self._log is None:
            raise Unavailable(f"{self._folder} has been closed")
        self._log.append(frame(ENCODER.encode(Batch(now_ms, tuple(inputs), tuple(self.waiting)))))
        self.waiting = []

    def keep(self, facts: Sequence[Fact]) -> None:
        self.waiting += facts
        if len(self.waiting) > FACTS_GATHERED_MAX:
            self.flush()

    def flush(self) -> None:
        """Write facts that wait, if the disk takes them; they wait on if it does not."""
        if not self.waiting or self._log is None:
            return
        try:
            self.append(self.waiting[-1].at_ms, ())
        except Unavailable:
            return

    def facts_from(self, seq: int) -> FileReader:
        return FileReader(self, max(1, seq))

    def tidy(self, engine: Engine) -> None:
        if self._log is None or self._log.size < self._rotate_at:
            return
        size = self._log.size
        try:
            self.rotate(engine)
        except (OSError, Unavailable):
            self._rotate_at = size + self._limits.log_bytes  # a full disk: go on with the long log

    def rotate(self, engine: Engine) -> None:
        """Write the state as a snapshot, and begin a new log. Raises OSError, Unavailable; then nothing has changed.

        The version grows by one with the snapshot, so that no two logs begin at the same position.
        """
        if self.waiting:
            self.append(engine.now_ms, ())
        engine.version += 1
        try:
            log = self._new_pair(engine)
        except BaseException:
            engine.version -= 1
            raise
        self._use(log)
        self._prune()

    def _prune(self) -> None:
        """Drop the oldest logs beyond the limit, never the newest."""
        total = 0
        for log in reversed(self.logs):
            total += log.path.stat().st_size
            if total > self._limits.pod_log_bytes and log is not self.logs[-1]:
                log.path.unlink(missing_ok=True)
        self.logs = log_files(self._folder)

    def close(self) -> None:
        if self._held is None:
            return
        self.flush()
        if self._log is not None:
            self._log.close()
        self._log = None
        os.close(self._held)
        self._held = None
