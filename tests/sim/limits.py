"""Perturbed limits: for one run, some of the product's limits are so small that they are met.

Whatever takes a batch takes one; whatever remembers forgets. All that is cut into pieces by a limit must be right
piece by piece, and a seed that never has more than a dozen jobs would not find out. Only limits that cost time are
here: one whose excess ends a stream or refuses a caller would, at such a size, do so for ever.
"""

import importlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Final

from tests.sim.patching import swap

SMALL: Final[dict[str, tuple[int, ...]]] = {
    "hanse.scheduler.shell.desired:DESIRED_BINDINGS_MAX": (1, 2),
    "hanse.scheduler.shell.report_writer:REPORTS_PER_TXN_MAX": (1, 2),
    "hanse.scheduler.shell.packing:PACK_DECISIONS_MAX": (1, 2),
    "hanse.scheduler.shell.committer:COMMIT_TRIES_MAX": (1, 2),
    "hanse.scheduler.shell.roots:GRANTS_PER_ROUND_MAX": (1,),
    "hanse.scheduler.shell.cycle:SPECS_PER_CYCLE_MAX": (1,),
    "hanse.scheduler.shell.cycle:REQUESTS_CACHED_MAX": (1, 2),
    "hanse.scheduler.shell.cycle:REASONS_PER_TXN_MAX": (1, 3),
    "hanse.scheduler.shell.views:VIEWS_MAX": (1, 2),
    "hanse.scheduler.shell.returns:SENT_REMEMBERED_MAX": (1, 2),
    "hanse.agent.shell.session:DESIRED_WAITING_MAX": (1,),
    "hanse.agent.shell.pool:PLACE_SLICE": (1, 2),
    "hanse.agent.core.gangs:ENDED_KEPT_MAX": (1,),
    "hanse.apiserver.watches:EVENTS_PER_RESPONSE_MAX": (1, 2),
    "hanse.apiserver.rows:SPECS_PER_READ_MAX": (1, 2),
    "hanse.apiserver.commits:TXNS_IN_FLIGHT_MAX": (1,),
}
"""Values to draw from, by module and name; a name that is gone is an error."""

SMALL_P: Final = 0.5


@contextmanager
def perturbed(rng: Random, wanted: float) -> Iterator[None]:
    """While inside, about half of these limits are small, if that is wanted."""
    with ExitStack() as stack:
        for place, values in SMALL.items():
            small, value = rng.random() < SMALL_P, rng.choice(values)
            if wanted and small:
                module, _, name = place.partition(":")
                swap(stack, importlib.import_module(module), name, value)
        yield
