"""The settings of one replica."""

from dataclasses import dataclass

from hanse.model.ids import ReplicaId
from hanse.scheduler.core.retention import Retention
from hanse.scheduler.core.snapshot import Limits


@dataclass(frozen=True, slots=True)
class ReplicaConfig:
    """Settings of a replica, each with its reason.

    Attributes:
        replica: name of this replica; a restart keeps it.
        federation: name of the federation that this store belongs to.
        address: where its API listens, for people and peers.
        schedules: false for one that only serves the API and links.
        lease_ttl_s: after this long without a sign of life others take its roots; at least 10 s over etcd.
        cycle_interval_s: pause between cycles, in which events gather.
        history_s: how long the store keeps old versions: a watch can be resumed from as far back.
        retention: how long it keeps jobs that have ended, where there is an archive.
    """

    replica: ReplicaId
    federation: str = "hanse"
    address: str = ""
    schedules: bool = True
    lease_ttl_s: float = 10.0
    cycle_interval_s: float = 0.01
    history_s: float = 600.0
    retention: Retention = Retention()
    limits: Limits = Limits()
