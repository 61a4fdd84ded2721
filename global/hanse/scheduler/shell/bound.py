"""What the core needs of a binding, from its key and its value: without all that the agent has reported in it.

What a binding takes is the same for all jobs of a kind, and is most of its size. So these parts are looked up as
bytes and become values once, which many bindings then share.
"""

from functools import lru_cache
from sys import intern
from typing import Final, NamedTuple

from hanse.model.ids import FlavorName, PoolName, QueueUid, read_queue_of
from hanse.model.queue import Charge
from hanse.model.request import GangRequest
from hanse.model.resources import Resources
from hanse.scheduler.core.facts import BindingFacts
from hanse.store import keys
from hanse.store.contract import KeyValue
from hanse.store.schema import BindingValue, TakingValue, decode

TAKINGS_REMEMBERED: Final = 4_096


class _Taking(NamedTuple):
    """What bindings of one kind take."""

    request: GangRequest
    flavors: tuple[FlavorName, ...]
    charges: tuple[Charge, ...]


def binding_facts(kv: KeyValue) -> BindingFacts:
    """What the core needs of a binding.

    Raises:
        msgspec.DecodeError, ValueError: it is damaged, or a stranger's.
    """
    pool, job, attempt, part = keys.parse_binding(kv.key)
    value = decode(kv.value, TakingValue)
    request, flavors, charges = _taking(bytes(value.sets), bytes(value.request), bytes(value.charges))
    return BindingFacts(
        PoolName(intern(pool)),
        job,
        attempt,
        part,
        kv.create_revision,
        QueueUid(intern(read_queue_of(job))),
        request,
        flavors,
        charges,
        value.order,
    )


@lru_cache(TAKINGS_REMEMBERED)
def _taking(sets: bytes, request: bytes, charges: bytes) -> _Taking:
    value = decode(b'{"desired":0,"sets":%b,"request":%b,"charges":%b}' % (sets, request, charges), BindingValue)
    return _Taking(
        value.gang_request(),
        value.flavors,
        tuple(Charge(FlavorName(c.flavor), Resources(c.amounts)) for c in value.charges),
    )
