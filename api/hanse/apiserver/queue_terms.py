"""Whether a job names only what its queue may use in a cluster: the terms of the access policy, applied. Pure.

What is read here is what an agent will hand to its cluster: the fields of the spec, and the manifest with the agent's
own reader, every object in it at every depth, so that no list that a client fills in is believed. A text that cannot
be read makes no object in any cluster either, and passes.
"""

from collections.abc import Iterator
from typing import Final

from hanse.apiserver.access.terms import DEFAULT_ACCOUNT, LAX, QueueTerms, allowed
from hanse.apiserver.catalog import Terms
from hanse.manifests import plain_documents
from hanse.model.beside import NeedKind
from hanse.model.errors import InvalidArgument, PermissionDenied
from hanse.model.job import JobSpec
from hanse.model.names import quoted
from hanse.model.queue import Queue

REASON: Final = "NOT_ALLOWED_IN_QUEUE"
_ACCOUNTS: Final = ("serviceAccountName", "serviceAccount")
_ESCAPE: Final = "\\"
_TELLING: Final = ("serviceAccount", "namespace", _ESCAPE)
"""A text without any of these names neither, however it is written."""


def check_terms(spec: JobSpec, queue: Queue, terms: QueueTerms, known: Terms) -> None:
    """Raises PermissionDenied: reason NOT_ALLOWED_IN_QUEUE, with the path."""
    if terms == LAX:
        return
    default = known.default_priority
    check_priority(spec.priority_class or (default.name if default is not None else ""), queue.name, terms)
    _check_flavors(spec, queue, terms)
    for path, namespace in _namespaces(spec):
        if namespace and not allowed(terms.namespaces, namespace):
            raise _refused("namespace", namespace, queue.name, terms.namespaces, path)
    for path, account in _accounts(spec):
        if account and account != DEFAULT_ACCOUNT and not allowed(terms.service_accounts, account):
            raise _refused("service account", account, queue.name, terms.service_accounts, path)


def check_priority(name: str, queue: str, terms: QueueTerms) -> None:
    """Raises PermissionDenied: reason NOT_ALLOWED_IN_QUEUE; the queue may not use the class ("": none is named)."""
    if name and not allowed(terms.priority_classes, name):
        raise _refused("priority class", name, queue, terms.priority_classes or (), "priority_class")


def _check_flavors(spec: JobSpec, queue: Queue, terms: QueueTerms) -> None:
    """Those that a pod set names, or, if it names none, all for which its queue has a quota."""
    for index, pod_set in enumerate(spec.pod_sets):
        for flavor in pod_set.flavors or tuple(quota.flavor for quota in queue.quotas):
            if not allowed(terms.flavors, flavor):
                raise _refused("flavor", flavor, queue.name, terms.flavors or (), f"pod_sets[{index}].flavors")


def _refused(what: str, name: str, queue: str, there: tuple[str, ...], path: str) -> PermissionDenied:
    may = f"it may use {', '.join(there)}" if there else "it may name none"
    return PermissionDenied(
        f"jobs of queue {quoted(queue)} may not use {what} {quoted(name)}; {may} (the access policy says so)",
        reason=REASON,
        path=path,
    )


def _namespaces(spec: JobSpec) -> Iterator[tuple[str, str]]:
    if spec.manifest is not None:
        yield "manifest.namespace", spec.manifest.namespace
    for path, key, value in _named(spec):
        if key == "namespace":
            yield path, value


def _accounts(spec: JobSpec) -> Iterator[tuple[str, str]]:
    for need in spec.every_need:
        if need.kind is NeedKind.SERVICE_ACCOUNT:
            yield "needs", need.name
    for path, key, value in _named(spec):
        if key in _ACCOUNTS:
            yield path, value


def _named(spec: JobSpec) -> Iterator[tuple[str, str, str]]:
    """Path, key and text of every field of these names in the objects that a job brings."""
    texts = [("manifest.text", spec.manifest.text)] if spec.manifest is not None else []
    texts.extend((f"companions[{index}].text", one.text) for index, one in enumerate(spec.companions))
    for path, text in texts:
        if not any(word in text for word in _TELLING):
            continue
        try:
            documents = plain_documents(text)
        except InvalidArgument:
            continue
        for document in documents:
            yield from _walk(document, path)


def _walk(node: object, path: str) -> Iterator[tuple[str, str, str]]:
    """Not by recursion: the reader bounds the depth, and this need not know by how much."""
    waiting = [node]
    while waiting:
        at = waiting.pop()
        if isinstance(at, dict):
            for key, value in at.items():
                if key in ("namespace", *_ACCOUNTS) and isinstance(value, str):
                    yield path, str(key), value
            waiting.extend(at.values())
        elif isinstance(at, list):
            waiting.extend(at)
