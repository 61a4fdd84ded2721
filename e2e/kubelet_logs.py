"""Logs of pods, as a kubelet serves them to the API server: two lines of each container, at its begin and its end."""

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, urlsplit

LOOK_EVERY_S: Final = 0.05

Ended = Callable[[str, str], bool]
"""Whether a pod (namespace, name) has ended, or is gone."""


@contextmanager
def kubelet_logs(port: int, cert: str, key: str, ended: Ended) -> Iterator[None]:
    """Serve on a port of the loopback, in threads of their own."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            _, kind, namespace, pod, *_ = url.path.split("/")
            query = parse_qs(url.query)
            self.send_response(200 if kind == "containerLogs" else 404)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            lines = [f"{pod} begins\n"]
            if "follow" in query:
                self._write(lines)
                lines = []
                while not ended(namespace, pod):
                    time.sleep(LOOK_EVERY_S)
            if ended(namespace, pod):
                lines.append(f"{pod} ended\n")
            tail = int(query.get("tailLines", ["0"])[0])
            self._write(lines[-tail:] if tail else lines)

        def _write(self, lines: list[str]) -> None:
            self.wfile.write("".join(lines).encode())
            self.wfile.flush()

        def log_message(self, *_: object) -> None:
            """Nothing of this is of interest."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, name="kubelet-logs", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
