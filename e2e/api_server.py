"""An API server, asked as its administrator by other means than the product's."""

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import yaml

CALL_TIMEOUT_S: Final = 20.0
BUSY_TRIES_MAX: Final = 20
BUSY_PAUSE_S: Final = 1.0
"""As a server asks for."""

MERGE: Final = "application/merge-patch+json"


class ApiServer:
    """See the module.

    Attributes:
        address: its URL.
        kubeconfig: of an administrator.
    """

    def __init__(self, address: str, kubeconfig: Path, tls: ssl.SSLContext, token: str = "") -> None:
        self.address = address
        self.kubeconfig = kubeconfig
        self._tls = tls
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def call(self, method: str, path: str, body: object = None, *, form: str = MERGE) -> Any:
        """A request; the answer's JSON. A server that is busy, as with a CRD that was changed, is asked again.

        Raises:
            urllib.error.HTTPError: the server refuses it.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, "Content-Type": form if method == "PATCH" else "application/json"}
        request = urllib.request.Request(self.address + path, data=data, headers=headers, method=method)
        for _ in range(BUSY_TRIES_MAX):
            try:
                return self._answer(request)
            except urllib.error.HTTPError as error:
                if error.code != HTTPStatus.TOO_MANY_REQUESTS:
                    raise
                time.sleep(BUSY_PAUSE_S)
        return self._answer(request)

    def _answer(self, request: urllib.request.Request) -> Any:
        with urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S, context=self._tls) as answer:
            return json.load(answer)

    def lines(self, path: str) -> Iterator[bytes]:
        """Lines of an answer that goes on for a while."""
        request = urllib.request.Request(self.address + path, headers=self._headers)
        with urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S, context=self._tls) as answer:
            yield from answer

    def delete(self, path: str, body: object = None) -> None:
        """Delete an object, which may be gone already."""
        try:
            self.call("DELETE", path, body)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise


def given(path: Path, folder: Path) -> ApiServer:
    """The server that a kubeconfig names, as kind writes it: with certificates inside, and one of each.

    Args:
        folder: for the certificates, which TLS takes from files only.
    """
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    cert, key = (folder / f"{path.name}.{name}" for name in ("crt", "key"))
    cert.write_bytes(base64.b64decode(user["client-certificate-data"]))
    key.write_bytes(base64.b64decode(user["client-key-data"]))
    tls.load_cert_chain(cert, key)
    return ApiServer(cluster["server"], path, tls)
