"""AppWrapper (`workload.codeflare.dev/v1beta2`): objects that run together, so their pods are one gang.

Each component is read as its own kind would be, with the pod groups among the components, and the pod sets of all of
them are those of one job. A component of a kind that Hanse does not read counts by its `podSets`: how many pods, and
where in the component their template stands. A component without pods (a Service, a ConfigMap) is created as written.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from hanse.manifests.claims import Claims
from hanse.manifests.companions import refuse_secret
from hanse.manifests.documents import Document, nested_document
from hanse.manifests.drafts import Draft, DraftSet, begin, draft_set, pod_count
from hanse.manifests.fields import Field, Placed
from hanse.manifests.keys import Keys
from hanse.manifests.kinds.kubeflow import FINISHED_WHY, MANAGED_WHY, note_suspend
from hanse.manifests.notes import audit
from hanse.manifests.pods import read_pod
from hanse.manifests.registry import Kind, Submission
from hanse.model.names import quoted

COMPONENTS_MAX: Final = 64
_STEP: Final = re.compile(r"([^.\[\]]+)((?:\[\d+\])*)")
_WHY: Final = {"managedBy": MANAGED_WHY, "ttlSecondsAfterFinished": FINISHED_WHY}


def _read(document: Document, submission: Submission) -> Sequence[Draft]:
    notes = submission.notes
    audit(document.field, notes, mapped=("apiVersion", "kind", "metadata", "spec"), kept=("status",))
    spec = document.field.need("spec", "no spec; say what is wrapped")
    audit(spec, notes, mapped=("components", "suspend"), why=_WHY)
    note_suspend(spec, notes)
    listed = spec.need("components", "no components; say what is wrapped")
    items = list(listed.items())
    if len(items) > COMPONENTS_MAX:
        listed.refuse("TOO_MANY", f"{len(items)} components; at most {COMPONENTS_MAX} are read")
    drafts = _drafts(items, submission)
    sets = _renamed([*drafts, *_declared(items, submission)])
    if not sets:
        listed.refuse("MISSING", "no component has pods; nothing is left to place")
    keys = Keys(document.field.get("metadata"), notes, of_template=False)
    return [_joined(begin(document, notes, sets, keys), drafts)]


def _drafts(items: Sequence[Field], submission: Submission) -> list[Draft]:
    """The jobs among the components, with what the groups among them say."""
    wrapped = []
    for index, item in enumerate(items):
        audit(item, submission.notes, mapped=("template", "podSets"), kept=("podSetInfos", "annotations"))
        inner = nested_document(item.need("template", "no template; a component is an object"), index)
        refuse_secret(inner)
        if submission.reads(inner):
            wrapped.append(inner)
    return submission.nested(tuple(wrapped))


def _declared(items: Sequence[Field], submission: Submission) -> Iterator[DraftSet]:
    """Pod sets of components that are of no known kind."""
    for index, item in enumerate(items):
        sets, template = item.get("podSets"), item.need("template")
        if sets is None or submission.reads(nested_document(template, index)):
            continue
        name = template.need("kind", "no kind; say what the object is").word().lower()
        for at, declared in enumerate(sets.items()):
            audit(declared, submission.notes, mapped=("replicas", "path"), kept=("annotations",))
            path = declared.need("path", "no path; say where the pod template stands")
            pod = read_pod(_at(item, path), submission.notes)
            yield draft_set(
                f"{name}-{at}" if at else name, pod_count(declared.get("replicas"), declared, "pods"), pod, path
            )


def _at(item: Field, path: Field) -> Field:
    """The field that a path such as `template.spec.jobs[0].template` leads to."""
    found: Field | None = item
    for part in path.word().split("."):
        step = _STEP.fullmatch(part)
        if step is None:
            path.refuse("PATH_INVALID", f"{quoted(part)} is no step of a path; write it as template.spec.jobs[0]")
        found = found.get(step[1]) if found else None
        for position in re.findall(r"\d+", step[2]):
            inside = list(found.items()) if found else []
            found = inside[int(position)] if int(position) < len(inside) else None
    if found is None:
        path.refuse("MISSING", f"nothing stands at {quoted(path.text())}; it leads to a pod template")
    return found


def _renamed(parts: Sequence[Draft | DraftSet]) -> list[DraftSet]:
    """All sets, those of components with several jobs told apart by the name of their job."""
    found = [(part.name, one) for part in parts if isinstance(part, Draft) for one in part.sets]
    found += [("", part) for part in parts if isinstance(part, DraftSet)]
    names = [one.name for _, one in found]
    taken: set[str] = set()
    out = []
    for job, one in found:
        name = f"{job}-{one.name}" if job and names.count(one.name) > 1 else one.name
        while name in taken:
            name += "x"
        taken.add(name)
        out.append(replace(one, name=name))
    return out


def _joined(own: Draft, drafts: Sequence[Draft]) -> Draft:
    """The wrapper's draft with what its components claim, where it says nothing itself."""
    queue, priority = own.queue, own.priority
    for draft in drafts:
        queue, priority = _with(queue, draft.queue), _with(priority, draft.priority)
    minima = [draft.minimum[0] for draft in drafts if draft.minimum]
    least = Placed(sum(_least(draft) for draft in drafts), minima[0].field) if minima else None
    declared = sum(one.count.value for one in own.sets) - sum(s.count.value for draft in drafts for s in draft.sets)
    durations = [draft.duration for draft in (own, *drafts) if draft.duration]
    return replace(
        own,
        queue=queue,
        priority=priority,
        duration=min(durations, key=lambda placed: placed.value, default=None),
        minimum=(replace(least, value=least.value + declared),) if least else (),
    )


def _least(draft: Draft) -> int:
    if draft.minimum:
        return draft.minimum[0].value
    return sum((one.minimum or one.count).value for one in draft.sets)


def _with(claims: Claims, more: Claims) -> Claims:
    return replace(claims, weak=(*claims.weak, *more.strong, *more.weak))


KIND: Final = Kind("workload.codeflare.dev", "AppWrapper", ("v1beta2",), _read)
