"""Brings a cluster under another spec: somebody edited the fleet file between two runs.

Nodes are the same if they have the same name. Gangs keep their pods on nodes that still exist; the others are
lost, as if their machines had been taken away, and their nodes stay as ghosts because records name them. What was
marked on a node stays marked. Pods of somebody else are those of the new spec, except where they do not fit beside
what runs.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hanse.simcluster.engine import Engine
from hanse.simcluster.foreign import generate
from hanse.simcluster.gang import Gang
from hanse.simcluster.inputs import HeldSet, Hold, pack, unpack
from hanse.simcluster.nodes import NodeTable
from hanse.simcluster.snapshot import FLAGS
from hanse.simcluster.spec import ClusterSpec


def moved(old: Engine, spec: ClusterSpec) -> Engine:
    """The cluster under `spec`; the same engine if only its timing differs."""
    if replace(old.spec, timing=spec.timing) == spec:
        old.spec = spec
        return old
    ghosts = _ghosts(old, NodeTable(spec))
    new = Engine(spec, uid=old.uid, now_ms=old.now_ms, with_foreign=False, ghosts=ghosts)
    new.version, new.serial, new.claim = old.version, old.serial, old.claim
    index = new.nodes.index
    to_new = np.array([index.get(name, 0) for name in old.nodes.names], dtype=np.int32)
    _move_marks(old.nodes, new.nodes)
    for gang in old.gangs.values():
        new.adopt(_moved_gang(gang, to_new, new.nodes))
    new.lose_pods_of_removed()
    _add_foreign(new)
    return new


def _ghosts(old: Engine, table: NodeTable) -> list[str]:
    """Names that gangs use and the new spec does not have."""
    used = {old.nodes.names[node] for gang in old.gangs.values() for node in gang.nodes.tolist()}
    return sorted(name for name in used if name not in table.index)


def _move_marks(old: NodeTable, new: NodeTable) -> None:
    absent = {*old.ghosts, *new.ghosts}
    common = [name for name in old.names if name in new.index and name not in absent]
    before, after = old.indexes(common), new.indexes(common)
    for flag in FLAGS:
        getattr(new, flag)[after] = getattr(old, flag)[before]
    for i, j in zip(before.tolist(), after.tolist(), strict=True):
        if i in old.added_taints:
            new.added_taints[j] = old.added_taints[i]


def _moved_gang(old: Gang, to_new: NDArray[np.int32], table: NodeTable) -> Gang:
    hold = old.hold
    sets = tuple(
        HeldSet(s.name, s.first_rank, s.flavor, pack(to_new[unpack(s.nodes)]), s.resources) for s in hold.sets
    )
    gang = Gang(old.serial, Hold(hold.gang, hold.revision, sets, hold.payload), table)
    gang.take_over(old, table)
    return gang


def _add_foreign(engine: Engine) -> None:
    for gang in generate(engine.spec, engine.nodes):
        request = engine.nodes.request(gang.resources)
        fits = (engine.nodes.free[gang.nodes] >= request.amounts).all(axis=1)
        gang.nodes = gang.nodes[fits]
        engine.serial += 1
        gang.serial = engine.serial
        engine.place_foreign(gang)
