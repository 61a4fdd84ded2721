"""Commands in simulated pods: a handful of programs, played. Enough to see that one is in the right pod.

There is no shell and no file. `sh -c 'COMMAND'` runs COMMAND as its words; a program that is not played does not
exist, as in a very small image.
"""

import asyncio
import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Final, NamedTuple

from hanse.model.errors import FailedPrecondition
from hanse.simcluster.engine import Engine
from hanse.simcluster.pod_lines import PodName, number_of

PLAYED: Final = ("cat", "echo", "env", "exit", "false", "hostname", "sleep", "true")
NOT_FOUND: Final = 127
MISUSED: Final = 2
KILLED: Final = 137
SLEEP_MAX_S: Final = 3_600.0
LOOK_EVERY_S: Final = 1.0


class Played(NamedTuple):
    """What a command wrote, or, last of all, how it ended. The first one is empty: it has begun."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int | None = None


async def play(
    engine: Engine, pod: PodName, command: Sequence[str], stdin: AsyncIterator[bytes] | None
) -> AsyncGenerator[Played, None]:
    """Run a command in a pod.

    Raises:
        NotFound: there is no such pod.
        FailedPrecondition: it does not run, or nothing is to be run.
    """
    number = number_of(engine, pod)
    if not _runs(engine, pod, number):
        raise FailedPrecondition(f"pod {pod.rank} of {pod.pod_set} does not run")
    words = _words(command)
    yield Played()
    match words:
        case ["cat"]:
            async for data in _read(stdin):
                yield Played(stdout=data)
            yield Played(exit_code=0)
        case ["sleep", span]:
            yield Played(exit_code=await _sleep(engine, pod, number, span))
        case _:
            for played in _at_once(engine, pod, number, words):
                yield played


def _words(command: Sequence[str]) -> list[str]:
    match list(command):
        case []:
            raise FailedPrecondition("no command; say what to run")
        case ["sh" | "bash", "-c", text, *_]:
            return shlex.split(text) or ["true"]
        case words:
            return words


def _at_once(engine: Engine, pod: PodName, number: int, words: Sequence[str]) -> list[Played]:
    node = engine.nodes.names[int(engine.gangs[pod.gang].nodes[number])]
    match words:
        case ["echo", *rest]:
            return [Played(stdout=" ".join(rest).encode() + b"\n"), Played(exit_code=0)]
        case ["hostname"]:
            return [Played(stdout=f"{pod.pod_set}-{pod.rank}\n".encode()), Played(exit_code=0)]
        case ["env"]:
            told = {"HANSE_JOB": pod.gang.job, "RANK": str(pod.rank), "NODE": node}
            lines = "".join(f"{name}={value}\n" for name, value in told.items())
            return [Played(stdout=lines.encode()), Played(exit_code=0)]
        case ["exit", code] if code.isdecimal() and int(code) < 256:
            return [Played(exit_code=int(code))]
        case ["true" | "false" as word]:
            return [Played(exit_code=0 if word == "true" else 1)]
        case [word, *_] if word in PLAYED:
            return [Played(stderr=f"{word}: these arguments are not played\n".encode()), Played(exit_code=MISUSED)]
        case _:
            said = f"{words[0]}: not found; a simulated pod has {', '.join(PLAYED)}\n"
            return [Played(stderr=said.encode()), Played(exit_code=NOT_FOUND)]


async def _read(stdin: AsyncIterator[bytes] | None) -> AsyncIterator[bytes]:
    if stdin is not None:
        async for data in stdin:
            if data:
                yield data


async def _sleep(engine: Engine, pod: PodName, number: int, span: str) -> int:
    """Sleep so many seconds, or until the pod ends."""
    try:
        left_s = min(float(span), SLEEP_MAX_S)
    except ValueError:
        return MISUSED
    while left_s > 0:
        if not _runs(engine, pod, number):
            return KILLED
        await asyncio.sleep(min(left_s, LOOK_EVERY_S))
        left_s -= LOOK_EVERY_S
    return 0


def _runs(engine: Engine, pod: PodName, number: int) -> bool:
    gang = engine.gangs.get(pod.gang)
    if gang is None or number >= gang.created:
        return False
    return bool(gang.occupying[number]) and int(gang.start_ms[number]) <= engine.now_ms
