"""Deliberate bugs in what takes a pool out of the federation."""

from contextlib import ExitStack, suppress
from typing import Any, Final

from hanse.model.lifecycle import State
from hanse.scheduler.shell import attach, leaves
from hanse.store import keys
from hanse.store.contract import ModRevisionIs, StoreUnavailable
from tests.sim.patching import original, swap

ABSENT_KEY: Final = "meta/never-written"

# Any in signatures below: a patch passes arguments through to what it wraps.


def unordered(stack: ExitStack) -> None:
    """S7: whether the pool still leaves is not compared."""

    def guard(key: str, revision: int) -> ModRevisionIs:
        return (
            ModRevisionIs(ABSENT_KEY, 0)
            if key == keys.pool_config(keys.pool_of(key))
            else ModRevisionIs(key, revision)
        )

    swap(stack, leaves, "ModRevisionIs", guard)


def take_all_for_dead(stack: ExitStack) -> None:
    """P12: what an order by force makes LOST is released without its agent's word."""
    step = original(leaves, "_step")

    def for_dead(view: Any, key: Any, *, vouched: bool) -> Any:
        lost = view is not None and view.state.state is State.LOST
        return step(view, key, vouched=vouched or lost)

    swap(stack, leaves, "_step", for_dead)


def forget_who_left(stack: ExitStack) -> None:
    """An agent of a pool that has left registers it anew."""
    swap(stack, attach, "_left", lambda hello, read: None)


def attach_the_dead(stack: ExitStack) -> None:
    """An agent is attached for a pool that is vouched to be dead, while its jobs are taken back."""
    swap(stack, attach, "_refusal_by_pool", lambda *args: None)


def leave_while_bound(stack: ExitStack) -> None:
    """A pool goes while something is bound there."""
    one = original(leaves.Leaves, "_one")

    async def at_once(self: Any, pool: Any) -> None:
        with suppress(StoreUnavailable):
            last = await self._last(pool, ModRevisionIs(keys.pool_config(pool.name), pool.revision), [])
            if last is not None:
                await self._store.transact(last)
        await one(self, pool)

    swap(stack, leaves.Leaves, "_one", at_once)
