"""From a draft to the job: claims are settled, minima shared out, and the model's rules have the last word.

Minima (table 1.5 of the import rules): a gang has a minimum in all and may have one per pod set. The ones per set
count only while their sum is within the one in all; otherwise, and where a set has none, pods are counted from the
first set on, in the order in which the kind starts its pods (a master before its workers).
"""

from collections.abc import Mapping, Sequence

from hanse.manifests.claims import settle
from hanse.manifests.converted import ImportedJob, Origin, nearest_origin
from hanse.manifests.drafts import Draft, DraftSet
from hanse.manifests.fields import Field, Placed
from hanse.manifests.needs import needs_of
from hanse.manifests.notes import Notes
from hanse.model.errors import InvalidArgument
from hanse.model.ids import QueueName
from hanse.model.job import JobSpec, Manifest, PodSet, RestartPolicy
from hanse.model.validate import validate_spec


def finish(draft: Draft, notes: Notes, *, default_queue: str) -> ImportedJob:
    """The job, checked by every rule of the model except that it has a queue.

    Raises:
        InvalidArgument: with the path and line of the document.
    """
    queue = settle(draft.queue, "queue", notes)
    priority = settle(draft.priority, "priority class", notes)
    total = _total(draft)
    minima = _minima(draft.sets, total)
    needs = needs_of(pod_set.pod.spec for pod_set in draft.sets)
    spec = JobSpec(
        name=draft.name,
        queue=QueueName(queue.value if queue else default_queue or draft.default_queue),
        pod_sets=tuple(_pod_set(s, least) for s, least in zip(draft.sets, minima, strict=True)),
        priority_class=priority.value if priority else "",
        labels=dict(draft.user_labels),
        duration_s=draft.duration.value if draft.duration else 0,
        restart=RestartPolicy(max_retries=draft.retries.value if draft.retries else 0),
        manifest=_manifest(draft),
        needs=tuple(needs),
    )
    origins = _origins(draft, queue, priority)
    origins |= {f"needs[{i}]": Origin(field.path, field.line) for i, field in enumerate(needs.values())}
    check_spec(spec, origins)
    return ImportedJob(spec, draft.document.kind, draft.namespace, total, origins, _pod_labels(draft))


def _pod_labels(draft: Draft) -> tuple[Mapping[str, str], ...]:
    metadata = [found for pod_set in draft.sets if (found := pod_set.pod.field.get("metadata"))]
    return tuple(labels.texts() for found in metadata if (labels := found.get("labels")))


def _total(draft: Draft) -> int:
    pods = sum(pod_set.count.value for pod_set in draft.sets)
    if not draft.minimum:
        return sum((s.minimum or s.count).value for s in draft.sets)
    chosen = draft.minimum[0]
    for claim in draft.minimum:
        if claim.value > pods:
            claim.field.refuse("MIN_OVER_COUNT", f"a minimum of {claim.value} pods; the job has only {pods}")
        if claim.value != chosen.value:
            claim.field.refuse(
                "CONTRADICTION",
                f"a minimum of {claim.value} pods here, {chosen.value} in line {chosen.field.line}",
            )
    return chosen.value


def _minima(sets: Sequence[DraftSet], total: int) -> list[int]:
    stated = [s.minimum.value if s.minimum else None for s in sets]
    known = sum(least for least in stated if least is not None)
    if known > total:
        stated, known = [None] * len(sets), 0
    left = total - known
    minima: list[int] = []
    for pod_set, least in zip(sets, stated, strict=True):
        if least is None:
            least = min(pod_set.count.value, left)
            left -= least
        minima.append(least)
    return minima


def _pod_set(draft: DraftSet, min_count: int) -> PodSet:
    return PodSet(
        name=draft.name,
        count=draft.count.value,
        min_count=min_count,
        resources=draft.pod.resources,
        selector=draft.pod.selector,
        tolerations=draft.pod.tolerations,
        topology=draft.wishes.topology(),
        template=draft.pod.template,
    )


def _manifest(draft: Draft) -> Manifest:
    own = draft.document
    texts = [document.text.strip("\n") for document in draft.documents]
    return Manifest(own.kind, own.api_version, draft.namespace, "\n---\n".join(texts) + "\n")


def _origins(draft: Draft, queue: Placed[str] | None, priority: Placed[str] | None) -> dict[str, Origin]:
    named: dict[str, Field | None] = {
        "": draft.document.field.get("kind") or draft.document.field,
        "name": draft.origin,
        "queue": queue.field if queue else None,
        "priority_class": priority.field if priority else None,
        "labels": draft.labels,
        "duration_s": draft.duration.field if draft.duration else None,
        "restart.max_retries": draft.retries.field if draft.retries else None,
    }
    for index, pod_set in enumerate(draft.sets):
        minimum = pod_set.minimum or (draft.minimum[0] if draft.minimum else None)
        named |= _set_origins(f"pod_sets[{index}]", pod_set, minimum)
    return {path: Origin(field.path, field.line) for path, field in named.items() if field}


def _set_origins(at: str, draft: DraftSet, minimum: Placed[int] | None) -> dict[str, Field | None]:
    spec, wishes = draft.pod.spec, draft.wishes
    return {
        at: draft.pod.field,
        f"{at}.name": draft.origin,
        f"{at}.count": draft.count.field,
        f"{at}.min_count": minimum.field if minimum else None,
        f"{at}.resources": spec.get("containers"),
        f"{at}.selector": spec.get("affinity") or spec.get("nodeSelector"),
        f"{at}.tolerations": spec.get("tolerations"),
        f"{at}.required": wishes.required.field if wishes.required else None,
        f"{at}.group": wishes.group.field if wishes.group else None,
        f"{at}.devices": wishes.devices.field if wishes.devices else None,
        f"{at}.preferred": wishes.preferred.field if wishes.preferred else None,
        **{f"{at}.slices[{index}]": layer.field for index, layer in enumerate(wishes.ordered_slices())},
    }


def check_spec(spec: JobSpec, origins: Mapping[str, Origin]) -> None:
    """Check a spec by the rules of the model; whether it has a queue is left to whoever submits it.

    Raises:
        InvalidArgument: with the path and line of the document instead of the model's.
    """
    try:
        validate_spec(spec, queue_required=False)
    except InvalidArgument as error:
        origin = nearest_origin(origins, error.path)
        raise InvalidArgument(error.message, reason=error.reason, path=origin.path, line=origin.line) from None
