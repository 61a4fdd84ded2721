"""Finds the servers that tests start: on PATH, where Debian puts daemons, or where the e2e tools are.

`.ci/services` installs Debian's packages where it may; `make test` calls it. A test that needs a server which is not
there is skipped with one line that says how to get it; in CI it fails, so that nothing is skipped unseen.
"""

import os
import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.arch.tree import ROOT

DAEMON_FOLDERS: Final = ("/usr/sbin", "/usr/local/sbin")
E2E_TOOLS: Final = ROOT / "e2e" / "tools" / "bin"
PACKAGES: Final = {"etcd": "etcd-server", "mosquitto": "mosquitto"}


def find(name: str) -> Path | None:
    """The server's binary, or None."""
    folders = [os.environ.get("PATH", ""), *DAEMON_FOLDERS, os.environ.get("KUBEBUILDER_ASSETS", ""), str(E2E_TOOLS)]
    found = shutil.which(name, path=os.pathsep.join(folder for folder in folders if folder))
    return None if found is None else Path(found)


def need(name: str) -> Path:
    """The server's binary; without one the test is skipped, or fails in CI."""
    found = find(name)
    if found is None:
        how = f"{name} is not installed: run `make services` as root, or `apt-get install {PACKAGES[name]}`"
        if os.environ.get("CI"):
            pytest.fail(how)
        pytest.skip(how)
    return found
