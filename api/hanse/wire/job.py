"""The spec of a job on the wire, both ways.

`spec_from_wire` refuses what it does not understand: an enum value that is not known, and every field that is
reserved for later. A job that asks for something must never run as if it had not asked. What the values must obey
beyond that is `model.validate`'s business. Paths are the ones that `model.validate` uses.

Defaults are filled in here and nowhere else, so that a spec of the model says everything and two equal jobs are
equal values: an absent `min_count` is `count`, `max_pools` 0 is 1, `start_skew_max_s` 0 is the model's default.
"""

from functools import lru_cache
from types import MappingProxyType
from typing import Final

from hanse.api.v1 import job_spec_pb2 as pb
from hanse.model.beside import Companion, Need, NeedKind
from hanse.model.errors import InvalidArgument
from hanse.model.ids import FlavorName, QueueName
from hanse.model.job import (
    Devices,
    EnvVar,
    Group,
    JobSpec,
    Manifest,
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
from hanse.model.selectors import Selector
from hanse.wire.enums import enum_from_wire
from hanse.wire.selectors import (
    selector_from_wire,
    selector_to_wire,
    toleration_from_wire,
    toleration_to_wire,
)

START_SKEW_DEFAULT_S: Final = 60
INT64_MAX: Final = 2**63 - 1
RESOURCES_KEPT_MAX: Final = 1_024

# Most fields of most jobs are not set, and asking whether a message is there costs a tenth of reading an empty one.
_ALL: Final = Selector()
_ANYWHERE: Final = Topology()
_NOTHING: Final = PodTemplate()
_ONCE: Final = RestartPolicy()

_LATER: Final = (
    ("array", "job arrays are"),
    ("dependencies", "dependencies between jobs are"),
    ("begin_ms", "a begin time is"),
    ("reservation", "reservations are"),
    ("service", "services that never end are"),
    ("priority_band", "priority bands are"),
)


def not_supported_yet(what: str, path: str) -> InvalidArgument:
    """The refusal of something that has its field, but is not built."""
    return InvalidArgument(f"{what} not supported yet; leave it out", reason="NOT_SUPPORTED_YET", path=path)


# ---- from the wire ------------------------------------------------------------------------------------------


def spec_from_wire(message: pb.JobSpec, *, path: str = "") -> JobSpec:
    """Parse fully, or refuse.

    Args:
        path: of the message itself, put before every path in an error.

    Raises:
        InvalidArgument: ENUM_UNKNOWN or NOT_SUPPORTED_YET, with the path of the field.
    """
    at = f"{path}." if path else ""
    _refuse_later(message, at)
    return JobSpec(
        name=message.name,
        queue=QueueName(message.queue),
        pod_sets=tuple(_pod_set_from_wire(p, f"{at}pod_sets[{i}]") for i, p in enumerate(message.pod_sets)),
        priority_class=message.priority_class,
        labels=MappingProxyType(dict(sorted(message.labels.items()))),
        duration_s=message.duration_s,
        restart=_restart_from_wire(message.restart, f"{at}restart") if message.HasField("restart") else _ONCE,
        max_pools=message.max_pools or 1,
        start_skew_max_s=message.start_skew_max_s or START_SKEW_DEFAULT_S,
        on_pool_lost=_on_pool_lost_from_wire(message.on_pool_lost, f"{at}on_pool_lost"),
        manifest=_manifest_from_wire(message.manifest) if message.HasField("manifest") else None,
        needs=tuple(_need_from_wire(n, f"{at}needs[{i}]") for i, n in enumerate(message.needs)),
        companions=tuple(Companion(c.kind, c.name, c.text) for c in message.companions),
    )


def _need_from_wire(message: pb.Need, path: str) -> Need:
    return Need(enum_from_wire(NeedKind, message.kind, f"{path}.kind"), message.name)


def _refuse_later(message: pb.JobSpec, at: str) -> None:
    present = {field.name for field, _ in message.ListFields()}
    for name, what in _LATER:
        if name in present:
            raise not_supported_yet(what, f"{at}{name}")


def _pod_set_from_wire(message: pb.PodSet, path: str) -> PodSet:
    if message.max_count:
        raise not_supported_yet("elastic resizing is", f"{path}.max_count")
    return PodSet(
        name=message.name,
        count=message.count,
        min_count=message.min_count if message.HasField("min_count") else message.count,
        resources=_resources(tuple(sorted(message.resources.items()))),
        flavors=tuple(FlavorName(flavor) for flavor in message.flavors),
        selector=selector_from_wire(message.selector, f"{path}.selector") if message.HasField("selector") else _ALL,
        tolerations=tuple(
            toleration_from_wire(t, f"{path}.tolerations[{i}]") for i, t in enumerate(message.tolerations)
        ),
        topology=_topology_from_wire(message.topology) if message.HasField("topology") else _ANYWHERE,
        template=_template_from_wire(message.template, path) if message.HasField("template") else _NOTHING,
    )


@lru_cache(RESOURCES_KEPT_MAX)
def _resources(amounts: tuple[tuple[str, int], ...]) -> Resources:
    """Few sizes of pods are in use at a time."""
    return Resources(amounts)


def _topology_from_wire(message: pb.Topology) -> Topology:
    return Topology(
        required=message.required_level,
        preferred=message.preferred_level,
        slices=tuple(Slice(s.size, s.level, s.exclusive, s.ragged, s.preferred) for s in message.slices),
        balanced=message.balanced_level,
        spread=Spread(message.spread.level, message.spread.max_pods) if message.HasField("spread") else None,
        same=tuple(message.same_labels),
        group=Group(message.group.name, message.group.level) if message.HasField("group") else None,
        devices=Devices(message.devices.kind, message.devices.nic) if message.HasField("devices") else None,
    )


def _template_from_wire(message: pb.PodTemplate, path: str) -> PodTemplate:
    return PodTemplate(
        image=message.image,
        command=tuple(message.command),
        args=tuple(message.args),
        env=tuple(EnvVar(e.name, e.value) for e in message.env),
        volumes=tuple(_volume_from_wire(v, f"{path}.volumes[{i}]") for i, v in enumerate(message.volumes)),
    )


def _volume_from_wire(message: pb.Volume, path: str) -> Volume:
    kind = enum_from_wire(VolumeKind, message.kind, f"{path}.kind")
    return Volume(message.name, kind, message.source, message.mount_path, message.read_only)


def _restart_from_wire(message: pb.RestartPolicy, path: str) -> RestartPolicy:
    on_infrastructure = enum_from_wire(OnInfrastructure, message.on_infrastructure, f"{path}.on_infrastructure")
    return RestartPolicy(message.max_retries, on_infrastructure or OnInfrastructure.REQUEUE)


def _on_pool_lost_from_wire(number: int, path: str) -> OnPoolLost:
    on_pool_lost = enum_from_wire(OnPoolLost, number, path)
    if on_pool_lost is OnPoolLost.MOVE:
        raise not_supported_yet("move is", path)
    return on_pool_lost or OnPoolLost.KEEP


def _manifest_from_wire(message: pb.Manifest) -> Manifest:
    return Manifest(message.kind, message.api_version, message.namespace, message.text)


# ---- to the wire --------------------------------------------------------------------------------------------


def spec_to_wire(spec: JobSpec) -> pb.JobSpec:
    """The message of a spec; `spec_from_wire` gives the same spec back.

    Raises:
        InvalidArgument: NUMBER_TOO_LARGE or TEXT_INVALID; something in the spec cannot travel at all.
    """
    try:
        return _spec_to_wire(spec)
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"a text is not valid Unicode: {error.reason}", reason="TEXT_INVALID") from None
    except ValueError as error:
        raise InvalidArgument(
            f"a number is over {INT64_MAX}: {error}", reason="NUMBER_TOO_LARGE", path="pod_sets"
        ) from None


def _spec_to_wire(spec: JobSpec) -> pb.JobSpec:
    message = pb.JobSpec(
        name=spec.name,
        queue=spec.queue,
        priority_class=spec.priority_class,
        labels=dict(spec.labels),
        pod_sets=[_pod_set_to_wire(p) for p in spec.pod_sets],
        duration_s=spec.duration_s,
        restart=pb.RestartPolicy(
            max_retries=spec.restart.max_retries,
            on_infrastructure=pb.OnInfrastructure.ValueType(spec.restart.on_infrastructure),
        ),
        max_pools=spec.max_pools,
        start_skew_max_s=spec.start_skew_max_s,
        on_pool_lost=pb.OnPoolLost.ValueType(spec.on_pool_lost),
        needs=[pb.Need(kind=pb.NeedKind.ValueType(n.kind), name=n.name) for n in spec.needs],
        companions=[pb.Companion(kind=c.kind, name=c.name, text=c.text) for c in spec.companions],
    )
    if spec.manifest is not None:
        message.manifest.CopyFrom(_manifest_to_wire(spec.manifest))
    return message


def _manifest_to_wire(manifest: Manifest) -> pb.Manifest:
    return pb.Manifest(
        kind=manifest.kind,
        api_version=manifest.api_version,
        namespace=manifest.namespace,
        text=manifest.text,
    )


def _pod_set_to_wire(pod_set: PodSet) -> pb.PodSet:
    return pb.PodSet(
        name=pod_set.name,
        count=pod_set.count,
        min_count=pod_set.min_count,
        resources=dict(pod_set.resources),
        flavors=pod_set.flavors,
        selector=selector_to_wire(pod_set.selector) if pod_set.selector.terms else None,
        tolerations=[toleration_to_wire(t) for t in pod_set.tolerations],
        topology=_topology_to_wire(pod_set.topology) if pod_set.topology != _ANYWHERE else None,
        template=_template_to_wire(pod_set.template) if pod_set.template != _NOTHING else None,
    )


def _topology_to_wire(topology: Topology) -> pb.Topology:
    return pb.Topology(
        required_level=topology.required,
        preferred_level=topology.preferred,
        slices=[_slice_to_wire(s) for s in topology.slices],
        balanced_level=topology.balanced,
        spread=pb.Spread(level=spread.level, max_pods=spread.max_pods) if (spread := topology.spread) else None,
        same_labels=topology.same,
        group=pb.Group(name=group.name, level=group.level) if (group := topology.group) else None,
        devices=pb.Devices(kind=own.kind, nic=own.nic) if (own := topology.devices) else None,
    )


def _slice_to_wire(s: Slice) -> pb.Slice:
    return pb.Slice(size=s.size, level=s.level, exclusive=s.exclusive, ragged=s.ragged, preferred=s.preferred)


def _template_to_wire(template: PodTemplate) -> pb.PodTemplate:
    return pb.PodTemplate(
        image=template.image,
        command=template.command,
        args=template.args,
        env=[pb.EnvVar(name=e.name, value=e.value) for e in template.env],
        volumes=[_volume_to_wire(v) for v in template.volumes],
    )


def _volume_to_wire(volume: Volume) -> pb.Volume:
    return pb.Volume(
        name=volume.name,
        kind=pb.VolumeKind.ValueType(volume.kind),
        source=volume.source,
        mount_path=volume.mount_path,
        read_only=volume.read_only,
    )
