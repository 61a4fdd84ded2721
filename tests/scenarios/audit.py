"""What must be true at the end of every story, whatever it is about: whoever waits is told why, for every pool.

A job that waits carries a reason that says something, its explanation names every pool that has joined once, and each
pool that does not hold it says what fails and by how much.
"""

import asyncio
from itertools import islice
from typing import Final

from hanse.api.v1 import explanation_pb2, job_service_pb2
from hanse.model.lifecycle import State
from hanse.model.reasons import Reason
from tests.scenarios.stage import Stage

GRACE_S: Final = 3.0
"""A reason is told within this time of the last thing that happened."""

JOBS_MAX: Final = 5
SAYS_NOTHING: Final = frozenset({Reason.UNSPECIFIED, Reason.WAITING})
COUNTED: Final = frozenset(
    {Reason.SHAPE, Reason.QUOTA, Reason.FLAVOR, Reason.SELECTOR, Reason.TAINT, Reason.RESOURCES}
)


async def audit(stage: Stage) -> None:
    """Look at some of those who wait.

    Raises:
        AssertionError: somebody is not told enough.
    """
    if not any(site.process for site in stage.world.replicas):
        return
    await asyncio.sleep(GRACE_S)
    states = stage.world.view.states
    waiting = [
        (name, job) for name, job in stage.jobs.items() if job in states and states[job].state is State.PENDING
    ]
    for name, job in islice(waiting, JOBS_MAX):
        assert states[job].reason not in SAYS_NOTHING, f"{name} waits, and its state says {states[job].reason.name}"
        request = job_service_pb2.ExplainJobRequest(job=job, without_nodes=True)
        answer = await stage.world.ask("ExplainJob", request)
        assert isinstance(answer, explanation_pb2.Explanation)
        _check(name, answer, sorted(stage.world.view.configs))


def _check(name: str, answer: explanation_pb2.Explanation, joined: list[str]) -> None:
    assert answer.reason, f"{name} waits, and nobody knows why"
    assert sorted(pool.pool for pool in answer.pools) == joined, f"{name}: {answer.pools}"
    for pool in answer.pools:
        if pool.fits:
            continue
        assert pool.reason, f"{name}: {pool.pool} does not hold it, and does not say why"
        if Reason[pool.reason] in COUNTED:
            assert pool.constraint, f"{name}: {pool}"
            assert pool.found < pool.wanted, f"{name}: {pool}"
        else:
            assert pool.detail or pool.constraint, f"{name}: {pool}"
