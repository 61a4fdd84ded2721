"""What every accepted job spec obeys, checked without looking at the world.

Rules here need nothing but the spec: the importer runs them to name file and line, the API server runs them on
whatever a client sends, and nothing behind the server checks them again. Whether a queue, a flavor or a level
exists, and whether any pool could ever hold the gang, is the server's question.

Paths are the spec's own (`pod_sets[0].slices[1].size`). The first broken rule is reported: one line, one thing to
mend. A list of all errors would be longer than what a person reads, and most later ones follow from the first.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NoReturn

from hanse.model.beside import fault_of
from hanse.model.errors import InvalidArgument
from hanse.model.job import (
    DEVICE_KINDS,
    POD_SETS_PER_JOB_MAX,
    PODS_PER_JOB_MAX,
    POOLS_PER_JOB_MAX,
    SAME_LABELS_MAX,
    SLICE_LAYERS_MAX,
    JobSpec,
    OnPoolLost,
    PodSet,
    PodTemplate,
    Slice,
    Topology,
    VolumeKind,
)
from hanse.model.names import (
    LABEL_RULE,
    QUALIFIED_RULE,
    SUBDOMAIN_RULE,
    below,
    is_label,
    is_label_value,
    is_qualified,
    is_subdomain,
    quoted,
)
from hanse.model.queue import FLAVORS_MAX
from hanse.model.resources import AMOUNT_MAX, DEVICE_MILLI, GPU_MILLI, GPU_RESOURCES, Resources
from hanse.model.selectors import Operator, Requirement, Selector, Toleration, version_of

DURATION_S_MAX: Final = 10 * 366 * 24 * 3600
START_SKEW_S_MAX: Final = 24 * 3600
RETRIES_MAX: Final = 2**31 - 1
LABELS_MAX: Final = 64
RESOURCE_NAMES_MAX: Final = 32
SELECTOR_TERMS_MAX: Final = 32
REQUIREMENTS_PER_TERM_MAX: Final = 64
VALUES_PER_REQUIREMENT_MAX: Final = 1024
TOLERATIONS_MAX: Final = 64
ENV_VARS_MAX: Final = 1024
ENV_NAME_CHARS_MAX: Final = 1024
VOLUMES_MAX: Final = 128
COMMAND_WORDS_MAX: Final = 1024
IMAGE_CHARS_MAX: Final = 1024
TEXT_BYTES_MAX: Final = 32_768  # one env value or one word of a command
PATH_CHARS_MAX: Final = 4096
UTF8_BYTES_MAX: Final = 4  # of one character

_NO_LINES: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Place:
    """A position in the spec, and how to refuse what stands there."""

    path: str = ""
    lines: Mapping[str, int] = field(default_factory=lambda: _NO_LINES)

    def at(self, name: str) -> "_Place":
        return _Place(f"{self.path}.{name}" if self.path else name, self.lines)

    def item(self, index: int) -> "_Place":
        return _Place(f"{self.path}[{index}]", self.lines)

    def entry(self, key: str) -> "_Place":
        return _Place(below(self.path, key), self.lines)

    def refuse(self, reason: str, message: str) -> NoReturn:
        raise InvalidArgument(message, reason=reason, path=self.path, line=self._line())

    def _line(self) -> int:
        path = self.path
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.lines.get("", 0)

    def within(self, name: str, value: int, least: int, most: int, reason: str, what: str) -> None:
        if not least <= value <= most:
            self.at(name).refuse(reason, f"{value} {what}; it must be {least} to {most}")

    def at_most(self, things: Sized, most: int, what: str, name: str = "") -> None:
        if len(things) > most:
            at = self.at(name) if name else self
            at.refuse("TOO_MANY", f"{len(things)} {what}; at most {most} are allowed")


def validate_spec(spec: JobSpec, *, lines: Mapping[str, int] = _NO_LINES, queue_required: bool = True) -> None:
    """Check every rule that needs only the spec.

    Args:
        lines: field path → line in the submitted file; errors carry the line of the nearest enclosing field.
        queue_required: false while the queue is still to be named by whoever submits.

    Raises:
        InvalidArgument: with reason, path and line of the first broken rule.
    """
    at = _Place("", lines)
    _identity(at, spec, queue_required)
    _policies(at, spec)
    sets = at.at("pod_sets")
    sets.at_most(spec.pod_sets, POD_SETS_PER_JOB_MAX, "pod sets")
    if not spec.pod_sets:
        sets.refuse("POD_SETS_MISSING", "no pod set; a job needs at least one")
    _unique(sets, [p.name for p in spec.pod_sets], "pod set", ".name")
    _groups(sets, spec.pod_sets)
    for index, pod_set in enumerate(spec.pod_sets):
        _pod_set(sets.item(index), pod_set)
    _totals(sets, spec)
    fault = fault_of(spec.needs, spec.companions)
    if fault is not None:
        at.at(fault.path).refuse(fault.reason, fault.message)


def check_name(name: str, *, path: str = "name", line: int = 0) -> None:
    """Check the name of a job, queue, cohort, flavor or priority class.

    Raises:
        InvalidArgument: reason NAME_INVALID.
    """
    if not is_subdomain(name):
        what = f"{quoted(name)} is not a valid name" if name else "the name is empty"
        raise InvalidArgument(f"{what}; {SUBDOMAIN_RULE}", reason="NAME_INVALID", path=path, line=line)


def _name(at: _Place, name: str) -> None:
    if not is_subdomain(name):
        check_name(name, path=at.path, line=at._line())


def _identity(at: _Place, spec: JobSpec, queue_required: bool) -> None:
    _name(at.at("name"), spec.name)
    if spec.queue:
        _name(at.at("queue"), spec.queue)
    elif queue_required:
        at.at("queue").refuse("QUEUE_MISSING", "no queue is named; name one, in the file or beside it")
    if spec.priority_class:
        _name(at.at("priority_class"), spec.priority_class)
    labels = at.at("labels")
    labels.at_most(spec.labels, LABELS_MAX, "labels")
    for key, value in spec.labels.items():
        _key(labels.entry(key), key, "LABEL_INVALID", "label key")
        if not is_label_value(value):
            labels.entry(key).refuse("LABEL_INVALID", f"{quoted(value)} is not a valid label value")


def _policies(at: _Place, spec: JobSpec) -> None:
    at.within("duration_s", spec.duration_s, 0, DURATION_S_MAX, "DURATION_OUT_OF_RANGE", "seconds")
    at.within("restart.max_retries", spec.restart.max_retries, 0, RETRIES_MAX, "RETRIES_OUT_OF_RANGE", "retries")
    at.within("max_pools", spec.max_pools, 1, POOLS_PER_JOB_MAX, "POOLS_OUT_OF_RANGE", "pools")
    at.within("start_skew_max_s", spec.start_skew_max_s, 1, START_SKEW_S_MAX, "START_SKEW_OUT_OF_RANGE", "seconds")
    if spec.on_pool_lost is OnPoolLost.MOVE:
        at.at("on_pool_lost").refuse("NOT_SUPPORTED", "move is not supported yet; use keep")


def _totals(at: _Place, spec: JobSpec) -> None:
    if spec.pods > PODS_PER_JOB_MAX:
        at.refuse("COUNT_OUT_OF_RANGE", f"{spec.pods} pods in all; a job has at most {PODS_PER_JOB_MAX}")
    for name in sorted({name for p in spec.pod_sets for name in p.resources}):
        if sum(p.count * p.resources[name] for p in spec.pod_sets) > AMOUNT_MAX:
            at.refuse("AMOUNT_OUT_OF_RANGE", f"{quoted(name)} of all pods is over {AMOUNT_MAX}; ask for less")


def _pod_set(at: _Place, pod_set: PodSet) -> None:
    if not is_label(pod_set.name):
        what = f"{quoted(pod_set.name)} is not a valid pod set name" if pod_set.name else "the name is empty"
        at.at("name").refuse("NAME_INVALID", f"{what}; {LABEL_RULE}")
    _count(at, pod_set.count)
    if not 0 <= pod_set.min_count <= pod_set.count:
        at.at("min_count").refuse(
            "MIN_COUNT_OUT_OF_RANGE",
            f"a minimum of {pod_set.min_count} of {pod_set.count} pods; it must be 0 to {pod_set.count}",
        )
    _resources(at.at("resources"), pod_set.resources)
    _flavors(at.at("flavors"), pod_set)
    if pod_set.selector.terms:
        _selector(at.at("selector"), pod_set.selector)
    at.at_most(pod_set.tolerations, TOLERATIONS_MAX, "tolerations", "tolerations")
    for index, toleration in enumerate(pod_set.tolerations):
        _toleration(at.at("tolerations").item(index), toleration)
    _topology(at, pod_set)
    _template(at, pod_set.template)


def _groups(sets: _Place, pod_sets: Sequence[PodSet]) -> None:
    """A group is held by one domain of one level, which all of its sets name."""
    levels: dict[str, str] = {}
    sizes = Counter(p.topology.group.name for p in pod_sets if p.topology.group)
    for index, group in enumerate(p.topology.group for p in pod_sets):
        if group is None:
            continue
        at = sets.item(index).at("group")
        _name(at.at("name"), group.name)
        level = levels.setdefault(group.name, group.level)
        if not group.level:
            at.at("level").refuse("LEVEL_INVALID", "a group needs a level: one domain of it holds the group")
        if level != group.level:
            at.at("level").refuse("GROUP_INVALID", f"{group.level} here, {level} in another set of {group.name}")
        if sizes[group.name] == 1 and pod_sets[index].topology.required not in ("", level):
            at.refuse("GROUP_INVALID", f"no other set is of {group.name}; leave it out, required says what is needed")


def _count(at: _Place, count: int) -> None:
    if count < 1:
        at.at("count").refuse("COUNT_OUT_OF_RANGE", f"{count} pods; a pod set needs at least 1")
    if count > PODS_PER_JOB_MAX:
        at.at("count").refuse("COUNT_OUT_OF_RANGE", f"{count} pods; a job has at most {PODS_PER_JOB_MAX}")


def _resources(at: _Place, resources: Resources) -> None:
    at.at_most(resources, RESOURCE_NAMES_MAX, "resources")
    for name, amount in resources.items():
        if not is_qualified(name):
            _key(at.entry(name), name, "RESOURCE_INVALID", "resource name")
        if not 0 <= amount <= AMOUNT_MAX:
            at.entry(name).refuse("AMOUNT_OUT_OF_RANGE", f"{amount} is not between 0 and {AMOUNT_MAX}")
    if GPU_MILLI in resources:
        _share(at.entry(GPU_MILLI), resources)


def _share(at: _Place, resources: Resources) -> None:
    """A share is of one device: not more than that device, and nothing beside it."""
    milli = resources[GPU_MILLI]
    whole = next((name for name in GPU_RESOURCES if resources[name]), "")
    if milli > DEVICE_MILLI:
        at.refuse(
            "SHARE_INVALID",
            f"{milli} thousandths; a share is of one device, at most {DEVICE_MILLI}; ask for whole devices instead",
        )
    if whole:
        at.refuse("SHARE_INVALID", f"a share of a device and {resources[whole]} of {whole}; ask for one of the two")


def _flavors(at: _Place, pod_set: PodSet) -> None:
    at.at_most(pod_set.flavors, FLAVORS_MAX, "flavors")
    for index, flavor in enumerate(pod_set.flavors):
        _name(at.item(index), flavor)
    _unique(at, pod_set.flavors, "flavor")


def _selector(at: _Place, selector: Selector) -> None:
    at.at_most(selector.terms, SELECTOR_TERMS_MAX, "alternatives")
    for index, term in enumerate(selector.terms):
        place = at.at("terms").item(index)
        place.at_most(term, REQUIREMENTS_PER_TERM_MAX, "conditions")
        if not term:
            place.refuse("SELECTOR_INVALID", "an alternative without conditions selects no node; remove it")
        for number, requirement in enumerate(term):
            check_requirement(requirement, path=place.item(number).path, line=place.item(number)._line())


def check_requirement(requirement: Requirement, *, path: str, line: int = 0) -> None:
    """Check one condition on a node label: key, operator, and values that fit the operator.

    Raises:
        InvalidArgument: reason SELECTOR_INVALID or TOO_MANY.
    """
    at = _Place(path, {path: line})
    values = requirement.values
    _key(at, requirement.key, "SELECTOR_INVALID", "label key")
    at.at_most(values, VALUES_PER_REQUIREMENT_MAX, "values")
    name = requirement.operator.name
    match requirement.operator:
        case Operator.IN | Operator.NOT_IN:
            if not values:
                at.refuse("SELECTOR_INVALID", f"{name} needs at least one value")
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            if values:
                at.refuse("SELECTOR_INVALID", f"{name} takes no values")
        case Operator.GT | Operator.LT:
            if len(values) != 1 or not values[0].lstrip("+-").isdecimal():
                at.refuse("SELECTOR_INVALID", f"{name} needs exactly one integer")
        case Operator.VERSION_AT_LEAST:
            if len(values) != 1 or version_of(values[0]) is None:
                at.refuse("SELECTOR_INVALID", f"{name} needs exactly one version, such as 550.54.15")
        case Operator.UNSPECIFIED:
            known = "In, NotIn, Exists, DoesNotExist, Gt, Lt or VersionAtLeast"
            at.refuse("SELECTOR_INVALID", f"no operator; use {known}")
    for value in values:
        if not is_label_value(value) and requirement.operator not in (Operator.GT, Operator.LT):
            at.refuse("SELECTOR_INVALID", f"{quoted(value)} is not a valid label value")


def _toleration(at: _Place, toleration: Toleration) -> None:
    if toleration.key:
        _key(at.at("key"), toleration.key, "TOLERATION_INVALID", "taint key")
    elif not toleration.exists:
        at.refuse("TOLERATION_INVALID", "without a key it must say Exists (it then tolerates every taint)")
    if toleration.exists and toleration.value:
        at.refuse("TOLERATION_INVALID", "Exists ignores the value; remove one of the two")


def _topology(at: _Place, pod_set: PodSet) -> None:
    topology = pod_set.topology
    for name, level in topology.levels:
        _key(at.at(name), level, "LEVEL_INVALID", "topology level")
    _spread(at.at("spread"), topology)
    _same(at.at("same"), topology)
    _devices(at.at("devices"), pod_set)
    if not topology.slices:
        return
    slices = at.at("slices")
    slices.at_most(topology.slices, SLICE_LAYERS_MAX, "slice layers")
    _unique(slices, [s.level for s in topology.slices], "level")
    whole, what = pod_set.count, f"the {pod_set.count} pods of {quoted(pod_set.name)}"
    for index, layer in enumerate(topology.slices):
        _slice(slices.item(index), layer)
        if whole % layer.size and not (layer.ragged and index == 0):
            hint = ", or say ragged: true" if index == 0 else ""
            slices.item(index).at("size").refuse(
                "SLICE_SIZE", f"{layer.size} does not divide {what}; change one of the two so that it does{hint}"
            )
        whole, what = layer.size, f"the slice size {layer.size} of the layer before"


def _spread(at: _Place, topology: Topology) -> None:
    spread = topology.spread
    if spread is not None and not spread.level:
        at.at("level").refuse("LEVEL_INVALID", "a spread needs a level: the domains that the pods are spread over")
    if spread is not None and spread.max_pods < 1:
        at.at("max_pods").refuse("COUNT_OUT_OF_RANGE", f"at most {spread.max_pods} pods in one; allow at least 1")


def _devices(at: _Place, pod_set: PodSet) -> None:
    devices = pod_set.topology.devices
    if devices is None:
        return
    if devices.kind not in DEVICE_KINDS:
        wanted = " or ".join(DEVICE_KINDS)
        at.at("kind").refuse("DEVICES_INVALID", f"{quoted(devices.kind)} is no kind of device group; say {wanted}")
    if not pod_set.resources.gpus:
        at.refuse("DEVICES_INVALID", "a pod without whole GPUs has no devices that could share a group; leave it out")


def _same(at: _Place, topology: Topology) -> None:
    at.at_most(topology.same, SAME_LABELS_MAX, "labels")
    for index, key in enumerate(topology.same):
        _key(at.item(index), key, "LABEL_INVALID", "label key")
    _unique(at, topology.same, "label")


def _slice(at: _Place, layer: Slice) -> None:
    if layer.size < 1:
        at.at("size").refuse("SLICE_SIZE", f"a slice of {layer.size} pods; it needs at least 1")
    if layer.preferred and layer.exclusive:
        at.at("preferred").refuse(
            "CONTRADICTION", "a slice is exclusive or preferred, not both; leave one of the two out"
        )
    if not layer.level:
        at.at("level").refuse("LEVEL_INVALID", "a slice needs a level: the domain that holds each group")


def _template(at: _Place, template: PodTemplate) -> None:
    if len(template.image) > IMAGE_CHARS_MAX or not template.image.isprintable() or " " in template.image:
        at.at("image").refuse("IMAGE_INVALID", f"{quoted(template.image)} is not an image reference")
    for name, words in (("command", template.command), ("args", template.args)):
        at.at_most(words, COMMAND_WORDS_MAX, "words", name)
        for index, word in enumerate(words):
            if not _is_short_text(word):
                _text(at.at(name).item(index), word)
    if template.env:
        _env(at.at("env"), template)
    if template.volumes:
        _volumes(at.at("volumes"), template)


def _env(at: _Place, template: PodTemplate) -> None:
    at.at_most(template.env, ENV_VARS_MAX, "environment variables")
    for index, variable in enumerate(template.env):
        name = variable.name
        if not name or len(name) > ENV_NAME_CHARS_MAX or "=" in name or not name.isprintable():
            at.item(index).at("name").refuse("ENV_INVALID", f"{quoted(name)} is not a variable name")
        _text(at.item(index).at("value"), variable.value)


def _volumes(at: _Place, template: PodTemplate) -> None:
    at.at_most(template.volumes, VOLUMES_MAX, "volumes")
    for index, volume in enumerate(template.volumes):
        place = at.item(index)
        if not is_label(volume.name):
            place.at("name").refuse("NAME_INVALID", f"{quoted(volume.name)} is not a volume name; {LABEL_RULE}")
        if volume.kind is VolumeKind.UNSPECIFIED:
            place.at("kind").refuse("VOLUME_INVALID", "no kind; say what the volume refers to")
        if volume.kind is not VolumeKind.EMPTY_DIR and not volume.source:
            place.at("source").refuse("VOLUME_INVALID", "no source; name what the volume refers to")
        if len(volume.mount_path) > PATH_CHARS_MAX or "\0" in volume.mount_path:
            place.at("mount_path").refuse("VOLUME_INVALID", f"{quoted(volume.mount_path)} is not a path")


def _is_short_text(text: str) -> bool:
    """Whether the text passes `_text`, whatever its characters take in UTF-8: no place need be named for it."""
    return len(text) * UTF8_BYTES_MAX <= TEXT_BYTES_MAX and "\0" not in text


def _text(at: _Place, text: str) -> None:
    if "\0" in text:
        at.refuse("TEXT_INVALID", "contains a zero character; remove it")
    if len(text.encode(errors="replace")) > TEXT_BYTES_MAX:
        at.refuse("TEXT_TOO_LONG", f"longer than {TEXT_BYTES_MAX} bytes; put it in a file or a ConfigMap")


def _key(at: _Place, text: str, reason: str, what: str) -> None:
    if not is_qualified(text):
        at.refuse(reason, f"{quoted(text)} is not a valid {what}; {QUALIFIED_RULE}")


def _unique(at: _Place, names: Iterable[str], what: str, name_field: str = "") -> None:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            place = _Place(f"{at.path}[{index}]{name_field}", at.lines)
            place.refuse("DUPLICATE", f"{what} {quoted(name)} is named twice")
        seen.add(name)
