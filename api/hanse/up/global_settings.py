"""What `hanse global` can be told."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator

from hanse.apiserver.access.oidc import OidcTerms
from hanse.apiserver.settings import DEFAULT_LISTEN, ApiSettings
from hanse.kit.tls import TlsFiles
from hanse.model.ids import ReplicaId
from hanse.scheduler.core.retention import Retention
from hanse.scheduler.core.snapshot import Limits
from hanse.scheduler.shell.replica import ReplicaConfig
from hanse.up.audit_settings import audit_file_bytes_setting, audit_files_setting, audit_setting
from hanse.up.link_costs import checked_links, links_of
from hanse.up.retention_settings import age_setting, archive_setting, jobs_max_setting
from hanse.up.settings import COMMON_FLAGS, TELEMETRY_FLAGS, ProcessSettings, Texts, setting, tls_of

_API: Final = ApiSettings()
_LIMITS: Final = Limits()
_REPLICA: Final = ReplicaConfig(ReplicaId("default"))
_RETENTION: Final = Retention()
_DAY_S: Final = 86_400


Links = Annotated[Texts, AfterValidator(checked_links)]


class GlobalSettings(ProcessSettings):
    """One global replica: the API, a scheduler, and the end of agents' links."""

    COMMAND: ClassVar[str] = "global"
    FLAGS: ClassVar[Mapping[str, str]] = {
        **COMMON_FLAGS,
        **TELEMETRY_FLAGS,
        "store": "--store",
        "bus": "--bus",
        "listen": "--listen",
        "advertise": "--advertise",
        "console": "--console",
        "replica": "--replica",
        "federation": "--federation",
        "scheduler": "--no-scheduler",
        "api": "--no-api",
        "tokens_file": "--tokens-file",
        "access_file": "--access-file",
        "peer_token_file": "--peer-token-file",
    }

    store: str = setting(
        ...,
        "Where all is kept: `etcd://HOST:PORT,…`, or `sqlite:PATH` for a replica that is alone.",
        why="There is no good guess: two stores are two federations.",
    )
    bus: str = setting(
        "",
        "Broker that carries summaries: `mqtt://HOST:PORT`. Empty: none.",
        why="Without one, summaries come by the agents' links and from other replicas, later and at more cost.",
    )
    listen: str = setting(
        DEFAULT_LISTEN,
        "HOST:PORT of the API, the links and the other replicas; port 0 takes a free one.",
        why="Beyond the loopback a file of tokens is needed, so the loopback is what works by itself.",
    )
    advertise: str = setting(
        "",
        "HOST:PORT at which other replicas reach this one. Empty: where it listens.",
        why="Needed where the own address is not what others see, as behind 0.0.0.0.",
    )
    console: str = setting(
        "",
        "HOST:PORT at which browsers get the console; port 0 takes a free one. Empty: nowhere.",
        why="A page for people is asked for; beyond the loopback it needs tokens, like the API.",
    )
    replica: str = setting(
        "",
        "Name of this replica; a restart keeps it, and no two have the same. Empty: the machine's host name.",
        why="A pod of a StatefulSet, and a service on a machine, keep their host name.",
        max_length=253,
    )
    federation: str = setting(
        _REPLICA.federation,
        "Name of the federation; a store that belongs to another one is refused.",
        why="Agents refuse a federation that did not claim their cluster; most sites have one.",
        max_length=63,
    )
    scheduler: bool = setting(
        True,
        "Whether it schedules. A replica that does not serves the API and links.",
        why="All replicas schedule at once without hindering each other.",
    )
    api: bool = setting(
        True,
        "Whether it serves the API. A replica that does not schedules and serves links.",
        why="People may reach any replica.",
    )
    tokens_file: Path | None = setting(
        None,
        "File of lines `PRINCIPAL TOKEN [GROUP,…]`: who calls, attaches an agent, or asks as a replica. Read again"
        " when it changes. None, and no issuer and no authority for certificates: everybody who reaches it, which is"
        " allowed on the loopback only.",
        why="On one machine its users are trusted.",
    )
    access_file: Path | None = setting(
        None,
        "File that says who may do what, see [access](access.md). Read again when it changes; one that is wrong"
        " leaves what was. None: whoever is known may do everything on the loopback, and nothing beyond it.",
        why="What is not allowed is denied, so somebody has to say what is.",
    )
    oidc_issuer: str = setting(
        "",
        "Address of an OpenID Connect issuer whose tokens are taken: `https://HOST/PATH`, as its tokens say it."
        " Empty: none.",
        why="A site with single sign-on names it; a small one has a `tokens_file`.",
        max_length=1_024,
    )
    oidc_audience: Texts = setting(
        (),
        "What a token has to be for, one of these; several by commas.",
        why="It is the client that the issuer knows this federation by; needed with an issuer.",
    )
    oidc_keys: str = setting(
        "",
        "Address or file of the issuer's keys. Empty: where its discovery document says, if that is at the issuer.",
        why="Nothing is fetched from a place that is not written down here.",
        max_length=1_024,
    )
    oidc_ca_file: Path | None = setting(
        None,
        "PEM file of the authority that the issuer's own certificate is of. None: those that the machine trusts.",
        why="Public issuers have certificates that every machine trusts.",
    )
    oidc_user_claim: str = setting(
        "sub",
        "Claim that names the user; `email` counts only if the issuer has verified it.",
        why="A subject never changes its owner, an email may.",
        min_length=1,
        max_length=128,
    )
    oidc_groups_claim: str = setting(
        "groups", "Claim that lists the groups.", why="Most issuers call it so.", min_length=1, max_length=128
    )
    oidc_prefix: str = setting(
        "oidc:",
        "Put before every user and group of the issuer.",
        why="Nobody becomes a user of the tokens file by choosing a name at the issuer.",
        max_length=32,
        pattern=r"^[A-Za-z0-9._:-]*$",
    )
    oidc_skew_s: int = setting(
        60,
        "By how many seconds the clocks of issuer and replica may differ.",
        why="Clocks that are set over the network differ by less.",
        ge=0,
        le=600,
    )
    peer_token_file: Path | None = setting(
        None,
        "File that holds the token which this replica shows to the others.",
        why="Needed where the others have a `tokens_file`.",
    )
    tls_cert_file: Path | None = setting(
        None,
        "PEM file of the certificate that this replica shows, to callers, agents and other replicas. None: it speaks"
        " in clear.",
        why="The loopback needs none. Beyond it tokens and job specs would travel readable.",
    )
    tls_key_file: Path | None = setting(None, "PEM file of its key.", why="It goes with the certificate.")
    tls_ca_file: Path | None = setting(
        None,
        "PEM file of the authority whose certificates all others have to show. None: they show none.",
        why="With it an agent speaks for its own pool alone; `docs/reference/tls.md` says whom a certificate names.",
    )
    tls_renew: bool = setting(
        True,
        "Whether the replica renews its certificate itself, where its files can be written and a replica signs.",
        why="Short lifetimes are safe only if nobody has to think of them.",
    )
    authority_cert_file: Path | None = setting(
        None,
        "PEM file of the authority by which this replica signs certificates of agents and replicas, as"
        " `hanse ca init` made it. None: it signs nothing.",
        why="A federation that has cert-manager, or an authority of its own, needs none.",
    )
    authority_key_file: Path | None = setting(
        None,
        "PEM file of the authority's key.",
        why="Whoever reads it can be anybody: keep it on the replicas that sign.",
    )
    join_listen: str = setting(
        "",
        "HOST:PORT at which clusters join by a token, and where no certificate is asked for. Empty: nowhere.",
        why="The port of the links asks everybody for a certificate; whoever joins has none yet.",
    )
    join_advertise: str = setting(
        "",
        "HOST:PORT that `hanse join-token` tells. Empty: the host of `advertise` and the port of `join_listen`.",
        why="Needed where clusters reach it by another name, which its certificate has to have.",
    )
    certificate_lifetime_s: float = setting(
        _DAY_S,
        "For how many seconds a certificate is good that this replica signs; it is renewed when a third is left.",
        why="A key that is lost opens nothing the day after; a replica may be away for eight hours meanwhile.",
        ge=10,
        le=90 * _DAY_S,
    )
    lease_ttl_s: float = setting(
        _REPLICA.lease_ttl_s,
        "After so many seconds without a sign of life others take this replica's queues.",
        why="Shorter, and a long pause of the process loses it; longer, and queues wait for a dead one.",
        ge=2,
        le=600,
    )
    cycle_interval_s: float = setting(
        _REPLICA.cycle_interval_s,
        "Pause between two scheduling cycles, in which events gather, in seconds.",
        why="Too short to be felt, long enough that hundreds of jobs share a cycle.",
        ge=0,
        le=10,
    )
    history_s: float = setting(
        _REPLICA.history_s,
        "How long the store keeps old versions, in seconds: a watch can be resumed from as far back.",
        why="Ten minutes cover a restart of whoever watches, and cost the store little.",
        ge=60,
        le=_DAY_S,
    )
    retain_terminal_age_s: float = age_setting()
    retain_terminal_jobs_max: int = jobs_max_setting()
    retention_drop_per_s: int = setting(
        _RETENTION.drop_per_s,
        "Ended jobs that this replica archives and drops in a second at most.",
        why="Twice what a federation at full rate ends; more would take the store from commits.",
        ge=1,
        le=100_000,
    )
    archive_dir: str = archive_setting("`archive` below the user's data (`HANSE_DATA_DIR`)")
    audit_dir: str = audit_setting("`audit` below the user's data (`HANSE_DATA_DIR`)")
    audit_file_bytes_max: int = audit_file_bytes_setting()
    audit_files_max: int = audit_files_setting()
    summary_age_max_s: float = setting(
        _LIMITS.summary_age_max_s,
        "A pool whose newest summary is older, in seconds, gets no new work.",
        why="Three times an idle agent's interval.",
        ge=1,
        le=_DAY_S,
    )
    decisions_max: int = setting(
        _LIMITS.decisions_max,
        "Jobs that one cycle binds at most.",
        why="A cycle then ends within tens of milliseconds, and a newcomer of high priority does not wait for more.",
        ge=1,
        le=100_000,
    )
    classes_max: int = setting(
        _LIMITS.classes_max,
        "Kinds of request that one cycle looks at.",
        why="Enough for every kind that real queues hold at once.",
        ge=1,
        le=1_000_000,
    )
    unacknowledged_max: int = setting(
        _LIMITS.unacknowledged_max,
        "Bindings that a pool may have which its agent has not answered, before it gets no more.",
        why="A stuck agent holds back its own pool and no other.",
        ge=1,
        le=1_000_000,
    )
    prefer_pools: bool = setting(
        _LIMITS.prefer_pools,
        "Whether replicas prefer different pools. Off, each places jobs as if it were alone.",
        why="They then seldom meet in one pool; off is as right, and slower the more replicas there are.",
    )
    links: Links = setting(
        (),
        "What it costs parts of one gang to talk between two pools or regions: `us-east=eu-west:40`, several by"
        " commas; less is better.",
        why="Gangs that are split stay where it is least. Unsaid it is 0 within a region, 100 between others. Every"
        " replica should have the same.",
    )
    spec_bytes_max: int = setting(
        _API.spec_bytes_max,
        "Size of a stored, compressed job spec in bytes.",
        why="Large texts belong into ConfigMaps; the store holds every live spec.",
        ge=1_024,
        le=1_000_000,
    )
    queue_pending_max: int = setting(
        _API.queue_pending_max,
        "Jobs that may wait in one queue; 0: any number.",
        why="A million waiting jobs still load in seconds.",
        ge=0,
    )
    calls_max: int = setting(
        _API.calls_max,
        "Calls in progress; beyond it RESOURCE_EXHAUSTED.",
        why="More would only wait for each other.",
        ge=1,
        le=100_000,
    )
    streams_max: int = setting(
        _API.streams_max,
        "Watches and other streams that are open; beyond it RESOURCE_EXHAUSTED.",
        why="Each costs memory and a place in the store's watches.",
        ge=1,
        le=100_000,
    )
    call_deadline_s: float = setting(
        _API.call_deadline_s,
        "A call ends after so many seconds whatever its caller says.",
        why="Longer than any call takes that will still succeed.",
        gt=0,
        le=3_600,
    )
    watch_write_deadline_s: float = setting(
        _API.watch_write_deadline_s,
        "A watcher that takes nothing for so many seconds is cut off, and can resume.",
        why="What waits for it is kept in memory.",
        gt=0,
        le=3_600,
    )

    @property
    def tls(self) -> TlsFiles | None:
        """The files of this end; None speaks in clear."""
        return tls_of(self.tls_ca_file, self.tls_cert_file, self.tls_key_file)

    @property
    def oidc_terms(self) -> OidcTerms:
        """What an issuer's tokens must say."""
        return OidcTerms(
            self.oidc_issuer,
            self.oidc_audience,
            user_claim=self.oidc_user_claim,
            groups_claim=self.oidc_groups_claim,
            prefix=self.oidc_prefix,
            skew_s=self.oidc_skew_s,
        )

    def replica_config(self, name: str) -> ReplicaConfig:
        """What a replica of that name takes from here."""
        limits = Limits(
            decisions_max=self.decisions_max,
            classes_max=self.classes_max,
            summary_age_max_s=self.summary_age_max_s,
            unacknowledged_max=self.unacknowledged_max,
            prefer_pools=self.prefer_pools,
            links=links_of(self.links),
        )
        return ReplicaConfig(
            ReplicaId(name),
            federation=self.federation,
            schedules=self.scheduler,
            lease_ttl_s=self.lease_ttl_s,
            cycle_interval_s=self.cycle_interval_s,
            history_s=self.history_s,
            retention=Retention(
                age_s=self.retain_terminal_age_s,
                jobs_max=self.retain_terminal_jobs_max,
                drop_per_s=self.retention_drop_per_s,
            ),
            limits=limits,
        )

    def api_settings(self) -> ApiSettings:
        """What the API server takes from here."""
        return ApiSettings(
            spec_bytes_max=self.spec_bytes_max,
            queue_pending_max=self.queue_pending_max,
            calls_max=self.calls_max,
            streams_max=self.streams_max,
            call_deadline_s=self.call_deadline_s,
            watch_write_deadline_s=self.watch_write_deadline_s,
        )
