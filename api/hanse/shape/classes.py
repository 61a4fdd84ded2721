"""Host classes: what a shape tells apart about hosts, and what a pod may ask of one and still be exact.

A class is a flavor, one accelerator resource with its count, what else the host offers, its taints and its
selectable labels. Hosts of a class with equal free GPUs are interchangeable to everything above the agent.

**Share.** A pod of g GPUs is *exact* on a class of G GPUs if, for every other resource r, ``request_r * G <=
offer_r * g``. `offer` is what the host offers to pods beside the daemons that run on every real host: 7/8 of
allocatable for cpu, memory, ephemeral storage and pods, everything for the rest (nobody's daemon holds an HCA).
Without that margin one logging daemon would turn every free host of a pool into a host with 7 of 8 GPUs.

**Free GPUs.** What the agent publishes for a host is ``min(free GPUs, floor(left_r * G / offer_r) - g)`` over all
r, where `left` is allocatable minus everything that is not exact, and g are the GPUs of the exact pods there. An
exact pod lowers it by exactly its GPUs whatever it really asks for, which is what makes the shape closed under
commits. Rejected: charging exact pods what they ask; a later pod would then fit on the nodes and not in the shape.

**Shares** of a GPU (`hanse.dev/gpu-milli`) close a device to whole-GPU pods: only wholly free devices are free GPUs.
What is left on opened ones is not in a shape, so a share is never exact: above, a host holds as many as when empty.

**Labels** travel as 32-bit hashes, because the words of 60 labels would fill the summary. A selector on a label that
the shape leaves out, or that compares numbers, is answered MAYBE: yes above, decided below.
"""

import hashlib
from dataclasses import dataclass
from enum import IntEnum, unique
from functools import lru_cache
from typing import Final

from hanse.model.ids import FlavorName
from hanse.model.resources import CPU, DEVICE_MILLI, GPU_MILLI, GPU_RESOURCES, MEMORY, PODS, Resources
from hanse.model.selectors import Operator, Requirement, Selector, Taint

EPHEMERAL_STORAGE: Final = "ephemeral-storage"
OVERHEAD_RESOURCES: Final = frozenset((CPU, MEMORY, PODS, EPHEMERAL_STORAGE))
OFFER_EIGHTHS: Final = 7
_COARSE_RESOURCES: Final = frozenset((CPU, MEMORY, EPHEMERAL_STORAGE))
_COARSE_BITS: Final = 6
_ONE_POD: Final = Resources({PODS: 1})


@unique
class Answer(IntEnum):
    """Three-valued truth; AND is min, OR is max."""

    NO = 0
    MAYBE = 1
    YES = 2


@lru_cache(maxsize=65_536)
def label_hash(text: str) -> int:
    """32 bits for a label key or value."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big")


def accelerator(allocatable: Resources) -> str:
    """The resource name that counts as this host's GPUs: the most plentiful one, "" if it has none."""
    names = [name for name in GPU_RESOURCES if allocatable[name] > 0]
    if len(names) < 2:
        return names[0] if names else ""
    return max(names, key=lambda name: allocatable[name])


def whole_pod(resources: Resources) -> Resources:
    """What a pod with this request uses of a host: also one of the pods that the kubelet allows."""
    return resources if PODS in resources else resources.plus(_ONE_POD)


def coarse(name: str, amount: int) -> int:
    """The amount as classes compare it: cpu, memory and storage keep six binary digits, rounded down.

    No two kubelets report the same bytes of memory; without this every node would be a class of its own.
    """
    if name not in _COARSE_RESOURCES:
        return amount
    shift = max(0, amount.bit_length() - _COARSE_BITS)
    return amount >> shift << shift


def at_most(name: str, amount: int) -> int:
    """The largest amount that is `coarse` to this one."""
    if name not in _COARSE_RESOURCES:
        return amount
    return amount + (1 << max(0, amount.bit_length() - _COARSE_BITS)) - 1


def most_pods(name: str, allocatable: int, amount: int) -> int:
    """How many pods that ask for so much of a resource an empty host holds at the most; shares device by device."""
    if name == GPU_MILLI:
        return allocatable // DEVICE_MILLI * (DEVICE_MILLI // amount)
    return at_most(name, allocatable) // amount


def offer(name: str, allocatable: int) -> int:
    """How much of a resource all exact pods of a host may use together."""
    return allocatable * OFFER_EIGHTHS // 8 if name in OVERHEAD_RESOURCES else allocatable


@dataclass(frozen=True, slots=True)
class HostClass:
    """Hosts that nothing above the agent tells apart.

    Attributes:
        gpu: resource name of the accelerators, "" for hosts without.
        gpus: how many of them.
        others: allocatable of every other resource, `pods` included; amounts as `coarse` leaves them.
        labels: sorted (hash of key, hash of value) of the selectable labels.
    """

    flavor: FlavorName
    gpu: str
    gpus: int
    others: Resources
    taints: tuple[Taint, ...] = ()
    labels: tuple[tuple[int, int], ...] = ()

    def is_exact(self, pod: Resources) -> bool:
        """Whether a pod (see `whole_pod`) stays within the share of the GPUs it takes."""
        g = pod[self.gpu] if self.gpu else 0
        return g > 0 and all(
            name == self.gpu or amount * self.gpus <= offer(name, self.others[name]) * g
            for name, amount in pod.items()
        )

    def limit(self, used: Resources) -> int:
        """GPUs that exact pods may have together, beside what else is used; may exceed the class's, or be negative.

        What a host publishes as free is the smaller of this, less the GPUs of its exact pods, and its free GPUs.
        """
        offers = [(name, amount, offer(name, amount)) for name, amount in self.others.items() if name != GPU_MILLI]
        bounds = [(amount - used[name]) * self.gpus // offered for name, amount, offered in offers if offered > 0]
        return min(bounds, default=0)

    def charge(self, pod: Resources, pods: int, free: int) -> int:
        """GPUs by which `pods` such pods lower the published count of a host that has `free`."""
        g = pod[self.gpu] if self.gpu else 0
        if g == 0:
            return 0
        if self.is_exact(pod):
            return g * pods
        most = g * pods
        for name, amount in pod.items():
            offered = offer(name, self.others[name])
            if name != self.gpu and offered > 0:
                most = max(most, -(-amount * pods * self.gpus // offered))
        return min(most, free)

    def pods_per_host(self, pod: Resources) -> tuple[int, ...]:
        """For 0..gpus free GPUs, the most such pods that may fit; exact if `is_exact`, else an upper bound."""
        return self.room(pod)[0]

    def room(self, pod: Resources) -> tuple[tuple[int, ...], bool]:
        """`pods_per_host` and `is_exact` of a pod."""
        g = pod[self.gpu] if self.gpu else 0
        if g == 0:
            return (self._rest_bound(pod),) * (self.gpus + 1), False
        if self.is_exact(pod):
            return _by_gpus(self.gpus, g), True
        by_rest = self._rest_bound(pod)
        return tuple([min(most, by_rest) for most in _by_gpus(self.gpus, g)]), False

    def _rest_bound(self, pod: Resources) -> int:
        """Pods that an empty host holds, looking at everything but its accelerators."""
        rest = [(name, amount) for name, amount in pod.items() if name != self.gpu and amount > 0]
        return min([most_pods(name, self.others[name], amount) for name, amount in rest])

    def selected(self, selector: Selector, left_out: frozenset[int], *, open_ended: bool) -> Answer:
        """Whether hosts of this class match.

        Args:
            left_out: hashes of label keys that some host has and no class carries.
            open_ended: `left_out` is not complete: a key that no class carries may exist.
        """
        if not selector.terms:
            return Answer.YES
        labels = dict(self.labels)
        best = Answer.NO
        for term in selector.terms:
            if term:
                worst = min(_meets(req, labels, left_out, open_ended=open_ended) for req in term)
                best = max(best, worst)
        return best


@lru_cache(maxsize=1_024)
def _by_gpus(gpus: int, each: int) -> tuple[int, ...]:
    """Pods of so many GPUs each, for 0..gpus free ones."""
    return tuple([free // each for free in range(gpus + 1)])


def _meets(req: Requirement, labels: dict[int, int], left_out: frozenset[int], *, open_ended: bool) -> Answer:
    key = label_hash(req.key)
    if key in left_out or (open_ended and key not in labels):
        return Answer.MAYBE
    value = labels.get(key)
    match req.operator:
        case Operator.IN:
            found = value is not None and any(label_hash(v) == value for v in req.values)
        case Operator.NOT_IN:
            found = value is None or all(label_hash(v) != value for v in req.values)
        case Operator.EXISTS:
            found = value is not None
        case Operator.DOES_NOT_EXIST:
            found = value is None
        case Operator.GT | Operator.LT | Operator.VERSION_AT_LEAST:
            return Answer.NO if value is None else Answer.MAYBE
        case Operator.UNSPECIFIED:
            found = False
    return Answer.YES if found else Answer.NO
