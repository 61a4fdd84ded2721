"""ConfigMaps and Services of a submission: they travel with the job that uses them, and are created beside its pods.

A job that is submitted alone takes all of them. Of several jobs a ConfigMap goes with each that names it, a Service
with each whose pods it selects; one that nobody uses is refused, because it would be left behind unseen. A Secret is
refused wherever it stands.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NoReturn

from hanse.manifests.converted import ImportedJob, Origin
from hanse.manifests.documents import Document
from hanse.manifests.tree import plain_node
from hanse.model.beside import COMPANION_KINDS, SECRET_WHY, Companion, Need, NeedKind, fault_of, why_not_companion
from hanse.model.errors import InvalidArgument
from hanse.model.names import quoted

_KEPT: Final = {"ConfigMap": ("data", "binaryData", "immutable"), "Service": ("spec",)}
_ASSIGNED: Final = ("clusterIP", "clusterIPs", "healthCheckNodePort")
_HEADLESS: Final = "None"


def refuse_secret(document: Document) -> None:
    """Refuse a Secret, whatever is in it."""
    if (document.group, document.kind) == ("", "Secret"):
        (document.field.get("kind") or document.field).refuse("SECRET", SECRET_WHY)


def travels(document: Document) -> bool:
    """Whether it is of a kind that travels. Raises InvalidArgument for a Secret."""
    refuse_secret(document)
    return (document.group, document.version) == ("", "v1") and document.kind in COMPANION_KINDS


@dataclass(frozen=True, slots=True)
class _Travelling:
    document: Document
    companion: Companion
    namespace: str


def with_companions(jobs: Sequence[ImportedJob], documents: Sequence[Document]) -> list[ImportedJob]:
    """The jobs, each with those of the documents, of kinds that travel, that go with it.

    Raises:
        InvalidArgument: nobody uses one, or it cannot travel.
    """
    found = [_travelling(document) for document in documents]
    taken: dict[int, list[_Travelling]] = {}
    for one in found:
        users = [i for i, job in enumerate(jobs) if len(jobs) == 1 or _uses(job, one)]
        if not users:
            _refuse(one, "NO_SUCH_JOB", f"no job in this submission uses this {one.companion.kind}")
        for index in users:
            taken.setdefault(index, []).append(one)
    return [_joined(job, taken[index]) if index in taken else job for index, job in enumerate(jobs)]


def _travelling(document: Document) -> _Travelling:
    metadata = document.field.need("metadata", "no metadata; the object needs a name")
    namespace = metadata.get("namespace")
    companion = _companion(document)
    found = _Travelling(document, companion, namespace.text() if namespace else "")
    why = why_not_companion(companion)
    if why:
        _refuse(found, "COMPANION_INVALID", why)
    return found


def _companion(document: Document) -> Companion:
    metadata = document.field.need("metadata")
    name = metadata.need("name", "no name; the object needs one").word()
    told: dict[str, object] = {"name": name}
    for key in ("labels", "annotations"):
        texts = metadata.get(key)
        if texts is not None:
            told[key] = texts.texts()
    body: dict[str, object] = {"apiVersion": "v1", "kind": document.kind, "metadata": told}
    for key in _KEPT[document.kind]:
        field = document.field.get(key)
        if field is not None:
            body[key] = plain_node(field.node)
    if isinstance(spec := body.get("spec"), dict):
        body["spec"] = {k: v for k, v in spec.items() if k not in _ASSIGNED or v == _HEADLESS or v == [_HEADLESS]}
    return Companion(document.kind, name, json.dumps(body, ensure_ascii=False, separators=(",", ":"), default=str))


def _uses(job: ImportedJob, one: _Travelling) -> bool:
    if one.companion.kind == "ConfigMap":
        return Need(NeedKind.CONFIG_MAP, one.companion.name) in job.spec.every_need
    selector = json.loads(one.companion.text)["spec"]["selector"].items()
    return any(all(own.get(key) == value for key, value in selector) for own in job.pod_labels)


def _joined(job: ImportedJob, found: Sequence[_Travelling]) -> ImportedJob:
    for one in found:
        if one.namespace and job.namespace and one.namespace != job.namespace:
            said = f"the job is in namespace {quoted(job.namespace)}, this in {quoted(one.namespace)}; use one"
            _refuse(one, "CONTRADICTION", said)
    companions = tuple(one.companion for one in found)
    brought = {Need(NeedKind.CONFIG_MAP, c.name) for c in companions if c.kind == "ConfigMap"}
    kept = [(i, need) for i, need in enumerate(job.spec.needs) if need not in brought]
    fault = fault_of((), companions)
    if fault is not None:
        index = int(fault.path[11:-1]) if fault.path.endswith("]") else 0
        _refuse(found[index], fault.reason, fault.message)
    origins = {path: origin for path, origin in job.origins.items() if not path.startswith("needs[")}
    origins |= {f"needs[{to}]": job.where(f"needs[{at}]") for to, (at, _) in enumerate(kept)}
    for index, one in enumerate(found):
        field = one.document.field.get("kind") or one.document.field
        origins[f"companions[{index}]"] = Origin(field.path, field.line)
    spec = replace(job.spec, needs=tuple(need for _, need in kept), companions=companions)
    return replace(job, spec=spec, origins=origins)


def _refuse(one: _Travelling, reason: str, message: str) -> NoReturn:
    field = one.document.field.get("kind") or one.document.field
    raise InvalidArgument(message, reason=reason, path=field.path, line=field.line)
