"""Deliberate bugs: each rule of the protocol's small print taken out, and a few of the classics.

A bug is a patch of the running product, put in for one run and taken out again; the product itself knows nothing of
it. Each entry says which rule it breaks, and within how many seeds the simulator has to find it: if a bug here gets
through, a checker or a fault is missing, and that is what this table is for.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final

from tests.sim import agent_bugs, global_bugs, leave_bugs, order_bugs
from tests.sim.patching import Patch
from tests.sim.swarm import NEVER, NOTHING_FIXED


@dataclass(frozen=True, slots=True)
class Mutant:
    """One deliberate bug.

    Attributes:
        rule: what it takes out, in the words of the small print.
        seeds: it is found within the first so many seeds.
        needs: faults without which it does no harm, with the rates that they have in these runs.
    """

    name: str
    rule: str
    seeds: int
    patch: Patch
    needs: Mapping[str, float] = field(default_factory=lambda: NOTHING_FIXED)


@contextmanager
def applied(mutant: Mutant | None) -> Iterator[None]:
    """The product with the bug, for as long as the context lasts."""
    with ExitStack() as stack:
        if mutant is not None:
            mutant.patch(stack)
        yield


LOSSES: Final = {"store_request_lost_p": 0.3, "store_late_p": 0.9, "node_mark_every_s": 20.0}
CROWDED: Final = {**LOSSES, "jobs": 40, "faults_s": 60.0}
CROWDED_POOLS: Final = {**CROWDED, "pools": 3}
UNANSWERED: Final = {**LOSSES, "store_reply_lost_p": 0.3, "jobs": 30}
CRASHES: Final = {"replica_crash_every_s": 40.0}
SLOW_STARTS: Final = {
    "link_stall_every_s": 2.0, "link_lag_s": 0.01, "agent_pause_every_s": NEVER, "split": 1.0, "pools": 3,
    "nodes_max": 4, "jobs": 40, "faults_s": 60.0,
}  # fmt: skip
REFUSALS: Final = {"foreign_every_s": 4.0, "node_mark_every_s": 8.0, "store_reply_lost_p": 0.2}
CHANGES: Final = {"job_hold_every_s": 6.0, "priority_every_s": 6.0, "cancel_every_s": 9.0}
HOLDS: Final = {"job_hold_every_s": 4.0}
LIMITS: Final = {"limit_every_s": 3.0}
DRAINS: Final = {"drain_every_s": 4.0, "watch_lag_s": 1.0}
BUSLESS: Final = {"bus_absent": 1.0, "replicas": 2.0, "pools": 3.0}
RESTORES: Final = {"restore_every_s": 6.0}
GIFTS: Final = {"give_every_s": 3.0, "regroup_every_s": 5.0, "replicas": 2}
LEAVES: Final = {"leave_every_s": 4.0, "watch_lag_s": 1.0}
FORGETFUL: Final = {"retain_age_s": 2.0}

_ALL: Final = (
    Mutant("p1-head-guard", "a commit does not compare the heads that it takes from", 20, global_bugs.no_head_guards),
    Mutant("p1-pool-guard", "a commit does not compare the pools' settings", 20, global_bugs.no_pool_guards),
    Mutant("queue-guard", "a commit does not compare the queues", 20, global_bugs.no_queue_guards),
    Mutant("grant-guard", "a commit does not compare the grant", 20, global_bugs.no_grant_guards),
    Mutant("cohort-guard", "a commit does not compare the cohorts", 20, global_bugs.no_cohort_guards, GIFTS),
    Mutant("apart-ignored", "a queue apart stays with its cohort", 20, global_bugs.ignore_who_is_apart, GIFTS),
    Mutant("holder-ignored", "who is named does not hold", 20, global_bugs.ignore_who_is_named, GIFTS),
    Mutant("p2-own-use", "a holder counts only its own bindings", 20, global_bugs.count_only_own_bindings, CRASHES),
    Mutant("p3-blind", "an unknown outcome counts as not done", 60, global_bugs.retry_unknown_blindly, UNANSWERED),
    Mutant("p3-absence", "a read that finds nothing settles it", 60, global_bugs.settle_by_absence, CROWDED_POOLS),
    Mutant("p4-old-grant", "a new start uses its old grant", 100, global_bugs.keep_grants, {**LOSSES, **CRASHES}),
    Mutant("p5-same-attempt", "an attempt number is used again", 20, global_bugs.reuse_attempts),
    Mutant("p6-stale-set", "the complete set comes from a cache", 20, global_bugs.send_cached_sets),
    Mutant("p7-no-record", "a record without its pods is taken for none", 100, agent_bugs.forget_records),
    Mutant("p8-no-epoch", "a cluster takes writes of any epoch", 40, agent_bugs.write_without_epoch),
    Mutant("p9-no-fence", "reports are not fenced by the epoch", 20, global_bugs.no_report_fence),
    Mutant("p10-received", "observed means received", 20, agent_bugs.observe_what_is_received),
    Mutant("p11-untouched", "a part is released without touching the job", 60, global_bugs.release_untouched),
    Mutant("p12-drop-at-stop", "a binding goes when it is told to stop", 20, global_bugs.drop_at_stop),
    Mutant("p13-no-success", "who succeeds while stopping runs again", 150, global_bugs.forget_success, SLOW_STARTS),
    Mutant("p14-no-peers", "without a bus, no summary is fetched", 20, global_bugs.ask_no_peers, BUSLESS),
    Mutant("p15-no-wait", "jobs are bound before every pool has come back", 100, global_bugs.bind_at_once, RESTORES),
    Mutant("p15-no-freeze", "what is bound starts before that", 150, agent_bugs.start_at_once, RESTORES),
    Mutant("stale-read", "a read shows what another one found before", 20, global_bugs.read_what_was, CHANGES),
    Mutant("ack-unsettled", "an unknown submission is acknowledged", 20, global_bugs.acknowledge_unsettled, LOSSES),
    Mutant("watch-skips", "who follows jobs misses one", 40, global_bugs.watch_half),
    Mutant("attempt-check", "reports of any attempt are taken", 160, global_bugs.no_attempt_check, REFUSALS),
    Mutant("half-a-gang", "all pods of a gang but one are held", 10, agent_bugs.hold_half),
    Mutant("release-skipped", "a gang is released before its pods are gone", 80, agent_bugs.release_at_once),
    Mutant("sets-given-early", "sets of a gang are free when one has ended", 20, agent_bugs.give_all_sets_back),
    Mutant("quota-unchecked", "the planner does not look at quota", 20, global_bugs.no_quota),
    Mutant("hold-ignored", "jobs on hold are planned", 10, global_bugs.ignore_holds, HOLDS),
    Mutant("s7-drain-guard", "jobs are drained without comparing the pool", 120, global_bugs.drain_unguarded, DRAINS),
    Mutant("s7-leave-order", "a pool is left without comparing the order", 60, leave_bugs.unordered, LEAVES),
    Mutant("p12-leave-dead", "what is lost is released unheard", 60, leave_bugs.take_all_for_dead, LEAVES),
    Mutant("leave-forgotten", "who has left joins again by himself", 60, leave_bugs.forget_who_left, LEAVES),
    Mutant("leave-attached", "the dead are attached while they leave", 60, leave_bugs.attach_the_dead, LEAVES),
    Mutant("leave-bound", "a pool goes while something is bound there", 60, leave_bugs.leave_while_bound, LEAVES),
    Mutant("limits-ignored", "more jobs of a queue run than may", 10, global_bugs.ignore_limits, LIMITS),
    Mutant("archive-skipped", "ended jobs are dropped unarchived", 10, global_bugs.drop_unarchived, FORGETFUL),
)

MUTANTS: Final[dict[str, Mutant]] = {mutant.name: mutant for mutant in _ALL}

UNORDERED: Final = Mutant("set-order", "what is decided depends on the order of a set", 4, order_bugs.walk_a_set)
"""Breaks no invariant; shows in the digests of equal seeds under different hash seeds."""

RUNNABLE: Final = {**MUTANTS, UNORDERED.name: UNORDERED}
"""Every deliberate bug that a run can have."""
