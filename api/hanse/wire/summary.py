"""Summaries ⇄ model, and where on the bus they lie.

The bus and the link carry the same message, so that a replica takes whichever comes first. On the link the empty
shape travels when it changed; on the bus it is a retained message of its own, since it changes seldom and is needed
by replicas that start later.
"""

from typing import Final

from google.protobuf.message import DecodeError

from hanse.link.v1 import link_pb2 as pb
from hanse.model.errors import InvalidArgument
from hanse.model.ids import PoolName
from hanse.model.summary import PoolSummary
from hanse.wire.parts import epoch_from_wire, epoch_to_wire, level_from_wire, level_to_wire

PRESENT: Final = b"present"
GONE: Final = b"gone"
"""Payloads under the topic of a pool's presence: while its agent is connected, and as its last will."""


def summary_topic(federation: str, pool: str) -> str:
    """Topic of the newest summary; `+` for the pool makes a filter over all."""
    return f"hanse/v1/{federation}/pools/{pool}/summary"


def capacity_topic(federation: str, pool: str) -> str:
    """Topic of the newest summary that carries the empty shape."""
    return f"hanse/v1/{federation}/pools/{pool}/capacity"


def presence_topic(federation: str, pool: str) -> str:
    """Topic of PRESENT or GONE."""
    return f"hanse/v1/{federation}/pools/{pool}/presence"


def pool_topics(federation: str) -> str:
    """Filter over everything that pools say on the bus."""
    return f"hanse/v1/{federation}/pools/+/+"


def pool_of_topic(topic: str) -> tuple[PoolName, str] | None:
    """The pool and the kind (`summary`, `capacity`, `presence`) of such a topic; None for another one."""
    parts = topic.split("/")
    if len(parts) != 6 or parts[:2] != ["hanse", "v1"] or parts[3] != "pools":
        return None
    return PoolName(parts[4]), parts[5]


def summary_to_wire(summary: PoolSummary) -> pb.Summary:
    return pb.Summary(
        pool=summary.pool,
        epoch=epoch_to_wire(summary.epoch),
        sequence=summary.sequence,
        observed_revision=summary.observed_revision,
        published_ms=summary.published_ms,
        shape=summary.shape,
        empty_shape=summary.empty_shape or b"",
        nodes=summary.nodes,
        usable_nodes=summary.usable_nodes,
        held_gangs=summary.held_gangs,
        started_gangs=summary.started_gangs,
        stopping_gangs=summary.stopping_gangs,
        levels=[level_to_wire(level) for level in summary.levels],
        gpus=summary.gpus,
        free_gpus=summary.free_gpus,
        settings_revision=summary.settings_revision,
    )


def summary_from_wire(summary: pb.Summary) -> PoolSummary:
    """InvalidArgument if it names no pool."""
    if not summary.pool:
        raise InvalidArgument("a summary names its pool", path="summary.pool")
    return PoolSummary(
        pool=PoolName(summary.pool),
        epoch=epoch_from_wire(summary.epoch),
        sequence=summary.sequence,
        observed_revision=summary.observed_revision,
        published_ms=summary.published_ms,
        shape=summary.shape,
        empty_shape=summary.empty_shape or None,
        nodes=summary.nodes,
        usable_nodes=summary.usable_nodes,
        held_gangs=summary.held_gangs,
        started_gangs=summary.started_gangs,
        stopping_gangs=summary.stopping_gangs,
        levels=tuple(level_from_wire(level) for level in summary.levels),
        gpus=summary.gpus,
        free_gpus=summary.free_gpus,
        settings_revision=summary.settings_revision,
    )


def summary_to_bytes(summary: PoolSummary) -> bytes:
    """The payload on the bus."""
    return summary_to_wire(summary).SerializeToString(deterministic=True)


def summary_from_bytes(payload: bytes) -> PoolSummary:
    """The inverse of `summary_to_bytes`; InvalidArgument if the payload is no summary."""
    try:
        message = pb.Summary.FromString(payload)
    except DecodeError as error:
        raise InvalidArgument(f"the payload is no summary: {error}", path="summary") from None
    return summary_from_wire(message)
