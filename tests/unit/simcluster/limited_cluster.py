"""A process that limits the size of its own files, fills a cluster's log, lifts the limit, and goes on.

Prints: how many writes fitted; the refusal; how many gangs there are then; how many after one more write.
"""

import asyncio
import resource
import sys
from pathlib import Path

from hanse.kit.clock import SystemClock
from hanse.model.errors import Unavailable
from hanse.simcluster.build import build_cluster
from hanse.simcluster.inputs import Hold
from tests.unit.simcluster.clusters import EPOCH, gang, spec


async def main(folder: Path) -> None:
    cluster = build_cluster(spec(), SystemClock(), folder)
    cluster.claim("fed", EPOCH, 1)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    fitted = 0
    try:
        while True:
            cluster.write(EPOCH, [Hold(gang(fitted), 1, (), bytes(30_000))])
            fitted += 1
    except Unavailable as error:
        print(fitted)
        print(error)
    print(len(cluster.engine.gangs))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    cluster.write(EPOCH, [Hold(gang(fitted), 1, (), bytes(30_000))])
    print(len(cluster.engine.gangs))
    cluster.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
