"""Objects of any kind on an API server, by other means than the product's: discovery, creation, applying."""

import time
import urllib.error
from collections.abc import Iterable, Mapping
from typing import Any, Final

from e2e.api_server import ApiServer

PATIENCE_S: Final = 60.0
LOOK_EVERY_S: Final = 0.05
APPLY: Final = "application/apply-patch+yaml"
MANAGER: Final = "fieldManager=e2e&force=true"
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
Object = Mapping[str, Any]


def collection(plane: ApiServer, what: Object, namespace: str) -> str:
    """Path of the collection that an object belongs to; `namespace` counts for kinds that have one."""
    version: str = what["apiVersion"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    for resource in plane.call("GET", base)["resources"]:
        if resource["kind"] == what["kind"] and "/" not in resource["name"]:
            inside = f"/namespaces/{namespace}" if resource["namespaced"] else ""
            return f"{base}{inside}/{resource['name']}"
    raise AssertionError(f"the API server knows no {what['kind']} of {version}")


def create(plane: ApiServer, what: Object, namespace: str) -> dict[str, Any]:
    """Create an object in a namespace, whatever namespace it names."""
    metadata = {**what["metadata"]}
    metadata.pop("namespace", None)
    made: dict[str, Any] = plane.call("POST", collection(plane, what, namespace), {**what, "metadata": metadata})
    return made


def apply(plane: ApiServer, what: Object, namespace: str = "default") -> None:
    """Server-side apply, for objects that may be there already or are too large for an annotation."""
    name = what["metadata"]["name"]
    plane.call("PATCH", f"{collection(plane, what, namespace)}/{name}?{MANAGER}", what, form=APPLY)


def add_namespace(plane: ApiServer, name: str) -> None:
    """A namespace in which pods can be made: with the service account that they run as."""
    make(plane, "/api/v1/namespaces", {"metadata": {"name": name}})
    wait(lambda: _is_there(plane, f"/api/v1/namespaces/{name}/serviceaccounts/default"), f"namespace {name}")


def make(plane: ApiServer, path: str, body: Object) -> None:
    """Create what may be there already."""
    try:
        plane.call("POST", path, body)
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise


def add_crds(plane: ApiServer, crds: Iterable[Object]) -> None:
    """Apply definitions, and wait until their kinds are served."""
    names = []
    for crd in crds:
        name = crd["metadata"]["name"]
        body = {key: value for key, value in crd.items() if key != "status"}
        plane.call("PATCH", f"{CRDS}/{name}?{MANAGER}", body, form=APPLY)
        names.append(name)
    wait(lambda: all(_is_established(plane, name) for name in names), f"CRDs {' '.join(names)}")


def wait(holds: Any, what: str, patience_s: float = PATIENCE_S) -> None:
    """Until a condition holds."""
    ends_s = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < ends_s, f"not there after {patience_s} s: {what}"
        time.sleep(LOOK_EVERY_S)


def _is_there(plane: ApiServer, path: str) -> bool:
    try:
        plane.call("GET", path)
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return False
    return True


def _is_established(plane: ApiServer, name: str) -> bool:
    status = plane.call("GET", f"{CRDS}/{name}").get("status", {})
    return any(one["type"] == "Established" and one["status"] == "True" for one in status.get("conditions") or ())
