"""The JSON of `hanse convert FILE -o json`: every named field present, integers as numbers, canonical units.

Fields that few jobs use are there only where a job says something in them.
"""

from typing import NotRequired, TypedDict

from hanse.manifests.converted import Converted, ImportedJob
from hanse.model.job import PodSet, Slice


class SliceJson(TypedDict):
    """One slice layer."""

    size: int
    level: str
    exclusive: bool
    ragged: NotRequired[bool]
    preferred: NotRequired[bool]


class SpreadJson(TypedDict):
    """At most so many pods in one domain of a level."""

    level: str
    max_pods: int


class GroupJson(TypedDict):
    """Sets that one domain holds together."""

    name: str
    level: str


class DevicesJson(TypedDict):
    """What the GPUs of each pod share."""

    kind: str
    nic: bool


class PodSetJson(TypedDict):
    """One pod set; `resources` of one pod: cpu in millicores, memory and storage in bytes, others in units."""

    name: str
    count: int
    min_count: int
    resources: dict[str, int]
    required_level: str
    preferred_level: str
    slices: list[SliceJson]
    balanced_level: NotRequired[str]
    spread: NotRequired[SpreadJson]
    same_labels: NotRequired[list[str]]
    group: NotRequired[GroupJson]
    devices: NotRequired[DevicesJson]


class NamedJson(TypedDict):
    """An object by kind and name."""

    kind: str
    name: str


class JobJson(TypedDict):
    """One job; `duration_s` is 0 if unlimited."""

    kind: str
    name: str
    namespace: str
    queue: str
    priority_class: str
    duration_s: int
    min_total: int
    pod_sets: list[PodSetJson]
    needs: NotRequired[list[NamedJson]]
    companions: NotRequired[list[NamedJson]]


class UnmappedJson(TypedDict):
    """One field that Hanse does not act on."""

    path: str
    line: int
    why: str


class ConvertedJson(TypedDict):
    """The whole answer."""

    jobs: list[JobJson]
    unmapped: list[UnmappedJson]


def to_json(converted: Converted) -> ConvertedJson:
    """A conversion as plain dicts and lists, ready for any JSON writer."""
    return {
        "jobs": [_job(job) for job in converted.jobs],
        "unmapped": [{"path": u.path, "line": u.line, "why": u.why} for u in converted.unmapped],
    }


def _job(job: ImportedJob) -> JobJson:
    spec = job.spec
    answer: JobJson = {
        "kind": job.kind,
        "name": job.spec.name,
        "namespace": job.namespace,
        "queue": job.spec.queue,
        "priority_class": job.spec.priority_class,
        "duration_s": job.spec.duration_s,
        "min_total": job.min_total,
        "pod_sets": [_pod_set(pod_set) for pod_set in job.spec.pod_sets],
    }
    if spec.needs:
        answer["needs"] = [{"kind": need.kind.word, "name": need.name} for need in spec.needs]
    if spec.companions:
        answer["companions"] = [{"kind": companion.kind, "name": companion.name} for companion in spec.companions]
    return answer


def _pod_set(pod_set: PodSet) -> PodSetJson:
    topology = pod_set.topology
    answer: PodSetJson = {
        "name": pod_set.name,
        "count": pod_set.count,
        "min_count": pod_set.min_count,
        "resources": dict(pod_set.resources),
        "required_level": topology.required,
        "preferred_level": topology.preferred,
        "slices": [_slice(layer) for layer in topology.slices],
    }
    if topology.balanced:
        answer["balanced_level"] = topology.balanced
    if topology.spread:
        answer["spread"] = {"level": topology.spread.level, "max_pods": topology.spread.max_pods}
    if topology.same:
        answer["same_labels"] = list(topology.same)
    if topology.group:
        answer["group"] = {"name": topology.group.name, "level": topology.group.level}
    if topology.devices:
        answer["devices"] = {"kind": topology.devices.kind, "nic": topology.devices.nic}
    return answer


def _slice(layer: Slice) -> SliceJson:
    answer: SliceJson = {"size": layer.size, "level": layer.level, "exclusive": layer.exclusive}
    if layer.ragged:
        answer["ragged"] = True
    if layer.preferred:
        answer["preferred"] = True
    return answer
