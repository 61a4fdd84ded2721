"""What the adapter to a real cluster can be told; every value has a unit and a reason."""

import hashlib
from dataclasses import dataclass
from typing import Final

from hanse.model.names import LABEL_CHARS_MAX, is_label

LEDGERS_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """Settings of one adapter.

    Attributes:
        system_namespace: of the claim and the ledgers; people who run jobs need no rights there.
        jobs_namespace: of jobs that name no namespace; one for each queue, with its name behind this, unless
            `queue_namespaces` is off.
        create_namespaces: a queue's namespace that is not there is made. What jobs name themselves never is.
        ledgers: objects over which gang records are spread, when the cluster is claimed for the first time. A claim
            rewrites each of them; one holds at most 1 MB.
        requests_at_once_max: requests about pods that are under way at a time.
        requests_per_s: requests about pods; the claim, the ledgers, lists and watches do not count and never wait.
        requests_burst_max: requests about pods that may come at once after a quiet time.
        node_lost_s: pods of a node whose kubelet has been silent for so long, as the control plane says, are given up
            and removed by force. The control plane itself takes 40-50 s to say so.
        refused_s: a pod that the scheduler has refused for so long, although it has its place, is given up. After an
            outage of the API server the scheduler may act on what it knew before for half a minute.
        ended_s: a pod that ended because somebody told it to go is taken for lost after so long, unless the object
            that made it says that the job is done.
        pods_wait_s: how long the controller of an object may take to make the object's pods.
        schedulers: names of the schedulers that the cluster has; what asks for another one gets the first.
        direct: pods are bound by the agent itself, without a scheduler, where that is possible.
        start_wait_s: how long a write waits for pods to be created; what is left then goes on behind it.
    """

    system_namespace: str = "hanse-system"
    jobs_namespace: str = "hanse-jobs"
    queue_namespaces: bool = True
    create_namespaces: bool = True
    ledgers: int = 32
    requests_at_once_max: int = 32
    requests_per_s: float = 1_000.0
    requests_burst_max: int = 1_000
    node_lost_s: float = 300.0
    refused_s: float = 45.0
    ended_s: float = 3.0
    pods_wait_s: float = 300.0
    schedulers: tuple[str, ...] = ("default-scheduler",)
    direct: bool = False
    start_wait_s: float = 4.0

    def __post_init__(self) -> None:
        if not 1 <= self.ledgers <= LEDGERS_MAX:
            raise ValueError(f"ledgers: {self.ledgers} is not in 1..{LEDGERS_MAX}; 32 suits every size")

    def namespace_for(self, asked: str, queue: str) -> str:
        """Where the pods of a job go that names a namespace, or none, and is of a queue."""
        if asked or not (self.queue_namespaces and queue):
            return asked or self.jobs_namespace
        name = f"{self.jobs_namespace}-{queue}"
        if is_label(name):
            return name
        digest = hashlib.blake2b(queue.encode(), digest_size=4).hexdigest()
        return f"{name.replace('.', '-')[: LABEL_CHARS_MAX - len(digest) - 1]}-{digest}"

    def may_create(self, namespace: str, asked: str) -> bool:
        """Whether a namespace that is not there is made for a job that names `asked`."""
        return self.create_namespaces and namespace != asked
