"""Who did what to what, why and when: records of an audit log, and which of them somebody asks for. Pure.

A record names things and holds no content: no spec, no environment, no token, no command line. It is about a call of
somebody that changes something (or would have), a decision about a job, a job's eviction, or a pool.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hanse.model.ids import JobId, QueueUid, is_job_id, read_queue_of

AUDIT_RECORDS_MAX: Final = 1_000
"""Records in one page."""

TEXT_CHARS_MAX: Final = 300
"""Of a message, a reason that somebody gave, a name that somebody made up."""


class AuditKind(StrEnum):
    """What a record is about."""

    CALL = "call"
    DECISION = "decision"
    EVICTION = "eviction"
    POOL = "pool"
    GAP = "gap"


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One thing that was done.

    Attributes:
        who: a principal; `scheduler`, or `agent POOL` for what these decide.
        verb: the method that was called, or what was decided.
        queue: by name; several by commas, "" if none is concerned.
        outcome: `OK`, or the name of the code that refused it.
        reason: a code; `message` says it in words.
        address: from where the call came.
        at_ms, replica: when, and by which replica, it was written down; Unix time.
        revision: of the store at which it happened, 0 where none shows it.
    """

    kind: AuditKind
    who: str
    verb: str
    queue: str = ""
    jobs: tuple[str, ...] = ()
    pool: str = ""
    attempt: int = 0
    outcome: str = ""
    reason: str = ""
    message: str = ""
    request_id: str = ""
    address: str = ""
    revision: int = 0
    at_ms: int = 0
    replica: str = ""

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for what two replicas saw of the same thing."""
        if self.kind is AuditKind.CALL or not self.revision:
            return (
                self.replica,
                self.at_ms,
                self.who,
                self.verb,
                self.jobs,
                self.pool,
                self.request_id,
                self.message,
            )
        return (self.revision, self.verb, self.jobs, self.pool)


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which records are asked for, newest first.

    Attributes:
        since_ms: none before; 0 for as far back as there are files.
        before_ms: only before; 0 for all.
        who, job, queue, verb: "" for all; a verb counts whatever its capitals.
        queues: only what concerns these queues and nothing else, by name with uid; None for all. A uid tells a queue
            from an older one of its name.
        limit: about so many.
    """

    since_ms: int = 0
    before_ms: int = 0
    who: str = ""
    job: str = ""
    queue: str = ""
    verb: str = ""
    queues: Mapping[str, QueueUid] | None = None
    limit: int = AUDIT_RECORDS_MAX

    def in_time(self, at_ms: int) -> bool:
        """Whether that is a time that is asked for."""
        return at_ms >= self.since_ms and (not self.before_ms or at_ms < self.before_ms)

    def holds(self, record: AuditRecord) -> bool:
        """Whether a record is asked for."""
        return (
            self.in_time(record.at_ms)
            and (not self.who or record.who == self.who)
            and (not self.job or self.job in record.jobs)
            and (not self.queue or self.queue in record.queue.split(","))
            and (not self.verb or record.verb.lower() == self.verb.lower())
            and (self.queues is None or self._seen(record, self.queues))
        )

    def _seen(self, record: AuditRecord, queues: Mapping[str, QueueUid]) -> bool:
        names = record.queue.split(",")
        uids = {queues[name] for name in names if name in queues}
        ids = (job for job in record.jobs if is_job_id(job))
        return all(name in queues for name in names) and all(read_queue_of(JobId(job)) in uids for job in ids)


@dataclass(frozen=True, slots=True)
class AuditPage:
    """What one log, or all logs together, hold.

    Attributes:
        records: newest first.
        through_ms: everything from there on is among them; 0 if that is everything.
        silent: replicas that did not answer in time.
    """

    records: tuple[AuditRecord, ...]
    through_ms: int = 0
    silent: tuple[str, ...] = ()


def merged(pages: Mapping[str, AuditPage], silent: tuple[str, ...] = ()) -> AuditPage:
    """The logs of several replicas as one, as far back as all of them were looked through."""
    through_ms = max((page.through_ms for page in pages.values()), default=0)
    found = [record for page in pages.values() for record in page.records if record.at_ms >= through_ms]
    once: dict[tuple[object, ...], AuditRecord] = {}
    for record in sorted(found, key=lambda r: (r.at_ms, r.replica), reverse=True):
        once.setdefault(record.identity, record)
    return AuditPage(tuple(once.values()), through_ms, silent)
