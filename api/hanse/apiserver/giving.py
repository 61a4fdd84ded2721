"""Which replica is named to admit for a queue, and what becomes of its root by that.

A name is a preference of its own, by root, which no commit compares: who admits is decided by the grant alone. What a
commit does compare is the queue, so taking one apart from its cohort, which changes its root, fails every commit that
was planned under the other root.
"""

from dataclasses import dataclass

import msgspec

from hanse.api.v1 import queue_service_pb2
from hanse.apiserver.catalog import Stored, read_all, read_cohorts
from hanse.apiserver.suggest import did_you_mean
from hanse.model.errors import FailedPrecondition
from hanse.model.ids import QueueName
from hanse.model.names import quoted
from hanse.model.queue import Queue, root_of
from hanse.store import keys
from hanse.store.contract import Delete, Guard, ModRevisionIs, Op, Put, Store
from hanse.store.schema import HolderValue, QueueValue, ReplicaValue, decode, encode


@dataclass(frozen=True, slots=True)
class Gift:
    """The queue as it is and as it shall be; what is compared and written beside it."""

    queue: Stored[QueueValue]
    value: QueueValue
    guards: tuple[Guard, ...]
    ops: tuple[Op, ...]


async def gift(
    store: Store, request: queue_service_pb2.GiveQueueRequest, queue: Stored[QueueValue], *, now_ms: int
) -> Gift:
    """What GiveQueue writes. Raises FailedPrecondition: reason HOLDER_UNKNOWN."""
    apart = bool(request.apart and request.holder and queue.value.cohort)
    value = msgspec.structs.replace(queue.value, apart=apart)
    old, new = [await _root(store, each.queue(QueueName(request.name))) for each in (queue.value, value)]
    if not request.holder:
        return Gift(queue, value, *await forgotten(store, keys.holder(old)))
    await _check_holder(store, request.holder)
    guards, ops = await forgotten(store, keys.holder(old)) if old != new and queue.value.apart else ((), ())
    key = keys.holder(new)
    found = (await store.read([key])).items.get(key)
    guard = ModRevisionIs(key, found.mod_revision if found is not None else 0)
    return Gift(queue, value, (guard, *guards), (Put(key, encode(HolderValue(request.holder, now_ms))), *ops))


async def named_holder(store: Store, queue: Queue) -> str:
    """The replica that was named for the root of a queue, "" for none."""
    key = keys.holder(await _root(store, queue))
    found = (await store.read([key])).items.get(key)
    return decode(found.value, HolderValue).replica if found is not None else ""


async def forgotten(store: Store, key: str) -> tuple[tuple[Guard, ...], tuple[Op, ...]]:
    """What makes a key be gone, if it is there."""
    found = (await store.read([key])).items.get(key)
    return ((ModRevisionIs(key, found.mod_revision),), (Delete(key),)) if found is not None else ((), ())


async def _root(store: Store, queue: Queue) -> str:
    stored = await read_cohorts(store) if queue.cohort else {}
    return root_of(queue, {name: each.value for name, each in stored.items()})


async def _check_holder(store: Store, name: str) -> None:
    members = [
        kv.key.removeprefix(keys.REPLICAS)
        for kv in await read_all(store, keys.REPLICAS)
        if decode(kv.value, ReplicaValue).schedules
    ]
    if name not in members:
        raise FailedPrecondition(
            f"no replica {quoted(name)} schedules now{did_you_mean(name, members)} (`hanse status` lists them)",
            reason="HOLDER_UNKNOWN",
            path="holder",
        )
