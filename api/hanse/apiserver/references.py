"""What one object of an operator's names must exist, and what is named must not go away. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from hanse.apiserver.suggest import did_you_mean, listed
from hanse.model.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from hanse.model.ids import FlavorName
from hanse.model.names import quoted
from hanse.model.queue import Cohort, FlavorQuota, Queue

COHORT_DEPTH_MAX: Final = 16


def check_flavors(quotas: Iterable[FlavorQuota], known: Iterable[FlavorName], *, path: str) -> None:
    """Raises NotFound: reason FLAVOR_UNKNOWN."""
    there = set(known)
    for index, quota in enumerate(quotas):
        if quota.flavor not in there:
            hint = did_you_mean(quota.flavor, there) or f"; there is {listed(there)}"
            raise NotFound(
                f"flavor {quoted(quota.flavor)} does not exist{hint}",
                reason="FLAVOR_UNKNOWN",
                path=f"{path}[{index}].flavor",
            )


def check_cohort(name: str, known: Iterable[str], *, path: str) -> None:
    """Raises NotFound: reason COHORT_UNKNOWN."""
    there = set(known)
    if name not in there:
        hint = did_you_mean(name, there) or f"; there is {listed(there)}"
        raise NotFound(f"cohort {quoted(name)} does not exist{hint}", reason="COHORT_UNKNOWN", path=path)


def check_aliases(queue: Queue, known: Iterable[Queue], *, path: str) -> None:
    """Raises AlreadyExists: reason ALIAS_TAKEN; a name or an alias means one queue."""
    for other in known:
        if other.name == queue.name:
            continue
        taken = sorted(({queue.name, *queue.aliases} & set(other.aliases)) | ({other.name} & set(queue.aliases)))
        if taken:
            raise AlreadyExists(
                f"{quoted(taken[0])} means queue {quoted(other.name)} already; choose another name",
                reason="ALIAS_TAKEN",
                path=path,
            )


def check_acyclic(cohorts: Mapping[str, Cohort], changed: Iterable[str], *, path: str = "cohort.parent") -> None:
    """Raises InvalidArgument: reason COHORT_CYCLE (a changed cohort would be its own ancestor) or COHORT_DEPTH."""
    for name in changed:
        seen = [name]
        above = cohorts[name].parent
        while above in cohorts:
            if above in seen:
                raise InvalidArgument(
                    f"cohort {quoted(name)} would be below itself: {' → '.join([*seen, above])}; change a parent",
                    reason="COHORT_CYCLE",
                    path=path,
                )
            if len(seen) == COHORT_DEPTH_MAX:
                raise InvalidArgument(
                    f"cohort {quoted(name)} would be more than {COHORT_DEPTH_MAX} levels deep; flatten the tree",
                    reason="COHORT_DEPTH",
                    path=path,
                )
            seen.append(above)
            above = cohorts[above].parent


def check_revision(wanted: int, actual: int, what: str) -> None:
    """Raises FailedPrecondition: reason REVISION_MISMATCH; 0 means any revision."""
    if wanted and wanted != actual:
        raise FailedPrecondition(
            f"it has changed since revision {wanted} and is at {actual}; read it again and decide anew",
            reason="REVISION_MISMATCH",
            path=f"{what}.revision",
        )


def check_unused(what: str, name: str, users: Iterable[str]) -> None:
    """Raises FailedPrecondition: reason IN_USE; others name the object that is to be deleted."""
    found = sorted(users)
    if found:
        raise FailedPrecondition(
            f"{what} {quoted(name)} is named by {listed(found)}; change those first", reason="IN_USE", path="name"
        )
