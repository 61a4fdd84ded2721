"""Every key of the store, built and parsed in one place.

Names are validated when they enter (no `/`), so a key splits back into exactly the parts it was built from.
Attempts are zero-padded: within a job, keys sort by attempt.
"""

from typing import Final, NamedTuple

from hanse.model.ids import (
    Attempt,
    FlavorName,
    JobId,
    Part,
    PoolName,
    QueueName,
    QueueUid,
    ReplicaId,
    queue_of,
)

QUEUES: Final = "queues/"
COHORTS: Final = "cohorts/"
FLAVORS: Final = "flavors/"
PRIORITIES: Final = "priorities/"
SPECS: Final = "spec/"
STATES: Final = "state/"
PASTS: Final = "state-past/"
NAMES: Final = "spec-name/"
BARRED: Final = "barred/"
BINDINGS: Final = "bindings/"
POOLS: Final = "pools/"
ATTACHED: Final = "attached/"
GRANTS: Final = "grants/"
HOLDERS: Final = "holders/"
REPLICAS: Final = "replicas/"
REQUESTS: Final = "requests/"
TOKENS: Final = "tokens/"
USAGE: Final = "usage/"
USAGE_DAMAGED: Final = "usage-damaged/"
INCARNATION: Final = "meta/incarnation"
SLOTS: Final = "meta/slots"
FEDERATION: Final = "meta/federation"
HISTORY: Final = "meta/history"

# One range holds all that a replica follows: attached, barred, bindings, cohorts, flavors, grants, holders, meta,
# pools with their heads, priorities, queues, replicas. Requests, specs, states, tokens, usage sort after it. One
# watch over the range is ordered by revision, so a head and the binding that bumped it are always seen together.
FOLLOWED_START: Final = ATTACHED
FOLLOWED_END: Final = REQUESTS


def queue(name: QueueName) -> str:
    return f"{QUEUES}{name}"


def cohort(name: str) -> str:
    return f"{COHORTS}{name}"


def flavor(name: FlavorName) -> str:
    return f"{FLAVORS}{name}"


def priority(name: str) -> str:
    return f"{PRIORITIES}{name}"


def spec(job: JobId) -> str:
    return f"{SPECS}{queue_of(job)}/{job}"


def state(job: JobId) -> str:
    return f"{STATES}{queue_of(job)}/{job}"


def states(uid: QueueUid) -> str:
    return f"{STATES}{uid}/"


def past(job: JobId) -> str:
    return f"{PASTS}{queue_of(job)}/{job}"


def name(job_name: str, job: JobId) -> str:
    """Index of jobs by name within their queue; the value is empty."""
    return f"{NAMES}{queue_of(job)}/{job_name}/{job}"


def names(uid: QueueUid, prefix: str) -> str:
    return f"{NAMES}{uid}/{prefix}"


def binding(pool: PoolName, job: JobId, attempt: Attempt, part: Part) -> str:
    return f"{BINDINGS}{pool}/{job}/{attempt:08d}.{part}"


def bindings(pool: PoolName) -> str:
    return f"{BINDINGS}{pool}/"


def pool_config(pool: PoolName) -> str:
    return f"{POOLS}{pool}/config"


def pool_agent(pool: PoolName) -> str:
    return f"{POOLS}{pool}/agent"


def pool_returned(pool: PoolName) -> str:
    """Which life of the store the pool has come back to: what runs there is desired (P15)."""
    return f"{POOLS}{pool}/returned"


def pool_left(pool: PoolName) -> str:
    """There while a pool that has left may not join again."""
    return f"{POOLS}{pool}/left"


def head(pool: PoolName, flavor_name: FlavorName) -> str:
    return f"{POOLS}{pool}/head/{flavor_name}"


def heads(pool: PoolName) -> str:
    return f"{POOLS}{pool}/head/"


def attached(pool: PoolName) -> str:
    return f"{ATTACHED}{pool}"


def barred(kind: str, name: str) -> str:
    """Certificates of somebody (`agent`, `replica`, `user`) that are believed no more."""
    return f"{BARRED}{kind}/{name}"


def barred_serial(serial: str) -> str:
    """One certificate that is believed no more, by its number in lower-case hexadecimal."""
    return f"{BARRED}serial/{serial}"


def join_token(token: str) -> str:
    """A token with which a pool joins, by its id."""
    return f"{TOKENS}{token}"


def grant(root: str) -> str:
    return f"{GRANTS}{root}"


def holder(root: str) -> str:
    return f"{HOLDERS}{root}"


def replica(replica_id: ReplicaId) -> str:
    return f"{REPLICAS}{replica_id}"


def request(principal: str, request_id: str) -> str:
    return f"{REQUESTS}{principal}/{request_id}"


def usage(month: str, uid: QueueUid) -> str:
    """What jobs of a queue that have left the store used in a month, `YYYY-MM`."""
    return f"{USAGE}{month}/{uid}"


def usages(month: str) -> str:
    return f"{USAGE}{month}/"


def usage_damaged(month: str, uid: QueueUid) -> str:
    """Bytes that lay under such a key and could not be read, for whoever can."""
    return f"{USAGE_DAMAGED}{month}/{uid}"


def usage_of(key: str) -> tuple[str, QueueUid]:
    """Month and queue of a usage key."""
    _, month, uid = key.split("/")
    return month, QueueUid(uid)


def job_of(key: str) -> JobId:
    """The job that a spec, state, past or names key speaks of."""
    return JobId(key.rsplit("/", 1)[1])


class BindingKey(NamedTuple):
    """The parts of a binding's key."""

    pool: PoolName
    job: JobId
    attempt: Attempt
    part: Part

    @property
    def text(self) -> str:
        return binding(self.pool, self.job, self.attempt, self.part)


def parse_binding(key: str) -> BindingKey:
    """Split a binding's key.

    Raises:
        ValueError: not a binding's key.
    """
    prefix, pool, job, tail = key.split("/")
    attempt, _, part = tail.partition(".")
    if prefix != BINDINGS[:-1]:
        raise ValueError(f"{key!r} is not the key of a binding")
    return BindingKey(PoolName(pool), JobId(job), Attempt(int(attempt)), Part(int(part)))


def pool_of(key: str) -> PoolName:
    """The pool that a `pools/…` or `attached/…` key speaks of."""
    return PoolName(key.split("/", 2)[1])


def head_flavor(key: str) -> FlavorName | None:
    """The flavor of a head's key, None for another key of a pool."""
    parts = key.split("/")
    return FlavorName(parts[3]) if len(parts) == 4 and parts[2] == "head" else None
