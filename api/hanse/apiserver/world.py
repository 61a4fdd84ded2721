"""All settings of a federation as they are, or as they would be after a change, and the rules that tie them. Pure but
for `read_everything`."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hanse.apiserver.catalog import Stored, read_cohorts, read_flavors, read_priorities, read_queues
from hanse.apiserver.references import check_acyclic, check_aliases, check_cohort, check_flavors, check_unused
from hanse.model.errors import InvalidArgument, ResourceExhausted
from hanse.model.ids import FlavorName, QueueName
from hanse.model.names import quoted
from hanse.model.queue import Cohort, Flavor, PriorityClass, Queue
from hanse.store.contract import Store
from hanse.store.schema import QueueValue


@dataclass(frozen=True, slots=True)
class Everything:
    """All settings by name."""

    flavors: Mapping[str, Flavor]
    priorities: Mapping[str, PriorityClass]
    cohorts: Mapping[str, Cohort]
    queues: Mapping[str, Queue]

    def with_all(self, values: Sequence["Setting"]) -> "Everything":
        """The same after these objects were created or replaced."""
        flavors, priorities = dict(self.flavors), dict(self.priorities)
        cohorts, queues = dict(self.cohorts), dict(self.queues)
        for value in values:
            match value:
                case Flavor():
                    flavors[value.name] = value
                case PriorityClass():
                    priorities[value.name] = value
                case Cohort():
                    cohorts[value.name] = value
                case Queue():
                    queues[value.name] = value
        return Everything(flavors, priorities, cohorts, queues)

    def of_kind(self, word: str) -> Mapping[str, "Setting"]:
        """The objects of one kind by name."""
        match word:
            case "flavor":
                return self.flavors
            case "priority_class":
                return self.priorities
            case "cohort":
                return self.cohorts
            case _:
                return self.queues

    def check(self, value: "Setting", *, path: str) -> None:
        """Whether an object that is part of this may stand.

        Raises:
            NotFound: it names what does not exist.
            InvalidArgument: reason COHORT_CYCLE or DEFAULT_EXISTS.
        """
        match value:
            case Flavor():
                pass
            case PriorityClass():
                self._check_default(value, path)
            case Cohort():
                check_flavors(value.quotas, self._flavor_names, path=f"{path}.quotas")
                if value.parent:
                    check_cohort(value.parent, self.cohorts, path=f"{path}.parent")
                check_acyclic(self.cohorts, [value.name], path=f"{path}.parent")
            case Queue():
                check_flavors(value.quotas, self._flavor_names, path=f"{path}.quotas")
                if value.cohort:
                    check_cohort(value.cohort, self.cohorts, path=f"{path}.cohort")
                check_aliases(value, self.queues.values(), path=f"{path}.aliases")

    def check_removed(self, what: str, name: str) -> None:
        """Raises FailedPrecondition: reason IN_USE; another object names the flavor or cohort."""
        users: list[str] = []
        if what == "flavor":
            users += [f"queue {q.name}" for q in self.queues.values() if any(x.flavor == name for x in q.quotas)]
            users += [f"cohort {c.name}" for c in self.cohorts.values() if any(x.flavor == name for x in c.quotas)]
        if what == "cohort":
            users += [f"queue {q.name}" for q in self.queues.values() if q.cohort == name]
            users += [f"cohort {c.name}" for c in self.cohorts.values() if c.parent == name]
        check_unused(what, name, users)

    @property
    def _flavor_names(self) -> list[FlavorName]:
        return [FlavorName(name) for name in self.flavors]

    def _check_default(self, value: PriorityClass, path: str) -> None:
        others = sorted(c.name for c in self.priorities.values() if c.default and c.name != value.name)
        if value.default and others:
            raise InvalidArgument(
                f"priority class {quoted(others[0])} is the default already; only one can be",
                reason="DEFAULT_EXISTS",
                path=f"{path}.default",
            )


Setting = Flavor | PriorityClass | Cohort | Queue


@dataclass(frozen=True, slots=True)
class Read:
    """All settings as they are, with the revisions of their keys by kind and name."""

    everything: Everything
    revisions: Mapping[tuple[str, str], int]
    queues: Mapping[QueueName, Stored[QueueValue]]


async def read_everything(store: Store) -> Read:
    """All settings."""
    flavors, priorities, cohorts, queues = await asyncio.gather(
        read_flavors(store), read_priorities(store), read_cohorts(store), read_queues(store)
    )
    revisions = {("flavor", str(name)): stored.revision for name, stored in flavors.items()}
    revisions.update({("priority_class", name): stored.revision for name, stored in priorities.items()})
    revisions.update({("cohort", name): stored.revision for name, stored in cohorts.items()})
    revisions.update({("queue", str(name)): stored.revision for name, stored in queues.items()})
    everything = Everything(
        flavors={str(name): stored.value for name, stored in flavors.items()},
        priorities={name: stored.value for name, stored in priorities.items()},
        cohorts={name: stored.value for name, stored in cohorts.items()},
        queues={str(name): stored.value.queue(name) for name, stored in queues.items()},
    )
    return Read(everything, revisions, queues)


def check_number(there: int, most: int, plain: str) -> None:
    """Raises ResourceExhausted: reason TOO_MANY; one more object is not allowed."""
    if there >= most:
        raise ResourceExhausted(
            f"there are {there} objects of kind {plain} already, at most {most} are allowed; delete one first",
            reason="TOO_MANY",
        )
