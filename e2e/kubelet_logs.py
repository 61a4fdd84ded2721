"""What a kubelet serves to the API server: logs, two lines of each container, at its begin and its end; and sessions
with commands, which are handed on to kwok, byte by byte."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, urlsplit

LOOK_EVERY_S: Final = 0.05
ANSWER_S: Final = 10.0
PIECE_BYTES: Final = 65_536

Ended = Callable[[str, str], bool]
"""Whether a pod (namespace, name) has ended, or is gone."""


@contextmanager
def kubelet_logs(port: int, cert: str, key: str, ended: Ended, kwok: int) -> Iterator[None]:
    """Serve on a port of the loopback, in threads of their own; `kwok` is the port that commands are handed on to."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self._hand_on()

        def _hand_on(self) -> None:
            """The request, and whatever follows it in both directions, until one side ends."""
            self.close_connection = True
            lines = [self.requestline, *(f"{name}: {value}" for name, value in self.headers.items()), "", ""]
            with suppress(OSError), socket.create_connection(("127.0.0.1", kwok), timeout=ANSWER_S) as there:
                there.settimeout(None)
                there.sendall("\r\n".join(lines).encode())
                back = threading.Thread(target=self._hand_back, args=(there,), name="kubelet-exec", daemon=True)
                back.start()
                while data := self.rfile.read1(PIECE_BYTES):
                    there.sendall(data)
                there.shutdown(socket.SHUT_WR)
                back.join(ANSWER_S)

        def _hand_back(self, there: socket.socket) -> None:
            with suppress(OSError):
                while data := there.recv(PIECE_BYTES):
                    self.wfile.write(data)
                    self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            _, kind, namespace, pod, *_ = url.path.split("/")
            if kind == "exec":
                self._hand_on()
                return
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
