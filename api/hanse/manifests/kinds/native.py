"""The native job (`hanse/v1 Job`): the model as a person writes it, flat, with Kubernetes' quantities.

Nothing here is ever unmapped: the format is ours, so a field that does nothing yet is refused by name, and a field
that does not exist is refused with the nearest one that does. `docs/reference/native-spec.md` lists the fields.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hanse.manifests.converted import ImportedJob, Origin
from hanse.manifests.documents import Document
from hanse.manifests.fields import Field
from hanse.manifests.finishing import check_spec
from hanse.manifests.native_values import (
    GROUP,
    VERSIONS,
    duration_s,
    env_of,
    selector_of,
    tolerations_of,
    words_of,
)
from hanse.manifests.pod_resources import amounts_of
from hanse.manifests.registry import Kind, Submission
from hanse.manifests.tree import Row, Table
from hanse.model.beside import Need, NeedKind
from hanse.model.ids import FlavorName, QueueName
from hanse.model.job import (
    DEVICE_KINDS,
    GANG,
    Devices,
    Group,
    JobSpec,
    OnInfrastructure,
    OnPoolLost,
    PodSet,
    PodTemplate,
    RestartPolicy,
    Slice,
    Spread,
    Topology,
    Volume,
    VolumeKind,
)
from hanse.model.resources import Resources

_HEAD: Final = ("apiVersion", "kind")
_JOB: Final = (
    *_HEAD,
    "name",
    "queue",
    "priority_class",
    "labels",
    "pod_sets",
    "duration",
    "restart",
    "max_pools",
    "start_skew_max",
    "on_pool_lost",
    "needs",
)
_LATER: Final = (
    "array",
    "begin",
    "begin_time",
    "borrowing",
    "dependencies",
    "depends_on",
    "elastic",
    "preemption",
    "preemptible",
    "reservation",
    "service",
)
_POD_SET: Final = (
    "name",
    "count",
    "min_count",
    "image",
    "command",
    "args",
    "env",
    "volumes",
    "resources",
    "flavors",
    "selector",
    "tolerations",
    "required",
    "preferred",
    "slices",
    "balanced",
    "spread",
    "same",
    "group",
    "devices",
)
_POD_SET_LATER: Final = ("max_count", "elastic", "affinity", "claims", "rank_label")
_DEFAULT_SET_NAME: Final = "main"

_ON_INFRASTRUCTURE: Final = {"requeue": OnInfrastructure.REQUEUE, "fail": OnInfrastructure.FAIL}
_ON_POOL_LOST: Final = {"keep": OnPoolLost.KEEP, "move": OnPoolLost.MOVE}
_NEED_KINDS: Final = {kind.name.lower(): kind for kind in NeedKind if kind is not NeedKind.UNSPECIFIED}
_VOLUME_KINDS: Final = {kind.name.lower(): kind for kind in VolumeKind if kind is not VolumeKind.UNSPECIFIED}

_DURATIONS: Final = ("duration", "start_skew_max")
_PATH_LEVELS: Final = 4  # as deep as `pod_sets[0].slices[0].size`


def _read(document: Document, submission: Submission) -> Sequence[ImportedJob]:
    field = document.field
    if field.get("spec") or field.get("metadata"):
        (field.get("spec") or field.need("metadata")).refuse(
            "UNKNOWN_FIELD", "hanse/v1 is flat: write name, queue and pod_sets beside kind"
        )
    field.only(_JOB, reserved=_LATER)
    spec = replace(spec := _spec(field, submission.default_queue), needs=spec.every_need)
    origins = {path: Origin(place.path, place.line) for path, place in _places(field).items()}
    check_spec(spec, origins)
    total = sum(pod_set.min_count for pod_set in spec.pod_sets)
    return [ImportedJob(spec, document.kind, "", total, origins)]


def _spec(field: Field, default_queue: str) -> JobSpec:
    listed = field.need("pod_sets", "no pod_sets; say what the job's pods are")
    items = list(listed.items())
    queue, priority, labels = field.get("queue"), field.get("priority_class"), field.get("labels")
    duration, skew = field.get("duration"), field.get("start_skew_max")
    max_pools, on_pool_lost = field.get("max_pools"), field.get("on_pool_lost")
    return JobSpec(
        name=field.need("name", "no name; every job needs one").word(),
        queue=QueueName(queue.text() if queue else default_queue),
        pod_sets=tuple(_pod_set(item, alone=len(items) == 1) for item in items),
        priority_class=priority.text() if priority else "",
        labels=labels.texts() if labels else {},
        duration_s=duration_s(duration) if duration else 0,
        restart=_restart(field.get("restart")),
        max_pools=max_pools.integer() if max_pools else 1,
        start_skew_max_s=duration_s(skew) if skew else 60,
        on_pool_lost=_ON_POOL_LOST[on_pool_lost.one_of(*_ON_POOL_LOST)] if on_pool_lost else OnPoolLost.KEEP,
        needs=tuple(_needs(field.get("needs"))),
    )


def _needs(field: Field | None) -> Iterator[Need]:
    if field is None:
        return
    field.only(tuple(_NEED_KINDS))
    for kind, names in field.entries():
        yield from (Need(_NEED_KINDS[kind], name.word()) for name in names.items())


def _restart(field: Field | None) -> RestartPolicy:
    if field is None:
        return RestartPolicy()
    field.only(("max_retries", "on_infrastructure"))
    retries, lost = field.get("max_retries"), field.get("on_infrastructure")
    return RestartPolicy(
        max_retries=retries.at_least(0, "retries") if retries else 0,
        on_infrastructure=(
            _ON_INFRASTRUCTURE[lost.one_of(*_ON_INFRASTRUCTURE)] if lost else OnInfrastructure.REQUEUE
        ),
    )


def _pod_set(field: Field, *, alone: bool) -> PodSet:
    field.only(_POD_SET, reserved=_POD_SET_LATER)
    name, count, least = field.get("name"), field.get("count"), field.get("min_count")
    resources, flavors = field.get("resources"), field.get("flavors")
    if name is None and not alone:
        field.need("name", "no name; with several pod sets each needs one")
    pods = _count(count) if count else 1
    return PodSet(
        name=name.word() if name else _DEFAULT_SET_NAME,
        count=pods,
        min_count=least.integer() if least else pods,
        resources=amounts_of(resources) if resources else Resources(),
        flavors=tuple(FlavorName(item.word()) for item in flavors.items()) if flavors else (),
        selector=selector_of(field.get("selector")),
        tolerations=tolerations_of(field.get("tolerations")),
        topology=_topology(field),
        template=_template(field),
    )


def _count(field: Field) -> int:
    if field.integer() < 1:
        field.refuse("COUNT_OUT_OF_RANGE", f"{field.integer()} pods; a gang needs at least 1")
    return field.integer()


def _topology(field: Field) -> Topology:
    required, preferred, slices = field.get("required"), field.get("preferred"), field.get("slices")
    balanced, spread, same = field.get("balanced"), field.get("spread"), field.get("same")
    group, devices = field.get("group"), field.get("devices")
    return Topology(
        required=required.word() if required else "",
        preferred=preferred.word() if preferred else "",
        slices=tuple(_slice(item) for item in slices.items()) if slices else (),
        balanced=balanced.word() if balanced else "",
        spread=_spread(spread) if spread else None,
        same=tuple(item.word() for item in same.items()) if same else (),
        group=_group(group) if group else None,
        devices=_devices(devices) if devices else None,
    )


def _devices(field: Field) -> Devices:
    field.only(("kind", "nic"))
    nic = field.get("nic")
    kind = field.need("kind", f"devices need a kind: {' or '.join(DEVICE_KINDS)}").word()
    return Devices(kind, nic.boolean() if nic else False)


def _group(field: Field) -> Group:
    field.only(("name", "level"))
    name = field.get("name")
    level = field.need("level", "a group needs a level: one domain of it holds the group").word()
    return Group(name.word() if name else GANG, level)


def _spread(field: Field) -> Spread:
    field.only(("level", "max_pods"))
    return Spread(
        level=field.need("level", "a spread needs a level: the domains that the pods are spread over").word(),
        max_pods=field.need("max_pods", "a spread needs max_pods: how many pods one domain may hold").integer(),
    )


def _slice(field: Field) -> Slice:
    field.only(("size", "level", "exclusive", "ragged", "preferred"))
    exclusive, ragged, preferred = field.get("exclusive"), field.get("ragged"), field.get("preferred")
    return Slice(
        size=field.need("size", "a slice needs a size: the pods of each group").integer(),
        level=field.need("level", "a slice needs a level: the domain that holds each group").word(),
        exclusive=exclusive.boolean() if exclusive else False,
        ragged=ragged.boolean() if ragged else False,
        preferred=preferred.boolean() if preferred else False,
    )


def _template(field: Field) -> PodTemplate:
    image, env, volumes = field.get("image"), field.get("env"), field.get("volumes")
    return PodTemplate(
        image=image.text() if image else "",
        command=words_of(field.get("command")),
        args=words_of(field.get("args")),
        env=env_of(env) if env else (),
        volumes=tuple(_volume(item) for item in volumes.items()) if volumes else (),
    )


def _volume(field: Field) -> Volume:
    field.only(("name", "kind", "source", "mount_path", "read_only"))
    source, mount, read_only = field.get("source"), field.get("mount_path"), field.get("read_only")
    return Volume(
        name=field.need("name").word(),
        kind=_VOLUME_KINDS[field.need("kind").one_of(*_VOLUME_KINDS)],
        source=source.text() if source else "",
        mount_path=mount.text() if mount else "",
        read_only=read_only.boolean() if read_only else False,
    )


def _places(field: Field) -> Mapping[str, Field]:
    """Model field path → where it is written. But for durations, the native paths are the model's own."""
    places = {"": field.get("kind") or field}
    for name, child in field.entries():
        places |= _below(child, _PATH_LEVELS)
        if name in _DURATIONS:
            places[f"{name}_s"] = child
    return places


def _below(field: Field, depth: int) -> dict[str, Field]:
    places = {field.path: field}
    if depth and isinstance(field.node, Table):
        for _, child in field.entries():
            places |= _below(child, depth - 1)
    elif depth and isinstance(field.node, Row):
        for child in field.items():
            places |= _below(child, depth - 1)
    return places


KIND: Final = Kind(GROUP, "Job", VERSIONS, _read)
