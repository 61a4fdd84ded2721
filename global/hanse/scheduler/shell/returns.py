"""Notices jobs that come back from where they were sent, which is how a holder learns of refusals.

The refusal itself arrives at the replica that has the pool's stream, and that one may hold other roots. But the job's
state comes to its holder: pending again, in the attempt that the holder sent, for a reason that only an agent gives.
So the pool is left out for the job's class by whoever plans for it, whatever way the word took.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from typing import Final

from hanse.model.ids import Attempt, JobId, PoolName
from hanse.model.lifecycle import JobState, State
from hanse.model.reasons import Reason
from hanse.scheduler.core.plan import Decision

SENT_REMEMBERED_MAX: Final = 20_000
"""Jobs of which it is remembered where they were sent, until they are held or refused there."""

REFUSALS: Final = frozenset(
    {
        Reason.SHAPE,
        Reason.FLAVOR,
        Reason.LEVEL_UNKNOWN,
        Reason.SELECTOR,
        Reason.TAINT,
        Reason.RESOURCES,
        Reason.NEEDS,
        Reason.REFUSED,
    }
)
"""Reasons for which an agent sends a job back at once."""

Refused = Callable[[int, PoolName, Reason], None]


class Returns:
    """The jobs of one replica that are on their way.

    Args:
        refused: told of the class, the pool and the reason.
    """

    def __init__(self, refused: Refused) -> None:
        self._refused = refused
        self._sent: OrderedDict[JobId, tuple[Attempt, PoolName]] = OrderedDict()

    def send(self, decisions: Sequence[Decision]) -> None:
        """These are about to be committed. Of a split gang nobody can tell which pool refused it."""
        for decision in decisions:
            if len(decision.parts) == 1:
                self._sent[decision.job.job] = (decision.job.next_attempt, decision.parts[0].pool)
        while len(self._sent) > SENT_REMEMBERED_MAX:
            self._sent.popitem(last=False)

    def jobs(self) -> Collection[JobId]:
        """Those that are remembered."""
        return self._sent

    def look(self, job: JobId, state: JobState) -> None:
        """A state of a job was seen; older ones than that of the attempt that was sent say nothing."""
        sent = self._sent.get(job)
        if sent is None or state.state is State.BOUND or state.attempt < sent[0]:
            return
        del self._sent[job]
        if state.state is State.PENDING and state.attempt == sent[0] and state.reason in REFUSALS:
            self._refused(state.class_hash, sent[1], state.reason)
