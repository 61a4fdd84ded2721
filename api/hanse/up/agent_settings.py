"""What `hanse agent` can be told."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic_settings import NoDecode

from hanse.agent.cluster.kubernetes.settings import KubernetesSettings
from hanse.agent.core.scores import TERMS_MAX, WEIGHT_MAX, ScoreTerm
from hanse.agent.shell.config import SUMMARY_INTERVAL_LEAST_S, AgentConfig
from hanse.kit.tls import TlsFiles
from hanse.model.ids import PoolName
from hanse.model.placement import Level
from hanse.up.fleet_file import LabelKey, Labels, LabelValue, Name
from hanse.up.settings import COMMON_FLAGS, TELEMETRY_FLAGS, ProcessSettings, Split, Texts, setting, tls_of

_REAL: Final = KubernetesSettings()
_AGENT: Final = AgentConfig(PoolName("default"))
_DAY_S: Final = 86_400


class LevelSettings(BaseModel):
    """One level of a pool's topology."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: LabelKey = setting(..., "Label of the nodes that carries it.", why="Nothing else says what the level is.")
    alias: LabelValue = setting("", "Short name, by which jobs may ask for it.", why="The key always works.")


class ScoreSettings(BaseModel):
    """One term of the score that decides between hosts which placement holds equal."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name = setting(..., "Name by which people are told of it, such as `power`.", why="Only the site knows.")
    label: LabelKey = setting(..., "Label of the nodes that carries its number.", why="Only the site knows.")
    weight: int = setting(
        1,
        "Above zero if more is better, below if less is.",
        why="More headroom is better.",
        ge=-WEIGHT_MAX,
        le=WEIGHT_MAX,
    )


class PoolSettings(BaseModel):
    """One pool that this process has the agent of."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name = setting(..., "Name of the pool; it stays with its cluster for ever.", why="Only its owner knows.")
    cluster: str = setting(
        "", "Its cluster. Empty: the process's `cluster`.", why="Simulated clusters share a server."
    )
    region: LabelValue = setting("", "Region.", why="Shown, and open to selectors.")
    labels: Labels = setting({}, "Labels of the pool itself.", why="Shown, and open to selectors.")
    cost: int = setting(0, "Price of a GPU-hour in thousandths of the site's unit.", why="Unknown.", ge=0, le=10**9)
    dialect: str = setting(
        "", "Whose labels its nodes carry. Empty: finds out.", why="The nodes tell.", max_length=63
    )
    levels: tuple[LevelSettings, ...] | None = setting(
        None,
        "Levels of its topology, coarse to fine. None: found in the nodes' labels.",
        why="The nodes tell.",
        max_length=16,
    )
    scores: tuple[ScoreSettings, ...] = setting(
        (),
        "What decides between hosts that placement holds equal: power headroom, temperature, health.",
        why="Their names decide then.",
        max_length=TERMS_MAX,
    )
    binder: Literal["pin", "direct"] = setting(
        "pin",
        "Who gives pods of a real cluster their nodes. `pin`: its scheduler, of which one node is required. "
        "`direct`: the agent, but for pods with claims of devices or volumes, which only a scheduler allocates.",
        why="The scheduler looks once more whether the pod fits; binding directly is faster.",
    )
    schedulers: tuple[LabelValue, ...] = setting(
        ("default-scheduler",),
        "Names of the schedulers that a real cluster has. A pod that asks for another one gets the first.",
        why="Every cluster has this one.",
        min_length=1,
        max_length=16,
    )


def _named(value: object) -> object:
    """A pool by its name alone."""
    if isinstance(value, list | tuple):
        return [{"name": item} if isinstance(item, str) else item for item in value]
    return value


Pools = Annotated[tuple[PoolSettings, ...], NoDecode, BeforeValidator(_named), Split]


class AgentSettings(ProcessSettings):
    """Agents of one or more pools, in one process."""

    COMMAND: ClassVar[str] = "agent"
    FLAGS: ClassVar[Mapping[str, str]] = {
        **COMMON_FLAGS,
        **TELEMETRY_FLAGS,
        "cluster": "--cluster",
        "pools": "--pool",
        "replicas": "--global",
        "bus": "--bus",
        "token_file": "--token-file",
    }

    cluster: str = setting(
        ...,
        "Where the clusters are: `kubeconfig:PATH[#CONTEXT]`, `in-cluster`, or `sim:HOST:PORT` for simulated ones.",
        why="There is no good guess.",
    )
    pools: Pools = setting(
        ...,
        "Pools that this process has the agents of: names, or mappings.",
        why="One pool to a process in production; many where a bench counts processes.",
        min_length=1,
        max_length=1_000,
    )
    replicas: Texts = setting(
        ...,
        "HOST:PORT of every global replica; they are dialled in turn.",
        why="Any replica will do, and each may die.",
        min_length=1,
        max_length=64,
    )
    bus: str = setting(
        "",
        "Broker that carries summaries: `mqtt://HOST:PORT`. Empty: none.",
        why="Without one, summaries go by the link alone.",
    )
    token_file: Path | None = setting(
        None,
        "File that holds the token which is shown to the replicas.",
        why="Needed where they have a `tokens_file`.",
    )
    tls_ca_file: Path | None = setting(
        None,
        "PEM file of the authority whose certificates the replicas have to show. None, and no certificate of its own:"
        " it speaks in clear.",
        why="Needed where the replicas have a `tls_cert_file`.",
    )
    tls_renew: bool = setting(
        True,
        "Whether the agent has its certificate renewed by the replicas, where its files can be written.",
        why="Short lifetimes are safe only if nobody has to think of them; cert-manager's files are left alone.",
    )
    tls_cert_file: Path | None = setting(
        None,
        "PEM file of the certificate that this agent shows; it names its pool, `hanse://agent/POOL`.",
        why="Needed where the replicas have a `tls_ca_file`. Such a process has the agent of one pool.",
    )
    tls_key_file: Path | None = setting(None, "PEM file of its key.", why="It goes with the certificate.")
    summary_min_interval_s: float = setting(
        _AGENT.summary_min_interval_s,
        "Changes within so many seconds of a summary go into the next one.",
        why="One in two seconds for each pool is what the bus and every replica can bear of a thousand pools.",
        ge=SUMMARY_INTERVAL_LEAST_S,
        le=60,
    )
    summary_heartbeat_s: float = setting(
        _AGENT.summary_heartbeat_s,
        "A summary is sent after so many seconds although nothing changed.",
        why="A third of the age at which a pool gets no more work.",
        ge=1,
        le=600,
    )
    heartbeat_s: float = setting(
        _AGENT.heartbeat_s,
        "The agent tells its replica every so many seconds that it lives.",
        why="Replicas end a stream that has been silent for 20 s.",
        gt=0,
        le=10,
    )
    silence_max_s: float = setting(
        _AGENT.silence_max_s,
        "A replica that has said nothing for so many seconds is left for another.",
        why="Three of its heartbeats.",
        ge=4,
        le=600,
    )
    dial_deadline_s: float = setting(
        _AGENT.dial_deadline_s,
        "How long a replica may take to answer a call for a stream, in seconds.",
        why="The way round the world takes less, several times over.",
        gt=0,
        le=60,
    )
    hello_deadline_s: float = setting(
        _AGENT.hello_deadline_s,
        "How long a replica may take to grant an epoch, in seconds.",
        why="After the death of one replica another attaches hundreds of agents, one after the other.",
        gt=0,
        le=600,
    )
    resync_s: float = setting(
        _AGENT.resync_s,
        "The cluster is listed after at most so many seconds, at least half of them, although its watch works.",
        why="What a watch has missed without knowing is found, at a cost that is not felt.",
        ge=1,
        le=_DAY_S,
    )
    tend_s: float = setting(
        _AGENT.tend_s,
        "What the cluster would not do is tried again after so many seconds.",
        why="Often enough to follow a cluster that mends itself.",
        gt=0,
        le=600,
    )
    report_batch_max: int = setting(
        _AGENT.report_batch_max,
        "Reports in one message.",
        why="Several of the replica's transactions.",
        ge=1,
        le=10_000,
    )
    report_resend_s: float = setting(
        _AGENT.report_resend_s,
        "Reports that were not acknowledged within so many seconds are sent again.",
        why="Longer than the store's slowest write.",
        ge=1,
        le=600,
    )
    node_lost_s: float = setting(
        _REAL.node_lost_s,
        "Pods of a real cluster's node that has been silent for so many seconds are given up, and removed by force.",
        why="Kubernetes tolerates a silent node for as long, after the 50 s that it takes to call it so.",
        ge=1,
        le=_DAY_S,
    )
    requests_per_s: float = setting(
        _REAL.requests_per_s,
        "Requests about pods and jobs to a real cluster's API server, in a second; lists, watches and what keeps the"
        " cluster ours do not count.",
        why="An API server on two cores does about as many, and others share it by its own rules of fairness.",
        ge=1,
        le=100_000,
    )
    requests_burst_max: int = setting(
        _REAL.requests_burst_max,
        "Such requests that may come at once after a quiet time.",
        why="A gang of 500 pods needs two for each.",
        ge=1,
        le=100_000,
    )
    requests_at_once_max: int = setting(
        _REAL.requests_at_once_max,
        "Such requests that are under way at a time.",
        why="More do not make an API server faster, and less would leave it idle.",
        ge=1,
        le=100,
    )
    jobs_namespace: Name = setting(
        _REAL.jobs_namespace,
        "Namespace of a real cluster for jobs that name none; each queue's has the queue's name behind it.",
        why="It says whose it is.",
    )
    queue_namespaces: bool = setting(
        _REAL.queue_namespaces,
        "Jobs that name no namespace go to one of their queue: `hanse-jobs-research`.",
        why="A namespace is what Secrets, service accounts and rights belong to, as a queue is a tenant's.",
    )
    create_namespaces: bool = setting(
        _REAL.create_namespaces,
        "A queue's namespace that is not there is made. What jobs name themselves never is.",
        why="Jobs without needs then run at once; an administrator who gives rights by namespace turns it off.",
    )
    exec_allowed: bool = setting(
        _AGENT.exec_allowed,
        "Whether `hanse exec` may run commands in the pool's pods.",
        why="Their owners look into them; a cluster's owner may forbid it, whatever the servers allow.",
    )
    details_max: int = setting(
        _AGENT.details_max, "Questions that are answered at a time.", why="People ask them.", ge=1, le=10_000
    )

    @property
    def tls(self) -> TlsFiles | None:
        """The files of this end; None speaks in clear."""
        return tls_of(self.tls_ca_file, self.tls_cert_file, self.tls_key_file)

    def agent_config(self, pool: PoolSettings) -> AgentConfig:
        """What the agent of a pool takes from here."""
        levels = None if pool.levels is None else tuple(Level(one.key, one.alias) for one in pool.levels)
        return AgentConfig(
            pool=PoolName(pool.name),
            region=pool.region,
            labels=dict(pool.labels),
            cost=pool.cost,
            dialect=pool.dialect,
            levels=levels,
            scores=tuple(ScoreTerm(one.name, one.label, one.weight) for one in pool.scores),
            **self._timings(),
        )

    def _timings(self) -> dict[str, Any]:
        """The fields that both have under the same name."""
        return self._shared(AgentConfig.__dataclass_fields__)

    def kubernetes(self, pool: PoolSettings) -> KubernetesSettings:
        """What the adapter to a pool's real cluster takes from here."""
        shared = self._shared(KubernetesSettings.__dataclass_fields__)
        return KubernetesSettings(**shared, direct=pool.binder == "direct", schedulers=pool.schedulers)

    def _shared(self, names: Collection[str]) -> dict[str, Any]:
        return {name: getattr(self, name) for name in sorted(set(names) & set(AgentSettings.model_fields))}
