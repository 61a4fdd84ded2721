"""The JSON of `hanse convert FILE -o json`: every named field present, integers as numbers, canonical units."""

from typing import TypedDict

from hanse.manifests.converted import Converted, ImportedJob
from hanse.model.job import PodSet


class SliceJson(TypedDict):
    """One slice layer."""

    size: int
    level: str
    exclusive: bool


class PodSetJson(TypedDict):
    """One pod set; `resources` of one pod: cpu in millicores, memory and storage in bytes, others in units."""

    name: str
    count: int
    min_count: int
    resources: dict[str, int]
    required_level: str
    preferred_level: str
    slices: list[SliceJson]


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
    return {
        "kind": job.kind,
        "name": job.spec.name,
        "namespace": job.namespace,
        "queue": job.spec.queue,
        "priority_class": job.spec.priority_class,
        "duration_s": job.spec.duration_s,
        "min_total": job.min_total,
        "pod_sets": [_pod_set(pod_set) for pod_set in job.spec.pod_sets],
    }


def _pod_set(pod_set: PodSet) -> PodSetJson:
    topology = pod_set.topology
    return {
        "name": pod_set.name,
        "count": pod_set.count,
        "min_count": pod_set.min_count,
        "resources": dict(pod_set.resources),
        "required_level": topology.required,
        "preferred_level": topology.preferred,
        "slices": [{"size": s.size, "level": s.level, "exclusive": s.exclusive} for s in topology.slices],
    }
