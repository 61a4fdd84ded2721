"""LeaderWorkerSet (`leaderworkerset.x-k8s.io/v1`): each replica is a gang of its own, a leader and its workers.

A replica is leader (1 pod, rank 0) and workers (`size - 1`); without a leader template all `size` pods are alike and
are one pod set. One replica keeps the name of the object; of several, each is a job `NAME-INDEX`.

`exclusive-topology: K` holds a replica in one domain of K. `subgroup-exclusive-topology: K` holds each subgroup of
`subGroupSize` pods in one: slices of the workers. Where the leader counts as one of the first subgroup and has a
template of its own, that subgroup's workers are one fewer, which slices cannot say; it is told as not mapped.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hanse.manifests.documents import Document
from hanse.manifests.drafts import Draft, DraftSet, begin, draft_set, hold_together
from hanse.manifests.fields import Field, Placed
from hanse.manifests.keys import Keys
from hanse.manifests.notes import Notes, audit
from hanse.manifests.pods import read_pod
from hanse.manifests.registry import Kind, Submission
from hanse.manifests.topology import Wishes, level_of
from hanse.model.job import Slice

REPLICAS_MAX: Final = 1_000  # jobs that one object becomes
_PREFIX: Final = "leaderworkerset.sigs.k8s.io/"
_EXCLUSIVE: Final = _PREFIX + "exclusive-topology"
_SUBGROUP_EXCLUSIVE: Final = _PREFIX + "subgroup-exclusive-topology"
_START_WHY: Final = "the gang is placed whole; only the controller starts the workers after their leader"
_SHARED_WHY: Final = (
    "the gang shares one domain; that no other job uses it is promised only to pods with one template"
)
_FIRST_WHY: Final = "the leader has a template of its own, and is not held in one domain with the first subgroup"
_TEMPLATE_MAPPED: Final = ("leaderTemplate", "workerTemplate", "size", "subGroupPolicy")
_TEMPLATE_KEPT: Final = (
    "restartPolicy",
    "volumeClaimTemplates",
    "persistentVolumeClaimRetentionPolicy",
    "resourceClaimTemplates",
)


def _read(document: Document, submission: Submission) -> Sequence[Draft]:
    notes = submission.notes
    audit(document.field, notes, mapped=("apiVersion", "kind", "metadata", "spec"), kept=("status",))
    spec = document.field.need("spec", "no spec; say what the pods are")
    audit(
        spec,
        notes,
        mapped=("replicas", "leaderWorkerTemplate"),
        kept=("rolloutStrategy", "networkConfig"),
        why={"startupPolicy": _START_WHY},
    )
    return _numbered(_draft(document, spec, notes), _replicas(spec))


def _replicas(spec: Field) -> int:
    field = spec.get("replicas")
    if field is None:
        return 1
    count = field.at_least(1, "replicas")
    if count > REPLICAS_MAX:
        field.refuse("TOO_MANY", f"{count} replicas; each is a job, and at most {REPLICAS_MAX:,} are read at once")
    return count


def _numbered(draft: Draft, count: int) -> list[Draft]:
    if count == 1:
        return [draft]
    return [replace(draft, name=f"{draft.name}-{index}") for index in range(count)]


def _draft(document: Document, spec: Field, notes: Notes) -> Draft:
    template = spec.need("leaderWorkerTemplate", "no leaderWorkerTemplate; say what the pods are")
    audit(template, notes, mapped=_TEMPLATE_MAPPED, kept=_TEMPLATE_KEPT)
    keys = Keys(document.field.get("metadata"), notes, of_template=False)
    exclusive, subgroup = keys.annotation(_EXCLUSIVE), keys.annotation(_SUBGROUP_EXCLUSIVE)
    sets = _sets(template, notes)
    if subgroup:
        sets = _subgroups(sets, template, subgroup, notes)
    draft = begin(document, notes, sets, keys)
    return _exclusive(draft, exclusive, notes) if exclusive else draft


def _sets(template: Field, notes: Notes) -> list[DraftSet]:
    written = template.get("size")
    size = Placed(written.at_least(1, "pods of a replica"), written) if written else Placed(1, template)
    workers = template.need("workerTemplate", "no workerTemplate; it is the template of every pod but the leader")
    leader = template.get("leaderTemplate")
    if leader is None:
        return [draft_set("main", size, read_pod(workers, notes), workers)]
    first = draft_set("leader", Placed(1, leader), read_pod(leader, notes), leader)
    if size.value == 1:
        return [first]
    return [first, draft_set("worker", Placed(size.value - 1, size.field), read_pod(workers, notes), workers)]


def _subgroups(sets: list[DraftSet], template: Field, level: Field, notes: Notes) -> list[DraftSet]:
    policy = template.need("subGroupPolicy", "no subGroupPolicy; a subgroup needs a size")
    audit(policy, notes, mapped=("subGroupSize", "subGroupPolicyType"))
    size = policy.need("subGroupSize", "no subGroupSize; a subgroup needs one").at_least(1, "pods of a subgroup")
    kind = policy.get("subGroupPolicyType")
    apart = kind is not None and kind.one_of("LeaderWorker", "LeaderExcluded") == "LeaderExcluded"
    *before, workers = sets
    pods = workers.count.value + len(before)
    _check_size(policy, pods, size, apart=apart)
    if before and not apart:
        notes.unmapped(level, _FIRST_WHY)
    whole = workers.count.value % size == 0
    layer = Slice(size, level_of(level).value, exclusive=True, ragged=not whole)
    return [*before, replace(workers, wishes=workers.wishes.also_slice(Placed(layer, level)))]


def _check_size(policy: Field, pods: int, size: int, *, apart: bool) -> None:
    """As the controller's webhook does: the pods without the leader divide, or all of them if the leader counts."""
    if (pods - 1) % size == 0 or (not apart and pods % size == 0):
        return
    wanted = f"{pods - 1} workers" if apart else f"{pods} pods, or the {pods - 1} without the leader,"
    policy.need("subGroupSize").refuse("SLICE_SIZE", f"{wanted} do not divide into subgroups of {size}")


def _exclusive(draft: Draft, level: Field, notes: Notes) -> Draft:
    placed = level_of(level)
    if len(draft.sets) > 1:
        notes.unmapped(level, _SHARED_WHY)
        return hold_together(draft, Wishes(required=placed), notes)
    (pods,) = draft.sets
    layer = Placed(Slice(pods.count.value, placed.value, exclusive=True), level)
    return replace(draft, sets=(replace(pods, wishes=pods.wishes.also_slice(layer)),))


KIND: Final = Kind("leaderworkerset.x-k8s.io", "LeaderWorkerSet", ("v1",), _read)
