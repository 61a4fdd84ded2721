"""Opens the folder of a simulated cluster: as it was left, to the letter.

Restoring is: read the snapshot, then apply the inputs of the log that begins after it, at the times at which they
were applied. Facts that come out again and are in the log already are dropped. What was due while nobody ran the
cluster happens at its due time, as soon as somebody looks.
"""

from pathlib import Path

from hanse.model.errors import FailedPrecondition
from hanse.simcluster.batches import BATCHES, Batch, decoded
from hanse.simcluster.engine import Engine
from hanse.simcluster.facts import Fact
from hanse.simcluster.file_storage import DEFAULT_LIMITS, FileStorage, StorageLimits
from hanse.simcluster.folder import lock, log_file, log_files, not_writable, snapshot_path
from hanse.simcluster.frames import Damaged, frames_in
from hanse.simcluster.moving import moved
from hanse.simcluster.snapshot import FORMAT, ORIGIN_DECODER, SNAPSHOT_DECODER, Snapshot, restore
from hanse.simcluster.spec import ClusterSpec

DAMAGE_REMEDY = "restore the folder from a copy, or remove it to begin with an empty cluster"


def open_folder(
    folder: Path, spec: ClusterSpec, *, now_ms: int, uid: str, limits: StorageLimits = DEFAULT_LIMITS
) -> tuple[Engine, FileStorage]:
    """The cluster of a folder, as it was left, or a new one with this uid if there is none.

    Raises:
        FailedPrecondition: another process has it (STATE_IN_USE), or it is damaged (STATE_DAMAGED).
        Unavailable: it cannot be read or written (STATE_NOT_WRITABLE).
    """
    storage = FileStorage(folder, lock(folder), limits)
    try:
        return _opened(storage, folder, spec, now_ms, uid), storage
    except BaseException as error:
        storage.close()
        if isinstance(error, Damaged):
            raise FailedPrecondition(f"{error}; {DAMAGE_REMEDY}", reason="STATE_DAMAGED") from error
        if isinstance(error, OSError):
            raise not_writable(folder, error) from error
        raise


def _opened(storage: FileStorage, folder: Path, spec: ClusterSpec, now_ms: int, uid: str) -> Engine:
    if not snapshot_path(folder).exists():
        if len(log_files(folder)) > 1:
            raise Damaged(f"{folder}: there are logs and no snapshot")
        engine = Engine(spec, uid=uid, now_ms=now_ms)
        storage.begin(engine)
        return engine
    left = _Left(folder)
    storage.go_on(left.origin, left.log, left.log_bytes, left.facts)
    engine = moved(left.engine, spec)
    if engine is not left.engine or left.origin.spec != spec:
        storage.keep(engine.take_facts())
        storage.rotate(engine)
    return engine


class _Left:
    """A cluster as it was left.

    Attributes:
        origin: what it was made of.
        log: that begins after the snapshot.
        log_bytes: how much of the log is whole.
        facts: those that followed from the inputs and are not in the log.
    """

    def __init__(self, folder: Path) -> None:
        snapshot = _read_snapshot(snapshot_path(folder))
        self.engine = restore(snapshot)
        self.origin = snapshot.origin
        self.log = log_file(folder, snapshot.version)
        self.log_bytes = 0
        self.facts: list[Fact] = []
        for later in log_files(folder):
            if later.first_seq > self.log.first_seq:  # made for a snapshot that never came to be
                later.path.unlink()
        raw = self.log.path.read_bytes() if self.log.path.exists() else b""
        for end, payload in frames_in(raw, str(self.log.path)):
            if self.log_bytes == 0:
                _check_origin(payload, self.engine.uid, self.log.path)
            else:
                self._replay(decoded(BATCHES, payload, self.log.path))
            self.log_bytes = end

    def _replay(self, batch: Batch) -> None:
        for change in batch.inputs:
            self.engine.apply(change, batch.at_ms)
        self.facts += self.engine.take_facts()
        if batch.facts:
            logged = batch.facts[-1].seq
            self.facts = [fact for fact in self.facts if fact.seq > logged]


def _read_snapshot(path: Path) -> Snapshot:
    records = list(frames_in(path.read_bytes(), str(path)))
    if len(records) != 1:
        raise Damaged(f"{path}: cut short")
    snapshot = decoded(SNAPSHOT_DECODER, records[0][1], path)
    if snapshot.origin.format != FORMAT:
        raise Damaged(f"{path}: written by another version (format {snapshot.origin.format}, not {FORMAT})")
    return snapshot


def _check_origin(payload: bytes, uid: str, path: Path) -> None:
    if decoded(ORIGIN_DECODER, payload, path).uid != uid:
        raise Damaged(f"{path}: belongs to another cluster than the snapshot beside it")
