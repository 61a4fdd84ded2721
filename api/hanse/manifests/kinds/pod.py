"""Pod (`v1`): pods that name one group are one gang, with a pod set per distinct template; any other pod is a job.

The group is Kueue's `pod-group-name` (a label, or since 0.18 an annotation) or the pod group that Volcano's or the
coscheduling plugin's key names. Kueue's `pod-group-total-count` is the number of pods, and must be as many as there
are. Templates are equal if pods ask for the same resources and nodes and run the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from hanse.manifests.documents import Document
from hanse.manifests.drafts import Draft, DraftSet, begin, draft_set
from hanse.manifests.fields import Field, Placed
from hanse.manifests.keys import GROUP_NAMES, Keys
from hanse.manifests.notes import Notes
from hanse.manifests.pods import Pod, read_pod, scheduling_group
from hanse.manifests.registry import Kind, Submission
from hanse.manifests.topology import Wishes, whole_number

KUEUE_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
_TOTAL: Final = "kueue.x-k8s.io/pod-group-total-count"
_RANKS: Final = (
    "kueue.x-k8s.io/pod-group-pod-index",
    "kueue.x-k8s.io/pod-group-pod-index-label",
    "kueue.x-k8s.io/pod-index-offset",
)
_SET_NAME: Final = "main"


@dataclass(frozen=True, slots=True)
class _Member:
    document: Document
    pod: Pod
    wishes: Wishes

    @property
    def keys(self) -> Keys:
        return self.pod.keys


def _read(document: Document, submission: Submission) -> Sequence[Draft]:
    """All jobs that the submission's pods make up; the first pod brings them all."""
    gangs: dict[tuple[str, str], list[Document]] = {}
    for pod in submission.documents:
        if (pod.group, pod.kind) == (document.group, document.kind):
            group = _group(pod)
            alone = "" if group else str(pod.index)
            gangs.setdefault((group, alone), []).append(pod)
            submission.used.add(pod.index)
    notes = submission.notes
    return [
        _draft(mates[0], group, [_member(mate, notes) for mate in mates], notes)
        for (group, _), mates in gangs.items()
    ]


def _group(document: Document) -> str:
    metadata = document.field.get("metadata")
    keys = Keys(metadata, Notes(), of_template=True)
    named, spec = keys.either(KUEUE_GROUP, *GROUP_NAMES), document.field.get("spec")
    return named.text() if named else scheduling_group(spec) if spec else ""


def _member(document: Document, notes: Notes) -> _Member:
    pod = read_pod(document.field, notes)
    pod.keys.either(KUEUE_GROUP)
    for key in _RANKS:
        pod.keys.either(key)
    return _Member(document, pod, draft_set(_SET_NAME, Placed(1, pod.field), pod, pod.field).wishes)


def _draft(document: Document, group: str, members: Sequence[_Member], notes: Notes) -> Draft:
    _check_total(members)
    sets = _sets(members)
    draft = begin(document, notes, sets, members[0].keys, more=[member.keys for member in members[1:]])
    return replace(
        draft,
        name=group or draft.name,
        documents=tuple(member.document for member in members),
    )


def _check_total(members: Sequence[_Member]) -> None:
    for member in members:
        total = member.keys.annotation(_TOTAL)
        if total and whole_number(total, "pods") != len(members):
            total.refuse("CONTRADICTION", f"a group of {total.text()} pods, but {len(members)} are submitted")


def _sets(members: Sequence[_Member]) -> list[DraftSet]:
    alike: dict[object, list[_Member]] = {}
    for member in members:
        alike.setdefault(_likeness(member), []).append(member)
    names = [_SET_NAME] if len(alike) == 1 else [f"{_SET_NAME}-{index}" for index in range(len(alike))]
    return [
        draft_set(name, Placed(len(role), _name(role[0])), role[0].pod, _name(role[0]))
        for name, role in zip(names, alike.values(), strict=True)
    ]


def _name(member: _Member) -> Field:
    metadata = member.document.field.get("metadata")
    return (metadata.get("name") if metadata else None) or member.document.field


def _likeness(member: _Member) -> object:
    pod = member.pod
    return (pod.resources, pod.selector, pod.tolerations, pod.template, member.wishes.topology())


KIND: Final = Kind("", "Pod", ("v1",), _read)
