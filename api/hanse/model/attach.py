"""How an agent and a replica meet: hello, then welcome or refusal, then the settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from hanse.model.fence import Epoch
from hanse.model.ids import PoolName, ReplicaId
from hanse.model.placement import Level
from hanse.model.queue import Flavor

_NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Hello:
    """Who an agent is.

    Attributes:
        version: of the link's protocol.
        instance: identity of this run of the agent.
        federation: which federation's agents have claimed the cluster before, "" if none.
        epoch, accepted_revision: what the cluster has accepted.
        dialect: which vendor's labels its nodes carry.
        cost: of one GPU-hour, in thousandths of the site's unit.
    """

    version: int
    pool: PoolName
    instance: str
    cluster_uid: str
    federation: str = ""
    epoch: Epoch = Epoch()
    accepted_revision: int = 0
    region: str = ""
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS)
    dialect: str = ""
    levels: tuple[Level, ...] = ()
    cost: int = 0


@dataclass(frozen=True, slots=True)
class Welcome:
    """A granted epoch."""

    epoch: Epoch
    federation: str
    replica: ReplicaId


@dataclass(frozen=True, slots=True)
class Refusal:
    """The stream ends after it; `retry`: trying again later can help."""

    reason: str
    message: str
    retry: bool


@dataclass(frozen=True, slots=True)
class Settings:
    """What an agent needs beside bindings, as of a store revision: flavors, first match first."""

    flavors: tuple[Flavor, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class Tidied:
    """Everything that runs in the cluster is desired under this epoch; said while the federation recovers (P15)."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The sender is alive."""

    sequence: int
