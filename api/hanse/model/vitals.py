"""How a replica is: what it holds, what waits for it, and what it did lately."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hanse.model.ids import ReplicaId

COMMITTED: Final = "committed"  # jobs bound
PASSED: Final = "passed"  # transactions that bound them
CONFLICTED: Final = "conflicted"  # transactions that others had overtaken
CONFLICTS: Final = "conflict_"  # keys that had moved then, by kind
REFUSED: Final = "refused_"  # jobs that agents refused, by reason
TAKEN: Final = "grant_taken"
SUPERSEDED: Final = "session_superseded"

# ---- facts: of the process, whatever it counted
ARCHIVE_FAILURES: Final = "archive_failures"  # times that the archive could not be written
AGENTS_TWICE: Final = "agents_twice"  # attachments refused because another agent of the pool was attached
USAGE_UNCOUNTED: Final = "usage_uncounted"  # jobs that left a full store without being added to its sums
HAS_NUMBA: Final = "has_numba"  # 1 where the optional part is installed
HAS_OTLP: Final = "has_otlp"
CERTIFICATE_LEFT_S: Final = "certificate_left_s_"  # by whose: `own`, `authority`
CERTIFICATE_LIFETIME_S: Final = "certificate_lifetime_s_"
STORE_USED_PPM: Final = "store_used_ppm_"  # of what a member of etcd may have, in millionths, by member


@dataclass(frozen=True, slots=True)
class Vitals:
    """One replica, as it tells itself.

    Attributes:
        ready: it is a member and knows the store's contents.
        agents: pools whose agents are attached to it.
        roots: cohort roots of which it holds the grant.
        pending_jobs: jobs of these roots that wait, those on hold included.
        unsettled: transactions whose outcome is not known yet.
        counts: since it started, by the words above; those that end in "_" are followed by what it was about.
        window_s: length of the time that `lately` is about.
        lately: the same counts within that time.
        facts: of its process, by the words above; what it does not know is not there.
        version: of its program; "" from one that does not tell.
        time_ms: its clock when it told; 0 from one that does not tell.
    """

    replica: ReplicaId
    ready: bool
    uptime_s: float
    agents: int
    roots: int
    pending_jobs: int
    unsettled: int
    counts: Mapping[str, int]
    window_s: float
    lately: Mapping[str, int]
    facts: Mapping[str, int] = field(default_factory=dict)
    version: str = ""
    time_ms: int = 0


def by_kind(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    """The counts whose words begin so, by what follows."""
    return {word.removeprefix(prefix): count for word, count in counts.items() if word.startswith(prefix)}
