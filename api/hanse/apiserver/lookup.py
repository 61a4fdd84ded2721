"""Which job does a user mean: an id, or a prefix of a name that leads to one name only.

A name that is written out wins over longer names that begin with it. Of several jobs that carry one name in one
queue, the newest is meant, because that is what somebody who submits the same file again and again looks for. A
prefix that leads to several names, or to one name in several queues, is refused with the candidates: guessing could
cancel somebody else's work.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from hanse.apiserver.catalog import Stored, queue_not_found, read_queue, read_queues
from hanse.apiserver.rows import Found
from hanse.apiserver.suggest import listed
from hanse.model.errors import FailedPrecondition, InvalidArgument, NotFound
from hanse.model.ids import JobId, QueueName, QueueUid, is_job_id, read_queue_of
from hanse.model.names import SUBDOMAIN_CHARS_MAX, is_subdomain, quoted
from hanse.store import keys
from hanse.store.contract import READ_KEYS_MAX, KeyValue, Store, prefix_end
from hanse.store.schema import QueueValue, decode_state

GONE_HINT: Final = "one that ended a while ago is in the archive: the files in the replicas' `archive_dir`"

NAMESAKES_MAX: Final = 1_000
"""Jobs of one queue that are looked at to resolve one name; of more namesakes, one of these is taken."""


@dataclass(frozen=True, slots=True)
class _Named:
    job: JobId
    name: str
    queue: str


Queues: TypeAlias = Mapping[QueueName, Stored[QueueValue]]


async def find_job(store: Store, text: str, *, queue: str = "", seen: Queues | None = None) -> Found:
    """The job that is meant, with its state as it is now.

    Args:
        seen: the queues that whoever asks may see; None for all. What lies in others is not looked at, so that it
            makes no difference, also none of time, whether it exists.

    Raises:
        NotFound: reason JOB_NOT_FOUND or QUEUE_NOT_FOUND.
        FailedPrecondition: reason JOB_AMBIGUOUS, with the candidates.
        InvalidArgument: reason JOB_MISSING or NAME_INVALID.
    """
    if not text:
        raise InvalidArgument("no job is named; give its id or name", reason="JOB_MISSING", path="job")
    if is_job_id(text) and "/" not in text:
        job = JobId(text)
        there = seen is None or any(stored.value.uid == read_queue_of(job) for stored in seen.values())
        found = await read_found(store, [job]) if there else []
        if found:
            return found[0]
    if not _may_begin_a_name(text):
        raise InvalidArgument(
            f"{quoted(text)} is neither an id nor the beginning of a name", reason="NAME_INVALID", path="job"
        )
    return await _newest(store, _one_name(text, await _named(store, text, queue, seen)))


async def read_found(store: Store, jobs: Sequence[JobId]) -> list[Found]:
    """The states of those jobs that exist, in the given order."""
    found: list[Found] = []
    for start in range(0, len(jobs), READ_KEYS_MAX):
        some = jobs[start : start + READ_KEYS_MAX]
        items = (await store.read([keys.state(job) for job in some])).items
        found.extend(found_of(items[key]) for job in some if (key := keys.state(job)) in items)
    return found


def found_of(kv: KeyValue) -> Found:
    """The job and state under a state key."""
    return Found(keys.job_of(kv.key), decode_state(kv.value), kv.mod_revision)


def _may_begin_a_name(text: str) -> bool:
    return len(text) <= SUBDOMAIN_CHARS_MAX and is_subdomain(text.rstrip(".-") or "/")


async def _named(store: Store, text: str, queue: str, seen: Queues | None) -> list[_Named]:
    """Jobs of that very name, else jobs whose names begin so; in one queue or in all that are seen."""
    if queue and seen is None:
        seen = {QueueName(queue): await read_queue(store, queue)}
    queues = await read_queues(store) if seen is None else seen
    if queue and queue not in queues:
        raise queue_not_found(queue, list(queues))
    names: list[QueueName] = [QueueName(queue)] if queue else sorted(queues)
    uids = {str(name): QueueUid(queues[name].value.uid) for name in names}
    for prefix in (f"{text}/", text):
        found = [one for name, uid in uids.items() for one in await _named_in(store, prefix, name, uid)]
        if found:
            return found
    where = f" in queue {quoted(queue)}" if queue else ""
    hint = f"{GONE_HINT}; `hanse jobs` lists the rest" if is_job_id(text) else "`hanse jobs` lists them"
    raise NotFound(
        f"no job{where} has the id {quoted(text)} or a name that begins so ({hint})",
        reason="JOB_NOT_FOUND",
        path="job",
    )


async def _named_in(store: Store, prefix: str, queue: str, uid: QueueUid) -> list[_Named]:
    start = keys.names(uid, prefix)
    page = await store.range(start, prefix_end(start), limit=NAMESAKES_MAX, keys_only=True)
    return [_Named(keys.job_of(kv.key), kv.key.split("/")[2], queue) for kv in page.items]


def _one_name(text: str, named: Sequence[_Named]) -> Sequence[_Named]:
    """The jobs, if all carry one name in one queue."""
    names = {one.name for one in named}
    if len(names) > 1:
        raise FailedPrecondition(
            f"{quoted(text)} begins the names of several jobs: {listed(names)}; write out more of it",
            reason="JOB_AMBIGUOUS",
            path="job",
        )
    queues = {one.queue for one in named}
    if len(queues) > 1:
        raise FailedPrecondition(
            f"{quoted(named[0].name)} is in several queues: {listed(queues)}; name the queue, or use an id",
            reason="JOB_AMBIGUOUS",
            path="job",
        )
    return named


async def _newest(store: Store, named: Sequence[_Named]) -> Found:
    found = await read_found(store, [one.job for one in named])
    if not found:
        raise NotFound(f"job {quoted(named[0].name)} is no longer kept", reason="JOB_NOT_FOUND", path="job")
    return max(found, key=lambda f: (f.state.submit_ms, f.revision, f.job))
