"""The dashboard of every Ray cluster's head, played: KubeRay submits a job there and asks how it is.

Heads are only played, and their Services have no address. KubeRay asks for them by a name, through the proxy that its
environment says: that proxy is this server, and answers by itself. A job runs for a while, and succeeds.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import urlsplit

JOB_S: Final = 3.0
JOBS: Final = "/api/jobs/"


@contextmanager
def ray_dashboards() -> Iterator[dict[str, str]]:
    """Serve while this is open; the environment that leads a controller here."""
    begun: dict[str, float] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))) or b"{}")
            job = asked.get("submission_id", "")
            begun.setdefault(job, time.monotonic())
            self._answer({"job_id": job, "submission_id": job, "stopped": True})

        def do_GET(self) -> None:
            job = urlsplit(self.path).path.removeprefix(JOBS).rstrip("/")
            if job not in begun:
                self._answer({"message": "no such job"}, 404)
                return
            ended = time.monotonic() - begun[job] > JOB_S
            told = {"status": "SUCCEEDED" if ended else "RUNNING", "message": "", "entrypoint": ""}
            self._answer({"job_id": job, "submission_id": job, "start_time": 1, "end_time": int(ended), **told})

        def do_DELETE(self) -> None:
            self._answer({})

        def _answer(self, body: dict[str, object], code: int = 200) -> None:
            data = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Nothing of this is of interest."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, name="ray-dashboards", daemon=True)
    thread.start()
    try:
        yield {"HTTP_PROXY": f"http://127.0.0.1:{server.server_address[1]}", "NO_PROXY": "127.0.0.1"}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
