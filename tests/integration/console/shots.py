"""Pictures of the console for the documentation: `python -m tests.integration.console.shots docs/img`.

The demo's fleet with some work on it: gangs that run, one that lost a host and began anew, one that waits, a rack
that is out of order, a pool that is cordoned.
"""

import os
import re
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, expect

from hanse.client import Client
from tests.arch.tree import ROOT
from tests.integration.console.pages import ANY, Browsing, chromium, gang, started
from tests.integration.processes import HANSE

PATIENCE_S: Final = 60.0
LLAMA: Final = ROOT / "docs/examples/llama3-70b.yaml"
SETTLE_MS: Final = 2_600
"""Until pictures of racks are fetched, and again after the last change."""


def prepare(client: Client) -> tuple[str, str]:
    """Bring work onto the fleet; the job that began anew, and the one that waits."""
    [llama] = client.submit(LLAMA.read_text(encoding="utf-8")).jobs
    for number in range(1, 7):
        client.submit(gang(f"train-vision-{number}", 4 * number, level="rack"))
    others = ((24, "distill-7b", "research"), (16, "eval-suite", "default"), (96, "moe-8x22b", "default"))
    for pods, name, queue in others:
        client.submit(gang(name, pods, queue=queue))
    client.wait(llama.id, until="running", timeout_s=PATIENCE_S)
    simulate(client, "tokyo-h200/b1/r02")
    node = client.job(llama.id, nodes=True).status.nodes[100]
    simulate(client, "/".join((node.pool, *node.path, node.name.rpartition("-")[2])))
    client.cordon("montreal-b200", reason="power work until noon")
    waits = gang("llm-405b", 512, queue="default", level="block")
    waits.pod_sets[0].flavors.append("h200")
    [waiting] = client.submit(waits).jobs
    begun_anew(client, llama.id)
    client.wait(llama.id, until="running", timeout_s=PATIENCE_S)
    return llama.id, waiting.id


def begun_anew(client: Client, job: str) -> None:
    """Until the job is at its second attempt."""
    with closing(client.watch_jobs(job_ids=[job], snapshot=True)) as responses:  # type: ignore[type-var]
        for response in responses:
            if any(event.job.status.attempt > 1 for event in response.events):
                return


def simulate(client: Client, path: str) -> None:
    """Kill the machines below a path."""
    environment = {**os.environ, "HANSE_SERVER": client.server}
    subprocess.run([HANSE, "sim", "fail", path], env=environment, check=True, capture_output=True)


def shoot(page: Page, url: str, seen: str, file: Path) -> None:
    """One picture, once what is to be seen is there."""
    page.goto(url)
    page.reload()
    expect(page.locator("body")).to_contain_text(re.compile(seen))
    page.wait_for_timeout(SETTLE_MS)
    page.screenshot(path=file)
    print(f"{file}  {file.stat().st_size / 1_024:.0f} KiB")


def main(folder: Path) -> None:
    """All pictures."""
    with tempfile.TemporaryDirectory() as home:
        arguments = ["up", "--store", "memory:", "--listen", ANY, "--console", ANY]
        with started(arguments, Path(home)) as running, Client(running.address) as client, chromium() as browser:
            llama, waiting = prepare(client)
            browsing = Browsing(browser)
            dark, light = browsing.page(running.url), browsing.page(running.url, scheme="light")
            shoot(dark, f"{running.url}/#/", "cordoned", folder / "console-fleet.png")
            shoot(dark, f"{running.url}/#/jobs/{llama}", "attempt 2", folder / "console-job.png")
            shoot(light, f"{running.url}/#/jobs/{waiting}", "would help", folder / "console-waiting.png")
            shoot(light, f"{running.url}/#/queues/default", "llm-405b", folder / "console-queues.png")
            shoot(dark, f"{running.url}/#/pools/tokyo-h200", "releasing", folder / "console-pool.png")
            assert browsing.complaints == [], browsing.complaints


if __name__ == "__main__":
    main(Path(sys.argv[1]))
