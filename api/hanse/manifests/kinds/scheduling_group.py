"""PodGroup and Workload of Kubernetes itself (`scheduling.k8s.io`): minimum, priority and one required level.

A PodGroup joins the job whose pods name it in `spec.schedulingGroup`, or the job of its own name. A Workload joins
the job that its `controllerRef` names; where a PodGroup of the submission was made from one of its templates, that
PodGroup speaks for it. One template describes the whole job; of several, each the pod set of its name. A template
with the policy `basic` asks for no gang: one pod is enough to start.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hanse.manifests.documents import Document
from hanse.manifests.fields import Field, Placed
from hanse.manifests.groups import Group, begin_group
from hanse.manifests.notes import Notes, audit
from hanse.manifests.registry import Kind, Submission
from hanse.manifests.topology import Wishes, level_of

GROUP: Final = "scheduling.k8s.io"
VERSIONS: Final = ("v1beta1", "v1alpha3", "v1alpha2", "v1alpha1")
_PREEMPTION_WHY: Final = "nothing is preempted yet"
_CLAIMS_WHY: Final = "devices are counted by resource name; ResourceClaims are not allocated yet"
_WHY: Final = {
    "disruptionMode": _PREEMPTION_WHY,
    "preemptionPolicy": _PREEMPTION_WHY,
    "priority": "the priority class decides",
    "resourceClaims": _CLAIMS_WHY,
}
_POLICY: Final = ("schedulingPolicy", "policy")  # v1alpha1 calls it `policy`
_MAPPED: Final = (*_POLICY, "schedulingConstraints", "priorityClassName")
_TREE_WHY: Final = "groups of groups are not read yet; write one group, or a job for each"


def _read_pod_group(document: Document, submission: Submission) -> Sequence[Group]:
    notes = submission.notes
    spec = document.field.get("spec")
    group = begin_group(document, notes, minimum=_minimum(spec) if spec else None)
    if spec is None:
        return [group]
    audit(
        spec,
        notes,
        mapped=(*_MAPPED, "parentCompositePodGroupName"),
        kept=("workloadRef", "podGroupTemplateRef"),
        why=_WHY,
    )
    parent = spec.get("parentCompositePodGroupName")
    if parent:
        parent.refuse("NOT_SUPPORTED", _TREE_WHY)
    return [replace(group, priority=spec.get("priorityClassName"), wishes=_wishes(spec, notes))]


def _read_workload(document: Document, submission: Submission) -> Sequence[Group]:
    notes = submission.notes
    spec = document.field.need("spec", "no spec; a Workload has templates of groups")
    audit(
        spec,
        notes,
        mapped=("controllerRef", "podGroupTemplates", "podGroups", "compositePodGroupTemplates"),
        why=_WHY,
    )
    group = begin_group(document, notes, minimum=None)
    if any(_made_from(one, group.name) for one in submission.documents):
        return []
    tree = spec.get("compositePodGroupTemplates")
    if tree:
        tree.refuse("NOT_SUPPORTED", _TREE_WHY)
    listed = spec.get("podGroupTemplates") or spec.need("podGroups", "no podGroupTemplates; say what is one gang")
    reference = spec.get("controllerRef")
    if reference:
        owner = reference.need("name", "no name; say whose pods these are")
        group = replace(group, name=owner.word(), origin=owner)
    return [_with_templates(group, list(listed.items()), notes)]


def _made_from(document: Document, workload: str) -> bool:
    spec = document.field.get("spec") if (document.group, document.kind) == (GROUP, "PodGroup") else None
    for key, name in (("workloadRef", "workloadName"), ("podGroupTemplateRef", "workloadName")):
        reference = spec.get(key) if spec else None
        found = reference.get(name) if reference else None
        if found and found.text() == workload:
            return True
    return False


def _with_templates(group: Group, templates: Sequence[Field], notes: Notes) -> Group:
    for template in templates:
        audit(template, notes, mapped=(*_MAPPED, "name"), why=_WHY)
    if len(templates) == 1:
        (only,) = templates
        return replace(
            group, minimum=_minimum(only), priority=only.get("priorityClassName"), wishes=_wishes(only, notes)
        )
    names = [template.need("name", "no name; it is the pod set's").word().lower() for template in templates]
    minima = [(name, least) for name, template in zip(names, templates, strict=True) if (least := _minimum(template))]
    priority = next((found for template in templates if (found := template.get("priorityClassName"))), None)
    wishes = [(name, _wishes(template, notes)) for name, template in zip(names, templates, strict=True)]
    return replace(group, task_minima=tuple(minima), task_wishes=tuple(wishes), priority=priority)


def _minimum(owner: Field) -> Placed[int] | None:
    policy = next((found for key in _POLICY if (found := owner.get(key))), None)
    if policy is None:
        return None
    policy.only(("basic", "gang"))
    gang = policy.get("gang")
    if gang is None:
        return Placed(1, policy)
    least = gang.need("minCount", "no minCount; say without how many pods the gang is useless")
    return Placed(least.at_least(1, "pods at least"), least)


def _wishes(owner: Field, notes: Notes) -> Wishes:
    constraints = owner.get("schedulingConstraints")
    if constraints is None:
        return Wishes()
    audit(constraints, notes, mapped=("topology",))
    listed = constraints.get("topology")
    items = list(listed.items()) if listed else []
    if len(items) > 1:
        items[1].refuse("TOO_MANY", f"a group is held in one domain of one level; line {items[0].line} names it")
    for item in items:
        item.only(("key",))
    return Wishes(required=level_of(items[0].need("key"))) if items else Wishes()


POD_GROUP: Final = Kind(GROUP, "PodGroup", VERSIONS, _read_pod_group)
WORKLOAD: Final = Kind(GROUP, "Workload", VERSIONS, _read_workload)
