"""A cluster's whole state as bytes and back: exactly the engine that was written, under the spec of that time.

A file carries the spec that it was written under, since node indexes and everything that follows from inputs
depend on it; `moving` brings a cluster under another one.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np

from hanse.model.resources import Resources
from hanse.model.selectors import Effect, Taint
from hanse.simcluster.engine import Engine
from hanse.simcluster.foreign import ForeignGang
from hanse.simcluster.gang import Gang
from hanse.simcluster.inputs import AddedTaint, Claim, Hold, Start, pack, unpack
from hanse.simcluster.nodes import NodeTable
from hanse.simcluster.spec import ClusterSpec

FORMAT: Final = 1
FLAGS: Final = ("ready", "alive", "removed", "cordoned", "healthy")


class Origin(msgspec.Struct, frozen=True, array_like=True):
    """Which cluster a file belongs to, and what it was made of."""

    format: int
    uid: str
    spec: ClusterSpec
    ghosts: list[str]


class GangState(msgspec.Struct, frozen=True, array_like=True):
    """A gang; arrays as bytes."""

    serial: int
    hold: Hold
    recorded: bool
    created: int
    started_ms: int
    stopped: bool
    start: Start | None
    phase: bytes
    cause: bytes
    start_ms: bytes
    ended_ms: bytes
    wave_ms: list[int]
    set_end_ms: list[int]
    stop_end_ms: int
    stop_kills: bool
    deadline_ms: int
    failure: tuple[int, str, bool]


class ForeignState(msgspec.Struct, frozen=True, array_like=True):
    """A gang of somebody else."""

    serial: int
    name: str
    nodes: bytes
    resources: dict[str, int]
    due_ms: int


class NodesState(msgspec.Struct, frozen=True, array_like=True):
    """What is not as the spec says; flags as bytes in the order of FLAGS."""

    flags: tuple[bytes, ...]
    allocatable: dict[int, list[int]]
    taints: dict[int, list[AddedTaint]]


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """A cluster at one version."""

    origin: Origin
    now_ms: int
    version: int
    serial: int
    claim: Claim
    nodes: NodesState
    foreign: list[ForeignState]
    gangs: list[GangState]


def _encode_hook(value: object) -> object:
    """Resources and labels are mappings of several kinds."""
    return dict(value) if isinstance(value, Mapping) else NotImplemented


def _decode_hook(kind: type, value: Any) -> object:
    return Resources(value) if kind is Resources else NotImplemented


ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_encode_hook)
ORIGIN_DECODER: Final = msgspec.msgpack.Decoder(Origin, dec_hook=_decode_hook)
SNAPSHOT_DECODER: Final = msgspec.msgpack.Decoder(Snapshot, dec_hook=_decode_hook)


def origin_of(engine: Engine) -> Origin:
    """The origin that files of this engine carry."""
    return Origin(FORMAT, engine.uid, engine.spec, list(engine.nodes.ghosts))


def dump(engine: Engine) -> bytes:
    """Everything but the facts that were not taken yet."""
    return ENCODER.encode(
        Snapshot(
            origin_of(engine),
            engine.now_ms,
            engine.version,
            engine.serial,
            engine.claim,
            _nodes_state(engine.nodes),
            [
                ForeignState(g.serial, g.name, pack(g.nodes), dict(g.resources), g.due_ms)
                for g in engine.foreign.values()
            ],
            [_gang_state(gang) for gang in engine.gangs.values()],
        )
    )


def _nodes_state(table: NodeTable) -> NodesState:
    whole = table.whole(np.arange(len(table)))
    odd = np.flatnonzero((table.allocatable != whole).any(axis=1)).tolist()
    return NodesState(
        tuple(getattr(table, name).tobytes() for name in FLAGS),
        {node: table.allocatable[node].tolist() for node in odd},
        {
            node: [AddedTaint(t.key, t.value, int(t.effect)) for t in taints]
            for node, taints in table.added_taints.items()
        },
    )


def _gang_state(gang: Gang) -> GangState:
    return GangState(
        gang.serial,
        gang.hold,
        gang.recorded,
        gang.created,
        gang.started_ms,
        gang.stopped,
        gang.start,
        gang.phase.tobytes(),
        gang.cause.tobytes(),
        gang.start_ms.tobytes(),
        gang.ended_ms.tobytes(),
        gang.wave_ms,
        gang.set_end_ms,
        gang.stop_end_ms,
        gang.stop_kills,
        gang.deadline_ms,
        gang.failure,
    )


def restore(snapshot: Snapshot) -> Engine:
    """The engine that was written."""
    origin = snapshot.origin
    engine = Engine(origin.spec, uid=origin.uid, now_ms=snapshot.now_ms, with_foreign=False, ghosts=origin.ghosts)
    _restore_nodes(engine.nodes, snapshot.nodes)
    for foreign in snapshot.foreign:
        engine.place_foreign(
            ForeignGang(
                foreign.name,
                unpack(foreign.nodes),
                Resources(foreign.resources),
                foreign.due_ms,
                foreign.serial,
            )
        )
    for state in snapshot.gangs:
        engine.adopt(_restore_gang(state, engine.nodes))
    engine.claim = snapshot.claim
    engine.serial = snapshot.serial
    engine.version = snapshot.version
    return engine


def _restore_nodes(table: NodeTable, state: NodesState) -> None:
    for name, raw in zip(FLAGS, state.flags, strict=True):
        getattr(table, name)[:] = np.frombuffer(raw, dtype=np.bool_)
    for node, amounts in state.allocatable.items():
        table.offer(np.array([node], dtype=np.int32), dict(zip(table.resources, amounts, strict=True)))
    for node, taints in state.taints.items():
        table.added_taints[node] = tuple(Taint(t.key, t.value, Effect(t.effect)) for t in taints)


def _restore_gang(state: GangState, table: NodeTable) -> Gang:
    gang = Gang(state.serial, state.hold, table)
    gang.recorded, gang.created = state.recorded, state.created
    gang.started_ms, gang.stopped = state.started_ms, state.stopped
    gang.phase[:] = np.frombuffer(state.phase, dtype=np.uint8)
    gang.cause[:] = np.frombuffer(state.cause, dtype=np.uint8)
    gang.start_ms[:] = np.frombuffer(state.start_ms, dtype=np.int64)
    gang.ended_ms[:] = np.frombuffer(state.ended_ms, dtype=np.int64)
    gang.wave_ms, gang.set_end_ms = state.wave_ms, state.set_end_ms
    gang.stop_end_ms, gang.stop_kills = state.stop_end_ms, state.stop_kills
    gang.deadline_ms, gang.failure = state.deadline_ms, state.failure
    gang.resume(state.start, table)
    return gang
