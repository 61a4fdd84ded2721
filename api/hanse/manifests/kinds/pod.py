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
from hanse.manifests.pods import Pod, read_pod
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
    group = _group(document)
    mates = [document]
    if group:
        mates = [
            other
            for other in submission.documents
            if (other.group, other.kind) == ("", "Pod") and _group(other) == group
        ]
        submission.used.update(mate.index for mate in mates)
    members = [_member(mate, submission.notes) for mate in mates]
    return [_draft(document, group, members, submission.notes)]


def _group(document: Document) -> str:
    metadata = document.field.get("metadata")
    keys = Keys(metadata, Notes(), of_template=True)
    named = keys.either(KUEUE_GROUP, *GROUP_NAMES)
    return named.text() if named else ""


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
    alike: list[list[_Member]] = []
    for member in members:
        for role in alike:
            if _same(role[0], member):
                role.append(member)
                break
        else:
            alike.append([member])
    names = [_SET_NAME] if len(alike) == 1 else [f"{_SET_NAME}-{index}" for index in range(len(alike))]
    return [
        draft_set(name, Placed(len(role), _name(role[0])), role[0].pod, _name(role[0]))
        for name, role in zip(names, alike, strict=True)
    ]


def _name(member: _Member) -> Field:
    metadata = member.document.field.get("metadata")
    return (metadata.get("name") if metadata else None) or member.document.field


def _same(one: _Member, other: _Member) -> bool:
    return one.wishes.topology() == other.wishes.topology() and (
        (one.pod.resources, one.pod.selector, one.pod.tolerations, one.pod.template)
        == (other.pod.resources, other.pod.selector, other.pod.tolerations, other.pod.template)
    )


KIND: Final = Kind("", "Pod", ("v1",), _read)
