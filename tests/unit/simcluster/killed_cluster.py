"""A process that serves itself a simulated cluster until it is killed, telling each acknowledged write.

Prints a line per write that was acknowledged: its number. Every write holds and starts one gang.
"""

import asyncio
import sys
from pathlib import Path

from hanse.kit.clock import SystemClock
from hanse.simcluster.build import build_cluster
from tests.unit.simcluster.clusters import EPOCH, gang, hold, spec, start


async def main(folder: Path) -> None:
    cluster = build_cluster(spec(counts=(10, 10, 10)), SystemClock(), folder)
    cluster.claim("fed", EPOCH, 1)
    for number in range(1_000):
        held = hold([number], gang(number))
        assert cluster.write(EPOCH, [held, start(gang(number))]) == ["", ""]
        print(number, flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
