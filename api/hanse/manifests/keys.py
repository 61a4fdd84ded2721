"""Labels and annotations that schedulers read: taken by name, and what nobody took is named as unmapped.

Every scheduler hides part of its interface in label and annotation keys. Keys under their prefixes are requests like
any field, so rule 3 of `notes` holds for them; all other labels and annotations belong to the user and are kept.
"""

from collections.abc import Mapping
from typing import Final

from hanse.manifests.fields import Field
from hanse.manifests.notes import Notes

QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
KUEUE_PRIORITY_LABEL: Final = "kueue.x-k8s.io/priority-class"
KUEUE_DURATION_LABEL: Final = "kueue.x-k8s.io/max-exec-time-seconds"
KAI_QUEUE_LABEL: Final = "kai.scheduler/queue"
KAI_PRIORITY_LABEL: Final = "priorityClassName"
VOLCANO_QUEUE: Final = ("scheduling.volcano.sh/queue-name", "volcano.sh/queue-name")
VOLCANO_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
VOLCANO_MIN_RESOURCES: Final = "scheduling.volcano.sh/group-min-resources"
GROUP_NAMES: Final = (
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "scheduling.x-k8s.io/pod-group",
)

_OWNERS: Final[Mapping[str, str]] = {
    "kueue.x-k8s.io/": "Kueue",
    "kai.scheduler/": "KAI",
    "volcano.sh/": "Volcano",
    "scheduling.volcano.sh/": "Volcano",
    "scheduling.k8s.io/": "Volcano",
    "alpha.jobset.sigs.k8s.io/": "JobSet",
    "scheduling.x-k8s.io/": "the coscheduling plugin",
    "gang.scheduling.koordinator.sh/": "Koordinator",
    "pod-group.scheduling.sigs.k8s.io/": "Koordinator",
    "scheduling.koordinator.sh/": "Koordinator",
    "yunikorn.apache.org/": "YuniKorn",
    "godel.bytedance.com/": "Gödel",
    "grove.io/": "Grove",
    "leaderworkerset.sigs.k8s.io/": "LeaderWorkerSet",
    "sagemaker.amazonaws.com/": "HyperPod",
    "ray.io/": "KubeRay",
}

_NO_PREEMPTION: Final = "nothing is preempted yet"
_WHY: Final[Mapping[str, str]] = {
    "kueue.x-k8s.io/elastic-job": "a running job is not resized yet",
    "kueue.x-k8s.io/podset-topology-spreading": "jobs are not spread against each other",
    "kueue.x-k8s.io/podset-group-name": (
        "a domain that holds the group is sought first; that there is one is promised only for a required level"
    ),
    "kueue.x-k8s.io/job-completions-equal-parallelism": "the number of pods is not changed at admission",
    "kueue.x-k8s.io/pod-group-fast-admission": "a gang is placed when all of its pods are known",
    "kueue.x-k8s.io/prebuilt-workload-name": "Hanse makes its own record of the job",
    "kueue.x-k8s.io/workload-allowed-resource-flavors": "flavors of the same names need not exist here",
    "kai.scheduler/preemptibility": _NO_PREEMPTION,
    "kai.scheduler/preemption-delay": _NO_PREEMPTION,
    "kai.scheduler/node-pool": "Hanse chooses the pool; select nodes by label to narrow it",
    "kai.scheduler/topology": "Hanse finds the level by its key in every pool",
    "volcano.sh/preemptable": _NO_PREEMPTION,
    "volcano.sh/sla-waiting-time": "how long a job waits does not change its place in the queue",
    "volcano.sh/numa-topology-policy": "places are chosen by host, not by NUMA node",
    "volcano.sh/revocable-zone": "no zone is taken back on a timetable",
}


def scheduling_owner(key: str) -> str:
    """Whose interface the key belongs to, "" if it is the user's own."""
    prefix, slash, _ = key.rpartition("/")
    return _OWNERS.get(prefix + slash, "")


class Keys:
    """The labels and annotations of one object or pod template.

    Looking a key up takes it; `close` names every scheduling key that nobody took.
    """

    __slots__ = ("_annotations", "_labels", "_notes", "_of_template", "_taken")

    def __init__(self, metadata: Field | None, notes: Notes, *, of_template: bool) -> None:
        self._labels = metadata.get("labels") if metadata else None
        self._annotations = metadata.get("annotations") if metadata else None
        self._notes = notes
        self._of_template = of_template
        self._taken: set[str] = set()

    def label(self, key: str) -> Field | None:
        """The label, if it is set and not empty."""
        return self._take(self._labels, key)

    def annotation(self, key: str) -> Field | None:
        """The annotation, if it is set and not empty."""
        return self._take(self._annotations, key)

    def either(self, *keys: str) -> Field | None:
        """The first of the keys that is a label or an annotation."""
        found = [self.label(key) or self.annotation(key) for key in keys]
        return next((field for field in found if field), None)

    @property
    def labels(self) -> Field | None:
        """All labels."""
        return self._labels

    def user_labels(self) -> dict[str, str]:
        """Labels that are the user's own."""
        if self._labels is None:
            return {}
        return {key: field.text() for key, field in self._labels.entries() if not scheduling_owner(key)}

    def close(self) -> None:
        """Name what asks a scheduler for something and was not taken."""
        for fields in (self._labels, self._annotations):
            for key, field in fields.entries() if fields else ():
                owner = scheduling_owner(key)
                if owner and key not in self._taken:
                    self._notes.unmapped(field, self._why(key, owner))

    def _take(self, fields: Field | None, key: str) -> Field | None:
        field = fields.get(key) if fields else None
        if field is None or not field.text():
            return None
        self._taken.add(key)
        return field

    def _why(self, key: str, owner: str) -> str:
        if key in _WHY:
            return _WHY[key]
        if key.startswith("kueue.x-k8s.io/podset-") and not self._of_template:
            return "Kueue reads it from the pod template; here it has no effect"
        return f"{owner} reads it, Hanse has nothing that corresponds"
