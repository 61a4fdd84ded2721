"""Jobs as this replica's own transactions left them, so that a report need not read what was just written.

A job's state key is written by every transaction that changes a binding of it (P11), and every move compares that
key. So a view that is out of date makes a transaction that does not pass, never one that does wrong: nobody has to
tell this memory when somebody else moves a job. What is *not* guarded must not be decided from it: that a report
changes nothing is concluded only from what the store holds.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from hanse.model.ids import JobId
from hanse.store.moves import JobView

VIEWS_MAX: Final = 20_000
"""Jobs that are remembered; most reports come within seconds of the transaction before them."""


class Views:
    """What is remembered of jobs that have not ended."""

    def __init__(self) -> None:
        self._views: OrderedDict[JobId, JobView] = OrderedDict()

    def get(self, job: JobId) -> JobView | None:
        """The job as it was left, None if that is not remembered."""
        return self._views.get(job)

    def keep(self, view: JobView) -> None:
        """A transaction of this replica left the job like that; the answer of an earlier one may come later."""
        known = self._views.pop(view.job, None)
        if known is not None and known.revision > view.revision:
            view = known
        if view.state.state.terminal:
            return
        self._views[view.job] = view
        if len(self._views) > VIEWS_MAX:
            self._views.popitem(last=False)

    def forget(self, jobs: Iterable[JobId]) -> None:
        """Somebody else moved these jobs, or may have."""
        for job in jobs:
            self._views.pop(job, None)
