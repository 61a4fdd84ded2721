"""Job (`batch/v1`): one pod set of as many pods as run at once, min(parallelism, completions).

All of them are the gang, unless Kueue's `job-min-parallelism` allows less; under KAI, whose gangs are of one pod
unless told otherwise, `batch-min-member` is the minimum.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hanse.manifests.documents import Document
from hanse.manifests.drafts import Draft, DraftSet, begin, draft_set, pod_count
from hanse.manifests.fields import Field, Placed
from hanse.manifests.keys import Keys
from hanse.manifests.kinds.kubeflow import FINISHED_WHY, MANAGED_WHY, is_kai, note_suspend, with_limits
from hanse.manifests.notes import Notes, audit
from hanse.manifests.pods import read_pod
from hanse.manifests.registry import Kind, Submission
from hanse.manifests.topology import whole_number

DEFAULT_RETRIES: Final = 6  # backoffLimit's default in Kubernetes
_MIN_PARALLELISM: Final = "kueue.x-k8s.io/job-min-parallelism"
_KAI_MIN_MEMBER: Final = "kai.scheduler/batch-min-member"
_SET_NAME: Final = "main"  # as Kueue names it
_KEPT: Final = (
    "completionMode",
    "manualSelector",
    "selector",
    "podReplacementPolicy",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_WHY: Final = {
    "podFailurePolicy": "failures are counted alike; those of the infrastructure never count",
    "successPolicy": "a job has succeeded when all of its pods have",
    "ttlSecondsAfterFinished": FINISHED_WHY,
    "managedBy": MANAGED_WHY,
}
JOB_FIELDS: Final = ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "template", "suspend")


def read_job_spec(spec: Field, name: str, origin: Field, notes: Notes) -> DraftSet:
    """The pod set of a JobSpec, shared with every kind that is made of Jobs; `origin` is where its name stands.

    Raises:
        InvalidArgument: counts or a pod template that make no sense.
    """
    audit(spec, notes, mapped=JOB_FIELDS, kept=_KEPT, why=_WHY)
    note_suspend(spec, notes)
    pod = read_pod(spec.need("template", "no pod template"), notes)
    return draft_set(name, job_pods(spec, notes), pod, origin)


def job_pods(spec: Field, notes: Notes) -> Placed[int]:
    """How many pods of a Job run at once."""
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    at_once = pod_count(parallelism, spec, "pods")
    if completions is None:
        return at_once
    wanted = pod_count(completions, spec, "completions")
    if wanted.value > at_once.value:
        notes.unmapped(
            completions, f"{at_once.value} pods run at once and are the gang; the rest follow in their places"
        )
    return min(at_once, wanted, key=lambda placed: placed.value)


def _read(document: Document, submission: Submission) -> Sequence[Draft]:
    notes = submission.notes
    audit(document.field, notes, mapped=("apiVersion", "kind", "metadata", "spec"), kept=("status",))
    spec = document.field.need("spec", "no spec; say what the job is")
    pods = read_job_spec(spec, _SET_NAME, spec, notes)
    keys = Keys(document.field.get("metadata"), notes, of_template=False)
    minimum = _minimum(keys, pods)
    draft = begin(document, notes, [pods], keys)
    draft = with_limits(draft, spec, retries="backoffLimit")
    return [
        replace(
            draft,
            minimum=(minimum,) if minimum else (),
            retries=draft.retries or Placed(DEFAULT_RETRIES, spec),
        )
    ]


def _minimum(keys: Keys, pods: DraftSet) -> Placed[int] | None:
    parallel, members = keys.annotation(_MIN_PARALLELISM), keys.annotation(_KAI_MIN_MEMBER)
    if parallel:
        least = whole_number(parallel, "pods at least")
        if least >= pods.count.value:
            parallel.refuse(
                "MIN_OVER_COUNT", f"{least} is not below the {pods.count.value} pods of the job; lower or remove it"
            )
        return Placed(least, parallel)
    if members:
        return Placed(whole_number(members, "members"), members)
    return Placed(1, pods.count.field) if is_kai(keys, [pods]) else None


KIND: Final = Kind("batch", "Job", ("v1",), _read)
