"""Names and identifiers, each a type of its own so that two of them cannot be swapped unnoticed.

A job id embeds the uid of its queue (`<queue-uid>-<hash>`), so any replica finds a job's keys from the id alone.
The hash is derived from (principal, request id) and ends in the job's index within the request: a repeated request
names the same jobs, which makes a submission idempotent without a lookup table that could be lost between two writes,
and jobs of one request, which share their submit time, sort in the order in which they were written.
"""

import base64
import hashlib
from functools import lru_cache
from typing import NewType

JobId = NewType("JobId", str)
QueueUid = NewType("QueueUid", str)
QueueName = NewType("QueueName", str)
PoolName = NewType("PoolName", str)
FlavorName = NewType("FlavorName", str)
ReplicaId = NewType("ReplicaId", str)
NodeName = NewType("NodeName", str)
Attempt = NewType("Attempt", int)
Part = NewType("Part", int)

QUEUE_UID_CHARS = 8
JOB_HASH_CHARS = 16
INDEX_CHARS = 3
JOBS_PER_REQUEST_MAX = 32**INDEX_CHARS
JOBS_KNOWN_MAX = 4_096  # ids that were found to be some; the keys of a job are built dozens of times in its life

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"  # 32 of them, in the order of their code points


def _short_hash(chars: int, *parts: str) -> str:
    """Lower-case base32 digest of the parts; length-prefixed, so that no two lists of parts collide by joining."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        digest.update(len(raw).to_bytes(8, "big"))
        digest.update(raw)
    return base64.b32encode(digest.digest()).decode().lower()[:chars]


def queue_uid(principal: str, request_id: str, name: str) -> QueueUid:
    """The uid of a queue that `request_id` creates: stable over retries, new after a delete and a create."""
    return QueueUid(_short_hash(QUEUE_UID_CHARS, "queue", principal, request_id, name))


def job_id(queue: QueueUid, principal: str, request_id: str, index: int) -> JobId:
    """The id of the `index`-th job of a request, of at most JOBS_PER_REQUEST_MAX."""
    if not 0 <= index < JOBS_PER_REQUEST_MAX:
        raise ValueError(f"a request has at most {JOBS_PER_REQUEST_MAX} jobs")
    hashed = _short_hash(JOB_HASH_CHARS - INDEX_CHARS, "job", principal, request_id)
    digits = (_DIGITS[index >> shift & 31] for shift in range(5 * (INDEX_CHARS - 1), -1, -5))
    return JobId(f"{queue}-{hashed}{''.join(digits)}")


def read_queue_of(job: JobId) -> QueueUid:
    """`queue_of` for whoever asks once for each of many jobs, and shall not drive those out that are remembered."""
    uid, sep, rest = job.partition("-")
    if not sep or len(uid) != QUEUE_UID_CHARS or len(rest) != JOB_HASH_CHARS:
        raise ValueError(f"{job!r} is not a job id")
    return QueueUid(uid)


@lru_cache(JOBS_KNOWN_MAX)
def queue_of(job: JobId) -> QueueUid:
    """The uid of the queue in which the job lives.

    Raises:
        ValueError: the text is not a job id.
    """
    return read_queue_of(job)


def is_job_id(text: str) -> bool:
    """Whether the text has the form of a job id; says nothing about the job's existence."""
    uid, _, rest = text.partition("-")
    return (
        text.isascii()
        and len(uid) == QUEUE_UID_CHARS
        and len(rest) == JOB_HASH_CHARS
        and rest.isalnum()
        and uid.isalnum()
    )
