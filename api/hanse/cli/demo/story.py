"""Tells the demo: starts a federation, asks it what the commands ask, and prints a scene after each answer.

The federation lives in a temporary folder and is gone afterwards. It is asked through its own port, so the demo sees
what a user in another terminal would see.
"""

import asyncio
import os
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hanse.cli import simulated
from hanse.cli.commands.capacity import shapes_of
from hanse.cli.demo import scenes
from hanse.cli.failures import Failure
from hanse.cli.fleets import read_fleet_file
from hanse.cli.session import Session, put
from hanse.cli.show.words import ended, state_of
from hanse.cli.state import state_dir, write_last
from hanse.cli.symbols import TIMES
from hanse.client import AsyncClient
from hanse.model.lifecycle import State

if TYPE_CHECKING:
    from hanse.api.v1.job_pb2 import Job

EXAMPLE: Final = "llama3-70b.yaml"
EXAMPLE_SHOWN: Final = f"docs/examples/{EXAMPLE}"
PLACED_DEADLINE_S: Final = 30.0
RUNNING_DEADLINE_S: Final = 20.0
RECOVERED_DEADLINE_S: Final = 30.0
NODES_TRIES_MAX: Final = 10
NODES_PAUSE_S: Final = 0.3
_PLACED: Final = frozenset({State.PLACED, State.STARTING, State.RUNNING})


@dataclass(frozen=True, slots=True)
class Plot:
    """How the story is told.

    Attributes:
        once: end after it instead of staying up.
        listen: HOST:PORT; "" for the usual address, or a free port if that is taken.
        fleet: another fleet file; None for the demo's.
    """

    once: bool
    listen: str
    fleet: Path | None
    replicas: int


async def tell_story(plot: Plot, session: Session) -> bool:
    """Tell it; whether the gang has got all of its places."""
    teller = _Teller(session)
    session.note("starting a federation of simulated clusters …")
    async with _federation(plot) as (address, console), AsyncClient(address) as client:
        job = await teller.tell(client)
        outcome = scenes.outcome_of(job)
        teller.put(scenes.ending(job, outcome, session.paper))
        if not plot.once:
            await _stay_up(address, console, teller, outcome)
        return outcome.whole


@asynccontextmanager
async def _federation(plot: Plot) -> AsyncIterator[tuple[str, str]]:
    """A federation; its address, and that of its console."""
    from hanse.up.harness import federation
    from hanse.up.options import UpOptions

    with tempfile.TemporaryDirectory(prefix="hanse-demo-", ignore_cleanup_errors=True) as folder:
        options = UpOptions(
            fleet=read_fleet_file(plot.fleet),
            store=f"sqlite:{folder}/demo.sqlite",
            listen=_address(plot),
            console="" if plot.once else "auto",
            replicas=plot.replicas,
        )
        async with federation(options) as running:
            yield running.address, running.console


def _address(plot: Plot) -> str:
    """Where to answer: the usual address, but for a short story or if somebody answers there already."""
    from hanse.up.options import DEFAULT_LISTEN

    host, _, port = DEFAULT_LISTEN.rpartition(":")
    if plot.listen:
        return plot.listen
    if plot.once:
        return f"{host}:0"
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(port)))
        except OSError:
            return f"{host}:0"
    return DEFAULT_LISTEN


async def _stay_up(address: str, console: str, teller: "_Teller", outcome: scenes.Outcome) -> None:
    from hanse.up.options import DEFAULT_LISTEN

    pool = outcome.pools[0] if outcome.pools else teller.first_pool
    usual = address == DEFAULT_LISTEN
    paper = teller.session.paper
    teller.put(
        scenes.stays_up(address, console=console, usual=usual, paper=paper, try_pool=pool, broken=teller.broken)
    )
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()


class _Teller:
    """Asks and tells, scene after scene."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.first_pool = ""
        self.broken = ""
        self._scene = 0

    def put(self, text: str) -> None:
        """Print something of the story."""
        put(self.session.paper.write(text))

    def _heading(self, words: str, command: str) -> None:
        self._scene += 1
        self.put(scenes.heading(self._scene, words, command, self.session.paper))

    async def tell(self, client: AsyncClient) -> "Job":
        """All five scenes; the job as it is after them."""
        await self._fleet(client)
        job = await self._submission(client)
        await self._reasons(client, job)
        job = await self._nodes(client, job)
        if job.status.nodes:
            job = await self._break(client, job)
        return job

    async def _fleet(self, client: AsyncClient) -> None:
        pools = await client.pools()
        self.first_pool = pools[0].name if pools else ""
        self.put(scenes.title(pools, await client.server_info(), self.session.paper))
        self._heading("The fleet", "hanse pools")
        self.put(scenes.fleet_scene(pools, await shapes_of(client, pools), self.session.paper))

    async def _submission(self, client: AsyncClient) -> "Job":
        text = resources.files("hanse.cli").joinpath("data", EXAMPLE).read_text(encoding="utf-8")
        spec = client.convert(text).jobs[0].spec
        gpus = spec.gpus // spec.pods
        what = f"One job, {spec.pods} {TIMES} {gpus} GPUs, as PyTorchJob + PodGroup"
        self._heading(what, f"hanse submit {EXAMPLE_SHOWN}")
        loop = asyncio.get_running_loop()
        began = loop.time()
        submission = await client.submit(text)
        accepted_ms = round((loop.time() - began) * 1_000)
        if submission.refusals:
            raise Failure(*(refusal.error for refusal in submission.refusals), file=EXAMPLE_SHOWN)
        write_last(state_dir(os.environ), client.server, submission.ids[0])
        job = await _until(client, submission.ids[0], _PLACED, PLACED_DEADLINE_S)
        queue = await client.queue(job.queue)
        self.put(scenes.submission_scene(job, queue, accepted_ms, self.session.paper))
        return job

    async def _reasons(self, client: AsyncClient, job: "Job") -> None:
        self._heading("Why there", f"hanse explain {job.name}")
        found = await client.explain(job.id)
        self.put(scenes.reasons_scene(found, job, self.session.paper))

    async def _nodes(self, client: AsyncClient, job: "Job") -> "Job":
        self._heading("Where exactly", f"hanse job {job.name} --nodes")
        job = await _with_nodes(client, job.id)
        self.put(scenes.nodes_scene(job, self.session.paper))
        return job

    async def _break(self, client: AsyncClient, job: "Job") -> "Job":
        job = await _until(client, job.id, frozenset({State.RUNNING}), RUNNING_DEADLINE_S, nodes=True)
        victim = job.status.nodes[len(job.status.nodes) // 2]
        self.broken = f"{victim.pool}/{victim.name}"
        self._heading("Break it", f"hanse sim fail {self.broken}")
        answer = await simulated.fail(client.server, victim.pool, victim.name)
        self.put(scenes.failure_lines(answer))
        with suppress(TimeoutError):
            async with asyncio.timeout(RECOVERED_DEADLINE_S):
                await self._recovery(client, job)
        job = await _with_nodes(client, job.id)
        self.put(scenes.recovered_lines(job, self.session.paper))
        return job

    async def _recovery(self, client: AsyncClient, job: "Job") -> None:
        """Print each change until all pods run again."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        before = None
        async for response in client.watch_jobs(job_ids=[job.id], after_revision=job.revision):
            for event in response.events:
                status = event.job.status
                seen = (status.state, status.attempt)
                after_ms = round((loop.time() - began) * 1_000)
                if seen != before:
                    change = scenes.Seen(after_ms, status.state, status.attempt, status.reason)
                    self.put(scenes.change_line(change, self.session.paper))
                before = seen
                again = status.attempt > job.status.attempt and state_of(status.state) is State.RUNNING
                if again or ended(status.state):
                    return


async def _until(
    client: AsyncClient, job_id: str, states: frozenset[State], deadline_s: float, *, nodes: bool = False
) -> "Job":
    """The job as soon as it is in one of the states or has ended, or as it is when the time is over."""
    with suppress(TimeoutError):
        async with asyncio.timeout(deadline_s):
            async for response in client.watch_jobs(job_ids=[job_id], snapshot=True):
                if any(_is_in(event.job, states) for event in response.events):
                    break
    return await client.job(job_id, nodes=nodes)


def _is_in(job: "Job", states: frozenset[State]) -> bool:
    return state_of(job.status.state) in states or ended(job.status.state)


async def _with_nodes(client: AsyncClient, job_id: str) -> "Job":
    """The job with its nodes; asked again for a moment while an agent is silent."""
    job = await client.job(job_id, nodes=True)
    for _ in range(NODES_TRIES_MAX):
        if job.status.nodes and not job.status.pools_silent:
            break
        await asyncio.sleep(NODES_PAUSE_S)
        job = await client.job(job_id, nodes=True)
    return job
