"""The scenes of the demo as text: what was asked, what the federation answered, and which command shows it again.

Everything that is said is taken from an answer of the API; a scene that cannot be told truly says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hanse.cli.amounts import counted, duration, gpus_of, number, percent
from hanse.cli.paper import Paper, Tone, columns_of, joined, wrapped
from hanse.cli.show.explanation import help_words, places_of, pool_lines
from hanse.cli.show.jobs import placed_in
from hanse.cli.show.nodes import node_lines
from hanse.cli.show.pools import pools_page
from hanse.cli.show.queues import used_of
from hanse.cli.show.words import reason_prose, reason_words, state_of, state_tone, state_word
from hanse.model.lifecycle import State
from hanse.model.resources import GPU_RESOURCES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hanse.api.v1.explanation_pb2 import Explanation
    from hanse.api.v1.job_pb2 import Job
    from hanse.api.v1.pool_pb2 import Pool, PoolShape
    from hanse.api.v1.queue_pb2 import Queue
    from hanse.api.v1.server_service_pb2 import ServerInfo
    from hanse.sim.v1.sim_pb2 import PathResponse

INDENT: Final = "     "
NODE_ROWS_MAX: Final = 8
HOLDS_PLACES: Final = frozenset({State.PLACED, State.STARTING, State.RUNNING, State.SUCCEEDED})


@dataclass(frozen=True, slots=True)
class Seen:
    """One change of the job that was watched."""

    after_ms: int
    state: int
    attempt: int
    reason: str


def title(pools: "Sequence[Pool]", info: "ServerInfo", paper: Paper) -> str:
    """The head: what was started, and how busy it is."""
    gpus, free = sum(pool.gpus for pool in pools), sum(pool.free_gpus for pool in pools)
    nodes = sum(pool.nodes for pool in pools)
    left = f"Hanse demo · {counted(len(pools), 'pool')} · {number(nodes)} nodes · {percent(gpus - free, gpus)} busy"
    return joined([_both(left, f"store {info.store} · {counted(len(info.replicas), 'replica')}", paper, Tone.STRONG)])


def heading(index: int, words: str, command: str, paper: Paper) -> str:
    """`  1  The fleet                                    hanse pools`; a long command stands below."""
    left = f"  {index}  {words}"
    if columns_of(left) + 2 + columns_of(command) <= paper.width:
        return joined(["", _both(left, command, paper, Tone.STRONG)])
    return joined(["", paper.paint(left, Tone.STRONG), _both("", command, paper, Tone.STRONG)])


def _both(left: str, right: str, paper: Paper, tone: Tone) -> str:
    space = max(2, paper.width - columns_of(left) - columns_of(right))
    return f"{paper.paint(left, tone)}{' ' * space}{paper.paint(right, Tone.DIM)}"


def _indented(text: str) -> str:
    return "".join(f"{INDENT}{line}\n" for line in text.splitlines())


def _narrower(paper: Paper) -> Paper:
    return Paper(paper.width - len(INDENT), paper.colour, paper.unicode, True, paper.encoding)


def fleet_scene(pools: "Sequence[Pool]", shapes: "Mapping[str, PoolShape]", paper: Paper) -> str:
    """Scene 1: the pools."""
    return _indented(pools_page(pools, shapes, _narrower(paper)))


def submission_scene(job: "Job", queue: "Queue", accepted_ms: int, paper: Paper) -> str:
    """Scene 2: accepted, granted, placed; with the times that it took."""
    status = job.status
    if status.placed_ms:
        told = [
            f"accepted in {duration(accepted_ms)} · placed {duration(status.placed_ms - status.submitted_ms)} later",
            f"queue {job.queue} · {granted(job, queue)}",
            _where(job),
        ]
    else:
        told = [
            f"accepted in {duration(accepted_ms)} · queue {job.queue}",
            f"{state_word(status.state)}: {status.message or reason_prose(status.reason)}",
        ]
    width = _narrower(paper).width
    return _indented(joined(line for one in told for line in wrapped(one, width)))


def granted(job: "Job", queue: "Queue") -> str:
    """`4,096 of 8,192 h100 granted`, as the queue's quota has it."""
    flavors = {flavor for part in job.status.placement for flavor in part.flavor.split(",") if flavor}
    parts = [
        f"{number(used_of(queue, quota.flavor, resource))} of {number(nominal)} {quota.flavor} granted"
        for quota in queue.quotas
        for resource, nominal in sorted(quota.nominal.items())
        if quota.flavor in flavors and resource in GPU_RESOURCES
    ]
    return ", ".join(parts) or "nothing granted yet"


def reasons_scene(found: "Explanation", job: "Job", paper: Paper) -> str:
    """Scene 3: every pool, why or why not; the bars show how much of what is wanted is there."""
    lines = pool_lines(found.pools, _narrower(paper), places=places_of(job))
    helps = [f"  would help: {help_words(one)}" for one in found.helps]
    return _indented(joined([found.answer, *lines, *helps]))


def nodes_scene(job: "Job", paper: Paper) -> str:
    """Scene 4: racks and ranks."""
    return _indented(joined(node_lines(job.status, _narrower(paper), rows_max=NODE_ROWS_MAX)))


def failure_lines(answer: "PathResponse") -> str:
    """Scene 5, first half: what died."""
    what = f"{', '.join(answer.nodes)} died"
    lost = f"; {counted(len(answer.gangs), 'gang')} lost pods" if answer.gangs else ""
    return _indented(f"{what}{lost}\n")


def change_line(seen: Seen, paper: Paper) -> str:
    """Scene 5, second half, line by line: what the federation did about it."""
    word = paper.paint(f"{state_word(seen.state):<9}", state_tone(seen.state))
    why = f"  {reason_words(seen.reason)}: {reason_prose(seen.reason)}" if seen.reason else ""
    return _indented(f"+{duration(seen.after_ms):>6}  attempt {seen.attempt}  {word}{why}".rstrip() + "\n")


def recovered_lines(job: "Job", paper: Paper) -> str:
    """Scene 5, the end: where it is now."""
    before = [f"attempt {one.attempt} ended by {one.reason}" for one in job.status.attempts]
    told = f"{', '.join(before) or 'no attempt has ended'}; attempt {job.status.attempt} in {_where(job)}"
    return _indented(joined(wrapped(told, _narrower(paper).width)))


def _where(job: "Job") -> str:
    return "; ".join(f"{part.pool}: {placed_in(part)}" for part in job.status.placement) or "no pool"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where the gang is, counted from what the agents say."""

    pods: int
    pods_wanted: int
    gpus: int
    nodes: int
    pools: tuple[str, ...]
    state: State

    @property
    def whole(self) -> bool:
        """Every pod has its place, in one pool."""
        return self.pods == self.pods_wanted > 0 and len(self.pools) == 1 and self.state in HOLDS_PLACES


def outcome_of(job: "Job") -> Outcome:
    """Count pods, GPUs and nodes of the newest attempt."""
    of_pod = {pod_set.name: gpus_of(pod_set.resources) for pod_set in job.spec.pod_sets}
    nodes = job.status.nodes
    return Outcome(
        pods=sum(len(node.ranks) for node in nodes),
        pods_wanted=sum(pod_set.count for pod_set in job.spec.pod_sets),
        gpus=sum(len(node.ranks) * of_pod.get(node.pod_set, 0) for node in nodes),
        nodes=len({(node.pool, node.name) for node in nodes}),
        pools=tuple(sorted({node.pool for node in nodes})),
        state=state_of(job.status.state),
    )


def ending(job: "Job", outcome: Outcome, paper: Paper) -> str:
    """The last line of the story."""
    if outcome.whole:
        told = (
            f"{number(outcome.pods)} pods · {number(outcome.gpus)} GPUs · "
            f"{number(outcome.nodes)} different nodes · in pool {outcome.pools[0]}"
        )
        return joined(["", f"{paper.paint('✔', Tone.GOOD)} {paper.paint(f'{job.name}: {told}', Tone.STRONG)}"])
    status = job.status
    why = f" ({status.message or reason_prose(status.reason)})" if status.reason else ""
    placed = f"{number(outcome.pods)} of {number(outcome.pods_wanted)} pods have places"
    told = f"{job.name} is {state_word(status.state)}: {placed}{why}"
    return joined(["", f"{paper.paint('✘', Tone.BAD)} {paper.paint(told, Tone.STRONG)}"])


def stays_up(address: str, *, console: str, usual: bool, paper: Paper, try_pool: str, broken: str) -> str:
    """What to try while the federation stays up."""
    lines = ["", f"The federation stays up at {address}; Ctrl-C ends it."]
    lines += [f"Look at it in a browser: {console}"] if console else []
    lines += ["In another terminal:", ""]
    if not usual:
        lines.append(f"  export HANSE_SERVER={address}")
    lines += [
        f"  hanse pool {try_pool} --shape",
        "  hanse submit --gpus 64 --per-pod 8 --flavor h100 --required rack -- python train.py",
        "  hanse explain last",
        "  hanse jobs",
    ]
    if broken:
        lines.append(f"  hanse sim restore {broken}")
    return joined(paper.paint(line, Tone.PLAIN) for line in lines)
