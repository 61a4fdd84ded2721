"""What a caller sees of queues and jobs. Every service that is asked for one goes through here.

A queue that the caller does not see is left out before anything of it is read; from there on it does not exist, and
whoever asks for it, or for a job of it, gets the answer of a name that nobody has used. Someone who sees every queue
costs no read beside those that their question needs.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from hanse.apiserver.access.rights import Access
from hanse.apiserver.access.verbs import Verb
from hanse.apiserver.catalog import Stored, queue_not_found, read_queue_names, read_queues
from hanse.apiserver.lookup import Queues, find_job
from hanse.apiserver.rows import Found, JobReader
from hanse.model.ids import JobId, QueueName, QueueUid, read_queue_of
from hanse.model.names import is_subdomain
from hanse.store import keys
from hanse.store.contract import READ_KEYS_MAX, Store
from hanse.store.schema import QueueValue, decode

UIDS_KEPT_MAX: Final = 50_000
"""Queues that one watch remembers whether they are seen."""


class Sight:
    """Looks for callers."""

    def __init__(self, store: Store, reader: JobReader) -> None:
        self._store = store
        self._reader = reader

    async def queues(self, access: Access, verb: Verb = Verb.VIEW) -> Queues:
        """The queues in which a verb is allowed; those that the policy names one by one are read alone."""
        names = access.names(verb)
        if names is None:
            return {name: one for name, one in (await read_queues(self._store)).items() if access.may(verb, name)}
        return await read_named(self._store, [name for name in names if is_subdomain(name)])

    async def queue(self, access: Access, name: str, *, path: str = "queue") -> Stored[QueueValue]:
        """A queue that the caller sees. Raises NotFound: reason QUEUE_NOT_FOUND."""
        if not is_subdomain(name) or not access.may(Verb.VIEW, name):
            raise queue_not_found(name, await self.queue_names(access), path=path)
        found = (await read_named(self._store, [name])).get(QueueName(name))
        if found is None:
            raise queue_not_found(name, await self.queue_names(access), path=path)
        return found

    async def queue_names(self, access: Access) -> list[str]:
        """The names of the queues that the caller sees."""
        if access.everywhere(Verb.VIEW):
            return await read_queue_names(self._store)
        return sorted(await self.queues(access))

    async def job(self, access: Access, text: str, *, queue: str = "", verb: Verb = Verb.VIEW) -> Found:
        """The job that a caller means, if they see it and may do that to it.

        Raises:
            NotFound, FailedPrecondition, InvalidArgument: as `find_job`.
            PermissionDenied: reason ROLE_MISSING; they see it, and may not.
        """
        seen = None if access.everywhere(Verb.VIEW) else await self.queues(access)
        found = await find_job(self._store, text, queue=queue, seen=seen)
        if verb is not Verb.VIEW and not access.everywhere(verb):
            name = name_of(seen if seen is not None else await read_queues(self._store), found.job)
            if not access.may(verb, name):
                owner = (await self._reader.heads([found.job]))[found.job].owner
                access.require(verb, name, owner=owner)
        return found


def name_of(queues: Queues, job: JobId) -> QueueName:
    """The queue that a job lives in, "" if it is none of these."""
    uid = read_queue_of(job)
    return next((name for name, stored in queues.items() if stored.value.uid == uid), QueueName(""))


async def read_named(store: Store, names: Sequence[str]) -> dict[QueueName, Stored[QueueValue]]:
    """Those of the queues that exist."""
    found: dict[QueueName, Stored[QueueValue]] = {}
    for start in range(0, len(names), READ_KEYS_MAX):
        some = [QueueName(name) for name in names[start : start + READ_KEYS_MAX]]
        items = (await store.read([keys.queue(name) for name in some])).items
        for name in some:
            if (kv := items.get(keys.queue(name))) is not None:
                found[name] = Stored(decode(kv.value, QueueValue), kv.mod_revision)
    return found


@dataclass(slots=True)
class SeenUids:
    """Whether a queue is seen, by its uid, for whoever follows jobs of many queues: one that is new is looked up."""

    store: Store
    access: Access
    known: dict[QueueUid, bool]

    async def look(self, uids: Collection[QueueUid]) -> None:
        """Learn of those that are not known yet."""
        if all(uid in self.known for uid in uids):
            return
        if len(self.known) > UIDS_KEPT_MAX:
            self.known.clear()
        for name, stored in (await read_queues(self.store)).items():
            self.known[QueueUid(stored.value.uid)] = self.access.may(Verb.VIEW, name)
        for uid in uids:
            self.known.setdefault(uid, False)
