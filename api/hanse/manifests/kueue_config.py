"""Kueue's configuration as ours: ClusterQueues, Cohorts, ResourceFlavors, priority classes, Topologies.

| theirs (`kueue.x-k8s.io`) | ours |
|---|---|
| ClusterQueue | Queue: quota by flavor in the order that is written, cohort, held if it is stopped |
| Cohort | Cohort |
| ResourceFlavor | Flavor: its node labels; one without any takes what no other matches, so it is asked last |
| WorkloadPriorityClass, and PriorityClass of `scheduling.k8s.io` | PriorityClass |
| Topology | levels, coarse to fine, for the settings of agents that shall not find them in the nodes' labels |
| LocalQueue | an alias of its queue: jobs may go on naming it |
| AdmissionCheck | nothing: named |

A pod has one flavor here. Where a ClusterQueue takes cpu from one resource group and devices from another, the pods
that need devices are charged for what the group of their flavor limits, and the other group is for pods without.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from hanse.manifests.converted import Unmapped
from hanse.manifests.documents import Document, naming, read_documents, telling_which
from hanse.manifests.drafts import METADATA_KEPT
from hanse.manifests.fields import Field, suggestion
from hanse.manifests.node_choice import label_requirements
from hanse.manifests.notes import Notes, audit
from hanse.manifests.pod_resources import amounts_of_pairs
from hanse.manifests.resource_files import QueueSpec, ResourceSpec
from hanse.manifests.topology import level_of
from hanse.model.ids import FlavorName, QueueName
from hanse.model.names import quoted
from hanse.model.placement import Level
from hanse.model.queue import PRIORITY_ABS_MAX, Cohort, Flavor, FlavorQuota, PriorityClass
from hanse.model.resources import Resources
from hanse.model.validate import check_name

LEVELS_MAX: Final = 16
ANY_NODE_ORDER: Final = 1_000  # of flavors without labels: behind those that have some
_HOST: Final = "kubernetes.io/hostname"
_LENDING_WHY: Final = "queues own what is theirs; borrowing and lending are not supported yet"
_PREEMPTION_WHY: Final = "nothing is preempted yet"
_FAIR_WHY: Final = "queues are served by priority and age; shares are not weighed yet"
_QUEUE_WHY: Final = {
    "preemption": _PREEMPTION_WHY,
    "fairSharing": _FAIR_WHY,
    "flavorFungibility": "flavors are tried in the order of the queue's quotas",
    "namespaceSelector": "who may use a queue is not decided by namespaces",
    "admissionScope": _FAIR_WHY,
    "concurrentAdmissionPolicy": "a job is placed once, where it fits best",
}
_CHECKS_WHY: Final = {
    "topology-aware-placement": "not needed: every gang is placed by topology, and only where it fits as a whole",
}
_CHECK_WHY: Final = "jobs do not wait for checks by other controllers"


@dataclass(frozen=True, slots=True)
class ImportedLevels:
    """A Topology: levels for an agent's settings, without the host, which is always there."""

    name: str
    levels: tuple[Level, ...]


@dataclass(frozen=True, slots=True)
class ImportedConfig:
    """What a file of Kueue's configuration means.

    Attributes:
        implied: cohorts that queues name and the file does not describe; to Kueue they are there when they are named.
    """

    objects: tuple[ResourceSpec, ...]
    implied: tuple[Cohort, ...] = ()
    levels: tuple[ImportedLevels, ...] = ()
    unmapped: tuple[Unmapped, ...] = ()


@dataclass(slots=True)
class _Found:
    objects: list[ResourceSpec] = field(default_factory=list)
    levels: list[ImportedLevels] = field(default_factory=list)
    aliases: dict[str, tuple[str, Field]] = field(default_factory=dict)
    notes: Notes = field(default_factory=Notes)


def read_kueue(text: str | bytes, *, filename: str = "") -> ImportedConfig:
    """Read a file.

    Raises:
        InvalidArgument: with reason, field path, line, and one line of message.
    """
    with naming(filename):
        documents = read_documents(text)
        found = _Found()
        seen: dict[tuple[str, str], int] = {}
        with telling_which(documents):
            for document in documents:
                _read(document, seen, found)
    _lonely(found)
    objects = _ordered([_aliased(one, found) for one in found.objects])
    return ImportedConfig(objects, _implied(objects), tuple(found.levels), found.notes.all())


def _aliased(one: ResourceSpec, found: _Found) -> ResourceSpec:
    """A queue with the LocalQueues that stand for it; namespaces are not told apart, because jobs name none."""
    if not isinstance(one, QueueSpec):
        return one
    names = sorted(alias for alias, (target, _) in found.aliases.items() if target == one.name)
    return replace(one, aliases=tuple(names))


def _lonely(found: _Found) -> None:
    """Names LocalQueues of queues that the file does not describe."""
    there = {one.name for one in found.objects if isinstance(one, QueueSpec)}
    for alias, (target, where) in found.aliases.items():
        if target not in there:
            advice = (
                f"add {quoted(alias)} to the aliases of queue {quoted(target)}, which this file does not describe"
            )
            found.notes.unmapped(where, advice)


def _implied(objects: Sequence[ResourceSpec]) -> tuple[Cohort, ...]:
    described = {one.name for one in objects if isinstance(one, Cohort)}
    named = [
        one.cohort if isinstance(one, QueueSpec) else one.parent
        for one in objects
        if isinstance(one, QueueSpec | Cohort)
    ]
    return tuple(Cohort(name) for name in dict.fromkeys(named) if name and name not in described)


def _ordered(objects: Sequence[ResourceSpec]) -> tuple[ResourceSpec, ...]:
    """What others name comes first: flavors, priority classes, cohorts, queues; as written otherwise."""
    ranks = {Flavor: 0, PriorityClass: 1, Cohort: 2, QueueSpec: 3}
    return tuple(sorted(objects, key=lambda one: ranks[type(one)]))


def _read(document: Document, seen: dict[tuple[str, str], int], found: _Found) -> None:
    kind = document.field.need("kind")
    reader = _READERS.get((document.group, document.kind))
    if reader is None:
        known = {name for _, name in _READERS}
        near = suggestion(document.kind, known) or f"; {', '.join(sorted(known))} are"
        kind.refuse("UNKNOWN_KIND", f"{document.what} is not imported{near}")
    audit(document.field, found.notes, mapped=("apiVersion", "kind", "metadata", "spec", *_FLAT), kept=("status",))
    metadata = document.field.need("metadata", f"no metadata; every {document.kind} needs a name")
    audit(metadata, found.notes, mapped=("name", "namespace", "labels", "annotations"), kept=METADATA_KEPT)
    name = metadata.need("name", f"no name; every {document.kind} needs one")
    check_name(name.text(), path=name.path, line=name.line)
    namespace = metadata.get("namespace")
    place = f"{namespace.text()}/{name.text()}" if namespace else name.text()
    first = seen.setdefault((document.kind, place), name.line)
    if first != name.line:
        name.refuse("DUPLICATE_NAME", f"the {document.kind} in line {first} has this name too")
    reader(document.field, name, found)


_FLAT: Final = (
    "value",
    "description",
    "globalDefault",
    "preemptionPolicy",
)  # of priority classes, which have no spec


def _spec(owner: Field) -> Field | None:
    return owner.get("spec")


def _queue(owner: Field, name: Field, found: _Found) -> None:
    spec = owner.need("spec", "no spec; say what the queue owns")
    mapped = ("resourceGroups", "cohort", "cohortName", "stopPolicy", "queueingStrategy", "admissionChecks")
    audit(spec, found.notes, mapped=(*mapped, "admissionChecksStrategy"), why=_QUEUE_WHY)
    _note_strategy(spec, found.notes)
    _note_checks(spec, found.notes)
    cohort, stop = spec.get("cohortName") or spec.get("cohort"), spec.get("stopPolicy")
    stopped = stop is not None and stop.one_of("None", "Hold", "HoldAndDrain") != "None"
    if stopped and stop and stop.text() == "HoldAndDrain":
        found.notes.unmapped(stop, "the queue is held; what runs of it is not ended: `hanse cancel` ends it")
    found.objects.append(
        QueueSpec(
            QueueName(name.text()),
            cohort=_reference(cohort),
            quotas=_quotas(spec.get("resourceGroups"), found.notes),
            held=stopped,
        )
    )


def _note_strategy(spec: Field, notes: Notes) -> None:
    strategy = spec.get("queueingStrategy")
    if strategy and strategy.one_of("StrictFIFO", "BestEffortFIFO") == "StrictFIFO":
        notes.unmapped(strategy, "a job that does not fit never stops those behind it")


def _note_checks(spec: Field, notes: Notes) -> None:
    plain, strategy = spec.get("admissionChecks"), spec.get("admissionChecksStrategy")
    named = list(plain.items()) if plain else []
    ruled = strategy.get("admissionChecks") if strategy else None
    named += [rule.need("name", "no name; say which check") for rule in ruled.items()] if ruled else []
    for check in named:
        notes.unmapped(check, _CHECKS_WHY.get(check.text(), _CHECK_WHY))


def _quotas(groups: Field | None, notes: Notes) -> tuple[FlavorQuota, ...]:
    out: dict[str, FlavorQuota] = {}
    listed = list(groups.items()) if groups else []
    if len(listed) > 1:
        notes.unmapped(listed[1], "a pod has one flavor, and is charged for what the group of that flavor limits")
    for group in listed:
        audit(group, notes, mapped=("coveredResources", "flavors"))
        covered = group.get("coveredResources")
        names = {item.text() for item in covered.items()} if covered else set()
        for item in group.need("flavors", "no flavors; say what the quota is of").items():
            quota = _quota(item, names, notes)
            if quota is None:
                continue
            if quota.flavor in out:
                item.need("name").refuse("DUPLICATE", f"flavor {quoted(quota.flavor)} has a quota already")
            out[quota.flavor] = quota
    return tuple(out.values())


def _quota(item: Field, covered: set[str], notes: Notes) -> FlavorQuota | None:
    audit(item, notes, mapped=("name", "resources"))
    name = item.need("name", "no name; say which flavor")
    pairs: list[tuple[str, Field]] = []
    for resource in item.need("resources", "no resources; say how much there is").items():
        audit(
            resource,
            notes,
            mapped=("name", "nominalQuota"),
            why={"borrowingLimit": _LENDING_WHY, "lendingLimit": _LENDING_WHY},
        )
        own = resource.need("name", "no name; say which resource")
        if covered and own.text() not in covered:
            own.refuse("CONTRADICTION", f"{quoted(own.text())} is not among the coveredResources of the group")
        pairs.append((own.text(), resource.need("nominalQuota", "no nominalQuota; say how much there is")))
    nominal = amounts_of_pairs(pairs)
    left = Resources({resource: amount for resource, amount in nominal.items() if amount})
    if not left:
        notes.unmapped(item, "a quota of nothing: the queue may not use this flavor")
        return None
    return FlavorQuota(FlavorName(_reference(name)), left)


def _reference(field: Field | None) -> str:
    if field is None or not field.text():
        return ""
    check_name(field.text(), path=field.path, line=field.line)
    return field.text()


def _cohort(owner: Field, name: Field, found: _Found) -> None:
    spec = _spec(owner)
    if spec is None:
        found.objects.append(Cohort(name.text()))
        return
    audit(spec, found.notes, mapped=("parent", "parentName", "resourceGroups"), why={"fairSharing": _FAIR_WHY})
    parent = spec.get("parentName") or spec.get("parent")
    if parent and parent.text() == name.text():
        parent.refuse("CONTRADICTION", "a cohort cannot be its own parent")
    quotas = _quotas(spec.get("resourceGroups"), found.notes)
    found.objects.append(Cohort(name.text(), parent=_reference(parent), quotas=quotas))


def _flavor(owner: Field, name: Field, found: _Found) -> None:
    spec = _spec(owner)
    labels = spec.get("nodeLabels") if spec else None
    if spec:
        why = {
            "nodeTaints": "taints are read from the nodes themselves",
            "tolerations": "pods are not given tolerations; write them in the jobs",
            "topologyName": "every pool places by the levels of its own nodes",
        }
        audit(spec, found.notes, mapped=("nodeLabels",), why=why)
    wanted = label_requirements(labels) if labels else ()
    number = sum(isinstance(one, Flavor) for one in found.objects) + 1
    order = number if wanted else ANY_NODE_ORDER + number
    found.objects.append(Flavor(FlavorName(name.text()), order=order, requirements=wanted))


def _priority(owner: Field, name: Field, found: _Found) -> None:
    value, description = owner.need("value", "no value; say how urgent it is"), owner.get("description")
    policy, default = owner.get("preemptionPolicy"), owner.get("globalDefault")
    if policy:
        found.notes.unmapped(policy, _PREEMPTION_WHY)
    if abs(value.integer()) > PRIORITY_ABS_MAX:
        value.refuse("OUT_OF_RANGE", f"{value.shown} is beyond {PRIORITY_ABS_MAX:,}")
    found.objects.append(
        PriorityClass(
            name.text(),
            value=value.integer(),
            default=default is not None and default.boolean(),
            description=description.text() if description else "",
        )
    )


def _local_queue(owner: Field, name: Field, found: _Found) -> None:
    spec = owner.need("spec", "no spec; say which ClusterQueue it stands for")
    why = {"stopPolicy": "hold the queue itself: `hanse hold --queue`", "fairSharing": _FAIR_WHY}
    audit(spec, found.notes, mapped=("clusterQueue",), why=why)
    target = spec.need("clusterQueue", "no clusterQueue; say which one it stands for")
    if target.text() == name.text():
        return
    known = found.aliases.setdefault(name.text(), (target.text(), target))
    if known[0] != target.text():
        found.notes.unmapped(
            target, f"{quoted(name.text())} means {quoted(known[0])} by line {known[1].line} already"
        )


def _topology(owner: Field, name: Field, found: _Found) -> None:
    spec = owner.need("spec", "no spec; say what the levels are")
    audit(spec, found.notes, mapped=("levels",))
    listed = list(spec.need("levels", "no levels; name at least one").items())
    if not 1 <= len(listed) <= LEVELS_MAX:
        spec.need("levels").refuse("TOO_MANY", f"{len(listed)} levels; a topology has 1 to {LEVELS_MAX}")
    levels: list[Level] = []
    for index, item in enumerate(listed):
        audit(item, found.notes, mapped=("nodeLabel",))
        label = item.need("nodeLabel", "no nodeLabel; say which label tells the level")
        key = level_of(label).value
        if key == _HOST and index != len(listed) - 1:
            label.refuse("LEVEL_INVALID", "the host is the lowest level; put it last")
        if any(level.key == key for level in levels):
            label.refuse("DUPLICATE", f"{quoted(key)} is a level already")
        if key != _HOST:
            levels.append(Level(key, _alias(key)))
    found.levels.append(ImportedLevels(name.text(), tuple(_told_apart(levels))))


def _alias(key: str) -> str:
    return key.rpartition("/")[2].removeprefix("topology-")


def _told_apart(levels: Sequence[Level]) -> list[Level]:
    """Levels whose aliases differ; two that would have the same one have none."""
    aliases = [level.alias for level in levels]
    return [level if aliases.count(level.alias) == 1 else replace(level, alias="") for level in levels]


def _admission_check(owner: Field, name: Field, found: _Found) -> None:
    found.notes.unmapped(owner.need("kind"), _CHECKS_WHY.get(name.text(), _CHECK_WHY))


_KUEUE: Final = "kueue.x-k8s.io"
_READERS: Final[Mapping[tuple[str, str], Callable[[Field, Field, _Found], None]]] = {
    (_KUEUE, "ClusterQueue"): _queue,
    (_KUEUE, "LocalQueue"): _local_queue,
    (_KUEUE, "Cohort"): _cohort,
    (_KUEUE, "ResourceFlavor"): _flavor,
    (_KUEUE, "Topology"): _topology,
    (_KUEUE, "WorkloadPriorityClass"): _priority,
    (_KUEUE, "AdmissionCheck"): _admission_check,
    ("scheduling.k8s.io", "PriorityClass"): _priority,
}
