"""S5: what a transaction writes rests on something, and every transaction that writes it has compared that.

A guard that is missing does harm only if somebody else writes between the look and the leap, which may take a
thousand seeds. So the guards themselves are looked at, in every transaction that passes: nothing is written blindly,
and what a write rests on beside the key itself is in this table, in the words of the small print.

| written | compared beside it |
|---|---|
| spec, name and history of a job | its state key, which moves with them |
| a new job | its queue, and the record of the request (P3: an unknown outcome is settled by it) |
| a job's priority | the class that it was given |
| a job told to leave a drained pool, or taken back from one that leaves by force | the pool's settings (S7) |
| a head | itself, or the settings of the pool: an operator bumps it together with them (P1) |
| a pool's agent | the pool's settings, its slots, whether it has left, and who is attached (P9) |
| that a pool has left | its settings, its agent, and who is attached (S7) |
| the mark of an attached agent | the agent (P9) |
| a binding of an attempt that is over | itself: no state key moves with it any more (P12) |

Commits that bind and reports have longer lists, and are judged in `store_checks`.
"""

from collections.abc import Iterator
from typing import Final

from hanse.model.ids import queue_of
from hanse.model.lifecycle import decode_state
from hanse.model.reasons import Reason
from hanse.store import keys
from hanse.store.contract import Op, Put, Txn
from tests.sim.verdict import Court
from tests.sim.view import StoreView

WITH_STATE: Final = (keys.SPECS, keys.PASTS, keys.NAMES)
"""What moves together with a job's state key."""

_ORDERED: Final = frozenset({Reason.DRAINED, Reason.POOL_LOST})
"""Reasons that only an operator's order gives, which stands in a pool's settings."""


class GuardChecks:
    """Fed by the store's hook with the transaction behind each revision, after the view."""

    def __init__(self, view: StoreView, court: Court) -> None:
        self._view = view
        self._accuse = court.accuse

    def transaction_made(self, txn: Txn) -> None:
        """The last revision was made by this transaction."""
        compared = {guard.key for guard in txn.guards}
        for op in txn.ops:
            for what, wanted in self._needs(op, txn):
                if not any(key in compared for key in wanted):
                    self._accuse("S5", f"{op.key} was written without comparing {what} ({' or '.join(wanted)})")

    def _needs(self, op: Op, txn: Txn) -> Iterator[tuple[str, tuple[str, ...]]]:
        """What must have been compared for this operation: in words, and as keys of which one is enough."""
        key = op.key
        if key.startswith(WITH_STATE):
            yield "the job's state", (keys.state(keys.job_of(key)),)
        elif key.startswith(keys.BINDINGS):
            at = keys.parse_binding(key)
            yield "the job's state, or itself", (keys.state(at.job), key)
        elif keys.head_flavor(key) is not None and key.startswith(keys.POOLS):
            yield "itself or its pool's settings", (key, keys.pool_config(keys.pool_of(key)))
        else:
            yield "itself", (key,)
        if isinstance(op, Put):
            yield from self._needs_beside(op, txn)

    def _needs_beside(self, op: Put, txn: Txn) -> Iterator[tuple[str, tuple[str, ...]]]:
        key = op.key
        if key.startswith(keys.STATES):
            yield from self._state_needs(op, txn)
        elif key.startswith(keys.POOLS) and key == keys.pool_agent(keys.pool_of(key)):
            pool = keys.pool_of(key)
            yield "the pool's settings", (keys.pool_config(pool),)
            yield "who is attached", (keys.attached(pool),)
            yield "the slots", (keys.SLOTS,)
            yield "whether it has left", (keys.pool_left(pool),)
        elif key.startswith(keys.POOLS) and key == keys.pool_left(keys.pool_of(key)):
            pool = keys.pool_of(key)
            yield "the pool's settings", (keys.pool_config(pool),)
            yield "the pool's agent", (keys.pool_agent(pool),)
            yield "who is attached", (keys.attached(pool),)
        elif key.startswith(keys.ATTACHED):
            yield "the pool's agent", (keys.pool_agent(keys.pool_of(key)),)

    def _state_needs(self, op: Put, txn: Txn) -> Iterator[tuple[str, tuple[str, ...]]]:
        job = keys.job_of(op.key)
        new, before = decode_state(op.value), self._view.before.get(op.key)
        if before is None:
            queue = self._view.queues.get(queue_of(job))
            if queue is not None:
                yield "the job's queue", (keys.queue(queue[0]),)
            yield "the record of the request", _compared_under(txn, keys.REQUESTS)
            return
        old = decode_state(before.value)
        if new.priority != old.priority:
            yield "the priority class", _compared_under(txn, keys.PRIORITIES)
        if new.reason is not old.reason and new.reason in _ORDERED:
            pools = dict.fromkeys(binding.key.pool for binding in self._view.bindings_of(job))
            yield "the settings of the pool that it leaves", tuple(keys.pool_config(pool) for pool in pools)


def _compared_under(txn: Txn, prefix: str) -> tuple[str, ...]:
    """The compared keys of one kind, or the kind itself if there is none."""
    return tuple(guard.key for guard in txn.guards if guard.key.startswith(prefix)) or (prefix,)
