"""A pod template as Kubernetes writes it, to what a pod set needs: resources, nodes, and what runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from hanse.manifests.fields import Field
from hanse.manifests.keys import Keys
from hanse.manifests.node_choice import node_selector, tolerations
from hanse.manifests.notes import Notes, audit
from hanse.manifests.pod_resources import pod_resources
from hanse.model.job import EnvVar, PodTemplate
from hanse.model.resources import Resources
from hanse.model.selectors import Selector, Toleration

_POD_MAPPED: Final = frozenset(
    (
        "containers initContainers nodeSelector affinity tolerations resources overhead priorityClassName nodeName "
        "schedulingGroup workloadRef"
    ).split()
)
_POD_KEPT: Final = frozenset(
    (
        "volumes restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds dnsPolicy serviceAccountName "
        "serviceAccount automountServiceAccountToken hostNetwork hostPID hostIPC hostUsers shareProcessNamespace "
        "securityContext imagePullSecrets hostname subdomain hostAliases readinessGates runtimeClassName "
        "enableServiceLinks dnsConfig setHostnameAsFQDN os ephemeralContainers hostnameOverride"
    ).split()
)
_POD_WHY: Final = {
    "schedulerName": "Hanse chooses the nodes of the whole gang; this scheduler is not asked",
    "topologySpreadConstraints": "pods are packed, not spread; use a topology level or a slice",
    "preemptionPolicy": "nothing is preempted yet",
    "priority": "the priority class decides",
    "resourceClaims": "devices are counted by resource name; ResourceClaims are not allocated yet",
    "schedulingGates": "Hanse sets and removes gates of its own",
}
_CONTAINER_MAPPED: Final = frozenset("name image command args env resources".split())
_CONTAINER_KEPT: Final = frozenset(
    (
        "ports envFrom volumeMounts volumeDevices workingDir livenessProbe readinessProbe startupProbe lifecycle "
        "terminationMessagePath terminationMessagePolicy imagePullPolicy securityContext stdin stdinOnce tty "
        "resizePolicy restartPolicy restartPolicyRules"
    ).split()
)
_HOST_PORT_WHY: Final = "whether the port is free on the node is not looked at when places are chosen"


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of a pod set.

    Attributes:
        field: the pod template in the document.
        keys: its labels and annotations, still open: whoever reads the last of them closes them.
        selector_at, tolerations_at, resources_at: where these were written, for errors that come later.
    """

    field: Field
    keys: Keys
    resources: Resources
    selector: Selector
    tolerations: tuple[Toleration, ...]
    template: PodTemplate
    priority_class: Field | None
    spec: Field


def read_pod(template: Field, notes: Notes, *, main: str = "") -> Pod:
    """Read a PodTemplateSpec (or a Pod, which has the same two parts).

    Args:
        main: name of the container that does the work; the first one if there is none of this name.

    Raises:
        InvalidArgument: anything in it that contradicts itself or has the wrong type.
    """
    audit(template, notes, mapped=("metadata", "spec"), kept=("apiVersion", "kind", "status"))
    spec = template.need("spec", "no pod spec; say what the pods are")
    audit(spec, notes, mapped=_POD_MAPPED, kept=_POD_KEPT, why=_POD_WHY)
    _refuse_fixed_node(spec)
    containers = _containers(spec, notes)
    return Pod(
        field=template,
        keys=Keys(template.get("metadata"), notes, of_template=True),
        resources=pod_resources(spec, notes),
        selector=node_selector(spec, notes),
        tolerations=tolerations(spec, notes),
        template=template_of(main_container(containers, main), notes),
        priority_class=spec.get("priorityClassName"),
        spec=spec,
    )


def scheduling_group(spec: Field) -> str:
    """The pod group of Kubernetes itself, or its workload (1.35), that the pods of this spec name; "" for none."""
    for key, name in (("schedulingGroup", "podGroupName"), ("workloadRef", "name")):
        reference = spec.get(key)
        found = reference.get(name) if reference else None
        if found:
            return found.word()
    return ""


def _refuse_fixed_node(spec: Field) -> None:
    name = spec.get("nodeName")
    if name and name.text():
        name.refuse("NOT_SUPPORTED", "the pod names its node, which leaves nothing to place; use nodeSelector")


def _containers(spec: Field, notes: Notes) -> list[Field]:
    containers = list(spec.need("containers", "no container; a pod runs at least one").items())
    if not containers:
        spec.need("containers").refuse("MISSING", "no container; a pod runs at least one")
    starting = spec.get("initContainers")
    for container in [*containers, *(starting.items() if starting else ())]:
        audit(container, notes, mapped=_CONTAINER_MAPPED, kept=_CONTAINER_KEPT)
        _note_host_ports(container, notes)
    return containers


def _note_host_ports(container: Field, notes: Notes) -> None:
    ports = container.get("ports")
    for port in ports.items() if ports else ():
        host_port = port.get("hostPort")
        if host_port:
            notes.unmapped(host_port, _HOST_PORT_WHY)


def main_container(containers: Sequence[Field], name: str) -> Field:
    """The container of this name, else the first one."""
    for container in containers:
        named = container.get("name")
        if named and named.text() == name:
            return container
    return containers[0]


def template_of(container: Field, notes: Notes) -> PodTemplate:
    """What a container (or what is written like one) runs."""
    image, env = container.get("image"), container.get("env")
    return PodTemplate(
        image=image.text() if image else "",
        command=_words(container.get("command")),
        args=_words(container.get("args")),
        env=tuple(_env(env.items(), notes)) if env else (),
    )


def _words(listed: Field | None) -> tuple[str, ...]:
    return tuple(item.text() for item in listed.items()) if listed else ()


def _env(listed: Iterable[Field], notes: Notes) -> Iterable[EnvVar]:
    for item in listed:
        audit(item, notes, mapped=("name", "value", "valueFrom"))
        name, value, source = item.need("name").word(), item.get("value"), item.get("valueFrom")
        if source is None:
            yield EnvVar(name, value.text() if value else "")
            continue
        if value and value.text():
            source.refuse("CONTRADICTION", f"value is given too, in line {value.line}; keep one of the two")
        notes.unmapped(source, "the cluster fills it in when the pod is created; it stays in the object")
