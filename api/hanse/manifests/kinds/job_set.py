"""JobSet (`jobset.x-k8s.io`): one pod set per replicated Job, of as many pods as all of its Jobs run at once.

`exclusive-topology: K` on the set or on a replicated Job means that the pods of each Job share one domain of level K
and that no other job may use it: a slice of one Job's pods, exclusive.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hanse.manifests.documents import Document
from hanse.manifests.drafts import Draft, DraftSet, begin, pod_count
from hanse.manifests.fields import Field, Placed
from hanse.manifests.keys import Keys
from hanse.manifests.kinds.batch_job import read_job_spec
from hanse.manifests.kinds.kubeflow import FINISHED_WHY, MANAGED_WHY, note_suspend
from hanse.manifests.notes import Notes, audit
from hanse.manifests.registry import Kind, Submission
from hanse.manifests.topology import EXCLUSIVE, level_of
from hanse.model.job import Slice

_ORDER_WHY: Final = "the gang is placed whole; only the JobSet controller starts its Jobs in this order"
_KEPT: Final = ("network", "coordinator", "volumeClaimPolicies")
_WHY: Final = {
    "successPolicy": "a job has succeeded when all of its pods have",
    "startupPolicy": _ORDER_WHY,
    "ttlSecondsAfterFinished": FINISHED_WHY,
    "managedBy": MANAGED_WHY,
}
_FAILURE_WHY: Final = {
    "rules": "failures are counted alike; those of the infrastructure never count",
    "restartStrategy": "a gang is restarted whole, after all of its pods have ended",
}


def _read(document: Document, submission: Submission) -> Sequence[Draft]:
    notes = submission.notes
    audit(document.field, notes, mapped=("apiVersion", "kind", "metadata", "spec"), kept=("status",))
    spec = document.field.need("spec", "no spec; say what the jobs are")
    audit(spec, notes, mapped=("replicatedJobs", "failurePolicy", "suspend"), kept=_KEPT, why=_WHY)
    note_suspend(spec, notes)
    keys = Keys(document.field.get("metadata"), notes, of_template=False)
    return [job_set_draft(document, spec, keys, notes)]


def job_set_draft(document: Document, spec: Field, keys: Keys, notes: Notes) -> Draft:
    """The draft of a JobSetSpec; `document` is the object that it belongs to."""
    exclusive = keys.annotation(EXCLUSIVE)
    listed = spec.need("replicatedJobs", "no replicatedJobs; say what the jobs are")
    items = list(listed.items())
    if not items:
        listed.refuse("MISSING", "no replicated Job; add one")
    sets = [_replicated(item, exclusive, notes) for item in items]
    draft = begin(document, notes, sets, keys)
    return replace(draft, retries=_retries(spec.get("failurePolicy"), notes), duration=_duration(draft, items))


def _replicated(item: Field, inherited: Field | None, notes: Notes) -> DraftSet:
    audit(item, notes, mapped=("name", "replicas", "template"), kept=("groupName",), why={"dependsOn": _ORDER_WHY})
    replicas = pod_count(item.get("replicas"), item, "replicas")
    template = item.need("template", "no Job template")
    audit(template, notes, mapped=("metadata", "spec"))
    spec = template.need("spec", "no Job spec")
    name = item.need("name", "no name; every replicated Job needs one")
    one = read_job_spec(spec, name.word(), name, notes)
    keys = Keys(template.get("metadata"), notes, of_template=False)
    exclusive = keys.annotation(EXCLUSIVE) or inherited
    keys.close()
    backoff = spec.get("backoffLimit")
    if backoff:
        notes.unmapped(backoff, "the failurePolicy of the JobSet says how often the gang is retried")
    origin = replicas.field if item.get("replicas") else one.count.field
    pod_set = replace(one, count=Placed(replicas.value * one.count.value, origin))
    if exclusive is None:
        return pod_set
    layer = Placed(Slice(one.count.value, level_of(exclusive).value, exclusive=True), exclusive)
    return replace(pod_set, wishes=pod_set.wishes.also_slice(layer))


def _retries(policy: Field | None, notes: Notes) -> Placed[int] | None:
    if policy is None:
        return None
    audit(policy, notes, mapped=("maxRestarts",), why=_FAILURE_WHY)
    restarts = policy.get("maxRestarts")
    return Placed(restarts.at_least(0, "restarts"), restarts) if restarts else None


def _duration(draft: Draft, items: Sequence[Field]) -> Placed[int] | None:
    """The first deadline that passes fails its Job, and with it the set."""
    limits = [draft.duration] if draft.duration else []
    for item in items:
        deadline = item.need("template").need("spec").get("activeDeadlineSeconds")
        if deadline:
            limits.append(Placed(deadline.at_least(1, "seconds"), deadline))
    return min(limits, key=lambda placed: placed.value, default=None)


KIND: Final = Kind("jobset.x-k8s.io", "JobSet", ("v1alpha2",), _read)
