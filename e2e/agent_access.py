"""An agent's own identity in a cluster: what it may do, and kubeconfigs that prove it in several ways.

The role is the one that users are told to give; a request beyond it fails the test that made it.
"""

import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.api_objects import make
from e2e.api_server import ApiServer
from tests.arch.tree import ROOT

NAMESPACE: Final = "hanse-system"
ACCOUNT: Final = "hanse-agent"
ROLE: Final = ROOT / "docs" / "examples" / "agent-role.yaml"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
TOKEN_S: Final = 3_600


def account_token(plane: ApiServer) -> str:
    """A token of the agent's account, which is made if it is not there."""
    account = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT}
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    make(plane, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    make(plane, accounts, {"metadata": {"name": ACCOUNT}})
    make(plane, f"{RBAC}/clusterroles", yaml.safe_load(ROLE.read_text(encoding="utf-8")))
    binding = {"metadata": {"name": ACCOUNT}, "subjects": [account], "roleRef": role}
    make(plane, f"{RBAC}/clusterrolebindings", binding)
    asked = plane.call("POST", f"{accounts}/{ACCOUNT}/token", {"spec": {"expirationSeconds": TOKEN_S}})
    token: str = asked["status"]["token"]
    return token


def kubeconfig(plane: ApiServer, path: Path, user: Mapping[str, Any]) -> Path:
    """A kubeconfig whose user is told like that."""
    found = yaml.safe_load(plane.kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": found}],
        "users": [{"name": "admin", "user": dict(user)}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "admin"}}],
        "current-context": "here",
    }
    path.write_text(json.dumps(config))
    return path


def exec_plugin(path: Path, token: str, asked: Path) -> Mapping[str, Any]:
    """A user whose token comes from a program, is about to expire at once, and is asked for again every time.

    Args:
        asked: the program adds a line for each time.
    """
    status = {"token": token, "expirationTimestamp": "2020-01-01T00:00:00Z"}
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    path.write_text(f"#!/bin/sh\necho asked >>{asked}\ncat <<'END'\n{json.dumps(answer)}\nEND\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    told = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), "interactiveMode": "Never"}
    return {"exec": told}
