"""Deliberate bugs: each rule of the protocol's small print taken out, and a few of the classics.

A bug is a patch of the running product, put in for one run and taken out again; the product itself knows nothing of
it. Each entry says which rule it breaks, and within how many seeds the simulator has to find it: if a bug here gets
through, a checker or a fault is missing, and that is what this table is for.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from tests.sim import agent_bugs, global_bugs
from tests.sim.patching import Patch


@dataclass(frozen=True, slots=True)
class Mutant:
    """One deliberate bug.

    Attributes:
        rule: what it takes out, in the words of the small print.
        seeds: it is found within the first so many seeds.
        needs: families of faults without which it does no harm; in these runs they exist for certain.
    """

    name: str
    rule: str
    seeds: int
    patch: Patch
    needs: tuple[str, ...] = ()


@contextmanager
def applied(mutant: Mutant | None) -> Iterator[None]:
    """The product with the bug, for as long as the context lasts."""
    with ExitStack() as stack:
        if mutant is not None:
            mutant.patch(stack)
        yield


LOSSES: Final = ("unknown outcomes", "failing nodes")
SLOW_STARTS: Final = ("broken links", "pausing agents")

_ALL: Final = (
    Mutant("p1-head-guard", "a commit does not compare the heads that it takes from", 20, global_bugs.no_head_guards),
    Mutant("p1-pool-guard", "a commit does not compare the pools' settings", 20, global_bugs.no_pool_guards),
    Mutant("queue-guard", "a commit does not compare the queues", 20, global_bugs.no_queue_guards),
    Mutant("grant-guard", "a commit does not compare the grant", 20, global_bugs.no_grant_guards),
    Mutant(
        "p2-own-bindings",
        "a holder counts only its own bindings",
        60,
        global_bugs.count_only_own_bindings,
        ("crashing replicas",),
    ),
    Mutant("p3-blind-retry", "an unknown outcome counts as not done", 60, global_bugs.retry_unknown_blindly, LOSSES),
    Mutant(
        "p3-absence",
        "a read that finds nothing settles an unknown outcome",
        60,
        global_bugs.settle_by_absence,
        LOSSES,
    ),
    Mutant(
        "p4-old-grant",
        "a restarted replica uses the grant of its former life",
        100,
        global_bugs.keep_grants,
        (*LOSSES, "crashing replicas"),
    ),
    Mutant("p5-same-attempt", "after a refusal the attempt number is used again", 40, global_bugs.reuse_attempts),
    Mutant("p6-stale-set", "the complete set comes from a cache", 60, global_bugs.send_cached_sets),
    Mutant("p7-no-record", "a record without its pods is taken for none", 60, agent_bugs.forget_records),
    Mutant("p8-no-epoch", "a cluster takes writes of any epoch", 40, agent_bugs.write_without_epoch),
    Mutant("p9-no-fence", "reports are not fenced by the epoch", 40, global_bugs.no_report_fence),
    Mutant("p10-received", "observed means received", 40, agent_bugs.observe_what_is_received),
    Mutant("p11-untouched-state", "a part is released without touching the job", 80, global_bugs.release_untouched),
    Mutant(
        "p12-drop-at-stop", "a binding goes when it is told to stop, not when released", 20, global_bugs.drop_at_stop
    ),
    Mutant(
        "p13-success-lost",
        "a job that succeeded while stopping runs again",
        100,
        global_bugs.forget_success,
        SLOW_STARTS,
    ),
    Mutant(
        "attempt-check",
        "reports of any attempt are taken for the newest",
        60,
        global_bugs.no_attempt_check,
        (*LOSSES, "foreign pods"),
    ),
    Mutant("half-a-gang", "all pods of a gang but one are held", 10, agent_bugs.hold_half),
    Mutant("release-skipped", "a gang is released before its pods are gone", 20, agent_bugs.release_at_once),
    Mutant("quota-unchecked", "the planner does not look at quota", 20, global_bugs.no_quota),
)

MUTANTS: Final[dict[str, Mutant]] = {mutant.name: mutant for mutant in _ALL}
