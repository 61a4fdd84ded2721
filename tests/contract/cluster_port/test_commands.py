"""Commands in pods: what they write and read, how they end, and pods that are not there."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from hanse.agent.cluster.port import ClusterPort, ExecInput, PodCommand
from hanse.model.errors import FailedPrecondition, NotFound
from tests.contract.cluster_port.acts import SET, key, node_names, record, run_gang, until_counts
from tests.contract.cluster_port.homes import FOR_LONG_S, SMALL_POD, ClusterHome

DEADLINE_S = 20.0


async def running(home: ClusterHome, agent: ClusterPort, *, seconds: float = FOR_LONG_S) -> None:
    held = record(key(), (await node_names(agent))[:2], resources=SMALL_POD)
    await run_gang(agent, held, home.run(SET, seconds=seconds))
    await until_counts(agent, key(), lambda c: c.running == 2 or c.succeeded == 2)


async def ran(
    agent: ClusterPort, *command: str, rank: int = 0, stdin: AsyncIterator[ExecInput] | None = None
) -> tuple[bytes, bytes, int | None]:
    """What a command wrote, and its exit code."""
    stdout, stderr, code = b"", b"", None
    async with asyncio.timeout(DEADLINE_S):
        async for out in agent.exec(PodCommand(key(), SET, rank, command), stdin):
            stdout, stderr, code = stdout + out.stdout, stderr + out.stderr, out.exit_code
    return stdout, stderr, code


async def typed(*words: bytes) -> AsyncIterator[ExecInput]:
    for word in words:
        yield ExecInput(word)
    yield ExecInput(end=True)


async def test_a_command_writes_and_ends(home: ClusterHome, agent: ClusterPort) -> None:
    await running(home, agent)
    assert await ran(agent, "echo", "hello", "world") == (b"hello world\n", b"", 0)
    assert await ran(agent, "true", rank=1) == (b"", b"", 0)
    if home.whole_sessions:
        assert await ran(agent, "false", rank=1) == (b"", b"", 1)
        assert (await ran(agent, "sh", "-c", "exit 7"))[2] == 7


async def test_a_command_reads_what_it_is_given_until_its_end(home: ClusterHome, agent: ClusterPort) -> None:
    await running(home, agent)
    command = ("cat",) if home.whole_sessions else ("head", "-c", "8")
    assert await ran(agent, *command, stdin=typed(b"one ", b"two\n")) == (b"one two\n", b"", 0)


async def test_a_pod_that_is_not_there(home: ClusterHome, agent: ClusterPort) -> None:
    await running(home, agent)
    with pytest.raises(NotFound):
        await ran(agent, "true", rank=7)


async def test_a_pod_that_has_ended_runs_nothing(home: ClusterHome, agent: ClusterPort) -> None:
    await running(home, agent, seconds=0)
    await until_counts(agent, key(), lambda c: c.succeeded == 2)
    with pytest.raises(FailedPrecondition):
        await ran(agent, "true")
