"""What is said of jobs and queues on hold: by whom, and how the hold ends. Pure.

Whoever may write here may end a hold, so the words name the command and not a rank.
"""

from dataclasses import replace

from hanse.apiserver.ports import Explanation, Suggestion
from hanse.apiserver.rows import JobRow
from hanse.model.lifecycle import State
from hanse.model.reasons import Reason


def hold_words(row: JobRow) -> str:
    """The sentence for a job on hold: `on hold by ann; ``hanse release train`` lets it wait for places again`."""
    by = f" by {row.past.held_by}" if row.past is not None and row.past.held_by else ""
    return f"on hold{by}; `{_release_job(row)}` lets it wait for places again"


def with_holds(row: JobRow, explanation: Explanation) -> Explanation:
    """The explanation with what holds a waiting job back first: its own hold, then that of its queue."""
    if row.found.state.state is not State.PENDING:
        return explanation
    found = explanation
    if explanation.reason is Reason.QUEUE_HELD:
        end = Suggestion(f"`hanse release --queue {row.head.queue}`", "jobs of the queue get places again")
        found = replace(found, helps=(end, *found.helps))
    if row.found.state.held:
        end = Suggestion(f"`{_release_job(row)}`", "it waits for places again")
        answer = f"{row.head.name} waits: {hold_words(row)}"
        found = replace(found, answer=answer, reason=Reason.JOB_HELD, helps=(end, *found.helps))
    return found


def _release_job(row: JobRow) -> str:
    return f"hanse release {row.head.name or row.found.job}"
