"""Makes a simulated cluster from its spec, new or as it was left."""

import hashlib
from pathlib import Path
from typing import Final

from hanse.kit.clock import Clock
from hanse.simcluster.cluster import SimCluster
from hanse.simcluster.engine import Engine
from hanse.simcluster.restoring import open_folder
from hanse.simcluster.spec import ClusterSpec

UID_CHARS: Final = 16


def build_cluster(spec: ClusterSpec, clock: Clock, state_path: Path | None = None) -> SimCluster:
    """A cluster whose state is kept in the folder `state_path`, or only in memory if that is None.

    Raises:
        HanseError: the folder belongs to another running process, is damaged, or cannot be written.
    """
    now_ms = clock.now_ms()
    if state_path is None:
        return SimCluster(Engine(spec, uid=_uid(spec, 0, ""), now_ms=now_ms), clock)
    uid = _uid(spec, now_ms, str(state_path.absolute()))
    engine, storage = open_folder(state_path, spec, now_ms=now_ms, uid=uid)
    return SimCluster(engine, clock, storage)


def _uid(spec: ClusterSpec, created_ms: int, place: str) -> str:
    """Identity of a cluster: in memory the same for equal specs, on disk another for every new folder."""
    text = f"{spec.name}\0{spec.seed}\0{created_ms}\0{place}"
    return hashlib.sha256(text.encode()).hexdigest()[:UID_CHARS]
