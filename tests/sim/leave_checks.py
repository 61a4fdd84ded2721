"""S7 of pools that leave: who is taken back, what goes, and who comes again, each by an order that stands then."""

from typing import Final

from hanse.model.ids import JobId, PoolName
from hanse.model.lifecycle import JobState, State
from hanse.model.reasons import Reason
from hanse.store import keys
from hanse.store.schema import LeaveValue, PoolConfigValue, decode
from tests.sim.verdict import Court
from tests.sim.view import StoreView

NO_ORDER: Final = LeaveValue(0)


class LeaveChecks:
    """Fed at every revision, after the view."""

    def __init__(self, view: StoreView, court: Court) -> None:
        self._view = view
        self._accuse = court.accuse

    def _order(self, pool: PoolName) -> LeaveValue:
        """Force and a vouch count in the life of the store in which they were said; a backup may bring them back."""
        config = self._view.configs.get(pool)
        order = config.leave if config is not None else None
        return order if order is not None and order.incarnation == self._view.incarnation else NO_ORDER

    def vouched(self, pool: PoolName, guarded: dict[str, int]) -> bool:
        """Whether an operator's vouch stands for the word of the pool's agent, in a transaction with these guards."""
        return keys.pool_config(pool) in guarded and self._order(pool).vouched

    def state_written(self, job: JobId, old: JobState, new: JobState) -> None:
        """A job has another state."""
        pools = sorted({binding.key.pool for binding in self._view.bindings_of(job)})
        orders, where = [self._order(pool) for pool in pools], ", ".join(pools)
        if new.state is State.LOST:
            if old.state is not State.LOST and not any(order.force for order in orders):
                self._accuse("S7", f"{job} is LOST, bound to {where}, of which none leaves by force", job)
        elif old.reason is not Reason.POOL_LOST is new.reason and not any(order.vouched for order in orders):
            self._accuse("S7", f"{job} was taken back from {where}, where nothing is vouched to be dead", job)

    def key_written(self, key: str, deleted: bool) -> None:
        """A pool's key was written or is gone."""
        pool, before = keys.pool_of(key), self._view.before[key]
        if key == keys.pool_agent(pool) and not deleted and self._order(pool).vouched:
            self._accuse("S7", f"an agent was attached for {pool}, which is vouched to be dead", pool)
        elif key == keys.pool_config(pool) and deleted and before is not None:
            self._check_gone(pool, decode(before.value, PoolConfigValue))
        elif key == keys.pool_config(pool) and before is None and keys.pool_left(pool) in self._view.items:
            self._accuse("S7", f"{pool} has left, and joined again before anybody let it in", pool)

    def _check_gone(self, pool: PoolName, value: PoolConfigValue) -> None:
        bound = [binding.key.job for binding in self._view.bindings.values() if binding.key.pool == pool]
        if value.leave is None:
            self._accuse("S7", f"{pool} is gone, and nobody let it leave", pool)
        if bound:
            self._accuse("S7", f"{pool} is gone, and {len(bound)} jobs are bound there", pool, *bound)
        rest = [key for key in self._view.items if key.startswith(f"{keys.POOLS}{pool}/")]
        if rest != [keys.pool_left(pool)]:
            self._accuse("S7", f"{pool} is gone, and its keys are {rest}", pool)
