"""What one pod asks of a node, counted as Kubernetes counts it.

Per resource: the larger of (all containers + all sidecars) and (each init container + the sidecars declared before
it), where a sidecar is an init container with `restartPolicy: Always`. A container's limits are the default of its
requests. Resources of the pod as a whole replace that sum for cpu, memory and hugepages. `overhead` comes on top.
The rules are those of `k8s.io/component-helpers/resource.PodRequests` and of the API server's defaults.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hanse.manifests.fields import Field
from hanse.manifests.notes import Notes
from hanse.model.names import is_qualified, quoted
from hanse.model.resources import CPU, EMPTY, MEMORY, Resources

_MILLI: Final = 1000
_NATIVE_PREFIX: Final = "kubernetes.io/"
_HUGEPAGES_PREFIX: Final = "hugepages-"
_CLAIMS_WHY: Final = "devices are counted by resource name; ResourceClaims are not allocated yet"


@dataclass(frozen=True, slots=True)
class Override:
    """Resources that another object gives to the containers of one name, key by key over their own."""

    container: str
    resources: Field


def pod_resources(spec: Field, notes: Notes, override: Override | None = None) -> Resources:
    """The request of a pod with this spec; `spec.containers` need not be there.

    Raises:
        InvalidArgument: QUANTITY, RESOURCE_INVALID, or CONTRADICTION (a request over its limit).
    """
    whole = _containers(spec, notes, override)
    level = spec.get("resources")
    if level:
        whole = _pod_level(level, whole, notes)
    overhead = spec.get("overhead")
    return whole.plus(amounts_of(overhead)) if overhead else whole


def _containers(spec: Field, notes: Notes, override: Override | None) -> Resources:
    running = EMPTY
    for container in _each(spec, "containers"):
        running = running.plus(_overridden(container, notes, override))
    sidecars = starting = EMPTY
    for container in _each(spec, "initContainers"):
        request = container_request(container, notes)
        if _is_sidecar(container):
            sidecars = sidecars.plus(request)
            starting = starting.joined(sidecars)
        else:
            starting = starting.joined(sidecars.plus(request))
    return running.plus(sidecars).joined(starting)


def _each(spec: Field, name: str) -> list[Field]:
    containers = spec.get(name)
    return list(containers.items()) if containers else []


def _is_sidecar(container: Field) -> bool:
    policy = container.get("restartPolicy")
    return policy is not None and policy.text() == "Always"


def _overridden(container: Field, notes: Notes, override: Override | None) -> Resources:
    own, name = container_request(container, notes), container.get("name")
    if override is None or name is None or name.text() != override.container:
        return own
    over = resources_request(override.resources, notes)
    return Resources({**own, **over})


def container_request(container: Field, notes: Notes) -> Resources:
    """What one container requests, by its `resources`."""
    resources = container.get("resources")
    return EMPTY if resources is None else resources_request(resources, notes)


def resources_request(resources: Field, notes: Notes) -> Resources:
    """What `requests` and `limits` ask for: limits are the default of requests."""
    claims = resources.get("claims")
    if claims:
        notes.unmapped(claims, _CLAIMS_WHY)
    requests, limits = resources.get("requests"), resources.get("limits")
    limited = amounts_of(limits) if limits else EMPTY
    requested = amounts_of(requests) if requests else EMPTY
    if requests and limits:
        _check_limits(requests, requested, limits, limited)
    named = {name for name, _ in requests.entries()} if requests else set()
    return requested.plus(Resources({n: v for n, v in limited.items() if n not in named}))


def _pod_level(resources: Field, containers: Resources, notes: Notes) -> Resources:
    """Requests of the pod as a whole, where given; else what its containers request; else its limits."""
    claims = resources.get("claims")
    if claims:
        notes.unmapped(claims, _CLAIMS_WHY)
    requests, limits = resources.get("requests"), resources.get("limits")
    for given in (requests, limits):
        for name, field in given.entries() if given else ():
            if not _is_pod_level(name):
                field.refuse(
                    "RESOURCE_INVALID",
                    f"{quoted(name)} cannot be given for the pod as a whole; give it to a container",
                )
    limited = amounts_of(limits) if limits else EMPTY
    requested = amounts_of(requests) if requests else EMPTY
    if requests and limits:
        _check_limits(requests, requested, limits, limited)
    named = {name for name, _ in requests.entries()} if requests else set()
    result = dict(containers)
    result.update({n: v for n, v in limited.items() if n not in named and n not in containers})
    result.update({name: requested[name] for name in named})
    return Resources(result)


def _is_pod_level(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith(_HUGEPAGES_PREFIX)


def amounts_of(resources: Field) -> Resources:
    """A mapping of resource names to quantities, in canonical units.

    Raises:
        InvalidArgument: reason QUANTITY (also for a part of a device) or RESOURCE_INVALID.
    """
    return amounts_of_pairs(resources.entries())


def amounts_of_pairs(pairs: Iterable[tuple[str, Field]]) -> Resources:
    """The same of names and quantities that stand apart."""
    return Resources({name: _amount(name, field) for name, field in pairs})


def _amount(name: str, field: Field) -> int:
    if not is_qualified(name):
        field.refuse("RESOURCE_INVALID", f"{quoted(name)} is not a resource name such as cpu or nvidia.com/gpu")
    amount = field.amount(name)
    if _is_extended(name) and field.amount(CPU) != amount * _MILLI:
        field.refuse("QUANTITY", f"{field.shown} is not a whole number; {name} cannot be split")
    return amount


def _is_extended(name: str) -> bool:
    return "/" in name and _NATIVE_PREFIX not in name


def _check_limits(requests: Field, requested: Resources, limits: Field, limited: Resources) -> None:
    for name, field in requests.entries():
        limit = limits.get(name)
        if limit is None:
            continue
        where = f"its limit {limit.shown} in line {limit.line}"
        if requested[name] > limited[name]:
            field.refuse("CONTRADICTION", f"{field.shown} is more than {where}")
        if _is_extended(name) and requested[name] != limited[name]:
            field.refuse("CONTRADICTION", f"{field.shown} differs from {where}; {name} is not overcommitted")
