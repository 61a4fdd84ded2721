"""Quota held, not counted: the use of a queue is the sum of its live bindings, whoever wrote them (P2).

Nothing in the store counts. A holder keeps these sums in memory, from every live binding of its roots' queues plus
its own transactions whose outcome is not known yet (P3). The world knows both under their binding's key, and puts one
that is seen twice in here once.
"""

from collections.abc import Iterable, Mapping

from hanse.model.ids import FlavorName, JobId, QueueUid
from hanse.model.queue import Charge, Queue
from hanse.model.request import GangRequest
from hanse.model.resources import EMPTY, Resources
from hanse.scheduler.core.facts import BindingFacts
from hanse.shape.classes import whole_pod


class Usage:
    """What the live bindings of every queue take, by flavor and resource, and whose they are."""

    def __init__(self) -> None:
        self._sums: dict[tuple[QueueUid, FlavorName], dict[str, int]] = {}
        self._jobs: dict[QueueUid, dict[JobId, int]] = {}  # how many bindings each has

    def put(self, binding: BindingFacts) -> None:
        """A binding is live."""
        self._add(binding.queue, binding.charges, 1)
        jobs = self._jobs.setdefault(binding.queue, {})
        jobs[binding.job] = jobs.get(binding.job, 0) + 1

    def remove(self, binding: BindingFacts) -> None:
        """A binding that was live is gone."""
        self._add(binding.queue, binding.charges, -1)
        jobs = self._jobs[binding.queue]
        jobs[binding.job] -= 1
        if not jobs[binding.job]:
            del jobs[binding.job]

    def jobs(self, queue: QueueUid) -> int:
        """How many jobs of the queue have live bindings."""
        return len(self._jobs.get(queue, ()))

    def _add(self, queue: QueueUid, charges: Iterable[Charge], sign: int) -> None:
        for charge in charges:
            sums = self._sums.setdefault((queue, charge.flavor), {})
            for name, amount in charge.amount.items():
                sums[name] = sums.get(name, 0) + sign * amount

    def of(self, queue: QueueUid, flavor: FlavorName) -> Resources:
        """The use of one flavor by one queue."""
        return Resources(self._sums.get((queue, flavor), {}))

    def by_flavor(self, queue: QueueUid) -> dict[FlavorName, Resources]:
        """The use of a queue by flavor, in order of flavor name."""
        found = {f: Resources(s) for (q, f), s in self._sums.items() if q == queue}
        return {f: found[f] for f in sorted(found) if len(found[f])}


class QuotaOverlay:
    """The usage of one cycle: the live sums, and what this cycle has given away on top."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._given: dict[tuple[QueueUid, FlavorName], Resources] = {}
        self._jobs_given: dict[QueueUid, int] = {}

    def jobs(self, queue: QueueUid) -> int:
        """Jobs that run, and those that this cycle has let run."""
        return self._usage.jobs(queue) + self._jobs_given.get(queue, 0)

    def used(self, queue: QueueUid, flavor: FlavorName) -> Resources:
        """Live use plus what this cycle gave."""
        given = self._given.get((queue, flavor), EMPTY)
        used = self._usage.of(queue, flavor)
        return used.plus(given) if len(given) else used

    def give(self, queue: QueueUid, charges: Iterable[Charge]) -> None:
        """Charge a decision of this cycle: one more job."""
        self._jobs_given[queue] = self._jobs_given.get(queue, 0) + 1
        for charge in charges:
            key = (queue, charge.flavor)
            self._given[key] = self._given.get(key, EMPTY).plus(charge.amount)


class Shortfall(tuple[FlavorName, str, int, int]):
    """Why a charge does not fit: (flavor, resource, wanted, what is left of it)."""

    __slots__ = ()


def shortfall(queue: Queue, charges: Iterable[Charge], overlay: QuotaOverlay) -> Shortfall | None:
    """The first resource of which the queue's nominal quota has too little left, or None if all fit.

    Only resources that the quota names are limited; a flavor that the queue does not list has none at all.
    """
    for charge in charges:
        nominal = queue.nominal(charge.flavor)
        used = overlay.used(queue.uid, charge.flavor)
        for name, wanted in charge.amount.items():
            left = _left(nominal, used, name)
            if left is not None and wanted > left:
                return Shortfall((charge.flavor, name, wanted, max(0, left)))
    return None


def jobs_full(queue: Queue, overlay: QuotaOverlay) -> bool:
    """Whether as many jobs of the queue run as may."""
    most = queue.limits.running_jobs_max
    return 0 < most <= overlay.jobs(queue.uid)


def _left(nominal: Resources | None, used: Resources, name: str) -> int | None:
    """What is left of a resource, None for no limit."""
    if nominal is None:
        return 0
    return nominal[name] - used[name] if name in nominal else None


def charges_of(counts: Iterable[tuple[FlavorName, int, Resources]]) -> tuple[Charge, ...]:
    """The charges of pods: (flavor, pods, resources of one pod) summed by flavor, in order of flavor name.

    A quota may limit `pods` too, so every pod is charged as one of them, as the kubelet counts it.
    """
    sums: dict[FlavorName, Resources] = {}
    for flavor, pods, each in counts:
        sums[flavor] = sums.get(flavor, EMPTY).plus(whole_pod(each).times(pods))
    return tuple(Charge(f, sums[f]) for f in sorted(sums))


def charges_for(request: GangRequest, flavors: tuple[FlavorName, ...]) -> tuple[Charge, ...]:
    """The charges of a gang, with one concrete flavor for each of its sets."""
    return charges_of((f, s.count, s.resources) for s, f in zip(request.sets, flavors, strict=True))


def over_quota(queue: Queue, usage: Usage) -> Mapping[FlavorName, tuple[str, int, int]]:
    """Flavors whose use is over nominal: resource, used, nominal. Not empty only after a quota was lowered."""
    found: dict[FlavorName, tuple[str, int, int]] = {}
    for flavor, used in usage.by_flavor(queue.uid).items():
        nominal = queue.nominal(flavor)
        for name in used:
            if nominal is not None and name in nominal and used[name] > nominal[name]:
                found[flavor] = (name, used[name], nominal[name])
    return found
