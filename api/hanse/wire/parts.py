"""Small messages of hanse.link.v1 that several others contain."""

from functools import lru_cache
from typing import Final

from hanse.link.v1 import link_pb2 as pb
from hanse.model.errors import InvalidArgument
from hanse.model.fence import Epoch, GangKey
from hanse.model.ids import Attempt, JobId, Part
from hanse.model.placement import Level

EPOCHS_KEPT_MAX: Final = 1_024


def epoch_to_wire(epoch: Epoch) -> pb.Epoch:
    return pb.Epoch(incarnation=epoch.incarnation, revision=epoch.revision)


def epoch_from_wire(epoch: pb.Epoch) -> Epoch:
    return _epoch(epoch.incarnation, epoch.revision)


@lru_cache(EPOCHS_KEPT_MAX)
def _epoch(incarnation: int, revision: int) -> Epoch:
    """Every frame of a stream carries the same one."""
    return Epoch(incarnation, revision)


def key_to_wire(key: GangKey) -> pb.BindingKey:
    return pb.BindingKey(job=key.job, attempt=key.attempt, part=key.part)


def key_from_wire(key: pb.BindingKey, path: str) -> GangKey:
    """InvalidArgument if it names no job."""
    if not key.job:
        raise InvalidArgument("the key of a binding names its job", path=f"{path}.job")
    return GangKey(JobId(key.job), Attempt(key.attempt), Part(key.part))


def level_to_wire(level: Level) -> pb.Level:
    return pb.Level(key=level.key, alias=level.alias)


def level_from_wire(level: pb.Level) -> Level:
    return Level(level.key, level.alias)
