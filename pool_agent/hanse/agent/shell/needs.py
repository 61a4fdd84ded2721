"""What gangs that wait need of the cluster, looked up before they are placed.

A look has a deadline, and what nobody could tell by then is taken to be there: a cluster that does not answer holds
up everything anyway, and pods that lack something wait for it in the cluster as they always did.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from hanse.agent.cluster.port import ClusterPort, ClusterUnavailable, Wanted
from hanse.model.ids import PoolName

log = logging.getLogger(__name__)

LOOK_DEADLINE_S: Final = 3.0
"""For all that is looked up at a time: gangs behind wait as long."""


async def look(cluster: ClusterPort, pool: PoolName, wanted: Sequence[Wanted]) -> Mapping[Wanted, tuple[str, ...]]:
    """What the cluster lacks, for each of what is wanted; nothing of what nobody can tell."""
    if not wanted:
        return {}
    found: dict[Wanted, tuple[str, ...]] = dict.fromkeys(wanted, ())

    async def one(want: Wanted) -> None:
        try:
            found[want] = await cluster.lacking(want)
        except ClusterUnavailable as error:
            log.info("needs_unknown", extra={"pool": pool, "cause": str(error)})

    try:
        async with asyncio.timeout(LOOK_DEADLINE_S), asyncio.TaskGroup() as group:
            for want in wanted:
                group.create_task(one(want), name="look-for-needs")
    except TimeoutError:
        log.info("needs_unknown", extra={"pool": pool, "cause": f"no answer within {LOOK_DEADLINE_S:g} s"})
    return found
