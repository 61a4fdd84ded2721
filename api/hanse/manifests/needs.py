"""What the pods of a template need of their cluster by name: read where Kubernetes reads it.

What is marked as optional is no need, nor is the service account `default`, which every namespace has.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from hanse.manifests.fields import Field
from hanse.model.beside import Need, NeedKind

Found = tuple[Need, Field]

_BY_POD: Final = (
    ("serviceAccountName", NeedKind.SERVICE_ACCOUNT),
    ("serviceAccount", NeedKind.SERVICE_ACCOUNT),
    ("priorityClassName", NeedKind.PRIORITY_CLASS),
    ("runtimeClassName", NeedKind.RUNTIME_CLASS),
)
_BY_VOLUME: Final = (
    ("secret", "secretName", NeedKind.SECRET),
    ("configMap", "name", NeedKind.CONFIG_MAP),
    ("persistentVolumeClaim", "claimName", NeedKind.PERSISTENT_VOLUME_CLAIM),
)
_PROJECTED: Final = (("secret", NeedKind.SECRET), ("configMap", NeedKind.CONFIG_MAP))
_ENV: Final = (("secretKeyRef", NeedKind.SECRET), ("configMapKeyRef", NeedKind.CONFIG_MAP))
_ENV_FROM: Final = (("secretRef", NeedKind.SECRET), ("configMapRef", NeedKind.CONFIG_MAP))
_DEFAULT_ACCOUNT: Final = Need(NeedKind.SERVICE_ACCOUNT, "default")


def needs_of(specs: Iterable[Field]) -> dict[Need, Field]:
    """The needs of pod specs, each with the first place where it is named, in order of kind and name."""
    found: dict[Need, Field] = {}
    for spec in specs:
        for need, field in _pod(spec):
            if need != _DEFAULT_ACCOUNT:
                found.setdefault(need, field)
    return dict(sorted(found.items()))


def _pod(spec: Field) -> Iterator[Found]:
    for key, kind in _BY_POD:
        yield from _named(spec, key, kind)
    for secret in _items(spec, "imagePullSecrets"):
        yield from _named(secret, "name", NeedKind.SECRET)
    for volume in _items(spec, "volumes"):
        yield from _volume(volume)
    for group in ("containers", "initContainers"):
        for container in _items(spec, group):
            yield from _container(container)


def _volume(volume: Field) -> Iterator[Found]:
    for key, name, kind in _BY_VOLUME:
        yield from _reference(volume.get(key), name, kind)
    projected = volume.get("projected")
    for source in _items(projected, "sources") if projected else ():
        for key, kind in _PROJECTED:
            yield from _reference(source.get(key), "name", kind)


def _container(container: Field) -> Iterator[Found]:
    for source in _items(container, "envFrom"):
        for key, kind in _ENV_FROM:
            yield from _reference(source.get(key), "name", kind)
    for variable in _items(container, "env"):
        value = variable.get("valueFrom")
        for key, kind in _ENV if value else ():
            yield from _reference(value.get(key) if value else None, "name", kind)


def _reference(source: Field | None, name: str, kind: NeedKind) -> Iterator[Found]:
    optional = source.get("optional") if source else None
    if source is not None and not (optional and optional.boolean()):
        yield from _named(source, name, kind)


def _named(field: Field, key: str, kind: NeedKind) -> Iterator[Found]:
    name = field.get(key)
    if name is not None and name.text():
        yield Need(kind, name.text()), name


def _items(field: Field, key: str) -> Iterator[Field]:
    listed = field.get(key)
    return listed.items() if listed is not None else iter(())
