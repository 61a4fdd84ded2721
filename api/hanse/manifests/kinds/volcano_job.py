"""Job (`batch.volcano.sh/v1alpha1`): one pod set per task, minima per task and for the whole, partitions as slices.

Defaults are those of Volcano's webhook: a task's minimum is minPartitions times partitionSize if minPartitions is
given, else its replicas; the job's is the sum of them; the queue is `default`; a job is retried three times. Where
Volcano takes 0 for "not given" (minAvailable of the job, maxRetry, minPartitions), so do we.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hanse.manifests.documents import Document
from hanse.manifests.drafts import Draft, DraftSet, begin, draft_set, hold_together, pod_count
from hanse.manifests.fields import Field, Placed
from hanse.manifests.keys import Keys
from hanse.manifests.kinds.kubeflow import FINISHED_WHY
from hanse.manifests.kinds.volcano_pod_group import DEFAULT_QUEUE
from hanse.manifests.notes import Notes, audit
from hanse.manifests.pods import read_pod
from hanse.manifests.registry import Kind, Submission
from hanse.manifests.topology import network_wishes
from hanse.model.job import Slice

DEFAULT_RETRIES: Final = 3
_POLICIES_WHY: Final = "a failed pod takes its gang back, and the gang is retried; other actions are not taken"
_WHY: Final = {
    "schedulerName": "Hanse chooses the nodes of the whole gang; this scheduler is not asked",
    "policies": _POLICIES_WHY,
    "runningEstimate": "estimates of run times are not used yet",
    "minSuccess": "a job has succeeded when all of its pods have",
    "ttlSecondsAfterFinished": FINISHED_WHY,
}
_MAPPED: Final = ("minAvailable", "tasks", "queue", "priorityClassName", "maxRetry", "networkTopology")
_TASK_WHY: Final = {
    "policies": _POLICIES_WHY,
    "topologyPolicy": "places are chosen by host, not by NUMA node",
    "maxRetry": "retries are counted for the whole gang, by the job's maxRetry",
    "dependsOn": "the gang is placed whole; only Volcano's controller starts its tasks in this order",
}


def _read(document: Document, submission: Submission) -> Sequence[Draft]:
    notes = submission.notes
    audit(document.field, notes, mapped=("apiVersion", "kind", "metadata", "spec"), kept=("status",))
    spec = document.field.need("spec", "no spec; say what the tasks are")
    audit(spec, notes, mapped=_MAPPED, kept=("plugins", "volumes"), why=_WHY)
    tasks = spec.need("tasks", "no tasks; say what the job's pods are")
    sets = [_task(item, index, notes) for index, item in enumerate(tasks.items())]
    if not sets:
        tasks.refuse("MISSING", "no task; add one")
    keys = Keys(document.field.get("metadata"), notes, of_template=False)
    draft = begin(document, notes, sets, keys, priority=spec.get("priorityClassName"))
    draft = replace(
        draft,
        queue=draft.queue.with_strong(spec.get("queue")),
        minimum=_minimum(spec),
        retries=_retries(spec),
        default_queue=DEFAULT_QUEUE,
    )
    network = spec.get("networkTopology")
    return [hold_together(draft, network_wishes(network, notes), notes) if network else draft]


def _minimum(spec: Field) -> tuple[Placed[int], ...]:
    field = spec.get("minAvailable")
    value = field.at_least(0, "pods at least") if field else 0
    return (Placed(value, field),) if field and value else ()


def _retries(spec: Field) -> Placed[int]:
    field = spec.get("maxRetry")
    return Placed((field.at_least(0, "retries") if field else 0) or DEFAULT_RETRIES, field or spec)


def _task(item: Field, index: int, notes: Notes) -> DraftSet:
    audit(
        item,
        notes,
        mapped=("name", "replicas", "minAvailable", "template", "partitionPolicy"),
        why=_TASK_WHY,
    )
    name = item.get("name")
    count = pod_count(item.need("replicas", "no replicas; say how many pods"), item, "replicas")
    partitions = item.get("partitionPolicy")
    pod = read_pod(item.need("template", "no pod template"), notes)
    pods = replace(
        draft_set(name.word() if name else f"default{index}", count, pod, name or item),
        minimum=_task_minimum(item, count, partitions),
    )
    return _partitioned(pods, partitions, notes) if partitions else pods


def _task_minimum(item: Field, count: Placed[int], partitions: Field | None) -> Placed[int]:
    field = item.get("minAvailable")
    minimum = Placed(field.at_least(0, "pods at least"), field) if field else None
    if minimum and minimum.value > count.value:
        minimum.field.refuse("MIN_OVER_COUNT", f"a minimum of {minimum.value} pods; the task has only {count.value}")
    least = partitions.get("minPartitions") if partitions else None
    if partitions is None or least is None or not least.at_least(0, "partitions"):
        return minimum or count
    wanted = least.integer() * _size(partitions)
    if minimum and minimum.value != wanted:
        minimum.field.refuse(
            "CONTRADICTION", f"{minimum.value} pods, but minPartitions in line {least.line} makes {wanted}"
        )
    if wanted > count.value:
        least.refuse("MIN_OVER_COUNT", f"a minimum of {wanted} pods; the task has only {count.value}")
    return Placed(wanted, least)


def _size(partitions: Field) -> int:
    return partitions.need("partitionSize", "no partitionSize").at_least(1, "pods in a partition")


def _partitioned(pods: DraftSet, partitions: Field, notes: Notes) -> DraftSet:
    audit(
        partitions,
        notes,
        mapped=("totalPartitions", "partitionSize", "minPartitions", "networkTopology"),
    )
    size, total = _size(partitions), partitions.need("totalPartitions", "no totalPartitions")
    if total.at_least(1, "partitions") * size != pods.count.value:
        total.refuse("SLICE_SIZE", f"{total.shown} partitions of {size} pods are not the {pods.count.value} replicas")
    network = partitions.get("networkTopology")
    level = network_wishes(network, notes) if network else None
    held = (level.required or level.preferred) if level else None
    if level is None or held is None:
        return pods
    layer = Placed(Slice(size, held.value, preferred=level.required is None), held.field)
    return replace(pods, wishes=pods.wishes.also_slice(layer))


KIND: Final = Kind("batch.volcano.sh", "Job", ("v1alpha1",), _read)
