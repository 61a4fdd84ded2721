"""Checks that no seed can miss, because another one stands behind them; each with what that is.

A part of the text by which `removal` tells of a check, since line numbers move. Not every check that no seed has
missed is here: only those of which somebody has said why.
"""

from typing import Final

_NOBODY_FORGES: Final = "nobody forges in the simulator; tests/unit/scheduler_shell/test_forgeries.py has who does"
_NO_CERTIFICATES: Final = (
    "the simulator has no certificates; tests/unit/scheduler_shell/test_leaving.py has those of guests"
)

REDUNDANT: Final[dict[str, str]] = {
    "always False: welcome.epoch.incarnation < claim.epoch.incarnation": (
        "an older incarnation makes an older epoch, which the check below refuses in less telling words"
    ),
    "always False: claim.federation != welcome.federation": "the cluster refuses the claim of another federation",
    "always False: claim.federation": "the cluster refuses the claim of another federation",
    "always False: claim.federation != own.federation": "the agent has refused the welcome of another federation",
    "always False: revision < self._epoch.revision": (
        "reads of a store are never older than what was committed before them, and every adapter is held to that by"
        " the contract suite; the table has P6 as a cache in between"
    ),
    "always True: summary.epoch == self._granted.epoch": (
        "summaries are ordered by incarnation, epoch and number, and the newest wins; an older one is not taken"
    ),
    "always False: summary.order.incarnation != self.incarnation": (
        "nothing is planned after a restore before each pool has returned, and by then a newer summary has come"
    ),
    "always False: summary.epoch.revision > self._world.agents.get(summary.pool, 0)": _NOBODY_FORGES,
    "always True: report.attempt != view.state.attempt": _NOBODY_FORGES,
    "always True: summary.epoch.revision <= self._world.revision": _NOBODY_FORGES,
    "without this guard: ModRevisionIs(left, found[left].mod_revision)": _NO_CERTIFICATES,
    "always False: order.incarnation != self.incarnation": "as for summaries; it only says what can never fit",
}
"""Why it does no harm to take a check out."""


def reason_of(told: str) -> str:
    """Why this check may be missing; "" if it may not."""
    return next((why for part, why in REDUNDANT.items() if told.endswith(part)), "")
