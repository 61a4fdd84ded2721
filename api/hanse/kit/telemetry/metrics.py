"""Every instrument of the product, declared once: name, unit, meaning, and labels with what they may hold.

Names and units follow OpenTelemetry's semantic conventions where those have a word for it (`rpc.…`, `db.…`,
`process.…`), and begin with `hanse.` elsewhere. No label ever holds a job, a queue's tenant or a node: those are for
traces and logs. Labels are given by position, in the order of the declaration; a test counts them at every use.

`docs/reference/metrics.md` is made from this module: `python -m hanse.kit.telemetry.reference`.
"""

from typing import Final

from hanse.kit.telemetry.instruments import (
    LONG_SECONDS,
    Counter,
    Gauge,
    Histogram,
    Label,
    Registry,
)
from hanse.model.lifecycle import State
from hanse.model.reasons import Reason
from hanse.model.report import GangStatus

REGISTRY: Final = Registry()
"""The instruments of this process."""

# ---- labels --------------------------------------------------------------------------------------------------

POOL: Final = Label("hanse.pool", "name of the pool")
QUEUE: Final = Label("hanse.queue", "name of the queue; its uid once it is gone")
FLAVOR: Final = Label("hanse.flavor", "name of the flavor")
STATE: Final = Label("hanse.state", "state of a job", tuple(state.name for state in State if state))
REASON: Final = Label("hanse.reason", "reason code", tuple(reason.name for reason in Reason))
STATUS: Final = Label("hanse.status", "what is reported", tuple(status.name for status in GangStatus if status))
GUARD: Final = Label(
    "hanse.guard",
    "kind of key that had moved",
    ("state", "head", "pool", "queue", "grant", "agent"),
)
METHOD: Final = Label("rpc.method", "full name of the method")
RPC_SYSTEM: Final = Label("rpc.system.name", "the protocol", ("grpc",))
STATUS_CODE: Final = Label("rpc.response.status_code", "name of the gRPC status code")
DB_SYSTEM: Final = Label("db.system.name", "which store", ("etcd", "sqlite", "memory"))
DB_OPERATION: Final = Label("db.operation.name", "call of the store", ("read", "range", "transact"))
CPU_MODE: Final = Label("cpu.mode", "where it was spent", ("user", "system"))
GANG_STATE: Final = Label("hanse.gang.state", "how far gangs are", ("held", "started", "stopping"))
GPU_STATE: Final = Label("hanse.gpu.state", "of usable nodes", ("free", "used"))
NODE_STATE: Final = Label("hanse.node.state", "whether pods may be placed there", ("usable", "unusable"))
CHANGE: Final = Label("hanse.change", "what was changed", ("hold", "release", "priority", "retry"))
MEMBER: Final = Label("hanse.store.member", "`HOST:PORT` of one of etcd's members")
SIZE: Final = Label(
    "hanse.store.part",
    "the whole file, what is in use of it, and the most that it may have, where the member tells it",
    ("file", "used", "quota"),
)
REFUSED_AGENT: Final = Label(
    "hanse.refusal",
    "why an agent was refused",
    (
        "ALREADY_ATTACHED",
        "CLUSTER",
        "CONFLICT",
        "FEDERATION",
        "HELLO",
        "INCARNATION",
        "NOT_A_MEMBER",
        "POOL_LEAVING",
        "POOL_LEFT",
        "POOL_NAME",
        "VERSION",
    ),
)
CERTIFICATE: Final = Label("hanse.certificate.whose", "whose certificate", ("own", "authority"))
FORGERY: Final = Label(
    "hanse.forgery",
    "what was not the sender's to say: a certificate of nobody who may ask, or a revoked one, a token that is not"
    " good, a hello, a summary or a report about another pool, an epoch that was not granted, or a topic of another"
    " pool than the message",
    ("certificate", "revoked", "hello", "summary", "report", "epoch", "topic", "token"),
)
FENCE: Final = Label(
    "hanse.fence",
    "what showed it: another attach, a report's guard that did not hold, or a report of another epoch",
    ("attach", "guard", "epoch"),
)
LEAVE: Final = Label(
    "hanse.leave", "by which order: none by force, by force, or vouched to be dead", ("drained", "forced", "vouched")
)
SIGNAL: Final = Label("hanse.signal", "what is exported", ("spans", "metrics"))


def _outcome(*values: str) -> Label:
    return Label("hanse.outcome", "how it ended", values)


# ---- API -----------------------------------------------------------------------------------------------------

RPC_DURATION: Final = REGISTRY.declare(
    Histogram(
        "rpc.server.call.duration",
        "s",
        "Unary calls of the API, from arrival to answer.",
        RPC_SYSTEM,
        METHOD,
        STATUS_CODE,
    )
)
SUBMIT_DURATION: Final = REGISTRY.declare(
    Histogram("hanse.submit.duration", "s", "Batches of jobs, from their arrival until all of them are stored.")
)
SUBMITTED: Final = REGISTRY.declare(
    Counter(
        "hanse.submitted.jobs",
        "{job}",
        "Jobs that were submitted, by what became of them.",
        _outcome("accepted", "refused"),
    )
)

# ---- jobs ----------------------------------------------------------------------------------------------------

JOB_MOVES: Final = REGISTRY.declare(
    Counter("hanse.job.moves", "{job}", "Jobs that entered a state, by writes of this process.", STATE)
)
JOB_STATE_DURATION: Final = REGISTRY.declare(
    Histogram(
        "hanse.job.state.duration",
        "s",
        "How long jobs were in the state that they left.",
        STATE,
        bounds=LONG_SECONDS,
    )
)
JOB_CHANGES: Final = REGISTRY.declare(
    Counter(
        "hanse.job.changes",
        "{job}",
        "Changes of jobs on request that were granted, beside their submission and their cancellation.",
        CHANGE,
    )
)

JOBS_ARCHIVED: Final = REGISTRY.declare(
    Counter("hanse.archive.jobs", "{job}", "Ended jobs that were written to the archive, some of them twice.")
)
AUDIT_RECORDS: Final = REGISTRY.declare(
    Counter("hanse.audit.records", "{record}", "Records that were written to the audit log.")
)
AUDIT_FAILURES: Final = REGISTRY.declare(
    Counter("hanse.audit.failures", "{try}", "Times that the audit log could not be written; its records wait.")
)
AUDIT_LOST: Final = REGISTRY.declare(
    Counter(
        "hanse.audit.lost",
        "{record}",
        "Records that are not in the audit log: too many waited for the disk, or one caller was refused too often.",
    )
)
FILES_UNUSABLE: Final = REGISTRY.declare(
    Gauge(
        "hanse.access.files_unusable",
        "{file}",
        "Files of tokens and of the access policy that are wrong as they are; what they said before is in force.",
    )
)
JOBS_DROPPED: Final = REGISTRY.declare(
    Counter("hanse.retention.dropped", "{job}", "Ended jobs that were dropped from the store.")
)
JOBS_KEPT: Final = REGISTRY.declare(
    Gauge("hanse.retention.kept", "{job}", "Ended jobs that the store still holds, as of the last look at them.")
)
ARCHIVE_FAILURES: Final = REGISTRY.declare(
    Counter("hanse.archive.failures", "{try}", "Times that the archive could not be written; nothing was dropped.")
)

# ---- usage ---------------------------------------------------------------------------------------------------

USAGE_GPU_DURATION: Final = REGISTRY.declare(
    Counter(
        "hanse.usage.gpu.duration",
        "s",
        "GPU-seconds of attempts that ended: from the moment in which they were bound, by writes of this process.",
        QUEUE,
        FLAVOR,
        POOL,
    )
)
USAGE_UNCOUNTED: Final = REGISTRY.declare(
    Counter(
        "hanse.usage.uncounted",
        "{job}",
        "Jobs that left a store without room, and what they used was added to no roll-up.",
    )
)

# ---- scheduler -----------------------------------------------------------------------------------------------

CYCLE_DURATION: Final = REGISTRY.declare(
    Histogram("hanse.cycle.duration", "s", "Scheduling cycles, from snapshot to the end of their commits.")
)
PLAN_DURATION: Final = REGISTRY.declare(
    Histogram("hanse.cycle.plan.duration", "s", "The pure part of a cycle: snapshot and plan.")
)
DECISIONS: Final = REGISTRY.declare(Counter("hanse.cycle.decisions", "{job}", "Jobs for which a plan had places."))
CLASSES_FAILED: Final = REGISTRY.declare(
    Counter("hanse.cycle.failures", "{class}", "Classes of requests that were left out because planning them failed.")
)
PENDING_JOBS: Final = REGISTRY.declare(
    Gauge("hanse.pending.jobs", "{job}", "Pending jobs of the roots that this process admits for.")
)
PENDING_CLASSES: Final = REGISTRY.declare(
    Gauge("hanse.pending.classes", "{class}", "Classes of pending jobs that wait, by the reason why.", REASON)
)
ROOTS_HELD: Final = REGISTRY.declare(
    Gauge("hanse.roots.held", "{root}", "Cohort roots that this process admits for.")
)
ROOTS_TAKEN: Final = REGISTRY.declare(
    Counter(
        "hanse.roots.taken",
        "{root}",
        "Grants that this process rewrote to admit for a root, or tried to.",
        _outcome("committed", "conflict", "unknown"),
    )
)
TRANSACTIONS: Final = REGISTRY.declare(
    Counter(
        "hanse.commit.transactions",
        "{transaction}",
        "Transactions that bind jobs.",
        _outcome("committed", "conflict", "unknown", "unavailable"),
    )
)
CONFLICTS: Final = REGISTRY.declare(
    Counter("hanse.commit.conflicts", "{guard}", "Guards of commits that did not hold.", GUARD)
)
GIVEN_UP: Final = REGISTRY.declare(
    Counter("hanse.commit.given_up", "{job}", "Decisions that lost every round and were planned anew.")
)
SETTLED: Final = REGISTRY.declare(
    Counter("hanse.commit.settled", "{transaction}", "Commits of unknown outcome whose outcome was found out.")
)
SETTLING: Final = REGISTRY.declare(
    Gauge("hanse.commit.settling", "{transaction}", "Commits whose outcome is not known yet.")
)
REFUSALS: Final = REGISTRY.declare(
    Counter("hanse.refusals", "{job}", "Bindings that an agent refused.", REASON),
)

# ---- links ---------------------------------------------------------------------------------------------------

SESSIONS: Final = REGISTRY.declare(Gauge("hanse.link.sessions", "{session}", "Agents attached to this process."))
ATTACHMENTS: Final = REGISTRY.declare(
    Counter(
        "hanse.link.attachments",
        "{attachment}",
        "Agents that asked to be attached here.",
        _outcome("granted", "refused"),
    )
)
AGENTS_REFUSED: Final = REGISTRY.declare(
    Counter("hanse.link.refusals", "{attachment}", "Agents that were not attached here, by reason.", REFUSED_AGENT)
)
FORGERIES: Final = REGISTRY.declare(
    Counter(
        "hanse.link.forgeries",
        "{message}",
        "What was refused because it was not the sender's to say, on links, between replicas and on the bus.",
        FORGERY,
    )
)
CERTIFICATES_ISSUED: Final = REGISTRY.declare(
    Counter(
        "hanse.certificates.issued",
        "{certificate}",
        "Certificates that this replica signed: for clusters that joined, and for those who renewed.",
        Label("hanse.certificate.how", "what it was signed for", ("joined", "renewed")),
    )
)
CERTIFICATE_LEFT: Final = REGISTRY.declare(
    Gauge(
        "hanse.certificate.left",
        "s",
        "How long a certificate of this process is still good, and the authority by which it signs.",
        CERTIFICATE,
    )
)
CERTIFICATE_LIFETIME: Final = REGISTRY.declare(
    Gauge("hanse.certificate.lifetime", "s", "How long it is good from its beginning to its end.", CERTIFICATE)
)
FENCED: Final = REGISTRY.declare(
    Counter("hanse.link.fenced", "{session}", "Streams of agents that were ended for the epoch's sake.", FENCE)
)
DESIRED_SENT: Final = REGISTRY.declare(
    Counter("hanse.link.desired", "{binding}", "Bindings that were sent to agents.")
)
REPORTS: Final = REGISTRY.declare(Counter("hanse.reports", "{report}", "Reports of agents that took effect.", STATUS))
REPORT_CONFLICTS: Final = REGISTRY.declare(
    Counter("hanse.report.conflicts", "{guard}", "Guards of transactions of reports that did not hold.", GUARD)
)
REPORTS_WAITING: Final = REGISTRY.declare(
    Gauge("hanse.reports.waiting", "{report}", "Reports of agents that are not in effect yet.")
)

POOLS_LEFT: Final = REGISTRY.declare(
    Counter("hanse.pools.left", "{pool}", "Pools that have left, by writes of this process.", LEAVE)
)
LEAVE_TAKEN_BACK: Final = REGISTRY.declare(
    Counter(
        "hanse.pools.taken_back",
        "{job}",
        "Jobs that were taken back from pools that left by force.",
        _outcome("lost", "stopped", "released"),
    )
)

# ---- pools, as the scheduler knows them ----------------------------------------------------------------------

SUMMARIES: Final = REGISTRY.declare(
    Counter("hanse.summaries", "{summary}", "Summaries of pools that were newer than what was known.")
)
SUMMARY_AGE: Final = REGISTRY.declare(
    Gauge("hanse.pool.summary.age", "s", "Time since a pool's newest summary came here.", POOL)
)
POOL_GPUS: Final = REGISTRY.declare(
    Gauge("hanse.pool.gpus", "{gpu}", "GPUs of a pool, as of its newest summary.", POOL, FLAVOR, GPU_STATE)
)
POOL_NODES: Final = REGISTRY.declare(
    Gauge("hanse.pool.nodes", "{node}", "Nodes of a pool, as of its newest summary.", POOL, NODE_STATE)
)
POOL_GANGS: Final = REGISTRY.declare(
    Gauge("hanse.pool.gangs", "{gang}", "Gangs of a pool, as of its newest summary.", POOL, GANG_STATE)
)

# ---- store ---------------------------------------------------------------------------------------------------

STORE_DURATION: Final = REGISTRY.declare(
    Histogram(
        "db.client.operation.duration",
        "s",
        "Calls of the store, by outcome.",
        DB_SYSTEM,
        DB_OPERATION,
        _outcome("done", "committed", "conflict", "unknown", "unavailable", "error"),
    )
)

STORE_SIZE: Final = REGISTRY.declare(
    Gauge("hanse.store.size", "By", "Size of etcd's file, as the member said last.", MEMBER, SIZE)
)

# ---- agent ---------------------------------------------------------------------------------------------------

AGENT_ATTACHED: Final = REGISTRY.declare(
    Gauge("hanse.agent.attached", "{agent}", "1 while the agent obeys a desired set of a live stream.", POOL)
)
AGENT_ATTACHMENTS_REFUSED: Final = REGISTRY.declare(
    Counter(
        "hanse.agent.attachments.refused",
        "{attachment}",
        "Attachments that a replica refused, or that ended because the agent refused what it was told.",
        POOL,
    )
)
AGENT_GANGS: Final = REGISTRY.declare(
    Gauge("hanse.agent.gangs", "{gang}", "Gangs that have places, as the agent knows them.", POOL, GANG_STATE)
)
PLACEMENTS: Final = REGISTRY.declare(
    Counter(
        "hanse.agent.placements", "{gang}", "Gangs for which places were sought.", POOL, _outcome("placed", "refused")
    )
)
PLACEMENT_DURATION: Final = REGISTRY.declare(
    Histogram(
        "hanse.agent.placement.duration",
        "s",
        "Turns of placing gangs; one takes as many as wait, up to a limit.",
        POOL,
    )
)
AGENT_REFUSALS: Final = REGISTRY.declare(
    Counter("hanse.agent.refusals", "{gang}", "Gangs that found no places, by reason.", REASON)
)
WRITE_DURATION: Final = REGISTRY.declare(
    Histogram(
        "hanse.agent.cluster.write.duration",
        "s",
        "Writes to the cluster.",
        POOL,
        _outcome("done", "in_doubt", "superseded"),
    )
)
WRITE_OPERATIONS: Final = REGISTRY.declare(
    Counter("hanse.agent.cluster.operations", "{operation}", "Operations in writes that the cluster answered.", POOL)
)
WATCHES_LOST: Final = REGISTRY.declare(
    Counter("hanse.agent.cluster.watches_lost", "{watch}", "Watches of the cluster that broke off.", POOL)
)
RESYNCS: Final = REGISTRY.declare(
    Counter("hanse.agent.resyncs", "{list}", "Lists of the cluster beside those of attachments.", POOL)
)
REPAIRS: Final = REGISTRY.declare(
    Counter("hanse.agent.repairs", "{list}", "Lists that found what the watch had not told.", POOL)
)
SUMMARIES_MADE: Final = REGISTRY.declare(
    Counter("hanse.agent.summaries", "{summary}", "Summaries that the agent made.", POOL)
)

# ---- the process ---------------------------------------------------------------------------------------------

CPU_TIME: Final = REGISTRY.declare(Counter("process.cpu.time", "s", "CPU time of this process.", CPU_MODE))
MEMORY: Final = REGISTRY.declare(Gauge("process.memory.usage", "By", "Physical memory of this process."))
UPTIME: Final = REGISTRY.declare(Gauge("process.uptime", "s", "Time since this process turned telemetry on."))
LOOP_DELAY: Final = REGISTRY.declare(
    Histogram("hanse.loop.delay", "s", "By how much the event loop was late for a timer, looked at once a second.")
)
EXPORTED: Final = REGISTRY.declare(Counter("hanse.telemetry.exported", "{item}", "What the collector took.", SIGNAL))
DROPPED: Final = REGISTRY.declare(
    Counter("hanse.telemetry.dropped", "{item}", "What was dropped because the collector did not take it.", SIGNAL)
)
