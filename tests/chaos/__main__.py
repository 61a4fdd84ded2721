"""`python -m tests.chaos --minutes 10 --seed 1`, or `make chaos MINUTES=10`: exit code 1 on any violation."""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.run import run

WRONG_SHOWN_MAX = 50


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for how long faults rage (default 10)")
    parser.add_argument("--seed", type=int, default=None, help="of the faults and the clients; drawn if not given")
    parser.add_argument("--logs", type=Path, default=None, help="folder for the logs of all processes")
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    folder = options.logs or Path(tempfile.mkdtemp(prefix="hanse-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    began_s = time.monotonic()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - began_s:7.1f} s  {line}", flush=True)

    tell(f"seed {seed}, {options.minutes:g} minutes, logs in {folder}")
    report = asyncio.run(run(folder, options.minutes, seed, tell))
    for kind, why in report.missing.items():
        tell(f"left out: {kind}: {why}")
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(report.faults.items()))
    tell(f"{sum(report.faults.values())} faults: {counts}")
    tell(f"{report.jobs} jobs of {report.pods} pods, at most {report.attempts_max} attempts for one")
    for line in report.wrong[:WRONG_SHOWN_MAX]:
        print(f"WRONG  {line}")
    if len(report.wrong) > WRONG_SHOWN_MAX:
        print(f"WRONG  … {len(report.wrong) - WRONG_SHOWN_MAX} more")
    tell(f"{len(report.wrong)} violations" if report.wrong else "lost 0, doubled 0, partial 0; S6, S9, L1, L4 hold")
    return int(bool(report.wrong))


if __name__ == "__main__":
    sys.exit(main())
