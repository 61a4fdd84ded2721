"""May this job be accepted? Every rule that `model.validate` cannot know: whether what the spec names exists, and
whether any pool could ever hold it. Pure; what it looks at was read before.

The order of the checks is that of the answers that help most: a misspelt queue is told before a level that only
that queue's pools would know.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from hanse.api.v1 import job_spec_pb2
from hanse.apiserver.access.rights import Access, unbounded
from hanse.apiserver.access.verbs import Verb
from hanse.apiserver.capacity import EmptyFleet, NeverFits
from hanse.apiserver.catalog import Stored, Terms, queue_not_found
from hanse.apiserver.ports import PoolOffer
from hanse.apiserver.queue_terms import check_terms
from hanse.apiserver.suggest import did_you_mean, listed
from hanse.apiserver.templates import Templates
from hanse.model.errors import FailedPrecondition, HanseError, InvalidArgument, NotFound
from hanse.model.ids import PoolName, QueueName
from hanse.model.job import JobSpec
from hanse.model.names import quoted
from hanse.model.queue import Queue
from hanse.model.reasons import Reason
from hanse.shape.limits import HOST_ALIAS, HOST_KEY
from hanse.store.schema import QueueValue


@dataclass(frozen=True, slots=True)
class World:
    """What jobs are measured by, as read for one batch.

    Attributes:
        queues: those that the batch names and that exist.
        queue_names: every queue, for "did you mean"; read only if one is missing.
        meant: queues by the aliases of them that the batch names.
        found: queues that a job of the batch has named already.
        access: of whoever submits; `queues` and `queue_names` hold only what they see.
        hidden: tells the pools that they do not see.
        levels: keys and aliases that a request may name; empty while no pool has told its levels.
    """

    queues: Mapping[QueueName, Stored[QueueValue]]
    terms: Terms
    pools: tuple[PoolOffer, ...]
    empty: EmptyFleet
    templates: Templates
    queue_names: list[str] = field(default_factory=list)
    meant: Mapping[QueueName, QueueName] = field(default_factory=dict)
    found: dict[QueueName, Queue] = field(default_factory=dict)
    access: Access = field(default_factory=lambda: unbounded(""))
    hidden: Callable[[], Collection[PoolName]] = tuple
    levels: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        levels = [level for pool in self.pools for level in pool.levels]
        words = {word for level in levels for word in (level.key, level.alias)}
        object.__setattr__(self, "levels", frozenset({HOST_KEY, HOST_ALIAS, *words} if words else ()))


@dataclass(frozen=True, slots=True)
class Accepted:
    """A job that may be stored."""

    spec: JobSpec
    queue: Queue
    priority: int
    class_hash: int


def vet(message: job_spec_pb2.JobSpec, world: World, *, ever_fits: bool = True) -> Accepted | HanseError:
    """Parse and check one job; the error says what is wrong, where, and what to do.

    Args:
        ever_fits: also refuse what no pool could ever hold.
    """
    try:
        return _vet(message, world, ever_fits=ever_fits)
    except HanseError as error:
        return error


def _vet(message: job_spec_pb2.JobSpec, world: World, *, ever_fits: bool) -> Accepted:
    template = world.templates.read(message)
    queue = _queue(template.spec, world)
    spec = template.spec if template.spec.queue == queue.name else replace(template.spec, queue=queue.name)
    priority = _priority(spec, world.terms)
    _flavors(spec, world.terms)
    check_terms(spec, queue, world.access.terms_in(queue.name), world.terms)
    _levels(spec, world)
    number = template.class_hash(queue.uid)
    if ever_fits:
        never = world.empty.never_fits(world.pools, template.request, queue=queue, class_hash=number)
        if never is not None:
            raise _never_fits(never, spec, world.hidden())
    return Accepted(spec, queue, priority, number)


def _queue(spec: JobSpec, world: World) -> Queue:
    known = world.found.get(spec.queue)
    if known is not None:
        return known
    name = world.meant.get(spec.queue, spec.queue)
    stored = world.queues.get(name)
    if stored is None:
        raise queue_not_found(spec.queue, world.queue_names)
    world.access.require(Verb.SUBMIT, name)
    if stored.value.closing:
        raise queue_closing(spec.queue)
    queue = world.found[spec.queue] = stored.value.queue(name)
    return queue


def queue_closing(name: str) -> FailedPrecondition:
    """The one sentence for a queue that is being deleted."""
    return FailedPrecondition(
        f"queue {quoted(name)} is being deleted; use another", reason="QUEUE_CLOSING", path="queue"
    )


def _priority(spec: JobSpec, terms: Terms) -> int:
    if not spec.priority_class:
        default = terms.default_priority
        return default.value if default is not None else 0
    stored = terms.priorities.get(spec.priority_class)
    if stored is None:
        raise priority_not_found(spec.priority_class, terms.priorities)
    return stored.value.value


def priority_not_found(name: str, known: Iterable[str]) -> NotFound:
    """The one sentence for a priority class that is not there."""
    there = list(known)
    hint = did_you_mean(name, there) or f"; there is {listed(there)}"
    return NotFound(
        f"priority class {quoted(name)} does not exist{hint}",
        reason="PRIORITY_CLASS_NOT_FOUND",
        path="priority_class",
    )


def _flavors(spec: JobSpec, terms: Terms) -> None:
    for index, pod_set in enumerate(spec.pod_sets):
        for number, flavor in enumerate(pod_set.flavors):
            if flavor not in terms.flavors:
                hint = did_you_mean(flavor, terms.flavors) or f"; there is {listed(terms.flavors)}"
                raise NotFound(
                    f"flavor {quoted(flavor)} does not exist{hint}",
                    reason="FLAVOR_UNKNOWN",
                    path=f"pod_sets[{index}].flavors[{number}]",
                )


def _levels(spec: JobSpec, world: World) -> None:
    """Every level is known to a pool at least, as key or alias; while no pool has told its levels, all pass."""
    for index, pod_set in enumerate(spec.pod_sets):
        for name, level in pod_set.topology.levels:
            if world.levels and level not in world.levels:
                aliases = {HOST_ALIAS, *(one.alias for pool in world.pools for one in pool.levels)}
                hint = did_you_mean(level, world.levels) or f"; pools have {listed(aliases)}"
                raise InvalidArgument(
                    f"no pool has a topology level {quoted(level)}{hint}",
                    reason=Reason.LEVEL_UNKNOWN.name,
                    path=f"pod_sets[{index}].{name}",
                )


def _never_fits(never: NeverFits, spec: JobSpec, hidden: Collection[PoolName]) -> InvalidArgument:
    miss = never.miss
    counted = f"{miss.constraint}: wanted {miss.wanted}, found {miss.found}"
    told = counted if miss.reason is Reason.SHAPE or not miss.detail else miss.detail
    nearest = "" if never.pool in hidden else f": nearest is {never.pool}, {told}"
    return InvalidArgument(
        f"no pool could hold {quoted(spec.name)} even when empty{nearest}; "
        "ask for less, or for another flavor or level",
        reason=Reason.NEVER_FITS.name,
        path="pod_sets",
    )
