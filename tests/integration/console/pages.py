"""A browser, and whole federations for it: `hanse up` and `hanse global` as processes, on ports of their own."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, expect, sync_playwright

from hanse.api.v1 import job_spec_pb2
from tests.integration.processes import EXIT_DEADLINE_S, HANSE

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser") or ""
VIEWPORT: Final = {"width": 1280, "height": 800}
PATIENCE_MS: Final = 15_000
ANY: Final = "127.0.0.1:0"

expect.set_options(timeout=PATIENCE_MS)

FLEET: Final = """
flavors:
  - name: h100
    labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
queues:
  - {name: research, quotas: [{flavor: h100, nominal: {nvidia.com/gpu: 512}}]}
  - {name: vision, quotas: [{flavor: h100, nominal: {nvidia.com/gpu: 64}}]}
pools:
  - name: iowa
    region: us-central1
    start_s: 0.1
    start_jitter_s: 0.1
    stop_s: 0.1
    groups:
      - node_prefix: iowa
        gpu: h100
        levels: [{name: block, count: 2}, {name: rack, count: 4}, {name: host, count: 4}]
  - name: oslo
    region: eu-north-1
    start_s: 0.1
    start_jitter_s: 0.1
    stop_s: 0.1
    groups:
      - node_prefix: oslo
        gpu: h100
        levels: [{name: rack, count: 2}, {name: host, count: 4}]
"""


@dataclass(slots=True)
class Running:
    """A process that answers, and where its console is."""

    process: "subprocess.Popen[str]"
    address: str
    url: str

    def kill(self) -> None:
        """The machine is gone."""
        self.process.kill()
        self.process.wait(EXIT_DEADLINE_S)


@contextmanager
def started(arguments: Sequence[str], home: Path) -> Iterator[Running]:
    """`hanse` with these arguments, until the block ends."""
    environment = {**os.environ, "HOME": str(home), "HANSE_STATE_DIR": str(home / "state")}
    command = [str(HANSE), *arguments, "-o", "json", "--log-level", "error"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            first = json.loads(process.stdout.readline())
            yield Running(process, first["address"], first["console"])
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(EXIT_DEADLINE_S)


def up(folder: Path, *, store: str = "memory:", listen: str = ANY, console: str = ANY) -> list[str]:
    """The arguments of a federation of two small pools."""
    fleet = folder / "fleet.yaml"
    fleet.write_text(FLEET)
    return ["up", "--fleet", str(fleet), "--store", store, "--listen", listen, "--console", console]


@dataclass(slots=True)
class Browsing:
    """Pages, and what they complained about: nothing, but for what begins as a test `forgives`."""

    browser: Browser
    forgives: str = "nothing"
    complaints: list[str] = field(default_factory=list)
    close: list[Callable[[], None]] = field(default_factory=list)

    def page(self, url: str, *, scheme: str = "dark") -> Page:
        """A page of a browser of its own: nothing is shared with the others."""
        context = self.browser.new_context(viewport=VIEWPORT, color_scheme=scheme)  # type: ignore[arg-type]
        self.close.append(context.close)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        page.on("console", lambda said: self._heard(said.text) if said.type == "error" else None)
        page.goto(url)
        return page

    def _heard(self, said: str) -> None:
        if not said.startswith(self.forgives):
            self.complaints.append(said)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's chromium without a window."""
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def gang(
    name: str, pods: int, *, queue: str = "research", level: str = "", command: Sequence[str] = ("sleep", "600")
) -> job_spec_pb2.JobSpec:
    """A gang of whole hosts."""
    pod_set = job_spec_pb2.PodSet(
        name="worker",
        count=pods,
        resources={"nvidia.com/gpu": 8},
        topology=job_spec_pb2.Topology(required_level=level),
        template=job_spec_pb2.PodTemplate(image="train", command=command),
    )
    return job_spec_pb2.JobSpec(name=name, queue=queue, pod_sets=[pod_set])
