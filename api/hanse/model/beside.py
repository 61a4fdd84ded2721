"""What a job has beside its pods: what these need of their cluster by name, and what travels there with the job.

A *need* is only a name: a Secret that a pod mounts, the service account it runs as. It must be in the cluster before
the job comes; a pool whose cluster lacks it is left out. A *companion* is an object of the submission that is created
beside the job's pods and goes with them. A Secret is never one: what travels lies in the store, where everybody who
reads jobs would read it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, unique
from typing import Final

from hanse.model.names import SUBDOMAIN_RULE, is_subdomain, quoted

NEEDS_MAX: Final = 64
COMPANIONS_MAX: Final = 16
COMPANION_BYTES_MAX: Final = 49_152
"""Of all companions of one job together."""

SECRET_WHY: Final = (
    "a Secret would lie in the store, for everybody to read who reads jobs; "
    "create it in the cluster, and remove it from here"
)
COMPANION_KINDS: Final = ("ConfigMap", "Service")


@unique
class NeedKind(IntEnum):
    """What a need names. Numbers are kept for ever."""

    UNSPECIFIED = 0
    SECRET = 1
    CONFIG_MAP = 2
    SERVICE_ACCOUNT = 3
    PERSISTENT_VOLUME_CLAIM = 4
    PRIORITY_CLASS = 5
    RUNTIME_CLASS = 6

    @property
    def word(self) -> str:
        """As Kubernetes calls it."""
        return _WORDS[self]

    @property
    def namespaced(self) -> bool:
        """Whether it lies in a namespace; else the whole cluster has one of the name."""
        return self not in (NeedKind.PRIORITY_CLASS, NeedKind.RUNTIME_CLASS)


_WORDS: Final = {
    NeedKind.UNSPECIFIED: "object",
    NeedKind.SECRET: "Secret",
    NeedKind.CONFIG_MAP: "ConfigMap",
    NeedKind.SERVICE_ACCOUNT: "ServiceAccount",
    NeedKind.PERSISTENT_VOLUME_CLAIM: "PersistentVolumeClaim",
    NeedKind.PRIORITY_CLASS: "PriorityClass",
    NeedKind.RUNTIME_CLASS: "RuntimeClass",
}


@dataclass(frozen=True, slots=True, order=True)
class Need:
    """An object that must be in the cluster, in the job's namespace if its kind has one."""

    kind: NeedKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.word} {self.name}"


@dataclass(frozen=True, slots=True)
class Companion:
    """An object that travels with a job.

    Attributes:
        kind: one of COMPANION_KINDS.
        text: the object as JSON.
    """

    kind: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with the needs and companions of a job, and where."""

    path: str
    reason: str
    message: str


def fault_of(needs: Sequence[Need], companions: Sequence[Companion]) -> Fault | None:
    """The first rule that they break; None if they keep all."""
    if len(needs) > NEEDS_MAX:
        return Fault("needs", "TOO_MANY", f"{len(needs)} needs; at most {NEEDS_MAX} are allowed")
    for index, need in enumerate(needs):
        if need.kind is NeedKind.UNSPECIFIED:
            return Fault(f"needs[{index}].kind", "NEED_INVALID", "no kind; say what the need names")
        if not is_subdomain(need.name):
            said = f"{quoted(need.name)} is no name of a {need.kind.word}; {SUBDOMAIN_RULE}"
            return Fault(f"needs[{index}].name", "NAME_INVALID", said)
    return _fault_of_companions(companions)


def _fault_of_companions(companions: Sequence[Companion]) -> Fault | None:
    if len(companions) > COMPANIONS_MAX:
        said = (
            f"{len(companions)} objects travel with the job, at most {COMPANIONS_MAX} may; create some in the cluster"
        )
        return Fault("companions", "TOO_MANY", said)
    size = 0
    seen: set[tuple[str, str]] = set()
    for index, companion in enumerate(companions):
        at, size = f"companions[{index}]", size + len(companion.text.encode(errors="replace"))
        if size > COMPANION_BYTES_MAX:
            said = f"over {COMPANION_BYTES_MAX:,} bytes travel with the job: create {companion.name} in the cluster"
            return Fault(at, "TOO_LARGE", said)
        if (companion.kind, companion.name) in seen:
            return Fault(at, "DUPLICATE", f"{companion.kind} {quoted(companion.name)} is there twice")
        seen.add((companion.kind, companion.name))
        why = why_not_companion(companion)
        if why:
            return Fault(at, "SECRET" if companion.kind == "Secret" else "COMPANION_INVALID", why)
    return None


def why_not_companion(companion: Companion) -> str:
    """Why an object does not travel with a job; "" if it may."""
    if companion.kind == "Secret":
        return SECRET_WHY
    if companion.kind not in COMPANION_KINDS:
        return f"a {companion.kind} does not travel with a job, only {' and '.join(COMPANION_KINDS)} do"
    if not is_subdomain(companion.name):
        return f"{quoted(companion.name)} is no name of a {companion.kind}; {SUBDOMAIN_RULE}"
    try:
        body = json.loads(companion.text)
    except (ValueError, RecursionError):
        return "its text is not JSON"
    named = body.get("metadata") if isinstance(body, dict) and body.get("kind") == companion.kind else None
    if not isinstance(named, dict) or named.get("name") != companion.name:
        return f"its text is no {companion.kind} of its name"
    return _why_not_service(body.get("spec")) if companion.kind == "Service" else ""


def _why_not_service(spec: object) -> str:
    """One that reaches further than the cluster, or takes in what it does not select, is for the cluster's owner."""
    if not isinstance(spec, dict) or not isinstance(spec.get("selector"), dict) or not spec["selector"]:
        return "a Service that travels needs a selector of the job's pods"
    if spec.get("type", "ClusterIP") != "ClusterIP" or spec.get("externalIPs"):
        return "a Service that is reached from outside of the cluster does not travel; create it in the cluster"
    return ""
