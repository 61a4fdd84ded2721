"""Policies of an API server that refuse requests about pods, as an administrator's do."""

import json
import time
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from e2e.control_plane import ControlPlane

PATIENCE_S: Final = 30.0
LOOK_EVERY_S: Final = 0.05
POLICIES: Final = "/apis/admissionregistration.k8s.io/v1"
NAME: Final = "for-a-test"


@contextmanager
def refused(
    plane: ControlPlane, operation: str, unless: str, probe: tuple[str, str, object], *, reason: str = "Forbidden"
) -> Iterator[None]:
    """Refuse an operation (CREATE, DELETE) on pods unless a CEL expression holds.

    Args:
        probe: a request (method, path, body) that is to be refused; it is only tried.
        reason: decides the status: Forbidden 403, RequestEntityTooLarge 413, Invalid 422.
    """
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": [operation]}
    policy = {
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [pods]},
            "validations": [{"expression": unless, "message": "the policy says no", "reason": reason}],
        },
    }
    binding = {"metadata": {"name": NAME}, "spec": {"policyName": NAME, "validationActions": ["Deny"]}}
    plane.call("POST", f"{POLICIES}/validatingadmissionpolicies", policy)
    plane.call("POST", f"{POLICIES}/validatingadmissionpolicybindings", binding)
    try:
        _wait(lambda: _is_refused(plane, probe))
        yield
    finally:
        plane.delete(f"{POLICIES}/validatingadmissionpolicybindings/{NAME}")
        plane.delete(f"{POLICIES}/validatingadmissionpolicies/{NAME}")
        _wait(lambda: not _is_refused(plane, probe))


def _wait(holds: Any) -> None:
    ends_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < ends_s, "the API server does not notice its policies"
        time.sleep(LOOK_EVERY_S)


def _is_refused(plane: ControlPlane, probe: tuple[str, str, object]) -> bool:
    method, path, body = probe
    try:
        plane.call(method, f"{path}?dryRun=All", body)
    except urllib.error.HTTPError as error:
        return "the policy says no" in str(json.load(error).get("message"))
    return False
