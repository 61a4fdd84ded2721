"""What an agent is told when it starts; how long it waits for what."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from hanse.agent.core.scores import ScoreTerm
from hanse.kit.backoff import BackoffPolicy
from hanse.model.ids import PoolName
from hanse.model.placement import Level

SUMMARY_INTERVAL_LEAST_S = 0.05
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """Settings of one agent.

    Attributes:
        cost: of one GPU-hour in thousandths of the site's unit.
        dialect: whose labels the nodes carry; "" finds out.
        levels: topology levels, coarse to fine; None takes them from the nodes' labels.
        scores: what decides between hosts that placement holds equal.
        summary_min_interval_s: changes within this time of a summary go into the next one; at least
            SUMMARY_INTERVAL_LEAST_S. A refusal does not wait for it: its summary comes SUMMARY_INTERVAL_LEAST_S after
            the last.
        summary_heartbeat_s: a summary is sent after this time although nothing changed.
        report_batch_max: reports in one message.
        report_window: batches of reports that may be under way.
        report_gather_s: reports for which nobody waits (a gang runs, or has finished) go at most so often, or with
            others: at ten gangs a second each would be a message of its own.
        report_resend_s: a batch that was not acknowledged for so long is sent again.
        reconnect: waits between attachments.
        cluster_retry: waits before a cluster that does not answer is asked again.
        heartbeat_s: how often the agent says that it lives.
        silence_max_s: a replica that says nothing for so long is left: three of its heartbeats.
        resync_s: after at most so long, and at least half of it, the cluster is listed although its watch works, to
            find what the watch did not tell.
        tend_s: how often what the cluster would not do is tried again, and a newer acceptance written down.
        details_max: questions that are answered at a time.
        exec_allowed: commands may be run in pods.
    """

    pool: PoolName
    region: str = ""
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS)
    cost: int = 0
    dialect: str = ""
    levels: tuple[Level, ...] | None = None
    scores: tuple[ScoreTerm, ...] = ()
    summary_min_interval_s: float = 2.0
    summary_heartbeat_s: float = 10.0
    report_batch_max: int = 200
    report_window: int = 4
    report_gather_s: float = 0.2
    report_resend_s: float = 15.0
    reconnect: BackoffPolicy = BackoffPolicy(first_s=0.1, max_s=5.0)
    cluster_retry: BackoffPolicy = BackoffPolicy(first_s=0.1, max_s=5.0)
    dial_deadline_s: float = 3.0
    hello_deadline_s: float = 10.0
    send_deadline_s: float = 10.0
    heartbeat_s: float = 3.0
    silence_max_s: float = 9.0
    resync_s: float = 90.0
    tend_s: float = 5.0
    details_max: int = 32
    detail_deadline_s: float = 5.0
    exec_allowed: bool = True

    def __post_init__(self) -> None:
        if self.summary_min_interval_s < SUMMARY_INTERVAL_LEAST_S:
            raise ValueError(
                f"summary_min_interval_s: {self.summary_min_interval_s} is below {SUMMARY_INTERVAL_LEAST_S}; raise it"
            )
